"""Where the embedded server differs from the real one: the whole list, each entry with its reason.

A test named here is expected to fail on the embedded server; when it passes there, the run fails until the entry goes.
"""

from __future__ import annotations

# Name of the test (or of one of its cases, as test[case]): why the embedded server does otherwise.
EMBEDDED: dict[str, str] = {}

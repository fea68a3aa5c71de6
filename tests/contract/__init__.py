"""What a client may rely on, asked of the real API server and of the embedded one in the same words.

Plain HTTP on purpose: the subject is the server. `exceptions` holds the few statements in which the two differ.
"""

import pytest

# So that the asserts of the client explain themselves as those of the tests do.
pytest.register_assert_rewrite("tests.contract.api")

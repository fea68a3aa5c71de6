"""Kind of the objects that the demo's executors process.

Several executors start at a time, so this module imports no more than they need.
"""

from __future__ import annotations

from typing import Final

from situate.objects.resources import unstructured

RENDERS: Final = unstructured("demo.situate.dev", "v1", "Render", "renders")

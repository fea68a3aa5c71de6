"""What the demo's executors work on. They start by the handful, so this imports no more than they need."""

from __future__ import annotations

from typing import Final

from situate.objects.resources import unstructured

RENDERS: Final = unstructured("demo.situate.dev", "v1", "Render", "renders")

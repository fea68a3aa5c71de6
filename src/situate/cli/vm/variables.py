"""Environment variables of `situate vm`."""

from __future__ import annotations

from typing import Final

NODE_VARIABLE: Final = "SITUATE_NODE"
"""Node on which the process runs, set from a Pod's fields."""

"""Variables of the environment that `situate vm` reads."""

from __future__ import annotations

from typing import Final

NODE_VARIABLE: Final = "SITUATE_NODE"
"""The node that the process runs on, where a Pod's fields set it."""

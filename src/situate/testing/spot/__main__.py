"""`python -m situate.testing.spot`: plays histories of spot, one or many."""

from __future__ import annotations

from situate.testing.histories.play import command_line
from situate.testing.spot.soak import PRODUCT

app = command_line(PRODUCT)

if __name__ == "__main__":
    app()

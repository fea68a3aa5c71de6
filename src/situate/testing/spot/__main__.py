"""Run `python -m situate.testing.spot`, which plays one or many histories of spot."""

from __future__ import annotations

from situate.testing.histories.play import command_line
from situate.testing.spot.run import PRODUCT

app = command_line(PRODUCT)

if __name__ == "__main__":
    app()

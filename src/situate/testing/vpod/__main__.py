"""Run `python -m situate.testing.vpod`, which plays one or many histories of vpod."""

from __future__ import annotations

from situate.testing.histories.play import command_line
from situate.testing.vpod.run import PRODUCT

app = command_line(PRODUCT)

if __name__ == "__main__":
    app()

"""Run `python -m situate.testing.vm`, which plays one or many histories of the shipped vm processes."""

from __future__ import annotations

from situate.testing.histories.play import command_line
from situate.testing.vm.run import PRODUCT

app = command_line(PRODUCT)

if __name__ == "__main__":
    app()

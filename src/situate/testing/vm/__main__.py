"""`python -m situate.testing.vm`: plays histories of the shipped vm processes, one or many."""

from __future__ import annotations

from situate.testing.histories.play import command_line
from situate.testing.vm.product import PRODUCT

app = command_line(PRODUCT)

if __name__ == "__main__":
    app()

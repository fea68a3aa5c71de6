"""`python -m situate.testing.sharding`: plays histories of sharding, one or many."""

from __future__ import annotations

from situate.testing.playing import command_line
from situate.testing.sharding.soak import PRODUCT

app = command_line(PRODUCT)

if __name__ == "__main__":
    app()

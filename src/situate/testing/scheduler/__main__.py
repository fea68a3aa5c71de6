"""`python -m situate.testing.scheduler`: plays histories of the scheduler, one or many."""

from __future__ import annotations

from situate.testing.histories.play import command_line
from situate.testing.scheduler.soak import PRODUCT

app = command_line(PRODUCT)

if __name__ == "__main__":
    app()

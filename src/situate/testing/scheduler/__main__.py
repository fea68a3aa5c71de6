"""Run `python -m situate.testing.scheduler`, which plays one or many histories of the scheduler."""

from __future__ import annotations

from situate.testing.histories.play import command_line
from situate.testing.scheduler.run import PRODUCT

app = command_line(PRODUCT)

if __name__ == "__main__":
    app()

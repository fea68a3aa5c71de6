"""Show progress on standard error: only on a terminal, only after `AFTER_S`, and removed at the end."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

AFTER_S: Final = 2.0
"""Time without a progress bar. A command that ends within it shows none."""


class Bar:
    """Progress of a command. Updates are allowed at any time, and cost little while the bar is hidden."""

    def __init__(self, console: Console, doing: str, total: float | None) -> None:
        """`total` is the number that `tell` counts up to; None if the duration is unknown."""
        known = (TaskProgressColumn(), TimeRemainingColumn()) if total is not None else (TimeElapsedColumn(),)
        columns = (TextColumn("{task.description}"), BarColumn(), *known)
        self._shown = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self._task = self._shown.add_task(doing, total=total)

    def tell(self, doing: str, done: float) -> None:
        self._shown.update(self._task, description=doing, completed=done)

    def show(self) -> None:
        self._shown.start()

    def end(self) -> None:
        self._shown.stop()


@contextmanager
def progress(doing: str, total: float | None = None) -> Iterator[Bar]:
    """Show `doing` while the block runs, from `AFTER_S` on.

    The bar draws itself: the block may use the CPU or wait.
    """
    bar = Bar(Console(file=sys.stderr), doing, total)
    timer = Timer(AFTER_S, bar.show)
    timer.daemon = True
    timer.start()
    try:
        yield bar
    finally:
        timer.cancel()
        timer.join()  # else the bar might appear after the end
        bar.end()

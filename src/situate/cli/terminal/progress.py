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


class ProgressBar:
    """Progress of a command. Updates are allowed at any time, and cost little while the bar is hidden."""

    def __init__(self, console: Console, doing: str, total: float | None) -> None:
        """`total` is the number that `update` counts up to; None if the duration is unknown."""
        known = (TaskProgressColumn(), TimeRemainingColumn()) if total is not None else (TimeElapsedColumn(),)
        columns = (TextColumn("{task.description}"), BarColumn(), *known)
        self._progress = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self._task = self._progress.add_task(doing, total=total)

    def update(self, doing: str, done: float) -> None:
        self._progress.update(self._task, description=doing, completed=done)

    def show(self) -> None:
        self._progress.start()

    def end(self) -> None:
        self._progress.stop()


@contextmanager
def progress(doing: str, total: float | None = None) -> Iterator[ProgressBar]:
    """Show `doing` while the block runs, from `AFTER_S` on.

    The bar draws itself: the block may use the CPU or wait.
    """
    bar = ProgressBar(Console(file=sys.stderr), doing, total)
    timer = Timer(AFTER_S, bar.show)
    timer.daemon = True
    timer.start()
    try:
        yield bar
    finally:
        timer.cancel()
        timer.join()  # else the bar might appear after the end
        bar.end()

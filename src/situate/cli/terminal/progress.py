"""Progress on standard error: only where a person looks on, only once a command has taken a while, gone at its end."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

AFTER_S: Final = 2.0
"""What is done by then shows nothing."""


class Bar:
    """How far a command has come. It may be told at any time, and costs next to nothing while it is not shown."""

    def __init__(self, console: Console, doing: str, total: float | None) -> None:
        """`total` is what `tell` counts to; None: nobody knows how long it takes."""
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
    """Shows `doing` while the block runs, from `AFTER_S` on. The bar draws itself: the block may be busy or wait."""
    bar = Bar(Console(file=sys.stderr), doing, total)
    timer = Timer(AFTER_S, bar.show)
    timer.daemon = True
    timer.start()
    try:
        yield bar
    finally:
        timer.cancel()
        timer.join()  # else it might begin to show after the end
        bar.end()

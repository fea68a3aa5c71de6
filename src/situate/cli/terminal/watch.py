"""`--watch` of the status commands: show the status again at each change, until Ctrl-C.

The command reads the cluster at an interval, as `watch` does: a status is computed from many kinds of objects. It draws
a terminal in place. Elsewhere it prints another table, as `kubectl get -w` does.
"""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from typing import Final

import typer
from rich.console import Console
from rich.live import Live
from rich.text import Text

from situate.cli.terminal.failures import ExitCode, report_failures
from situate.cli.terminal.formats import Format

INTERVAL_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class Frame:
    """Output of one run of a command."""

    output: str
    errors: str
    """Standard error."""


DrawFrame = Callable[[Frame], None]


def show_status(show: Callable[[], None], form: Format, *, watch: bool) -> None:
    """Run `show` once, or with `watch` until Ctrl-C, which ends the command with 130."""
    if not watch:
        show()
        return
    with report_failures(), frame_drawer(Console(file=sys.stdout), form) as draw:
        repeat_command(show, draw, lambda: time.sleep(INTERVAL_S))


def repeat_command(show: Callable[[], None], draw: DrawFrame, wait: Callable[[], None]) -> None:
    """Run `show` and draw its output, again after each `wait`, until one of them raises.

    A failure ends the command only at the first run. Later the last status stays, with the failure above it: an API
    server may be restarted, and a StatefulSet may be created.
    """
    last: Frame | None = None
    while True:
        frame, code = _capture_output(show)
        if code == ExitCode.INTERRUPTED:
            raise KeyboardInterrupt
        if code in (ExitCode.WRONG_INPUT, ExitCode.CLUSTER):
            if last is None:
                sys.stderr.write(frame.errors)
                raise typer.Exit(code)
            frame = replace(frame, output=last.output)
        draw(frame)
        last = frame
        wait()


@contextmanager
def frame_drawer(console: Console, form: Format) -> Iterator[DrawFrame]:
    """Draw in place on a terminal that supports it, else print a new table or document for each change."""
    if not console.is_terminal or console.is_dumb_terminal or form in (Format.JSON, Format.YAML):
        yield _SequentialOutput(form).draw
        return
    with Live(console=console, auto_refresh=False, redirect_stdout=False, redirect_stderr=False) as live:
        yield lambda frame: live.update(Text.from_ansi(frame.errors + frame.output), refresh=True)


class _SequentialOutput:
    """Prints one frame after the other; mutable."""

    def __init__(self, form: Format) -> None:
        self._between = {Format.JSON: "", Format.YAML: "---\n"}.get(form, "\n")
        self._last = Frame("", "")

    def draw(self, frame: Frame) -> None:
        if frame.errors != self._last.errors:
            sys.stderr.write(frame.errors)
            sys.stderr.flush()
        if frame.output != self._last.output:
            sys.stdout.write((self._between if self._last.output else "") + frame.output)
            sys.stdout.flush()
        self._last = frame


class _CapturedOutput(io.StringIO):
    """Captures printed text; a table is bold if the terminal behind it supports that."""

    def __init__(self, *, terminal: bool) -> None:
        super().__init__()
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


def _capture_output(show: Callable[[], None]) -> tuple[Frame, int]:
    """Return the output of one run, and the exit code with which the command would end."""
    output, complaints = _CapturedOutput(terminal=sys.stdout.isatty()), _CapturedOutput(terminal=False)
    code = 0
    with redirect_stdout(output), redirect_stderr(complaints):
        try:
            show()
        except typer.Exit as ended:
            code = ended.exit_code
    return Frame(output.getvalue(), complaints.getvalue()), code

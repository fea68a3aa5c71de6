from __future__ import annotations

import io
import sys

import pytest
from rich.console import Console

from situate.cli.terminal.progress import ProgressBar, progress
from tests.cli.terminal.pseudo_terminal import run_in_terminal


def bar(total: float | None, *, terminal: bool = True) -> tuple[ProgressBar, io.StringIO]:
    seen = io.StringIO()
    return ProgressBar(Console(file=seen, force_terminal=terminal, width=80), "reading the cluster", total), seen


@pytest.mark.parametrize("total", [None, 10.0])
def test_it_says_what_is_being_done_from_when_it_is_shown(total: float | None) -> None:
    shown, seen = bar(total)
    shown.update("deciding", 5.0)
    assert seen.getvalue() == ""
    shown.show()
    shown.end()
    assert "deciding" in seen.getvalue()
    assert ("50%" in seen.getvalue()) is (total is not None)


def test_it_says_nothing_where_nobody_looks_on() -> None:
    shown, seen = bar(10.0, terminal=False)
    shown.show()
    shown.update("deciding", 5.0)
    shown.end()
    assert seen.getvalue() == ""


def test_what_is_quick_or_fails_quickly_shows_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("reading"):
        pass
    with pytest.raises(ValueError, match="no"), progress("reading"):
        raise ValueError("no")
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "")


def test_what_takes_long_appears_by_itself_and_is_gone_at_the_end() -> None:
    program = "from situate.cli.terminal.progress import progress\nwith progress('reading the cluster'): input()"
    seen = run_in_terminal(sys.executable, "-c", program, answer_to="reading the cluster")
    assert "reading the cluster" in seen
    assert seen.endswith("\x1b[2K")  # the line is erased

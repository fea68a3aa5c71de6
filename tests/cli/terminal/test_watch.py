"""`status --watch`: again at each change, until Ctrl-C."""

from __future__ import annotations

import io
import json
import os
import pty
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from situate.cli.main import app
from situate.cli.terminal.failures import ExitCode
from situate.cli.terminal.formats import Format
from situate.cli.terminal.streams import print_error
from situate.cli.terminal.watch import Frame, frame_drawer, repeat_command
from tests.cli.processes import environment
from tests.cli.terminal.pseudo_terminal import SITUATE
from tests.waiting import WITHIN_S, eventually

pytestmark = pytest.mark.finding("N18")

EXAMPLES = Path(__file__).parents[3] / "examples"
STATUS = ("vpod", "status", "-f", str(EXAMPLES / "knative" / "situate.yaml"), "--watch")


class Stopped(Exception):
    """In place of Ctrl-C."""


def frames(*rounds: Callable[[], None]) -> list[Frame]:
    """What is drawn when the command does these things, one at each look."""
    left, drawn = list(rounds), list[Frame]()

    def wait() -> None:
        if not left:
            raise Stopped

    def show() -> None:
        left.pop(0)()

    with pytest.raises(Stopped):
        repeat_command(show, drawn.append, wait)
    return drawn


def ends(code: ExitCode, sentence: str) -> Callable[[], None]:
    def show() -> None:
        print_error(sentence)
        raise typer.Exit(code)

    return show


def test_what_is_printed_is_drawn_after_each_wait() -> None:
    def remark() -> None:
        print_error("nodes may not be listed")
        print("B")

    assert frames(lambda: print("A"), remark) == [Frame("A\n", ""), Frame("B\n", "situate: nodes may not be listed\n")]


def test_a_failure_at_the_first_look_ends_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as raised:
        repeat_command(
            ends(ExitCode.CLUSTER, "out of reach"), lambda _: pytest.fail("drawn"), lambda: pytest.fail("waited")
        )
    assert raised.value.exit_code == ExitCode.CLUSTER
    assert capsys.readouterr().err == "situate: out of reach\n"


def test_a_later_failure_is_shown_above_the_last_status() -> None:
    drawn = frames(lambda: print("A"), ends(ExitCode.CLUSTER, "out of reach"), lambda: print("B"))
    assert drawn[1:] == [Frame("A\n", "situate: out of reach\n"), Frame("B\n", "")]


def test_no_for_an_answer_ends_nothing() -> None:
    assert frames(ends(ExitCode.NO, "no such StatefulSet"), lambda: print("A"))[-1] == Frame("A\n", "")


def test_ctrl_c_during_a_look_is_ctrl_c() -> None:
    with pytest.raises(KeyboardInterrupt):
        repeat_command(ends(ExitCode.INTERRUPTED, "interrupted"), lambda _: None, lambda: None)


@pytest.mark.parametrize(
    ("form", "between"),
    [(Format.TABLE, "\n"), (Format.WIDE, "\n"), (Format.JSON, ""), (Format.YAML, "---\n")],
)
def test_each_change_is_another_table(form: Format, between: str, capsys: pytest.CaptureFixture[str]) -> None:
    with frame_drawer(Console(file=sys.stdout), form) as draw:
        for frame in (Frame("A\n", ""), Frame("A\n", "situate: x\n"), Frame("A\n", "situate: x\n"), Frame("B\n", "")):
            draw(frame)
    printed = capsys.readouterr()
    assert printed.out == f"A\n{between}B\n"
    assert printed.err == "situate: x\n"


def test_a_terminal_is_drawn_in_place() -> None:
    seen = io.StringIO()
    terminal = Console(file=seen, force_terminal=True, width=40, height=10, legacy_windows=False, _environ={})
    with frame_drawer(terminal, Format.TABLE) as draw:
        draw(Frame("\x1b[1mPOD\x1b[0m\nweb-0\n", ""))
        before = len(seen.getvalue())
        draw(Frame("POD\n", "situate: x\n"))
    assert "\x1b[1mPOD" in seen.getvalue()
    assert "\x1b[1A" in seen.getvalue()[before:], "the cursor goes up to the first table"


def test_json_is_never_drawn_in_place(capsys: pytest.CaptureFixture[str]) -> None:
    with frame_drawer(Console(force_terminal=True, _environ={}), Format.JSON) as draw:
        draw(Frame("{}\n", ""))
    assert capsys.readouterr().out == "{}\n"


def dump(path: Path, replicas: int) -> None:
    """Replaces the file at once: the command may be reading it."""
    web = {"apiVersion": "apps/v1", "kind": "StatefulSet", "spec": {"replicas": replicas}}
    web["metadata"] = {"name": "kafka-source-dispatcher", "namespace": "knative-eventing"}
    new = path.with_suffix(".new")
    new.write_text(json.dumps(web), encoding="utf-8")
    new.replace(path)


def test_a_change_is_shown_and_ctrl_c_ends_with_130(tmp_path: Path) -> None:
    objects, out = tmp_path / "objects.json", tmp_path / "out"
    dump(objects, 1)
    with (
        out.open("wb") as file,
        subprocess.Popen(
            [SITUATE, *STATUS, "--objects", objects], stdout=file, stderr=subprocess.PIPE, env=environment(tmp_path)
        ) as process,
    ):
        try:
            eventually("the first status is there", out.read_text, lambda text: "1 replica," in text)
            dump(objects, 2)
            eventually("the change is there", out.read_text, lambda text: "2 replicas," in text)
        finally:
            process.send_signal(signal.SIGINT)
        complaint = process.communicate()[1].decode()
    assert (process.returncode, complaint) == (ExitCode.INTERRUPTED, "situate: interrupted\n")
    assert out.read_text().count("StatefulSet knative-eventing/kafka-source-dispatcher: ") == 2


def read_until(text: str, terminal: int) -> str:
    seen = ""
    while text not in seen:
        if not select.select([terminal], [], [], WITHIN_S)[0]:
            raise TimeoutError(f"{text!r} is not in {seen!r}")
        seen += os.read(terminal, 65536).decode()
    return seen


def test_a_terminal_is_left_as_it_was(tmp_path: Path) -> None:
    objects = tmp_path / "objects.json"
    dump(objects, 1)
    controller, terminal = pty.openpty()
    with subprocess.Popen(
        [SITUATE, *STATUS, "--objects", objects],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        env=environment(tmp_path) | {"TERM": "xterm-256color"},
    ) as process:
        os.close(terminal)
        try:
            seen = read_until("SOURCE", controller)
            process.send_signal(signal.SIGINT)
            seen += read_until("interrupted", controller)
        except TimeoutError:
            process.kill()  # else the block would wait for it for good
            raise
    os.close(controller)
    assert process.returncode == ExitCode.INTERRUPTED
    assert "\x1b[?25l" in seen, "the cursor is hidden while the status is shown"
    assert seen.rindex("\x1b[?25h") > seen.rindex("\x1b[?25l")


@pytest.mark.parametrize("product", ["scheduler", "sharding", "spot", "vm", "vpod"])
def test_every_status_can_be_watched(product: str) -> None:
    found = CliRunner().invoke(app, [product, "status", "--help"]).stdout
    assert "-w, --watch" in found
    assert "Show the status again after each change, until Ctrl-C" in " ".join(found.split())

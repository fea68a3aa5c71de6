"""Whatever becomes of the output of a command, no traceback comes of it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from situate.cli.terminal.streams import BROKEN_PIPE, WRITE_ERROR, printable
from tests.cli.terminal.pseudo_terminal import SITUATE

EXAMPLES = Path(__file__).parents[3] / "examples" / "knative"
SHORT, LONG = ("--version",), ("crds",)
TABLE = (
    "vpod",
    "status",
    "-f",
    str(EXAMPLES / "situate.yaml"),
    "--objects",
    str(EXAMPLES.with_name("vpod-cluster.yaml")),
)


def ended(arguments: tuple[str, ...], output: int, **environment: str) -> tuple[int, str]:
    """The exit code, and what was said on standard error."""
    process = subprocess.run(
        [str(SITUATE), *arguments],
        stdout=output,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        env={**os.environ, **environment},
    )
    return process.returncode, process.stderr


@pytest.mark.parametrize("arguments", [SHORT, LONG, TABLE], ids=["short", "long", "table"])
@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["buffered", "unbuffered"])
def test_a_pipe_that_nobody_reads(arguments: tuple[str, ...], unbuffered: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        assert ended(arguments, writer, PYTHONUNBUFFERED=unbuffered) == (BROKEN_PIPE, "")
    finally:
        os.close(writer)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device that is always full is Linux's")
@pytest.mark.parametrize("arguments", [SHORT, LONG, TABLE], ids=["short", "long", "table"])
@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["buffered", "unbuffered"])
def test_a_full_disk(arguments: tuple[str, ...], unbuffered: str) -> None:
    with Path("/dev/full").open("wb") as full:
        code, said = ended(arguments, full.fileno(), PYTHONUNBUFFERED=unbuffered)
    assert (code, said) == (WRITE_ERROR, "situate: the output cannot be written: No space left on device\n")


@pytest.mark.parametrize("arguments", [SHORT, LONG, TABLE], ids=["short", "long", "table"])
def test_an_output_that_was_closed_from_the_start(arguments: tuple[str, ...]) -> None:
    command = ['"$0" "$@" >&-', str(SITUATE), *arguments]
    process = subprocess.run(["/bin/sh", "-c", *command], capture_output=True, text=True, timeout=60)
    assert (process.returncode, process.stderr) == (0, "")


def test_an_output_that_cannot_say_everything() -> None:
    file = Path("süd.yaml")
    process = subprocess.run(
        [str(SITUATE), "simulate", str(file)],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )
    assert process.returncode == 2
    assert process.stderr.startswith(r"situate: s\xfcd.yaml: no such file")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param("shop/orders: 3 ä 数", "shop/orders: 3 ä 数", id="what shows is shown"),
        pytest.param("\x1b[2J", r"\x1b[2J", id="a control sequence"),
        pytest.param("a\nb\tc", r"a\nb\tc", id="line ends"),
        pytest.param("\u202eabc", r"\u202eabc", id="reversed writing"),
        pytest.param("\ud800", r"\ud800", id="half a character"),
    ],
)
def test_what_a_terminal_would_act_upon_is_escaped(text: str, shown: str) -> None:
    assert printable(text) == shown

"""Shell completion: the script that each shell is given, and what the program answers when it asks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SITUATE = Path(sys.executable).with_name("situate")


def run(*command: str, **environment: str) -> str:
    inherited = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME")}
    done = subprocess.run(command, env=inherited | environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def script(shell: str) -> str:
    """As `situate --show-completion` prints it, when the shell is named instead of found out."""
    return run(str(SITUATE), "--show-completion", shell, _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_its_script(shell: str) -> None:
    assert f"complete_{shell}" in script(shell)


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        pytest.param("situate vpod pl", "plan", id="a command"),
        pytest.param("situate vpod status --obj", "--objects", id="an option"),
        pytest.param("situate vpod status -o wi", "wide", id="a value"),
    ],
)
def test_zsh_and_fish_are_offered_what_fits(typed: str, offered: str) -> None:
    for shell in ("zsh", "fish"):
        environment = {"_SITUATE_COMPLETE": f"complete_{shell}", "_TYPER_COMPLETE_ARGS": typed}
        assert offered in run(str(SITUATE), **environment, _TYPER_COMPLETE_FISH_ACTION="get-args")


def test_bash_completes(tmp_path: Path) -> None:
    (tmp_path / "completion").write_text(script("bash"), encoding="utf-8")
    asks = "source completion; COMP_WORDS=(situate vpod ex); COMP_CWORD=2; _situate_completion situate; echo $COMPREPLY"
    path = f"{SITUATE.parent}{os.pathsep}{os.environ['PATH']}"
    assert run("bash", "--norc", "-c", f"cd {tmp_path}; {asks}", PATH=path) == "explain\n"

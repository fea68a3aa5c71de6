"""The pages of sharding against the code: options, metrics, and the program that the guide shows."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from situate.archive import ArchiveOptions
from situate.objects.settings.options import options_of
from situate.sharding import ExecutorOptions, SupervisorOptions
from situate.sharding.supervisor.controller.act import metrics
from tests.cli.processes import KUBECTL, environment
from tests.waiting import eventually

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "reference" / "sharding-options.md").read_text(encoding="utf-8")
GUIDE = (DOCS / "guides" / "sharding" / "run.md").read_text(encoding="utf-8")


@pytest.mark.rule("sharding:K15")
@pytest.mark.parametrize("kind", [SupervisorOptions, ExecutorOptions, ArchiveOptions])
def test_every_option_is_in_its_table(kind: type[object]) -> None:
    missing = [option.flag for option in options_of(kind) if f"| `{option.flag}` | `{option.key}` |" not in PAGE]
    assert not missing


def test_no_option_is_in_a_table_that_is_none() -> None:
    known = {
        option.flag for kind in (SupervisorOptions, ExecutorOptions, ArchiveOptions) for option in options_of(kind)
    }
    assert set(re.findall(r"^\| `(--[a-z-]+)` \|", PAGE, re.MULTILINE)) <= known


@pytest.mark.rule("sharding:B11")
def test_the_metrics_are_those_that_are_shown() -> None:
    source = Path(metrics.__file__).read_text(encoding="utf-8")
    for name in re.findall(r"`situate_shard_([a-z_]+)`", PAGE):
        assert f'"{name.removesuffix("_total")}"' in source or f'"situate_shard_{name}"' in source, name


def test_the_program_is_python() -> None:
    (program,) = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    compile(program, "docs/guides/sharding/run.md", "exec")
    for name in re.search(r"from situate\.sharding import ([^\n]+)", program)[1].split(", "):  # type: ignore[index]  # it is there
        assert name in __import__("situate.sharding", fromlist=["__all__"]).__all__


@pytest.mark.finding("N28")
def test_try_it_here_is_played_as_it_is_written(tmp_path: Path) -> None:
    """Supervisors and executors are processes, under the fence that the manifests print."""
    section = GUIDE.partition("## Try it here")[2].partition("\n## ")[0]
    first, second, printed = re.findall(r"```(?:sh|text)\n(.*?)```", section, re.DOTALL)
    surroundings = environment(tmp_path)
    surroundings["PATH"] = os.pathsep.join([str(KUBECTL.parent), surroundings["PATH"]])
    with (tmp_path / "first.log").open("w") as log:
        terminal = subprocess.Popen(
            ["bash", "-c", first],
            cwd=tmp_path,
            env=surroundings,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        folder = tmp_path / "reports"
        eventually("the server answers", (folder / "kubeconfig").exists)
        done = subprocess.run(
            ["bash", "-e", "-c", second],
            cwd=folder,
            env=surroundings,
            text=True,
            capture_output=True,
            timeout=180,
        )
        assert done.returncode == 0, f"{done.stdout}{done.stderr}{(tmp_path / 'first.log').read_text()}"
        for line in ("2 of 2 executors can be given work", "objects: 1 succeeded"):
            assert line in printed.splitlines()
            assert line in done.stdout.splitlines()
        assert (header := printed.splitlines()[2]).split() == done.stdout.splitlines()[-4].split(), header
    finally:
        os.killpg(terminal.pid, signal.SIGINT)
        terminal.wait(90)
    left = subprocess.run(["pgrep", "-f", str(tmp_path)], capture_output=True, text=True)
    assert left.stdout == "", "Ctrl-C ends what was started"

"""The tutorial's package is built and found by its name, and its commands print what the page shows."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "guides" / "scheduler" / "write-a-plugin.md").read_text(
    encoding="utf-8"
)
SHOWN = re.findall(r"```console\n\$ situate ([^\n]*)\n(.*?)\n```", PAGE, re.DOTALL)
_BUILD = "import hatchling.build, sys; hatchling.build.build_wheel(sys.argv[1])"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of the page, with the package that they make unpacked in `site`, as an installer would."""
    folder = tmp_path_factory.mktemp("tutorial")
    (folder / "thrifty.py").write_text(*blocks("python"))
    (folder / "pyproject.toml").write_text(*blocks("toml"))
    profile, cluster = blocks("yaml")
    (folder / "profile.yaml").write_text(profile)
    (folder / "misspelt.yaml").write_text(profile.replace("name: Thrifty,", "name: Thrift,"))
    (folder / "cluster.yaml").write_text(cluster)
    subprocess.run([sys.executable, "-c", _BUILD, str(folder)], cwd=folder, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(folder / "site")
    return folder


def situate(folder: Path, command: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(folder / "site"), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.run(
        [sys.executable, "-m", "situate", *shlex.split(command)],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_page_shows_a_choice_a_refusal_and_a_mistake() -> None:
    assert [command.split()[2] for command, _ in SHOWN] == ["report", "training", "report"]


@pytest.mark.parametrize(("command", "output"), SHOWN[:2], ids=["choice", "refusal"])
def test_the_plugin_decides_and_its_reason_is_told(folder: Path, command: str, output: str) -> None:
    told = situate(folder, command)
    assert told.stdout.rstrip() == output, told.stderr


def test_a_name_that_is_misspelt_is_refused_with_the_names_there_are(folder: Path) -> None:
    command, output = SHOWN[2]
    before, _, after = output.partition("…")
    told = situate(folder, command)
    assert told.returncode == 2
    first = told.stderr.splitlines()[0]
    assert first.startswith(before)
    assert "Thrifty" in first
    assert first.endswith(after)


def test_a_label_that_is_no_number_fails_the_pod_with_the_plugins_name(folder: Path) -> None:
    cluster = folder / "odd.yaml"
    cluster.write_text((folder / "cluster.yaml").read_text().replace("'250'", "much"))
    told = situate(folder, "scheduler explain report --objects odd.yaml -f profile.yaml")
    assert "Thrifty" in told.stdout + told.stderr
    assert "Traceback" not in told.stderr
    assert told.returncode != 0

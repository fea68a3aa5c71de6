"""What is in deploy/ is what the commands print, and fits together."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from situate import __version__
from situate.cli.main import app

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
CONFIGURATION = ROOT / "examples" / "knative" / "situate.yaml"


def printed(*arguments: str) -> str:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.stderr
    return result.stdout


def objects(text: str) -> dict[tuple[str, str, str], Any]:
    found = [each for each in yaml.safe_load_all(text) if each]
    return {(each["kind"], each["metadata"].get("namespace", ""), each["metadata"]["name"]): each for each in found}


def kustomized(folder: Path) -> dict[tuple[str, str, str], Any]:
    """As kubectl renders it, without a cluster."""
    kubectl = Path(sys.executable).with_name("kubectl")
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    command = [str(kubectl), "kustomize", "--load-restrictor=LoadRestrictionsNone", str(folder)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return objects(done.stdout)


@pytest.mark.parametrize(
    ("file", "command"),
    [
        pytest.param(DEPLOY / "situate.yaml", ("manifests", "-f", str(CONFIGURATION)), id="manifests"),
        pytest.param(DEPLOY / "crds.yaml", ("crds",), id="crds"),
        pytest.param(CONFIGURATION.with_name("crds.yaml"), ("crds", "vpod"), id="crds of the example"),
    ],
)
def test_the_files_are_what_the_commands_print(file: Path, command: tuple[str, ...]) -> None:
    assert file.read_text(encoding="utf-8") == printed(*command), "run: make deploy"


def test_kubectl_renders_the_same_objects() -> None:
    assert kustomized(DEPLOY) == objects((DEPLOY / "situate.yaml").read_text(encoding="utf-8"))


def test_an_overlay_changes_image_and_replicas_and_nothing_else(tmp_path: Path) -> None:
    overlay = {
        "resources": [os.path.relpath(DEPLOY, tmp_path.resolve())],
        "images": [{"name": "situate", "newName": "example.com/situate", "newTag": "2"}],
        "replicas": [{"name": "situate", "count": 3}],
    }
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(overlay), encoding="utf-8")
    wanted = objects((DEPLOY / "situate.yaml").read_text(encoding="utf-8"))
    deployment = wanted["Deployment", "situate", "situate"]["spec"]
    deployment["replicas"] = 3
    deployment["template"]["spec"]["containers"][0]["image"] = "example.com/situate:2"

    assert kustomized(tmp_path) == wanted


def test_the_image_installs_versions_of_the_lock_file_and_all_that_the_package_needs() -> None:
    image, lock = (pins(folder / "requirements.txt") for folder in (DEPLOY, ROOT))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = [each for name in ("mongo", "s3", "sql") for each in project["optional-dependencies"][name]]
    needed = {re.split(r"[<>=\[]", each)[0].lower() for each in (*project["dependencies"], *extras)}

    assert image <= lock, "run: make lock"
    assert needed <= {pin.partition("==")[0] for pin in image}


def pins(file: Path) -> set[str]:
    return set(re.findall(r"^([\w.-]+==[^\\\n]+?) *\\?$", file.read_text(encoding="utf-8"), re.MULTILINE))


def test_the_image_is_the_one_that_the_manifests_name_and_runs_without_root() -> None:
    dockerfile = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    (pod,) = [
        each
        for each in objects(printed("manifests", "-f", str(CONFIGURATION))).values()
        if "Deployment" in each["kind"]
    ]
    (container,) = pod["spec"]["template"]["spec"]["containers"]
    users = re.findall(r"^USER (\d+):\d+$", dockerfile, re.MULTILINE)

    assert container["image"] == f"situate:{__version__}"
    assert f"-t {container['image']} " in dockerfile
    assert users
    assert int(users[-1]) > 0
    assert 'ENTRYPOINT ["situate"]' in dockerfile  # the manifests' args begin with its verb
    assert container["args"][0] == "run"


def test_the_image_is_built_from_files_that_are_there() -> None:
    kept = re.findall(r"^!(.+)$", (DEPLOY / "Dockerfile.dockerignore").read_text(encoding="utf-8"), re.MULTILINE)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

    assert not [name for name in kept if not (ROOT / name).exists()]
    assert {"src", "pyproject.toml", project["readme"], *project["license-files"]} <= set(kept)


@pytest.mark.parametrize("file", sorted(DEPLOY.iterdir()), ids=lambda file: file.name)
def test_no_file_names_a_package_index(file: Path) -> None:
    assert not re.search(
        r"https?://[^\s'\"]*(simple|pypi|index)|--(extra-)?index-url", file.read_text(encoding="utf-8")
    )

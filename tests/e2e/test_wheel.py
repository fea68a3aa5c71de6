"""What people install: the source archive holds what it should, the wheel made of it works in an empty environment.

It is installed as the image of deploy/ is; downloads come from wherever pip is configured to look.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "knative"
STATEFULSET = "kafka-source-dispatcher"
WITHIN_S = 600.0
"""More than enough for each command; what takes longer hangs."""

pytestmark = [pytest.mark.verify, pytest.mark.slow, pytest.mark.xdist_group("wheel")]


def run(*command: str | Path, cwd: Path, given: str = "", code: int = 0, **environment: str) -> str:
    """The output of a command that has to end with `code`, away from the sources and from anybody's kubeconfig."""
    inherited = {name: value for name, value in os.environ.items() if name not in ("KUBECONFIG", "PYTHONPATH")}
    done = subprocess.run(
        [str(each) for each in command],
        cwd=cwd,
        env=inherited | environment,
        input=given,
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )
    assert done.returncode == code, f"{' '.join(map(str, command))}: {done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("wheel")


@pytest.fixture(scope="module")
def sdist(folder: Path) -> Path:
    run(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", folder / "sdist", cwd=ROOT)
    (made,) = (folder / "sdist").iterdir()
    return made


@pytest.fixture(scope="module")
def wheel(sdist: Path, folder: Path) -> Path:
    """Made from the archive, not from the checkout: what is missing there is missing here."""
    pip = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-build-isolation", "--no-deps")
    run(*pip, "--wheel-dir", folder / "wheel", sdist, cwd=folder)
    (made,) = (folder / "wheel").iterdir()
    return made


@pytest.fixture(scope="module")
def situate(wheel: Path, folder: Path) -> Path:
    """The command in an environment that holds the wheel and what the image has beside it, which has to be enough."""
    run(sys.executable, "-m", "venv", "--without-pip", folder / "venv", cwd=folder)
    bin_folder = folder / "venv" / "bin"
    # Without compiling what is never imported, and with our pip on their Python: a third of the time.
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", bin_folder / "python")
    install = (*pip, "install", "--quiet", "--no-compile")
    run(*install, "--require-hashes", "--requirement", ROOT / "deploy" / "requirements.txt", cwd=folder)
    run(*install, "--no-deps", wheel, cwd=folder)
    run(*pip, "check", cwd=folder)
    return bin_folder / "situate"


@contextmanager
def api_server(situate: Path, kubeconfig: Path) -> Iterator[None]:
    """`situate embedded` with three nodes, until the block ends."""
    command = [str(situate), "embedded", "--port", "0", "--nodes", "3", "--write-kubeconfig", str(kubeconfig)]
    with subprocess.Popen(command, cwd=kubeconfig.parent, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline().startswith("the API server answers at http")
            yield
        finally:
            process.terminate()
            process.communicate(timeout=WITHIN_S)
    assert process.returncode == 0


def plan(situate: Path, folder: Path, *arguments: str | Path, code: int = 0) -> Any:
    command = (situate, "vpod", "plan", "-f", EXAMPLES / "situate.yaml", "-A", "-o", "json", *arguments)
    return json.loads(run(*command, cwd=folder, code=code))


def test_the_archive_holds_the_licence_and_nothing_that_was_made_by_running(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = [name.partition("/")[2] for name in archive.getnames()]
    assert {"LICENSE", "NOTICE", "README.md", "Makefile", "requirements.txt", "tests/conftest.py"} <= set(names)
    made = re.compile(r"__pycache__|\.pyc$|(^|/)\.[a-z_]+_cache(/|$)|^\.venv|^\.hypothesis|^dist/|^uv\.lock")
    assert not [name for name in names if made.search(name)]


def test_the_wheel_holds_the_package_and_its_licence_only(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert {name.partition("/")[0].partition("-")[0] for name in names} == {"situate"}
    assert {Path(name).name for name in names if "/licenses/" in name} == {"LICENSE", "NOTICE"}


def test_it_plans_for_objects_in_a_file(situate: Path, folder: Path) -> None:
    (planned,) = plan(situate, folder, "--objects", EXAMPLES.with_name("vpod-cluster.yaml"), code=1)
    assert (planned["replicas"], planned["replicasThen"]) == (2, 3)
    assert {each["key"]: (each["now"], each["then"], each["left"]) for each in planned["vpods"]} == {
        "shop/orders": (12, 12, 0),
        "billing/payments": (0, 28, 2),
    }


def test_it_holds_the_templates_of_an_operator(situate: Path, folder: Path) -> None:
    run(situate, "sharding", "init", "reports", cwd=folder)
    assert (folder / "reports" / "reports" / "reconciler.py").exists()


def test_it_serves_a_cluster_and_plans_for_it(situate: Path, folder: Path) -> None:
    kubeconfig = folder / "kubeconfig"
    kubectl = Path(sys.executable).with_name("kubectl")

    def ask(*arguments: str | Path, given: str = "") -> str:
        return run(kubectl, *arguments, cwd=folder, given=given, KUBECONFIG=str(kubeconfig), HOME=str(folder))

    with api_server(situate, kubeconfig):
        ask("apply", "--server-side", "-f", "-", given=run(situate, "crds", cwd=folder))
        ask("wait", "--for=condition=Established", "crd", "--all", "--timeout=120s")
        for name in ("namespace", "configmaps", "dispatcher", "kafkasources", "consumergroups"):
            ask("apply", "-f", EXAMPLES / f"{name}.yaml")
        (empty,) = plan(situate, folder, "--kubeconfig", kubeconfig, code=1)
        ask("-n", "knative-eventing", "scale", f"statefulset/{STATEFULSET}", "--replicas=3")
        ask("-n", "knative-eventing", "rollout", "status", f"statefulset/{STATEFULSET}", "--timeout=120s")
        (full,) = plan(situate, folder, "--kubeconfig", kubeconfig)

    assert (empty["replicas"], empty["replicasThen"]) == (0, 3)
    assert [each["then"] for each in empty["vpods"]] == [0, 0]
    assert (full["replicas"], full["replicasThen"]) == (3, 3)
    assert sorted((each["key"], each["then"], each["left"]) for each in full["vpods"]) == [
        ("billing/payments", 30, 0),
        ("shop/orders", 12, 0),
    ]

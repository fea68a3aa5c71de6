"""The story of the demo, from beginning to end: its chapters check themselves, the exit code says whether all held."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from situate.cli.demo.vpod.objects import MACHINES_NAMESPACE, SYSTEM
from situate.cli.demo.vpod.story import STORY
from tests.conftest import PlaneFactory
from tests.controlplane.plane import ControlPlane, Options
from tests.e2e.vpod_cluster import Cluster, audit
from tests.waiting import eventually


def play(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("KUBE", "SITUATE"))}
    command = (sys.executable, "-m", "situate", "demo", "--once", *arguments)
    process = subprocess.Popen(
        command,
        env=environment | {"HOME": str(folder)},
        cwd=folder,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        told, said = process.communicate(timeout=900)
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)  # what it has started would outlive it
        process.communicate()
        raise
    return subprocess.CompletedProcess(command, process.returncode, told, said)


@pytest.mark.verify
@pytest.mark.waits
def test_the_story_holds_on_the_embedded_server(tmp_path: Path) -> None:
    told = play(tmp_path)
    assert told.returncode == 0, told.stdout + told.stderr
    assert_told(told.stdout)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "code"),
    [pytest.param(signal.SIGINT, 0, id="Ctrl-C"), pytest.param(signal.SIGTERM, 128 + signal.SIGTERM, id="SIGTERM")],
)
def test_nothing_of_the_demo_outlives_it(tmp_path: Path, how: signal.Signals, code: int) -> None:
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("KUBE", "SITUATE"))}
    process = subprocess.Popen(
        (sys.executable, "-m", "situate", "demo"),
        env=environment | {"HOME": str(tmp_path), "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        eventually(
            "both schedulers run",
            lambda: _logs_of_schedulers(process, tmp_path),
            lambda found: len(found) == 2,
        )
        process.send_signal(how)  # to it alone: what it has started is for it to end
        told, _ = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == code, told
    assert "Traceback" not in told
    assert list(tmp_path.glob("situate-demo-*")) == []
    with pytest.raises(ProcessLookupError):  # the group that was begun with it is empty
        os.killpg(process.pid, 0)


def _logs_of_schedulers(demo: subprocess.Popen[str], folder: Path) -> list[Path]:
    if demo.poll() is not None:
        pytest.fail(f"the demo has ended: {demo.communicate()[0]}")
    return sorted(folder.glob("situate-demo-*/scheduler-*.log"))


@pytest.fixture(scope="module")
def cluster(start_control_plane: PlaneFactory, tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    log, flags = audit(tmp_path_factory.mktemp("audit"))
    options = Options(controllers=True, scheduler=True, kwok=True, flags={"kube-apiserver": flags})
    return Cluster(start_control_plane(options), log)


@pytest.mark.slow
@pytest.mark.realcluster
@pytest.mark.xdist_group("demo-cluster")
@pytest.mark.rule("vpod:V19", "vpod:V23", "vpod:B7")
def test_the_same_story_holds_on_a_real_control_plane(cluster: Cluster, tmp_path: Path) -> None:
    """Every process acts under the rights that `situate manifests` prints for it, and nothing of the demo stays."""
    plane = cluster.plane
    before = stays(plane)
    told = play(tmp_path, "--kubeconfig", str(plane.kubeconfig()))
    played_by = "\n".join(plane.component(name).tail() for name in ("kwok", "kube-controller-manager"))
    assert told.returncode == 0, told.stdout + told.stderr + played_by
    assert_told(told.stdout)
    asked = [each for namespace in (SYSTEM, MACHINES_NAMESPACE) for each in cluster.requests(namespace)]
    assert {each.account for each in asked} == ACCOUNTS
    assert [each for each in asked if each.code == 403] == []
    assert plane.request("GET", "/api/v1/nodes")["items"] == []
    left = plane.request("GET", "/api/v1/namespaces")["items"]
    assert all("deletionTimestamp" in each["metadata"] for each in left if "demo" in each["metadata"]["name"])
    assert stays(plane) == before


ACCOUNTS = {
    f"{SYSTEM}:{name}"
    for name in (
        "situate",
        "situate-spot",
        "situate-shard",
        "renders-executor",
        "situate-vm-machines",
    )
} | {f"{MACHINES_NAMESPACE}:situate", f"{MACHINES_NAMESPACE}:situate-vm-agent"}


def stays(plane: ControlPlane) -> set[str]:
    """Names of what belongs to no namespace."""
    found = set()
    for group, plurals in {
        "rbac.authorization.k8s.io": ("clusterroles", "clusterrolebindings"),
        "admissionregistration.k8s.io": ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"),
    }.items():
        for plural in plurals:
            items = plane.request("GET", f"/apis/{group}/v1/{plural}")["items"]
            found |= {f"{plural}/{each['metadata']['name']}" for each in items}
    return found


def assert_told(output: str) -> None:
    lines = output.splitlines()
    assert len(lines) == len(STORY)
    for number, (line, chapter) in enumerate(zip(lines, STORY, strict=True), 1):
        assert line.startswith(f"{number}. {chapter.title}: ")

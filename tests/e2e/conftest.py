"""The real clusters that end-to-end tests share: one a session for vpod, one for spot, one for schedulers of ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import PlaneFactory
from tests.controlplane.plane import Options
from tests.controlplane.process import Process
from tests.e2e.spot_installed import Installed, installation
from tests.e2e.vm_crew import stand_in
from tests.e2e.vpod_cluster import Arena, Cluster, audit

_GROUPS = {"cluster": "vpod-cluster", "spot_cluster": "spot-cluster", "bare_cluster": "scheduler-cluster"}
"""By fixture: the group of the tests that share it."""


def pytest_itemcollected(item: pytest.Item) -> None:
    for fixture, group in _GROUPS.items():
        if fixture in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.realcluster)
            item.add_marker(pytest.mark.xdist_group(group))


@pytest.fixture(scope="session")
def cluster(start_control_plane: PlaneFactory, tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    """Whoever breaks a part of it must put it right again."""
    made = _audited(start_control_plane, tmp_path_factory)
    printed = made.situate("crds")
    assert printed.returncode == 0, printed.stderr
    made.kubectl("apply", "--server-side", "-f", "-", given=printed.stdout)
    made.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=120s")
    made.add_nodes("shared-a", "shared-b", "shared-c", labels={"arena": "shared"})
    return made


@pytest.fixture(scope="session")
def spot_cluster(start_control_plane: PlaneFactory, tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    """Three nodes on demand and three of spot, in three zones; scheduler and controller-manager as they are shipped."""
    made = _audited(start_control_plane, tmp_path_factory)
    for capacity in ("on-demand", "spot"):
        names = [f"{capacity}-{letter}" for letter in "abc"]
        made.add_nodes(*names, labels={"node.kubernetes.io/capacity": capacity})
    return made


@pytest.fixture(scope="session")
def bare_cluster(start_control_plane: PlaneFactory, tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    """Without nodes and without a scheduler."""
    return _audited(start_control_plane, tmp_path_factory, scheduler=False)


@pytest.fixture(scope="session")
def machines(bare_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """Virtual machines live there."""
    with stand_in(bare_cluster, tmp_path_factory.mktemp("machines")) as process:
        yield process


@pytest.fixture
def installed(spot_cluster: Cluster, tmp_path: Path) -> Iterator[Installed]:
    """Spot as the manifests have it, without a process yet."""
    with installation(spot_cluster, tmp_path) as made:
        yield made


def _audited(
    start_control_plane: PlaneFactory, tmp_path_factory: pytest.TempPathFactory, *, scheduler: bool = True
) -> Cluster:
    log, flags = audit(tmp_path_factory.mktemp("audit"))
    options = Options(controllers=True, scheduler=scheduler, kwok=True, flags={"kube-apiserver": flags})
    return Cluster(start_control_plane(options), log)


@pytest.fixture
def arena(cluster: Cluster, tmp_path: Path) -> Callable[..., Arena]:
    """Makes a namespace with schedulers of its own: `with arena("name", podCapacity=2) as ours:`."""

    def make(name: str, **settings: Any) -> Arena:
        return Arena(cluster, name, tmp_path, **settings)

    return make

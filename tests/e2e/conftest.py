"""The real cluster that vpod's end-to-end tests share: one a session, with nodes and custom resources."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import PlaneFactory
from tests.controlplane.plane import Options
from tests.e2e.vpod_cluster import AUDIT_POLICY, Arena, Cluster


def pytest_itemcollected(item: pytest.Item) -> None:
    if "cluster" in getattr(item, "fixturenames", ()):
        item.add_marker(pytest.mark.realcluster)
        item.add_marker(pytest.mark.xdist_group("vpod-cluster"))


@pytest.fixture(scope="session")
def cluster(start_control_plane: PlaneFactory, tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    """Whoever breaks a part of it must put it right again."""
    folder = tmp_path_factory.mktemp("audit")
    policy, log = folder / "policy.yaml", folder / "audit.log"
    policy.write_text(yaml.safe_dump(AUDIT_POLICY))
    log.touch()
    audit = (f"--audit-policy-file={policy}", f"--audit-log-path={log}")
    plane = start_control_plane(Options(controllers=True, scheduler=True, kwok=True, flags={"kube-apiserver": audit}))
    made = Cluster(plane, log)
    printed = made.situate("crds")
    assert printed.returncode == 0, printed.stderr
    made.kubectl("apply", "--server-side", "-f", "-", given=printed.stdout)
    made.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
    made.add_nodes("shared-a", "shared-b", "shared-c", labels={"arena": "shared"})
    return made


@pytest.fixture
def arena(cluster: Cluster, tmp_path: Path) -> Callable[..., Arena]:
    """Makes a namespace with schedulers of its own: `with arena("name", podCapacity=2) as ours:`."""

    def make(name: str, **settings: Any) -> Arena:
        return Arena(cluster, name, tmp_path, **settings)

    return make

"""The two servers before which executors run as processes of their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from situate.cluster.storage.effects import Identity
from situate.embedded.embedded_server import Settings
from tests.contract.servers import EmbeddedThread, RealServer, Server
from tests.sharding.processes.company import Company
from tests.sharding.processes.scene import Scene

ADMIN = {"executors": Identity("admin", ("system:masters", "system:authenticated"))}


def pytest_itemcollected(item: pytest.Item) -> None:
    parameters = getattr(item, "callspec", None)
    if parameters is None or "executors_server" not in parameters.params:
        return
    real = parameters.params["executors_server"] == "real"
    if real:
        item.add_marker(pytest.mark.realcluster)
        item.add_marker(pytest.mark.xdist_group("control-plane"))
    else:
        item.add_marker(pytest.mark.waits)
    item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session", params=["real", "embedded"])
def executors_server(request: pytest.FixtureRequest) -> Iterator[Server]:
    if request.param == "real":
        yield RealServer(request.getfixturevalue("control_plane"))
    else:
        with EmbeddedThread(Settings(tokens=ADMIN, machinery=None)) as embedded:
            yield embedded


@pytest.fixture
def scene(executors_server: Server, tmp_path: Path) -> Iterator[Scene]:
    """A report, and executors that may work on it; none of them outlives the test."""
    made = Scene(executors_server, tmp_path)
    yield made
    made.end()


@pytest.fixture
def company(executors_server: Server, tmp_path: Path) -> Iterator[Company]:
    """Supervisors and executors; none of them outlives the test."""
    made = Company(executors_server, tmp_path)
    yield made
    made.end()

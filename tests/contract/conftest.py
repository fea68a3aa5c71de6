"""Each test of the suite runs twice: on the real API server and on the embedded one."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator

import pytest

from tests.contract.api import Api
from tests.contract.exceptions import EMBEDDED
from tests.contract.servers import RealServer, Server, new_namespace
from tests.contract.things import node
from tests.controlplane.plane import ControlPlane

SERVERS = ("real",)


def pytest_itemcollected(item: pytest.Item) -> None:
    parameters = getattr(item, "callspec", None)
    chosen = {parameters.params.get(name) for name in ("server", "cluster")} if parameters else set()
    if "real" in chosen:
        item.add_marker(pytest.mark.realcluster)
    for each in ("real", "embedded"):
        if each in chosen:
            item.add_marker(pytest.mark.xdist_group(f"contract-{each}"))
    if "embedded" in chosen and (reason := _exception(item.name)):
        item.add_marker(pytest.mark.xfail(reason=reason, strict=True))


def _exception(name: str) -> str:
    """`test_x[embedded-case]` is listed as `test_x` or as `test_x[case]`."""
    plain, _, case = name.partition("[")
    case = case.rstrip("]").removeprefix("embedded").removeprefix("-").removesuffix("-embedded")
    return EMBEDDED.get(f"{plain}[{case}]") or EMBEDDED.get(plain, "")


@pytest.fixture(scope="session", params=SERVERS)
def server(request: pytest.FixtureRequest) -> Server:
    """An API server with nothing else at work: what a test writes stays as it is."""
    plane: ControlPlane = request.getfixturevalue("control_plane")
    return RealServer(plane)


@pytest.fixture
async def api(server: Server) -> AsyncIterator[Api]:
    async with Api(server.url, server.token, server.tls()) as opened:
        yield opened


@pytest.fixture
async def namespace(api: Api) -> str:
    """A new one for each test, so that tests do not see each other's objects."""
    return await new_namespace(api)


@pytest.fixture
async def host(api: Api) -> AsyncIterator[str]:
    """The name of a node that nobody else uses."""
    name = f"node-{uuid.uuid4().hex[:10]}"
    labels = {"topology.kubernetes.io/zone": "a", "topology.kubernetes.io/region": "r", "kubernetes.io/hostname": name}
    (await api.post("/api/v1/nodes", node(name, labels=labels))).ok()
    yield name
    (await api.delete(f"/api/v1/nodes/{name}")).ok()

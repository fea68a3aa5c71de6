"""Each test of the suite runs twice: on the real API server and on the embedded one."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Callable, Iterator

import pytest

from situate.cluster.storage.effects import Identity
from situate.embedded.embedded_server import Settings
from tests.contract.api import Answer, Api
from tests.contract.exceptions import EMBEDDED
from tests.contract.held import HeldWatch
from tests.contract.registering import Registered
from tests.contract.servers import EmbeddedThread, RealServer, Server, new_namespace
from tests.contract.things import node
from tests.contract.waiting import eventually
from tests.contract.webhooks import serving
from tests.contract.work import Work
from tests.controlplane.plane import ControlPlane, Options
from tests.controlplane.stages import Stages

SERVERS = ("real", "embedded")
ADMIN = {"contract": Identity("admin", ("system:masters", "system:authenticated"))}
_CHOICES = ("server", "cluster", "silencer", "restarted")
"""Fixtures whose parameter says which server it is."""
PlaneFactory = Callable[[Options], ControlPlane]


def pytest_itemcollected(item: pytest.Item) -> None:
    parameters = getattr(item, "callspec", None)
    chosen = {parameters.params.get(name) for name in _CHOICES} if parameters else set()
    if "real" in chosen:
        item.add_marker(pytest.mark.realcluster)
        item.add_marker(pytest.mark.xdist_group("contract-real"))
    if "embedded" in chosen:
        item.add_marker(pytest.mark.waits)
    if "embedded" in chosen and (reason := _exception(item.name)):
        item.add_marker(pytest.mark.xfail(reason=reason, strict=True))


def _exception(name: str) -> str:
    """`test_x[embedded-case]` is listed as `test_x` or as `test_x[case]`."""
    plain, _, case = name.partition("[")
    case = case.rstrip("]").removeprefix("embedded").removeprefix("-").removesuffix("-embedded")
    return EMBEDDED.get(f"{plain}[{case}]") or EMBEDDED.get(plain, "")


@pytest.fixture(scope="session", params=SERVERS)
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """An API server with nothing else at work: what a test writes stays as it is."""
    if request.param == "real":
        yield RealServer(request.getfixturevalue("control_plane"))
    else:
        with EmbeddedThread(Settings(tokens=ADMIN, machinery=None)) as embedded:
            yield embedded


@pytest.fixture(scope="session", params=SERVERS)
def cluster(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A whole cluster: controllers, a scheduler, and nodes on which pods become Ready at once."""
    if request.param == "real":
        start: PlaneFactory = request.getfixturevalue("start_control_plane")
        yield RealServer(start(Options(controllers=True, scheduler=True, kwok=True, stages=Stages(gone_ms=100))))
    else:
        with EmbeddedThread(Settings(tokens=ADMIN)) as embedded:
            yield embedded


@pytest.fixture(scope="session")
def held(server: Server) -> Iterator[HeldWatch]:
    """Begins with the first test of the server."""
    watch = HeldWatch(server)
    watch.start()
    yield watch
    watch.stop()


@pytest.fixture
async def api(server: Server, held: HeldWatch) -> AsyncIterator[Api]:
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


@pytest.fixture
async def work(cluster: Server, hosts: list[str]) -> AsyncIterator[Work]:
    """A new namespace of the whole cluster; its workloads go at the end, so that the next test has the room."""
    async with Api(cluster.url, cluster.token, cluster.tls()) as opened:
        namespace = await new_namespace(opened)
        yield Work(opened, namespace)
        assert (await opened.delete(f"/api/v1/namespaces/{namespace}")).status in (200, 404)


@pytest.fixture
async def hosts(cluster: Server) -> list[str]:
    """Two nodes that are always there."""
    names = ["host-1", "host-2"]
    async with Api(cluster.url, cluster.token, cluster.tls()) as opened:
        for name in names:
            answer = await opened.post("/api/v1/nodes", node(name, labels={"kubernetes.io/hostname": name}, cpu="32"))
            assert answer.status in (201, 409), answer
            await wait_usable(opened, name)
    return names


@pytest.fixture
async def own_host(cluster: Server) -> AsyncIterator[str]:
    """A node of this test's own, to be tainted or cordoned: nothing comes to it unasked."""
    name = f"host-{uuid.uuid4().hex[:8]}"
    async with Api(cluster.url, cluster.token, cluster.tls()) as opened:
        (await opened.post("/api/v1/nodes", node(name, labels={"kubernetes.io/hostname": name}))).ok(201)
        await wait_usable(opened, name)
        yield name
        (await opened.delete(f"/api/v1/nodes/{name}")).ok()


async def wait_usable(api: Api, name: str) -> None:
    """Until the node is Ready, and without the taint that a new one bears until then."""

    def usable(answer: Answer) -> bool:
        made = answer.ok()
        conditions = made.get("status", {}).get("conditions", [])
        ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
        return ready and not made["spec"].get("taints")

    await eventually(lambda: api.get(f"/api/v1/nodes/{name}"), usable)


@pytest.fixture
async def registered(api: Api, namespace: str) -> AsyncIterator[Registered]:
    async with serving() as hooks:
        made = Registered(api, namespace, hooks)
        yield made
        await made.remove()

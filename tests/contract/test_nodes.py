"""Nodes that fall silent, with the controllers set to notice within seconds; and nodes declared out of service."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable, Iterator

import pytest

from situate.cluster.controllers.settings import KubeletSettings, MachinerySettings, NodeLifecycleSettings
from situate.embedded.running import Settings
from tests.contract.api import Api, Json
from tests.contract.conftest import ADMIN, SERVERS, wait_usable
from tests.contract.servers import EmbeddedThread, RealServer, Server, new_namespace
from tests.contract.things import core, node, pod, statefulset
from tests.contract.waiting import eventually, steady
from tests.contract.work import Work, ready
from tests.controlplane.plane import ControlPlane, Options

pytestmark = pytest.mark.slow

QUICK = NodeLifecycleSettings(
    monitor_period=0.5,
    monitor_grace_period=4,
    startup_grace_period=4,
    eviction_rate=100,
    secondary_eviction_rate=100,
    unhealthy_zone_threshold=1,
)


Silence = Callable[[str, bool], None]


@pytest.fixture(scope="module", params=SERVERS)
def silencer(request: pytest.FixtureRequest) -> Iterator[tuple[Server, Silence]]:
    """A cluster, and what silences a node's kubelet or lets it speak again. On the real one all are silent at once."""
    if request.param == "real":
        start: Callable[[Options], ControlPlane] = request.getfixturevalue("start_control_plane")
        options = Options(controllers=True, scheduler=True, kwok=True, fast_node_failure=True, node_lease_s=4)
        plane = start(options)
        kwok = plane.component("kwok")
        yield RealServer(plane), lambda _, silent: kwok.pause() if silent else kwok.resume()
        plane.stop()
    else:
        kubelet = KubeletSettings(lease_renewal=1, lease_duration=4)
        settings = Settings(tokens=ADMIN, machinery=MachinerySettings(kubelet=kubelet, node_lifecycle=QUICK))
        with EmbeddedThread(settings) as embedded:
            yield embedded, embedded.silence


@pytest.fixture
async def quiet(silencer: tuple[Server, Silence]) -> AsyncIterator[tuple[Work, str, Callable[[bool], None]]]:
    """A namespace of a cluster with one node, whose kubelet can be silenced."""
    server, silence = silencer
    name = f"quiet-{uuid.uuid4().hex[:8]}"
    async with Api(server.url, server.token, server.tls()) as api:
        (await api.post("/api/v1/nodes", node(name, labels={"kubernetes.io/hostname": name}))).ok(201)
        await wait_usable(api, name)
        yield Work(api, await new_namespace(api)), name, lambda silent: silence(name, silent)
        silence(name, False)
        (await api.delete(f"/api/v1/nodes/{name}")).ok()


def ready_condition(made: Json) -> str:
    return next(str(each["status"]) for each in made["status"]["conditions"] if each["type"] == "Ready")


async def test_a_silent_node_is_unknown_and_comes_back(quiet: tuple[Work, str, Callable[[bool], None]]) -> None:
    work, host, silence = quiet
    (await work.api.post(core(work.namespace, "pods"), pod("p", nodeName=host))).ok(201)
    await work.settled(1)
    path = f"/api/v1/nodes/{host}"
    await asyncio.to_thread(silence, True)
    body = await eventually(lambda: work.api.get(path), lambda answer: ready_condition(answer.ok()) == "Unknown")
    (condition,) = (each for each in body.body["status"]["conditions"] if each["type"] == "Ready")
    assert (condition["reason"], condition["message"]) == ("NodeStatusUnknown", "Kubelet stopped posting node status.")
    body = await eventually(lambda: work.api.get(path), lambda answer: answer.body["spec"].get("taints"))
    assert "node.kubernetes.io/unreachable" in {taint["key"] for taint in body.body["spec"]["taints"]}
    await eventually(lambda: work.pod("p"), lambda each: each and not ready(each))
    # Where everything is silent, nobody is evicted.
    await steady(lambda: work.pod("p"), lambda each: each and "deletionTimestamp" not in each["metadata"])
    await asyncio.to_thread(silence, False)
    await wait_usable(work.api, host)


async def test_out_of_service(quiet: tuple[Work, str, Callable[[bool], None]]) -> None:
    """Pods of a silent node that is declared out of service are removed by force, so that a StatefulSet goes on."""
    work, host, silence = quiet
    await work.create("statefulsets", statefulset("db", 1))
    (old,) = await work.settled(1)
    path = f"/api/v1/nodes/{host}"
    await asyncio.to_thread(silence, True)
    body = await eventually(lambda: work.api.get(path), lambda answer: ready_condition(answer.ok()) == "Unknown")
    out = {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}
    taints = [*body.body["spec"].get("taints", []), out]
    (await work.api.patch(path, {"spec": {"taints": taints}})).ok()
    await eventually(
        lambda: work.pod("db-0"),
        lambda each: each and each["metadata"]["uid"] != old["metadata"]["uid"],
    )
    await asyncio.to_thread(silence, False)

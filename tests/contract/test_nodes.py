"""Nodes that fall silent, with the controllers set to notice within seconds; and nodes declared out of service."""

from __future__ import annotations

import asyncio
import datetime
import subprocess
import uuid
from collections.abc import AsyncIterator, Callable, Iterator

import pytest

from situate.cluster.controllers.machinery.settings import KubeletSettings, MachinerySettings, NodeLifecycleSettings
from situate.embedded.embedded_server import Settings
from tests.contract.api import Api, Json
from tests.contract.conftest import ADMIN, SERVERS, wait_usable
from tests.contract.servers import EmbeddedThread, RealServer, Server, new_namespace
from tests.contract.things import core, node, pod, statefulset
from tests.contract.waiting import eventually, steady
from tests.contract.work import Work, ready
from tests.contract.work import name as name_of
from tests.controlplane.build import Programs
from tests.controlplane.plane import ControlPlane, Options
from tests.waiting import WITHIN_S

pytestmark = pytest.mark.slow

PERIOD_S = 4.0
"""Between two nodes of a zone that are given up."""
QUICK = NodeLifecycleSettings(
    monitor_period=0.5, monitor_grace_period=4, startup_grace_period=4, eviction_rate=1 / PERIOD_S
)
USUAL = NodeLifecycleSettings()
FLAGS = (
    f"--node-eviction-rate={QUICK.eviction_rate}",
    f"--secondary-node-eviction-rate={QUICK.secondary_eviction_rate}",
    f"--unhealthy-zone-threshold={QUICK.unhealthy_zone_threshold}",
)
"""Of kube-controller-manager, beside those that let it notice soon."""
PLAYED = {"example.com/kubelet": "kwok"}
"""Labels of nodes that have a kubelet on the real cluster."""


Silence = Callable[[str, bool], None]


@pytest.fixture(scope="module", params=SERVERS)
def silencer(request: pytest.FixtureRequest) -> Iterator[tuple[Server, Silence]]:
    """A cluster, and what silences a node's kubelet or lets it speak again. On the real one all are silent at once."""
    if request.param == "real":
        start: Callable[[Options], ControlPlane] = request.getfixturevalue("start_control_plane")
        ((label, value),) = PLAYED.items()
        played = ("--manage-all-nodes=false", f"--manage-nodes-with-label-selector={label}={value}")
        flags = {"kube-controller-manager": FLAGS, "kwok": played}
        options = Options(
            controllers=True, scheduler=True, kwok=True, fast_node_failure=True, node_lease_s=4, flags=flags
        )
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
        (await api.post("/api/v1/nodes", node(name, labels={"kubernetes.io/hostname": name, **PLAYED}))).ok(201)
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


async def test_nodes_are_given_up_one_at_a_time_and_where_most_are_silent_not_at_all(
    silencer: tuple[Server, Silence],
) -> None:
    """Of two zones one has lost two nodes of six, the other four of five. Until the third of these is known to be
    silent, theirs is a zone like any other, so one of them may go."""
    server, silence = silencer
    mark = uuid.uuid4().hex[:8]
    few, most = ([f"{zone}-{mark}-{number}" for number in range(count)] for zone, count in (("few", 2), ("most", 4)))
    heard = [f"few-{mark}-heard-{number}" for number in range(4)] + [f"most-{mark}-heard"]
    async with Api(server.url, server.token, server.tls()) as api:

        async def add(name: str, **labels: str) -> None:
            zone = {"topology.kubernetes.io/zone": name.partition("-")[0] + mark}
            (await api.post("/api/v1/nodes", node(name, labels={**zone, **labels}))).ok(201)

        async def given_up(names: list[str]) -> list[datetime.datetime]:
            nodes = (await api.get("/api/v1/nodes")).ok()["items"]
            taints = [taint for each in nodes if name_of(each) in names for taint in each["spec"].get("taints", ())]
            return sorted(datetime.datetime.fromisoformat(each["timeAdded"]) for each in taints if each == each | LOST)

        await asyncio.gather(*(add(name, **PLAYED) for name in heard))
        for name in heard:
            await wait_usable(api, name)
        await asyncio.gather(*(add(name) for name in (*most, *few)))
        for name in (*most, *few) if server.name == "embedded" else ():
            await asyncio.to_thread(silence, name, True)
        first, second = await eventually(lambda: given_up(few), lambda found: len(found) == len(few))
        assert (second - first).total_seconds() >= PERIOD_S - 2  # taints tell whole seconds
        await steady(lambda: given_up(most), lambda found: len(found) <= 1, seconds=PERIOD_S / 2)
        assert await given_up(heard) == []
        for name in (*heard, *few, *most):
            (await api.delete(f"/api/v1/nodes/{name}")).ok()


LOST = {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}


@pytest.mark.realcluster
@pytest.mark.xdist_group("contract-real")
@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("node-monitor-grace-period", f"{USUAL.monitor_grace_period:g}s"),
        ("node-startup-grace-period", "1m0s"),
        ("node-eviction-rate", f"{USUAL.eviction_rate:g}"),
        ("secondary-node-eviction-rate", f"{USUAL.secondary_eviction_rate:g}"),
        ("large-cluster-size-threshold", f"{USUAL.large_cluster_size}"),
        ("unhealthy-zone-threshold", f"{USUAL.unhealthy_zone_threshold:g}"),
    ],
)
def test_the_usual_times_and_rates_are_those_of_kube_controller_manager(help_text: str, flag: str, value: str) -> None:
    """Ten seconds from one node to the next is what its help says; nobody waits for it."""
    assert USUAL.startup_grace_period == 60
    (line,) = (line for line in help_text.splitlines() if line.lstrip().startswith(f"--{flag} "))
    assert line.endswith(f"(default {value})")


@pytest.fixture(scope="module")
def help_text(control_plane_programs: Programs) -> str:
    command = (str(control_plane_programs.path("kube-controller-manager")), "--help")
    return subprocess.run(command, text=True, capture_output=True, check=True, timeout=WITHIN_S).stdout

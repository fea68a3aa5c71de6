"""Pods behind the gate of strict mode: classed exactly and let go, whatever the server and the watch do (P7 to P9)."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from situate.cluster.errors.field_errors import Refused
from situate.cluster.patch.patches import json_patch
from situate.kube.client import Client
from situate.kube.watch.store import Store
from situate.objects.decoding.codec import decode
from situate.objects.kinds.events import ObjectReference
from situate.objects.kinds.pods import Pod
from situate.objects.messages import Request, Response
from situate.objects.resources import PODS
from situate.runtime.leadership.actuator import Actuator
from situate.spot.admission.admit import UNREADABLE, AdmissionView, LiveRead, NeedsRead
from situate.spot.controller.act.gates import OVERDUE_S, Gates
from situate.spot.model.pods_nodes_workloads import CLASS, GATE
from situate.spot.server.metrics import AdmissionMetrics
from situate.spot.workloads.owners import pod_facts
from tests.kube.hostile_server import Fault, HostileServer
from tests.spot.builders import cluster, created_by, owner, settings
from tests.spot.controller.playground import DEPLOYMENTS, SETS, Playground, workload

PATH = "/api/v1/namespaces/shop/pods"


class Server(HostileServer):
    """Knows JSON patches besides, and refuses those whose tests fail as API servers do."""

    def _carried_out(self, request: Request) -> Response:
        known = self.objects.get(request.path)
        if request.method != "PATCH" or "json-patch" not in request.headers["content-type"] or known is None:
            return super()._carried_out(request)
        patched = json_patch(known, json.loads(request.body))
        if isinstance(patched, Refused):
            status = {"kind": "Status", "status": "Failure", "reason": "Invalid", "message": str(patched), "code": 422}
            return Response(422, json.dumps(status).encode())
        self.put(request.path, patched)
        return Response(200, json.dumps(self.objects[request.path]).encode())


class Rig:
    """Gates over a server and a watch that shows what the test lets it."""

    def __init__(self) -> None:
        self.server = Server()
        self.store: Store[Pod] = Store("pods")
        self.owner = owner(20, annotations={"spot.situate.dev/on-demand": "2"})
        self.known = True
        self.defects = 0
        """Questions that are answered by a defect of ours."""
        self.live: LiveRead = UNREADABLE
        self.told: list[tuple[str, str]] = []
        self.registry = CollectorRegistry()
        tokens = itertools.count()
        self.gates = Gates(
            self.store,
            self.view,
            self.read,
            self.record,
            token=lambda: f"t{next(tokens)}",
            wall=asyncio.get_running_loop().time,
            metrics=AdmissionMetrics(self.registry),
        )

    def view(self, live: LiveRead | None) -> AdmissionView:
        if self.defects:
            self.defects -= 1
            raise ZeroDivisionError
        pods = [pod_facts(pod) for pod in self.store.list()]
        known = cluster(self.owner, pods) if self.known else cluster(self.owner, pods, owners={}, replica_sets={})
        return AdmissionView(known, settings(), {}, live)

    async def read(self, _: NeedsRead) -> LiveRead:
        return self.live

    def record(self, about: ObjectReference, _: str, reason: str, __: str) -> None:
        self.told.append((about.name, reason))

    def create(self, *names: str) -> None:
        """Gated pods, which the watch shows."""
        for name in names:
            gates = [{"name": "other"}, {"name": GATE}]
            pod = created_by(name=name, spec={"schedulingGates": gates}, namespace="shop", uid=f"uid-{name}")
            self.server.put(f"{PATH}/{name}", {"apiVersion": "v1", "kind": "Pod", **pod})
            self.show(name)

    def show(self, name: str) -> None:
        self.store.put(decode(PODS, json.dumps(self.server.objects[f"{PATH}/{name}"]).encode()))

    @property
    def classes(self) -> Counter[str]:
        """Of the pods that were let go; empty text for those without one."""
        pods = [pod for path, pod in self.server.objects.items() if path.startswith(PATH)]
        return Counter(pod["metadata"]["labels"].get(CLASS, "") for pod in pods if not gated(pod))

    def patches(self) -> int:
        return sum(each.method == "PATCH" for each in self.server.requests)

    @asynccontextmanager
    async def leading(self) -> AsyncIterator[None]:
        running = asyncio.create_task(self.gates.run(Client(self.server), Actuator(lambda: None)))
        try:
            yield
        finally:
            running.cancel()
            await asyncio.wait([running])


def gated(pod: Any) -> bool:
    return GATE in [gate["name"] for gate in pod["spec"].get("schedulingGates", ())]


def once(fault: Fault, of: Callable[[Request], bool]) -> Callable[[Request], Fault | None]:
    left = [fault]
    return lambda request: left.pop() if left and of(request) else None


def writes(request: Request) -> bool:
    return request.method == "PATCH"


@pytest.mark.rule("spot:P7", "spot:P8", "spot:B1", "spot:F1")
@pytest.mark.looptime
async def test_a_burst_is_classed_exactly_although_the_watch_shows_nothing_of_it() -> None:
    rig = Rig()
    rig.server.judge = lambda request: Fault(answer_delay_s=0.2 if writes(request) else 0.05)
    async with rig.leading():
        rig.create(*(f"p{number}" for number in range(10)))
        await asyncio.sleep(0.3)
        rig.create(*(f"q{number}" for number in range(8)))
        await asyncio.sleep(1)
    assert rig.classes == {"on-demand": 2, "spot": 16}
    assert rig.patches() == 18, "each once"
    seconds = rig.registry.get_sample_value("situate_spot_placement_seconds_sum")
    assert seconds is not None
    assert seconds < 18, "within a second each (P9)"
    pod = rig.server.objects[f"{PATH}/p0"]
    assert pod["spec"]["schedulingGates"] == [{"name": "other"}], "gates of others stay"


@pytest.mark.rule("spot:P8")
@pytest.mark.looptime
async def test_a_pod_that_changes_between_reading_and_writing_is_read_again() -> None:
    rig = Rig()

    def meddle(request: Request) -> None:
        if rig.patches() == 1 and writes(request):
            pod = rig.server.objects[request.path]
            pod["metadata"]["annotations"] = {"somebody": "was here"}
            rig.server.put(request.path, pod)

    rig.server.judge = meddle
    async with rig.leading():
        rig.create("p")
        await asyncio.sleep(1)
    assert rig.classes == {"on-demand": 1}
    assert rig.server.objects[f"{PATH}/p"]["metadata"]["annotations"]["somebody"] == "was here"


@pytest.mark.rule("spot:P9", "spot:I15", "spot:F6")
@pytest.mark.looptime
@pytest.mark.parametrize(
    "fault",
    [Fault(500), Fault(429), Fault(403), Fault(lost_request=True), Fault(lost_answer=True)],
    ids=["500", "429", "forbidden", "lost", "answer lost"],
)
async def test_a_write_that_fails_is_tried_again(fault: Fault) -> None:
    rig = Rig()
    rig.server.judge = once(fault, writes)
    async with rig.leading():
        rig.create("p", "q", "r")
        await asyncio.sleep(40)
    assert rig.classes == {"on-demand": 2, "spot": 1}


@pytest.mark.rule("spot:P9", "spot:I15")
@pytest.mark.looptime
async def test_a_pod_that_cannot_get_its_class_is_let_go_without_one() -> None:
    rig = Rig()
    refused = Fault(422, "Invalid", "spec.affinity: forbidden")
    rig.server.judge = lambda request: refused if writes(request) and b"affinity" in request.body else None
    async with rig.leading():
        rig.create("p")
        await asyncio.sleep(1)
    assert rig.classes == {"": 1}
    assert rig.told == [("p", "NotPlaced")]


@pytest.mark.looptime
async def test_a_defect_of_ours_keeps_one_pod_waiting_and_no_other() -> None:
    rig = Rig()
    rig.defects = 1
    async with rig.leading():
        rig.create("p", "q", "r")
        await asyncio.sleep(0.5)
        assert rig.classes == {"on-demand": 2}
        await asyncio.sleep(2)
    assert rig.classes == {"on-demand": 2, "spot": 1}


@pytest.mark.rule("spot:P7", "spot:P20")
@pytest.mark.looptime
async def test_a_workload_that_is_not_known_yet_is_read_and_one_that_is_gone_holds_nobody() -> None:
    rig = Rig()
    rig.known = False
    async with rig.leading():
        rig.create("p")
        await asyncio.sleep(3)
        assert not rig.patches(), "what cannot be read now may be read later"
        rig.live = LiveRead()
        await asyncio.sleep(2)
    assert rig.classes == {"": 1}


@pytest.mark.rule("spot:P9")
@pytest.mark.looptime
async def test_who_waits_for_long_is_told_of_also_where_nobody_leads() -> None:
    rig = Rig()
    alert = asyncio.create_task(rig.gates.alert())
    rig.create("p")
    await asyncio.sleep(1.5)
    assert rig.registry.get_sample_value("situate_spot_gated_pods") == 1
    assert not rig.told
    await asyncio.sleep(OVERDUE_S + 30)
    assert rig.told == [("p", "GatedTooLong")], "once"
    assert rig.registry.get_sample_value("situate_spot_gated_overdue_pods") == 1
    async with rig.leading():
        await asyncio.sleep(0.1)
        rig.show("p")
        await asyncio.sleep(1)
    assert rig.registry.get_sample_value("situate_spot_gated_overdue_pods") == 0
    alert.cancel()
    await asyncio.wait([alert])


@pytest.mark.rule("spot:P7", "spot:P8", "spot:P9", "spot:B1")
async def test_strict_mode_counts_exactly_what_exists(playground: Playground, port: int) -> None:
    async with playground.controller("first", port, strict={}) as ours:
        await playground.lead_to(port)
        await playground.answers(ours)
        await playground.call("POST", DEPLOYMENTS, workload("web", 20, "7"))
        await playground.call("POST", SETS, workload("base", 3, kind="StatefulSet"))

        async def let_go(name: str, count: int) -> Any:
            pods = await playground.pods(name)
            return pods if len(pods) == count and not any(map(gated, pods)) else None

        for name, count, want in (("web", 20, {"on-demand": 7, "spot": 13}), ("base", 3, {"on-demand": 2, "spot": 1})):
            pods = await playground.eventually(f"all pods of {name} are let go", partial(let_go, name, count))
            assert Counter(pod["metadata"]["labels"].get(CLASS, "") for pod in pods) == want
    await playground.call(
        "PATCH", f"{DEPLOYMENTS}/web", {"spec": {"replicas": 22}}, kind="application/merge-patch+json"
    )
    assert (await playground.classes_of("web", 22))[""] == 2, "without anybody to ask pods slip through ungated"

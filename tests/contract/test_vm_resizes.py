"""Plain pods that grow by `pods/resize`, on both servers: what we patch, and what a kubelet and the server make of it.

The ledger decides, its patch is sent, the kubelet looks, and the pod is read again: accepted, deferred and infeasible.
"""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest

from situate.kube.patches import JsonPatch
from situate.objects.decoding.codec import decode
from situate.objects.kinds import pods
from situate.objects.resources import PODS
from situate.vm.api.patches import CONFLICT, REFUSED, PatchObject, invalid_outcome, resize_patch
from situate.vm.api.well_known import AUTO_MIGRATION_LABEL, RESIZE_REQUESTED
from situate.vm.api.well_known import RESOURCES as GUEST
from situate.vm.model.actions import Condition, HandOver, Notify, ResizePod, StartMove
from situate.vm.model.events import MigrationObserved, MigrationPhase, PodRemoved, TimerFired
from situate.vm.model.migrations import Move
from situate.vm.model.pods_and_nodes import Ref
from situate.vm.model.policy import Rules
from situate.vm.model.resource_amounts import Amounts
from tests.contract.api import Answer, Api
from tests.contract.stub_kubelet import look
from tests.contract.test_scheduling import why_not
from tests.contract.things import core, pod
from tests.contract.waiting import eventually
from tests.contract.work import Work, ready
from tests.vm.objects import node, runner
from tests.vm.yard import Yard

GIB = 2**30


class Place:
    """One node of 4 CPUs with its pods, and the ledger that is told of them."""

    def __init__(self, api: Api, namespace: str, host: str) -> None:
        self.api, self.namespace, self.host = api, namespace, host
        self.yard = Yard(node(host, "4", "16Gi"))

    async def size(self, cpu: str) -> None:
        room = {"cpu": cpu, "memory": "16Gi"}
        change = {"status": {"allocatable": room, "capacity": room}}
        (await self.api.patch(f"/api/v1/nodes/{self.host}/status", change)).ok()

    async def add(self, name: str, cpu: str, **more: Any) -> None:
        requests = {"cpu": cpu, "memory": "1Gi"}
        (
            await self.api.post(core(self.namespace, "pods"), pod(name, requests=requests, nodeName=self.host, **more))
        ).ok()
        await self.see(name)

    async def see(self, name: str) -> pods.Pod:
        """What its kubelet says by now."""
        await look(self.api, self.namespace, self.host)
        found = await self.read(name)
        self.yard.see(found)
        return found

    async def read(self, name: str) -> pods.Pod:
        return decode(PODS, json.dumps((await self.api.get(core(self.namespace, "pods", name))).ok()).encode())

    async def wish(self, name: str, **wish: Any) -> list[ResizePod]:
        """What the ledger decides then."""
        note = {"metadata": {"annotations": {RESIZE_REQUESTED: json.dumps(wish)}}}
        (await self.api.patch(core(self.namespace, "pods", name), note)).ok()
        await self.see(name)
        return self.yard.only(ResizePod)

    async def send(self, action: ResizePod, of: pods.Pod | None = None) -> Answer:
        change = resize_patch(action, of or await self.read(action.pod.name), PODS, Rules())
        assert isinstance(change, PatchObject)
        assert isinstance(change.patch, JsonPatch)
        path = core(self.namespace, "pods", action.pod.name, "resize")
        return await self.api.patch(path, list(change.patch.body), form="json")

    async def uid(self, name: str) -> str:
        return (await self.read(name)).metadata.uid

    async def booked(self, name: str) -> Amounts:
        found = self.yard.state.pod(await self.uid(name))
        assert found is not None
        return found.reserved


@pytest.fixture
async def place(api: Api, namespace: str, host: str) -> Place:
    made = Place(api, namespace, host)
    await made.size("4")
    return made


@pytest.mark.rule("vm:B34", "vm:B35", "vm:B33", "vm:N12")
async def test_a_grant_is_patched_and_allocated_or_put_off_or_refused(place: Place) -> None:
    await place.add("web", "1")
    await place.add("other", "1")
    (granted,) = await place.wish("web", cpu="2", memory="2Gi")
    place.yard.answer(granted)
    (await place.send(granted)).ok(200)
    seen = await place.see("web")
    assert seen.status.container_statuses[0].allocated_resources["cpu"].value == 2
    assert await place.booked("web") == Amounts.from_values(2000, 2 * GIB)
    assert not place.yard.state.writes

    # somebody else takes the room that we had seen, and asks for more himself: the kubelet puts ours off
    by_hand = {"spec": {"containers": [{"name": "app", "resources": {"requests": {"cpu": "3"}}}]}}
    (await place.api.patch(core(place.namespace, "pods", "other", "resize"), by_hand, form="strategic")).ok(200)
    put_off = await place.see("other")
    pending = put_off.condition("PodResizePending")
    assert pending is not None
    assert (pending.reason, pending.observed_generation) == ("Deferred", put_off.metadata.generation)
    uid = await place.uid("other")
    assert uid in place.yard.state.waiters, "it is demand"
    assert (await place.booked("other")).cpu == 3000, "and counts for everybody else"
    assert place.yard.state.need(uid) == Amounts.from_values(1000, 0)

    gone = await place.uid("web")
    (await place.api.delete(core(place.namespace, "pods", "web"), {"gracePeriodSeconds": 0})).ok()
    place.yard.tell(PodRemoved(gone))
    admitted = await place.see("other")
    assert admitted.condition("PodResizePending") is None
    assert uid not in place.yard.state.waiters

    resize = core(place.namespace, "pods", "other", "resize")
    too_large = "node didn't have enough allocatable resources: cpu, requested: 9000, allocatable: 4000"
    (await place.api.patch(resize, _asking("9"), form="strategic")).refused(
        403,
        "Forbidden",
        f'pods "other" is forbidden: {too_large}',
        {"name": "other", "kind": "pods", "causes": [{"reason": "NodeCapacity"}]},
    )
    await place.size("16")
    larger = partial(place.api.patch, resize, _asking("9"), form="strategic")
    # what admits it on the real server hears of the node by a watch
    (await eventually(larger, lambda answer: answer.status != 403)).ok(200)
    await place.size("4")
    await place.see("other")
    assert (await place.booked("other")).cpu == 3000, "what can never be is no demand"
    assert uid not in place.yard.state.waiters


@pytest.mark.rule("vm:B33", "vm:B34", "vm:B36")
async def test_a_sidecar_is_counted_and_resized_as_any_container(place: Place) -> None:
    resources = {"requests": {"cpu": "1", "memory": "1Gi"}}
    sidecar = {"name": "side", "image": "i", "restartPolicy": "Always", "resources": resources}
    first = {"name": "first", "image": "i", "resources": resources}
    await place.add("web", "1", initContainers=[first, sidecar])
    assert await place.booked("web") == Amounts.from_values(2000, 2 * GIB)
    assert await place.wish("web", container="first", cpu="2") == []
    assert [each.reason for each in place.yard.only(Condition)] == ["InitContainer"]

    (granted,) = await place.wish("web", container="side", cpu="2")
    place.yard.answer(granted)
    (await place.send(granted)).ok(200)
    seen = await place.see("web")
    reported = {each.name: each.allocated_resources["cpu"].value for each in seen.status.init_container_statuses}
    assert reported == {"first": 1, "side": 2}
    assert await place.booked("web") == Amounts.from_values(3000, 2 * GIB)
    assert not place.yard.state.writes


class Leaving(Place):
    """A node of 8 CPUs: `web` has 2 and wishes for 6, `leaving` has 5 and is the source of a move for it, 1 is free.

    The scheduler is at work, and two pods wait for it: one of 4 CPUs, and one of 2.
    """

    async def begin(self, work: Work) -> Move:
        self.yard = Yard(node(self.host, "8", "32Gi"), node("elsewhere", "64", "256Gi"))
        for name, cpu in (("web", "2"), ("leaving", "5")):
            requests, meta = {"cpu": cpu, "memory": "1Gi"}, {"name": name, "annotations": {"noresize": "true"}}
            (await self.api.post(core(self.namespace, "pods"), self.body(requests, meta, nodeName=self.host))).ok(201)
            await eventually(partial(work.pod, name), lambda each: each and ready(each))
        guest = '{"cpus":{"min":1,"use":5,"max":5},"memorySlots":{"min":1,"use":1,"max":1},"memorySlotSize":"1Gi"}'
        labels = {AUTO_MIGRATION_LABEL: "true"}
        uid = await self.uid("leaving")
        self.yard.see(runner("leaving", {GUEST: guest}, labels=labels, nodeName=self.host, metadata={"uid": uid}))
        assert await self.wish("web", cpu="6") == []
        for name, cpu in (("third", "4"), ("small", "2")):
            selector = {"kubernetes.io/hostname": self.host}
            body = self.body({"cpu": cpu}, {"name": name}, nodeSelector=selector)
            (await self.api.post(core(self.namespace, "pods"), body)).ok(201)
            await why_not(work, name, "Insufficient cpu")
        self.yard.now += 6
        self.yard.tell(TimerFired())
        (started,) = self.yard.only(StartMove)
        self.yard.answer(started)
        return started.move

    async def see(self, name: str) -> pods.Pod:
        await look(self.api, self.namespace, self.host, only=name)
        found = await self.read(name)
        self.yard.see(found)
        return found

    def copied(self, move: Move) -> None:
        succeeded = MigrationPhase(succeeded=True)
        target = Ref(self.namespace, "target", "uid-target")
        self.yard.tell(
            MigrationObserved(
                move.machine, move.name, "m", True, succeeded, move.source, self.host, target, "elsewhere", None
            )
        )

    async def delete_source(self) -> None:
        (await self.api.delete(core(self.namespace, "pods", "leaving"), {"gracePeriodSeconds": 0})).ok()

    @staticmethod
    def body(requests: Any, meta: Any, **spec: Any) -> Any:
        return pod(requests=requests, meta=meta, terminationGracePeriodSeconds=0, **spec)


@pytest.mark.rule("vm:B37", "vm:N7", "vm:F10")
async def test_a_third_party_gets_nothing_of_the_room_that_a_pod_has_asked_for_before(
    work: Work, own_host: str
) -> None:
    place = Leaving(work.api, work.namespace, own_host)
    place.copied(await place.begin(work))
    (ahead,) = place.yard.only(ResizePod)
    assert place.yard.only(HandOver) == []
    (await place.send(ahead)).ok(200)
    place.yard.answer(ahead)
    (over,) = place.yard.only(HandOver)
    assert over.source.uid == await place.uid("leaving")
    assert (await place.see("web")).condition("PodResizePending").reason == "Deferred"  # type: ignore[union-attr]

    await place.delete_source()
    await eventually(lambda: work.pod("small"), lambda each: each and ready(each))
    assert "nodeName" not in (await work.pod("third") or {})["spec"], "the scheduler has seen who left"
    place.yard.tell(PodRemoved(over.source.uid))
    assert [each.fields["outcome"] for each in place.yard.only(Notify) if each.reason == "ClaimClosed"] == ["granted"]
    resized = await place.see("web")
    assert resized.status.container_statuses[0].allocated_resources["cpu"].value == 6
    assert not place.yard.state.waiters


@pytest.mark.rule("vm:B37")
async def test_it_gets_the_room_where_the_pod_asks_when_the_source_is_gone(work: Work, own_host: str) -> None:
    """What is asked for ahead is no mere haste."""
    place = Leaving(work.api, work.namespace, own_host)
    place.copied(await place.begin(work))
    (ahead,) = place.yard.only(ResizePod)
    await place.delete_source()
    await eventually(lambda: work.pod("third"), lambda each: each and ready(each))
    (await place.send(ahead)).ok(200)
    assert (await place.see("web")).condition("PodResizePending").reason == "Deferred"  # type: ignore[union-attr]


def _asking(cpu: str) -> Any:
    return {"spec": {"containers": [{"name": "app", "resources": {"requests": {"cpu": cpu}}}]}}


@pytest.mark.rule("vm:B36", "vm:B44", "vm:F1")
async def test_what_a_refusal_of_the_server_means(place: Place) -> None:
    await place.add("web", "1")
    (granted,) = await place.wish("web", cpu="2")
    before = await place.read("web")
    withdrawn = {"metadata": {"annotations": {RESIZE_REQUESTED: None}}}
    (await place.api.patch(core(place.namespace, "pods", "web"), withdrawn)).ok()
    late = await place.send(granted, before)
    assert late.status == 422
    assert invalid_outcome(_causes(late)) == CONFLICT, "nobody wishes it any more, and its room may be another's"

    await place.see("web")
    (granted,) = await place.wish("web", cpu="2")
    later = await place.send(granted, before)
    assert later.status == 422
    assert invalid_outcome(_causes(later)) == CONFLICT, "it is wished again, and that was decided on anew"
    before = await place.read("web")
    (await place.api.patch(core(place.namespace, "pods", "web", "resize"), _asking("1500m"), form="strategic")).ok(200)
    overtaken = await place.send(granted, before)
    assert overtaken.status == 422
    assert invalid_outcome(_causes(overtaken)) == CONFLICT, (
        "somebody resized it: a test of the patch fails and names nothing"
    )

    best_effort = [{"op": "add", "path": "/spec/containers/0/resources/limits", "value": {"cpu": "1", "memory": "1Gi"}}]
    refused = await place.api.patch(core(place.namespace, "pods", "web", "resize"), best_effort, form="json")
    assert refused.status == 422
    assert invalid_outcome(_causes(refused)) == REFUSED


@pytest.mark.rule("vm:B36")
async def test_what_is_larger_than_the_node_is_not_asked_for(place: Place) -> None:
    await place.add("web", "1")
    assert await place.wish("web", cpu="5") == []
    assert [each.reason for each in place.yard.only(Condition)] == ["LargerThanNode"]
    assert [each.reason for each in place.yard.only(Notify)] == ["ResizeRefused"]


def _causes(answer: Answer) -> list[str]:
    return [each.get("message", "") for each in answer.body.get("details", {}).get("causes", ())]

"""Where the default scheduler puts pods: gates, room, cordons, nominations, preferences."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator

import pytest

from tests.contract.conftest import wait_usable
from tests.contract.things import Json, core, node, pod, replicaset
from tests.contract.waiting import eventually, steady
from tests.contract.work import Work, ready


async def why_not(work: Work, name: str, why: str) -> Json:
    """The condition of a pod that has no node, once it says so."""

    async def scheduled() -> Json:
        conditions = ((await work.pod(name)) or {}).get("status", {}).get("conditions", [])
        return next((each for each in conditions if each["type"] == "PodScheduled"), {})

    return await eventually(scheduled, lambda condition: why in condition.get("message", ""))


class TestScheduling:
    async def test_a_gated_pod_is_placed_after_its_gate_is_gone(self, work: Work) -> None:
        gated = pod("g", schedulingGates=[{"name": "example.com/wait"}])
        (await work.api.post(core(work.namespace, "pods"), gated)).ok(201)
        await steady(lambda: work.pod("g"), lambda each: each and "nodeName" not in each["spec"], seconds=0.3)
        (await work.api.patch(core(work.namespace, "pods", "g"), {"spec": {"schedulingGates": None}})).ok()
        await eventually(lambda: work.pod("g"), lambda each: each and ready(each))

    async def test_one_patch_narrows_labels_and_releases_a_gated_pod(
        self, work: Work, hosts: list[str], own_host: str
    ) -> None:
        term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [*hosts, own_host]}]}
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
        gated = pod("g", schedulingGates=[{"name": "example.com/wait"}], affinity={"nodeAffinity": required})
        (await work.api.post(core(work.namespace, "pods"), gated)).ok(201)
        narrower = {"key": "kubernetes.io/hostname", "operator": "In", "values": [own_host]}
        terms = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms"
        operations = [
            {"op": "add", "path": f"{terms}/0/matchExpressions/-", "value": narrower},
            {"op": "add", "path": "/metadata/labels", "value": {"released": "yes"}},
            {"op": "remove", "path": "/spec/schedulingGates/0"},
        ]
        (await work.api.patch(core(work.namespace, "pods", "g"), operations, form="json")).ok()
        bound = await eventually(lambda: work.pod("g"), lambda each: each and ready(each))
        assert bound is not None
        assert (bound["spec"]["nodeName"], bound["metadata"]["labels"]["released"]) == (own_host, "yes")

    async def test_no_room_is_said_on_the_pod(self, work: Work) -> None:
        (await work.api.post(core(work.namespace, "pods"), pod("big", requests={"cpu": "900"}))).ok(201)
        condition = await why_not(work, "big", "Insufficient cpu")
        assert (condition["status"], condition["reason"]) == ("False", "Unschedulable")
        assert "nodes are available" in condition["message"]

    async def test_a_cordoned_node_gets_nothing(self, work: Work, own_host: str) -> None:
        host = own_host
        (await work.api.patch(f"/api/v1/nodes/{host}", {"spec": {"unschedulable": True}})).ok()
        body = await eventually(
            lambda: work.api.get(f"/api/v1/nodes/{host}"), lambda answer: answer.ok()["spec"].get("taints")
        )
        (taint,) = body.body["spec"]["taints"]
        assert taint.pop("timeAdded")
        assert taint == {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
        # A scheduler that knows of the label, which comes last, knows that the node is cordoned.
        label = {"example.com/cordoned": host}
        (await work.api.patch(f"/api/v1/nodes/{host}", {"metadata": {"labels": label}})).ok()
        (await work.api.post(core(work.namespace, "pods"), pod("p", nodeSelector=label))).ok(201)
        await why_not(work, "p", "were unschedulable")
        await steady(lambda: work.pod("p"), lambda each: each and "nodeName" not in each["spec"], seconds=0.3)
        (await work.api.patch(f"/api/v1/nodes/{host}", {"spec": {"unschedulable": None}})).ok()
        await eventually(lambda: work.pod("p"), lambda each: each and each["spec"].get("nodeName") == host)

    @pytest.mark.parametrize("scheduler", ["default-scheduler", "another"])
    async def test_a_nomination_holds_room(self, work: Work, own_host: str, scheduler: str) -> None:
        host = own_host
        selector = {"kubernetes.io/hostname": host}
        await work.known_to_scheduler(host)
        gate = [{"name": "example.com/wait"}]
        holder = pod(
            "holder", requests={"cpu": "6"}, nodeSelector=selector, schedulingGates=gate, schedulerName=scheduler
        )
        (await work.api.post(core(work.namespace, "pods"), holder)).ok(201)
        nominated = {"status": {"nominatedNodeName": host}}
        (await work.api.patch(core(work.namespace, "pods", "holder", "status"), nominated)).ok()
        await steady(lambda: work.pod("holder"), lambda each: each and "nodeName" not in each["spec"], seconds=0.3)
        body = pod("other", requests={"cpu": "6"}, nodeSelector=selector)
        (await work.api.post(core(work.namespace, "pods"), body)).ok(201)
        if scheduler == "default-scheduler":
            await steady(lambda: work.pod("other"), lambda each: each and "nodeName" not in each["spec"], seconds=1)
        else:
            await eventually(lambda: work.pod("other"), lambda each: each and each["spec"].get("nodeName") == host)


class TestPreferences:
    """30 pods that prefer three nodes of six, where there is room elsewhere too."""

    @pytest.mark.parametrize(
        ("labelled", "others", "soft", "least", "most"),
        [
            pytest.param(True, "", False, 30, 30, id="in zones"),
            pytest.param(False, "", False, 30, 30, id="without zones"),
            pytest.param(True, "", True, 1, 29, id="with a soft term besides"),
            pytest.param(True, "PreferNoSchedule", True, 30, 30, id="with both, and PreferNoSchedule on the others"),
        ],
    )
    async def test_preference_alone_fills_the_preferred_nodes(
        self, work: Work, six: Six, labelled: bool, others: str, soft: bool, least: int, most: int
    ) -> None:
        await six.set(labelled=labelled, others=others)
        term = {"key": "kubernetes.io/hostname", "operator": "In", "values": six.preferred}
        pool = {"key": "example.com/pool", "operator": "In", "values": [six.pool]}
        affinity: Json = {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [pool]}]},
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 100, "preference": {"matchExpressions": [term]}}
                ],
            }
        }
        if soft:
            apart = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "rs"}}}
            affinity["podAntiAffinity"] = {
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": apart}]
            }
        await work.create("replicasets", replicaset("rs", 30, pod_spec={"affinity": affinity}))
        pods = await work.settled(30)
        assert least <= sum(each["spec"]["nodeName"] in six.preferred for each in pods) <= most


class Six:
    """Nodes of equal size that nobody else uses; three are preferred."""

    def __init__(self, work: Work) -> None:
        self.pool = uuid.uuid4().hex[:8]
        self._work = work
        self._zones = {f"{self.pool}-{half}-{zone}": zone for half in ("preferred", "other") for zone in "abc"}

    @property
    def preferred(self) -> list[str]:
        return [name for name in self._zones if "preferred" in name]

    async def make(self) -> None:
        for name in self._zones:
            labels = {"kubernetes.io/hostname": name, "example.com/pool": self.pool}
            (await self._work.api.post("/api/v1/nodes", node(name, labels=labels, cpu="32"))).ok(201)
        for name in self._zones:
            await wait_usable(self._work.api, name)

    async def set(self, *, labelled: bool, others: str) -> None:
        """Returns when the scheduler knows."""
        for name, zone in self._zones.items():
            tainted = others and name not in self.preferred
            taints = [{"key": "example.com/slow", "effect": others}] if tainted else None
            labels = {"topology.kubernetes.io/zone": zone if labelled else None}
            patch = {"metadata": {"labels": labels}, "spec": {"taints": taints}}
            (await self._work.api.patch(f"/api/v1/nodes/{name}", patch)).ok()
        await self._work.known_to_scheduler(self.preferred[-1])

    async def remove(self) -> None:
        for name in self._zones:
            (await self._work.api.delete(f"/api/v1/nodes/{name}")).ok()


@pytest.fixture
async def six(work: Work) -> AsyncIterator[Six]:
    made = Six(work)
    await made.make()
    yield made
    await made.remove()

"""Where the default scheduler puts pods: gates, room, cordons, nominations, preferences."""

from __future__ import annotations

import pytest

from tests.contract.things import Json, core, pod, replicaset
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
    @pytest.mark.parametrize(
        ("others", "count"),
        [
            # Of more pods without zones, upstream's own spreading sends some to other nodes, how many differs.
            pytest.param("", 10, id="untainted"),
            pytest.param("PreferNoSchedule", 30, id="PreferNoSchedule"),
        ],
    )
    async def test_preference_alone_fills_the_preferred_nodes(
        self, work: Work, hosts: list[str], own_host: str, others: str, count: int
    ) -> None:
        """Where there is room elsewhere too."""
        term = {"key": "kubernetes.io/hostname", "operator": "In", "values": [own_host]}
        preferred = {"weight": 100, "preference": {"matchExpressions": [term]}}
        affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [preferred]}}
        taints = [{"key": "example.com/slow", "effect": others}] if others else []
        for host in hosts:
            (await work.api.patch(f"/api/v1/nodes/{host}", {"spec": {"taints": taints or None}})).ok()
        try:
            await work.known_to_scheduler(own_host)
            await work.create("replicasets", replicaset("rs", count, pod_spec={"affinity": affinity}))
            pods = await work.settled(count)
        finally:
            for host in hosts:
                (await work.api.patch(f"/api/v1/nodes/{host}", {"spec": {"taints": None}})).ok()
        assert {each["spec"]["nodeName"] for each in pods} == {own_host}

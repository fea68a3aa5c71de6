"""Who goes first when a ReplicaSet shrinks."""

from __future__ import annotations

import asyncio
import datetime
import uuid

import pytest

from tests.contract.servers import Server
from tests.contract.things import IMAGE, Json, apps, core, pod, replicaset
from tests.contract.waiting import eventually
from tests.contract.work import Work, name, owner, ready

ABSENT = f"absent-{uuid.uuid4().hex[:8]}"
"""A kubelet would say what phase the pod is in. Pods of a node that is not there are removed, but only after 40 s."""


class TestScalingDown:
    """Who goes first when a ReplicaSet shrinks."""

    async def test_unassigned_before_assigned(self, work: Work) -> None:
        await work.create("replicasets", replicaset("rs", 2))
        kept = {name(each) for each in await work.settled(2)}
        await work.counted("replicasets", "rs", 2)
        impossible = {"spec": {"template": {"spec": {"nodeSelector": {"no": "where"}}}}}
        (await work.api.patch(apps(work.namespace, "replicasets", "rs"), impossible)).ok()
        await work.scale("replicasets", "rs", 3)
        await eventually(work.pods, lambda pods: len(pods) == 3)
        await work.scale("replicasets", "rs", 2)
        pods = await eventually(work.pods, lambda pods: len(pods) == 2)
        assert {name(each) for each in pods} == kept

    async def test_not_ready_before_ready(self, work: Work) -> None:
        await work.create("replicasets", replicaset("rs", 2))
        kept = {name(each) for each in await work.settled(2)}
        await work.counted("replicasets", "rs", 2)
        unready = {"spec": {"template": {"metadata": {"annotations": {"notready": ""}}}}}
        (await work.api.patch(apps(work.namespace, "replicasets", "rs"), unready)).ok()
        await work.scale("replicasets", "rs", 3)
        await eventually(work.pods, lambda pods: len([each for each in pods if each["spec"].get("nodeName")]) == 3)
        await work.scale("replicasets", "rs", 2)
        pods = await work.settled(2)
        assert {name(each) for each in pods} == kept

    async def test_lower_deletion_cost_first(self, work: Work) -> None:
        await work.create("replicasets", replicaset("rs", 3))
        pods = await work.settled(3)
        await work.counted("replicasets", "rs", 3)
        cheap = name(pods[1])
        cost = {"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "-5"}}}
        (await work.api.patch(core(work.namespace, "pods", cheap), cost)).ok()
        await work.known_to_replicasets()
        await work.scale("replicasets", "rs", 2)
        pods = await work.settled(2)
        assert cheap not in {name(each) for each in pods}

    async def test_the_fuller_node_first(self, work: Work, hosts: list[str]) -> None:
        labels = {"app": "rs"}
        for number, host in enumerate([hosts[0], hosts[0], hosts[1]]):
            body = pod(f"p{number}", meta={"labels": labels}, nodeName=host)
            (await work.api.post(core(work.namespace, "pods"), body)).ok(201)
        await work.settled(3)
        await work.known_to_replicasets()
        # Pods of a node are counted for ReplicaSets that have a controller themselves; anything will do as one.
        made = (await work.api.post(core(work.namespace, "configmaps"), {"metadata": {"name": "theirs"}})).ok(201)
        theirs = {"apiVersion": "v1", "kind": "ConfigMap", "name": "theirs", "uid": made["metadata"]["uid"]}
        body = replicaset("rs", 3)
        body["metadata"]["ownerReferences"] = [{**theirs, "controller": True}]
        await work.create("replicasets", body)
        await work.settled(3, holds=owner)
        await work.counted("replicasets", "rs", 3)
        await work.scale("replicasets", "rs", 2)
        pods = await work.settled(2)
        assert "p2" in {name(each) for each in pods}
        await work.scale("replicasets", "rs", 1)
        await work.settled(1)


class TestCrafted:
    """Pods whose status is the test's, which kubelets leave alone; the set adopts them and gives up one at a time."""

    @pytest.mark.parametrize(
        "rows",
        [
            pytest.param(
                [
                    {"node": ""},
                    {"phase": "Pending"},
                    {"phase": "Unknown", "node": ABSENT},
                    {"phase": "Running"},
                    {"ready_since": 10, "cost": 1},
                    {"ready_since": 10, "cost": 2},
                ],
                id="node, phase, readiness, cost",
            ),
            pytest.param(
                [{"ready_since": 60}, {"ready_since": 600}, {"ready_since": 6000}, {"ready_since": 60000}],
                id="ready for less time",
            ),
            pytest.param([{"restarts": 9}, {"restarts": 2}, {"restarts": 0}], id="more restarts"),
            pytest.param([{"age": 60}, {"age": 600}, {"age": 6000}, {"age": 60000}], id="younger"),
        ],
    )
    async def test_order(self, cluster: Server, work: Work, own_host: str, rows: list[Json]) -> None:
        # What is to go first is written last and named last, so that no other order explains the outcome.
        for number, row in reversed(list(enumerate(rows))):
            await self.craft(cluster, work, f"p-{9 - number}", **{"node": own_host, **row})
        assert await self.given_up(cluster, work, own_host) == [f"p-{9 - number}" for number, _ in enumerate(rows)]

    @pytest.mark.parametrize("times", ["ready_since", "age"])
    async def test_times_in_one_power_of_two_go_by_uid(
        self, cluster: Server, work: Work, own_host: str, times: str
    ) -> None:
        """600 to 900 s lie between 2**39 and 2**40 ns."""
        uids = {}
        for number, since in enumerate((600, 675, 750, 825, 900)):
            row: Json = {times: since}
            uids[f"p-{number}"] = await self.craft(cluster, work, f"p-{number}", node=own_host, **row)
        assert await self.given_up(cluster, work, own_host) == sorted(uids, key=lambda each: uids[each])

    @staticmethod
    async def craft(
        server: Server,
        work: Work,
        name: str,
        *,
        node: str,
        phase: str = "Running",
        ready_since: int | None = None,
        restarts: int = 0,
        cost: int = 0,
        age: int = 0,
    ) -> str:
        """Its uid. `ready_since` and `age` are in seconds before now; None: not ready."""
        gate: Json = {} if node else {"schedulingGates": [{"name": "example.com/wait"}]}
        alone = {"notready": "", "noresize": "", "controller.kubernetes.io/pod-deletion-cost": str(cost)}
        meta = {"labels": {"app": "rs"}, "annotations": alone}
        body = pod(name, meta=meta, nodeName=node, terminationGracePeriodSeconds=0, **gate)
        made = (await work.api.post(core(work.namespace, "pods"), body)).ok(201)
        if node:
            at = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=ready_since or 0)
            condition = {"type": "Ready", "lastTransitionTime": at.strftime("%Y-%m-%dT%H:%M:%SZ")}
            ready_ = "False" if ready_since is None else "True"
            container = {"name": "app", "image": IMAGE, "imageID": IMAGE, "ready": True, "restartCount": restarts}
            status = {
                "phase": phase,
                "conditions": [{**condition, "status": ready_}],
                "containerStatuses": [container],
            }
            (await work.api.patch(core(work.namespace, "pods", name, "status"), {"status": status})).ok()
        if age:
            created = datetime.datetime.fromisoformat(made["metadata"]["creationTimestamp"])
            await asyncio.to_thread(server.backdate, work.namespace, name, int(created.timestamp()), age)
        return str(made["metadata"]["uid"])

    @staticmethod
    async def given_up(server: Server, work: Work, host: str) -> list[str]:
        """The pods in the order in which the set, scaled down by one each time, deletes them."""
        left = {name(each) for each in await work.pods()}
        # It costs most, so it goes last.
        await TestCrafted.craft(server, work, "last", node=host, ready_since=100_000, cost=100)
        await work.known_to_replicasets()
        await work.create("replicasets", replicaset("rs", len(left) + 1))
        ready_ = [each for each in await work.pods() if ready(each)]
        await work.settled(len(left) + 1, holds=owner)
        await work.counted("replicasets", "rs", len(ready_))
        order = []
        while left:
            await work.scale("replicasets", "rs", len(left))
            now = await eventually(work.pods, lambda pods: len(pods) <= len(left))
            (gone,) = left - {name(each) for each in now}
            order.append(gone)
            left.remove(gone)
        return order

"""A namespace of a cluster in which controllers, a scheduler and nodes are at work, in a test's words."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

from tests.contract.api import Api
from tests.contract.things import apps, core, pod, replicaset
from tests.contract.waiting import eventually, gone
from tests.waiting import WITHIN_S

Json = dict[str, Any]


def ready(pod: Json) -> bool:
    conditions = pod["status"].get("conditions", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def owner(thing: Json) -> str:
    """The kind and name of the controller, or nothing."""
    owners = [each for each in thing["metadata"].get("ownerReferences", []) if each.get("controller")]
    return f"{owners[0]['kind']}/{owners[0]['name']}" if owners else ""


def name(thing: Json) -> str:
    return str(thing["metadata"]["name"])


class Work:
    def __init__(self, api: Api, namespace: str) -> None:
        self.api = api
        self.namespace = namespace

    async def pods(self, **query: Any) -> list[Json]:
        return list((await self.api.get(core(self.namespace, "pods"), **query)).ok()["items"])

    async def pod(self, name: str) -> Json | None:
        answer = await self.api.get(core(self.namespace, "pods", name))
        return None if answer.status == 404 else answer.ok()

    async def label(self, pod: str, **labels: str | None) -> None:
        (await self.api.patch(core(self.namespace, "pods", pod), {"metadata": {"labels": labels}})).ok()

    async def create(self, resource: str, body: Json) -> Json:
        return dict((await self.api.post(apps(self.namespace, resource), body)).ok(201))

    async def get(self, resource: str, name: str) -> Json:
        return dict((await self.api.get(apps(self.namespace, resource, name))).ok())

    async def scale(self, resource: str, name: str, replicas: int) -> None:
        (await self.api.patch(apps(self.namespace, resource, name, "scale"), {"spec": {"replicas": replicas}})).ok()

    async def change(self, resource: str, name: str, patch: Json) -> None:
        """Returns when the workload's controller has seen the change: what it does from now on, it does by that."""
        made = (await self.api.patch(apps(self.namespace, resource, name), patch)).ok()
        generation = made["metadata"]["generation"]
        await eventually(
            lambda: self.get(resource, name), lambda made: made["status"].get("observedGeneration", 0) >= generation
        )

    async def known_to_replicasets(self) -> None:
        """Returns when the controller of ReplicaSets has seen all pods as they are now.

        Sets and pods come to it by watches of their own. It deletes a pod that is one too many, and pods come in order.
        """
        witness = f"witness-{uuid.uuid4().hex[:8]}"
        await self.create("replicasets", replicaset(witness, 0))
        gates = [{"name": "example.com/wait"}]
        body = pod(witness, meta={"labels": {"app": witness}}, schedulingGates=gates)
        (await self.api.post(core(self.namespace, "pods"), body)).ok(201)
        await gone(self.api, core(self.namespace, "pods", witness))

    async def known_to_collector(self) -> None:
        """Returns when the garbage collector has seen all pods as now; it deletes one whose owner never was."""
        owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "nobody", "uid": str(uuid.uuid4())}
        gates = [{"name": "example.com/wait"}]
        body = pod("witness", meta={"ownerReferences": [owner]}, schedulingGates=gates)
        (await self.api.post(core(self.namespace, "pods"), body)).ok(201)
        await gone(self.api, core(self.namespace, "pods", "witness"))

    async def known_to_scheduler(self, node: str) -> None:
        """Returns when the scheduler has seen all nodes as they are now, and that this one can be used.

        It places a pod for which it has to know what was written last.
        """
        mark = {"example.com/seen": uuid.uuid4().hex}
        (await self.api.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": mark}})).ok()
        body = pod("witness", nodeSelector=mark, terminationGracePeriodSeconds=0)
        (await self.api.post(core(self.namespace, "pods"), body)).ok(201)
        await eventually(lambda: self.pod("witness"), lambda made: made and made["spec"].get("nodeName"))
        (await self.api.delete(core(self.namespace, "pods", "witness"))).ok()
        await gone(self.api, core(self.namespace, "pods", "witness"))

    async def counted(self, resource: str, name: str, ready: int) -> None:
        """Until the workload's controller has seen so many ready pods: its view is what it acts on."""
        await eventually(lambda: self.get(resource, name), lambda made: made["status"].get("readyReplicas", 0) == ready)

    async def settled(
        self, count: int, *, holds: Callable[[Json], Any] = ready, timeout_s: float = WITHIN_S, **query: Any
    ) -> list[Json]:
        """Exactly `count` pods, all of which hold and none of which is going."""

        def done(pods: list[Json]) -> bool:
            return len(pods) == count and all(
                holds(each) and "deletionTimestamp" not in each["metadata"] for each in pods
            )

        return await eventually(lambda: self.pods(**query), done, timeout_s=timeout_s)

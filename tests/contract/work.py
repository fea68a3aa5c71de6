"""A namespace of a cluster in which controllers, a scheduler and nodes are at work, in a test's words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.contract.api import Api
from tests.contract.things import apps, core
from tests.contract.waiting import eventually
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

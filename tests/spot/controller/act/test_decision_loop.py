"""Pods are moved: what ran before the installation is converted, one by one, and nothing is written on workloads."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.spot.controller.playground import DEPLOYMENTS, Playground, workload

MERGE = "application/merge-patch+json"
HURRIED: dict[str, Any] = {"evictions": {"coolDown": "0s"}}


async def placed(playground: Playground, name: str) -> Counter[str]:
    """Pods by the node that they are on, those without one under an empty name."""
    return Counter(each["spec"].get("nodeName", "") for each in await staying(playground, name))


async def staying(playground: Playground, name: str) -> list[Any]:
    """Its pods without those that end."""
    return [each for each in await playground.pods(name) if "deletionTimestamp" not in each["metadata"]]


async def ready(playground: Playground, name: str, replicas: int) -> bool:
    found = (await playground.call("GET", f"{DEPLOYMENTS}/{name}"))["status"]
    return bool(found.get("readyReplicas", 0) == replicas)


@pytest.mark.rule("spot:B10", "spot:I6", "spot:P30", "spot:S21", "spot:S34")
async def test_what_ran_before_is_converted_one_by_one(playground: Playground, port: int) -> None:
    await playground.call("PATCH", "/api/v1/nodes/on-demand", {"spec": {"unschedulable": True}}, kind=MERGE)
    await playground.call("POST", DEPLOYMENTS, workload("web", 4, "2"))

    async def up() -> bool:
        return await ready(playground, "web", 4)

    await playground.eventually("all run", up)
    assert await placed(playground, "web") == {"spot": 4}
    await playground.call("PATCH", "/api/v1/nodes/on-demand", {"spec": {"unschedulable": None}}, kind=MERGE)
    before = await playground.call("GET", f"{DEPLOYMENTS}/web")
    uids = {each["metadata"]["uid"] for each in await playground.pods("web")}
    async with playground.controller("first", port, **HURRIED) as ours:
        await playground.lead_to(port)
        await playground.answers(ours)

        async def converted() -> bool:
            return (await placed(playground, "web"))["on-demand"] == 2 and await ready(playground, "web", 4)

        await playground.eventually("two are on demand", converted)
        left = {each["metadata"]["uid"] for each in await staying(playground, "web")}
        assert len(uids & left) == 2, "those that fit were not touched"
    after = await playground.call("GET", f"{DEPLOYMENTS}/web")
    assert after["metadata"]["generation"] == before["metadata"]["generation"]
    assert after["metadata"]["annotations"] == before["metadata"]["annotations"]


@pytest.mark.rule("spot:B20", "spot:B22", "spot:D15", "spot:K6")
async def test_on_notice_a_pod_is_released_and_serves_until_its_replacement_does(
    playground: Playground, port: int
) -> None:
    async with playground.controller("first", port, **HURRIED) as ours:
        await playground.lead_to(port)
        await playground.answers(ours)
        await playground.call("POST", DEPLOYMENTS, workload("web", 2))

        async def up() -> bool:
            return await ready(playground, "web", 2) and (await placed(playground, "web")).total() == 2

        await playground.eventually("all run", up)
        node = (await placed(playground, "web")).most_common(1)[0][0]
        taint = {"key": "aws-node-termination-handler/spot-itn", "effect": "NoSchedule"}
        await playground.call("PATCH", f"/api/v1/nodes/{node}", {"spec": {"taints": [taint]}}, kind=MERGE)

        async def moved() -> bool:
            found = await placed(playground, "web")
            return found[node] == 0 and await ready(playground, "web", 2)

        await playground.eventually("nothing is left on the node that ends", moved)
        reasons = {reason for name, reason in playground.events if name == "web"}
        assert {"PodReleased", "PodDeleted"} <= reasons
        assert "PodEvicted" not in reasons

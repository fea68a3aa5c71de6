"""Which spot nodes ended stands on the Lease, and outlives the process that saw it."""

from __future__ import annotations

import pytest

from situate.spot.model.object_names import INTERRUPTIONS_ANNOTATION, NAME
from situate.spot.nodes.interruptions import InterruptionHistory, from_text
from tests.spot.controller.playground import OURS, Playground

LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{OURS}/leases/{NAME}"


async def recorded(playground: Playground) -> InterruptionHistory:
    annotations = (await playground.call("GET", LEASE))["metadata"].get("annotations", {})
    return from_text(annotations.get(INTERRUPTIONS_ANNOTATION, ""))


@pytest.mark.rule("spot:B44", "spot:B24")
async def test_the_next_leader_goes_on_with_what_was_recorded(playground: Playground, port: int) -> None:
    async def since() -> float | None:
        return (await recorded(playground)).since

    async def nodes_ended() -> list[int]:
        return [wave.nodes for wave in (await recorded(playground)).waves]

    async def has_ended(count: int) -> bool:
        return await nodes_ended() == [count]

    labels = {"node.kubernetes.io/capacity": "spot"}
    await playground.call("POST", "/api/v1/nodes", {"metadata": {"name": "more", "labels": labels}})
    async with playground.controller("first", port) as ours:
        await playground.lead_to(port)
        await playground.answers(ours)
        began = await playground.eventually("looking has begun", since)
        await playground.call("DELETE", "/api/v1/nodes/more")
        await playground.eventually("one node has ended", lambda: has_ended(1))
    async with playground.controller("second", port) as ours:
        await playground.eventually("the second answers", lambda: ours.listener.listening)
        await playground.call("DELETE", "/api/v1/nodes/spot")
        await playground.eventually("they are one wave of two nodes", lambda: has_ended(2))
    assert (await recorded(playground)).since == began

"""The picture that moves are decided on: what is room, and what is not."""

from __future__ import annotations

import random
from typing import Any

import pytest

from situate.kube.connect import connect
from situate.kube.login.connection import Connection
from situate.kube.watch.store import Store
from situate.objects.kinds.pods import Pod
from situate.spot.capacity.headroom import BALLOON
from situate.spot.controller.observe.free_capacity import CapacitySource
from situate.spot.controller.observe.informers import Informers
from situate.spot.nodes.known_signals import SIGNALS
from situate.spot.nodes.node_signals import node_facts
from situate.spot.workloads.owners import pod_facts
from tests.spot.builders import NOW, OD
from tests.spot.capacity.test_scheduler_capacity import node, pod


async def rooms_of(*pods: Any) -> tuple[CapacitySource, dict[str, Any], Store[Pod]]:
    """One on-demand node with room for two, and these pods, which stand in the store."""
    client = connect(Connection("http://127.0.0.1:1", "the test"), random.Random(1))
    watched = Informers.create(client, random.Random(1))
    rooms = CapacitySource(watched, client, random.Random(1), SIGNALS)
    here = node("od", "on-demand")
    watched.nodes.store.put(here)
    for each in pods:
        watched.pods.store.put(each)
    await client.close()
    return rooms, {"od": node_facts(here, SIGNALS, NOW)}, watched.pods.store


@pytest.mark.rule("spot:B24")
async def test_pods_that_only_hold_room_are_room() -> None:
    asked = pod("asked", cpu="2", node="elsewhere")
    for labels, free in (({}, False), ({BALLOON: "true"}, True)):
        rooms, nodes, _ = await rooms_of(asked, pod("there", node="od", labels=labels))
        assert rooms.capacity_for_decision(nodes).fits(pod_facts(asked), OD) is free


@pytest.mark.rule("spot:B38", "spot:P35")
async def test_pods_take_their_room_in_steps_or_at_the_first_question_as_they_are_by_then() -> None:
    asked = pod("asked", cpu="2", node="elsewhere")
    there = [pod(f"there-{number}", node="od") for number in range(3)]
    rooms, nodes, _ = await rooms_of(asked, *there)
    assert sum(1 for _ in rooms.add_pods_in_steps()) == 4
    assert sum(1 for _ in rooms.add_pods_in_steps()) == 0, "until something changes"
    assert not rooms.capacity_for_decision(nodes).fits(pod_facts(asked), OD)

    rooms, nodes, store = await rooms_of(asked, *there)
    steps = rooms.add_pods_in_steps()
    next(steps)
    for each in there:
        store.remove(each.metadata.name, each.metadata.namespace)
    assert sum(1 for _ in steps) == 0, "who has gone meanwhile takes nothing"
    assert rooms.capacity_for_decision(nodes).fits(pod_facts(asked), OD)
    again = rooms.capacity_for_decision(nodes)
    store.put(there[0])
    assert not again.fits(pod_facts(asked), OD), "as of the first question"


@pytest.mark.rule("spot:B31")
async def test_a_plan_begins_with_those_that_wait_in_their_places() -> None:
    asked = pod("asked", cpu="2", node="elsewhere")
    rooms, nodes, _ = await rooms_of(asked, pod("waits"))
    assert not rooms.capacity_for_decision(nodes).unclaimed_capacity().fits(pod_facts(asked), OD)

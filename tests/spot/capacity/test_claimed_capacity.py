"""No place is found twice in one decision."""

from __future__ import annotations

import pytest

from situate.spot.capacity.claimed_capacity import ClaimedCapacity
from situate.spot.nodes.known_signals import SIGNALS
from situate.spot.nodes.node_signals import node_facts
from situate.spot.workloads.owners import pod_facts
from tests.spot.builders import NOW, OD, SPOT
from tests.spot.capacity.test_scheduler_capacity import node, pod, room

NODES = [node("od", "on-demand"), node("spot", "spot", cpu="4")]
FACTS = {each.metadata.name: node_facts(each, SIGNALS, NOW) for each in NODES}
A, B, C, D = (pod(name, node="spot") for name in "abcd")


@pytest.mark.rule("spot:D17", "spot:B18", "spot:B26")
def test_a_place_that_was_found_for_one_pod_is_not_found_for_another() -> None:
    asked = ClaimedCapacity(lambda: room(NODES, [A, B, C]), FACTS)
    a, b, c = map(pod_facts, (A, B, C))
    assert asked.fits(a, OD)
    assert asked.fits(b, OD)
    assert not asked.fits(c, OD), "both places are taken"
    assert asked.fits(a, OD), "its own place stays its own"
    assert not asked.fits(a, SPOT, pools={"elsewhere"})
    assert asked.fits(c, OD, without=a) is False, "that would free a place on spot"


@pytest.mark.rule("spot:B26")
def test_a_pod_may_claim_a_place_anywhere_and_then_one_in_a_calm_pool() -> None:
    pools = [node("spot-1", "spot"), node("spot-2", "spot")]
    facts = {each.metadata.name: node_facts(each, SIGNALS, NOW) for each in pools}
    held = pod("held", node="spot-1")
    asked = ClaimedCapacity(lambda: room(pools, [held]), facts)
    assert asked.fits(pod_facts(held), SPOT)
    assert asked.fits(pod_facts(held), SPOT, pools={facts["spot-2"].pool})
    assert asked.fits(pod_facts(held), SPOT, pools={facts["spot-2"].pool})


@pytest.mark.rule("spot:B18", "spot:B19")
def test_pods_that_wait_already_come_first() -> None:
    waiting = [pod("w1"), pod("w2")]
    on_demand = [pod_facts(each) for each in waiting]
    asked = ClaimedCapacity(lambda: room(NODES, [A, *waiting]), FACTS, lambda: on_demand)
    assert asked.fits(pod_facts(A), OD), "pods without a class go to spot first"
    full = ClaimedCapacity(lambda: room(NODES, [A, B, C, D, *waiting]), FACTS, lambda: on_demand)
    assert not full.fits(pod_facts(A), OD)
    assert full.fits(on_demand[0], OD), "its place is kept"


@pytest.mark.rule("spot:B6", "spot:B18")
def test_pods_that_wait_are_placed_in_steps_before_the_first_question() -> None:
    waiting = [pod(f"w{number}") for number in range(3)]
    asked = ClaimedCapacity(lambda: room(NODES, [A, *waiting]), FACTS, lambda: map(pod_facts, waiting))
    next(asked.prepare_in_steps())
    assert sum(1 for _ in asked.prepare_in_steps()) == 2, "those that are left"
    assert asked.fits(pod_facts(waiting[2]), SPOT), "its place is kept"
    assert sum(1 for _ in asked.prepare_in_steps()) == 0


def test_thinking_a_pod_away_claims_nothing() -> None:
    small = [node("od", "on-demand", cpu="1"), node("spot", "spot", cpu="4")]
    held = pod("held", node="od")
    asked = ClaimedCapacity(
        lambda: room(small, [held, A, B]), {each.metadata.name: node_facts(each, SIGNALS, NOW) for each in small}
    )
    assert asked.fits(pod_facts(A), OD, without=pod_facts(held))
    assert asked.fits(pod_facts(B), OD, without=pod_facts(held))
    assert not asked.fits(pod_facts(A), OD)

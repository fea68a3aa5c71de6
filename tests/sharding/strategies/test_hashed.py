"""Strategies that ask a hash: the ring's owners, and what a change of members moves."""

from __future__ import annotations

import pytest

from situate.sharding.partitions.hash_ring import HashRing, Rendezvous, ring_key
from situate.sharding.strategies import ObjectFacts, RendezvousHash, Ring
from tests.sharding.strategies.telling import UNHEALTHY, healthy

OBJECTS = [ObjectFacts(f"uid-{number}", "default", f"job-{number}") for number in range(60)]


@pytest.mark.parametrize("separator", [False, True])
@pytest.mark.rule("sharding:K13")
def test_the_ring_names_the_owner_of_group_kind_namespace_and_name(separator: bool) -> None:
    strategy = Ring("example.com", "Job", separator=separator)
    healthy(strategy, "executor-11", "executor-1", "executor-2")
    strategy.observe_executor("executor-3", UNHEALTHY)
    ring = HashRing(["executor-1", "executor-2", "executor-11"], separator=separator)
    for obj in OBJECTS:
        assert strategy.choose_executor(obj) == ring.owner(ring_key("example.com", "Job", "default", obj.name))


def test_rendezvous_goes_by_uid_and_a_restricted_choice_by_the_next_owner() -> None:
    strategy = RendezvousHash()
    healthy(strategy, "a", "b", "c")
    owners = Rendezvous(["a", "b", "c"])
    for obj in OBJECTS:
        first, second, _ = owners.owners(obj.uid)
        assert strategy.choose_executor(obj) == first
        assert strategy.choose_among(obj, {"a", "b", "c"} - {first}) == second


def test_who_leaves_and_comes_back_has_its_objects_again() -> None:
    strategy = RendezvousHash()
    healthy(strategy, "a", "b", "c")
    before = [strategy.choose_executor(obj) for obj in OBJECTS]
    strategy.observe_executor("b", None)
    without = [strategy.choose_executor(obj) for obj in OBJECTS]
    assert all(was == now for was, now in zip(before, without, strict=True) if was != "b")
    healthy(strategy, "b")
    assert [strategy.choose_executor(obj) for obj in OBJECTS] == before

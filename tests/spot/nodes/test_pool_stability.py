"""Whether spot can be trusted again (B26, B27)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from situate.spot.model.pods_nodes_workloads import NodeFacts, NodeState
from situate.spot.model.policy_limits import Limits
from situate.spot.nodes.interruptions import InterruptionHistory, Return, Wave, from_text, observe_nodes, to_text
from situate.spot.nodes.pool_stability import Pools, calm_pools, observe_pools, restore_pools, seconds_until_calm
from tests.spot.builders import NOW, OD, SPOT

LIMITS = Limits()


def node(name: str, age: float = 3600, now: float = NOW, **more: object) -> NodeFacts:
    return replace(NodeFacts(name, SPOT, pool="m5/a", created=now - age), **more)  # type: ignore[arg-type]  # by name


def look(pools: Pools, now: float, *nodes: NodeFacts) -> Pools:
    return observe_pools(pools, {each.name: each for each in nodes}, now, LIMITS)


def calm(pools: Pools, now: float, *nodes: NodeFacts) -> bool:
    return "m5/a" in calm_pools(pools, {each.name: each for each in nodes}, now, LIMITS)


@pytest.mark.rule("spot:B26")
def test_a_pool_is_calm_with_a_node_of_some_age_and_no_interruption_for_a_while() -> None:
    fresh = look(Pools(), NOW, node("a"))
    assert calm(fresh, NOW, node("a"))
    assert not calm(fresh, NOW, node("a", age=599))
    assert calm(fresh, NOW, node("a", age=600))
    assert not calm(fresh, NOW, node("a", state=NodeState.CORDONED)), "no new pods there"
    assert not calm(fresh, NOW, NodeFacts("od", OD, pool="m5/a"))
    gone = look(look(Pools(), NOW, node("a"), node("b")), NOW + 10, node("a"))
    assert not calm(gone, NOW + 10 + 1799, node("a"))
    assert calm(gone, NOW + 10 + 1800, node("a"))
    assert seconds_until_calm(gone, NOW + 10, LIMITS) == 1800
    assert seconds_until_calm(fresh, NOW, LIMITS) is None


@pytest.mark.rule("spot:B26", "spot:F10")
def test_a_notice_interrupts_and_the_first_look_does_not() -> None:
    doomed = node("b", state=NodeState.DOOMED)
    assert calm(look(Pools(), NOW, node("a"), doomed), NOW, node("a"))
    noticed = look(look(Pools(), NOW, node("a"), node("b")), NOW, node("a"), doomed)
    assert not calm(noticed, NOW, node("a"))


@pytest.mark.rule("spot:B27")
def test_two_flaps_put_a_pool_at_risk_for_hours() -> None:
    pools, now = look(Pools(), NOW, node("keeper"), node("n0")), NOW
    for number in range(1, 3):
        now += 180
        pools = look(pools, now, node("keeper"))
        now += 180
        pools = look(pools, now, node("keeper"), node(f"n{number}", 0, now))
    assert pools.memories["m5/a"].distrusted_until == now + 7200
    assert not calm(pools, now + 7199, node("keeper"))
    assert calm(pools, now + 7200, node("keeper"))
    slow = look(look(Pools(), NOW, node("keeper"), node("a")), NOW + 10, node("keeper"))
    slow = look(slow, NOW + 10 + 900, node("keeper"), node("b"))
    assert slow.memories["m5/a"].flaps == (), "a node that takes its time is no flap"


@pytest.mark.rule("spot:B26", "spot:B27")
def test_one_wave_is_one_flap_however_many_nodes_come_back_after_it() -> None:
    pools = look(look(Pools(), NOW, node("a"), node("b"), node("c")), NOW + 10)
    back = look(look(pools, NOW + 100, node("d")), NOW + 130, node("d"), node("e"), node("f"))
    assert back.memories["m5/a"].flaps == (NOW + 100,)
    assert not calm(back, NOW + 10 + 1799, node("d"))
    assert calm(back, NOW + 10 + 1800, node("d"))


@pytest.mark.rule("spot:B26", "spot:B27", "spot:P22")
def test_a_new_leader_finds_the_calm_that_the_one_before_knew() -> None:
    steps = [
        ("keeper", "n0"),
        ("keeper",),
        ("keeper", "n1"),
        ("keeper",),
        ("keeper", "n2"),
        ("n2",),
        ("n2", "other"),
    ]
    pools, history, now = Pools(), InterruptionHistory(), NOW
    for names in steps:
        there = {name: node(name, 0 if name != "keeper" else now - NOW + 3600, now) for name in names}
        pools, history = observe_pools(pools, there, now, LIMITS), observe_nodes(history, there, now)
        again = restore_pools(from_text(to_text(history)), there, LIMITS)
        assert again.memories == pools.memories, names
        assert again.usable is None
        now += 180


@pytest.mark.rule("spot:B26", "spot:B27")
def test_what_nobody_recorded_is_known_by_the_age_of_nodes() -> None:
    history = InterruptionHistory(NOW - 9000, (Wave(NOW - 1000, NOW - 1000, 1, 2, {"m5/a": 1}),))
    fresh = {"a": node("a", age=400)}
    assert restore_pools(history, fresh, LIMITS).memories["m5/a"].flaps == (NOW - 400,)
    told = replace(history, returns=(Return(NOW - 390, "a", "m5/a"),))
    assert restore_pools(told, fresh, LIMITS).memories["m5/a"].flaps == (NOW - 390,), "once"
    assert restore_pools(history, {"a": node("a", age=50)}, LIMITS).memories["m5/a"].flaps == (), "not too soon"
    assert restore_pools(InterruptionHistory(), fresh, LIMITS).memories == {}
    many = InterruptionHistory(NOW - 9000, (Wave(NOW - 1000, NOW - 900, 9, 9, {"x": 8}),))
    assert restore_pools(many, fresh, LIMITS).memories["m5/a"].interrupted_at == NOW - 900, (
        "of more pools than were noted"
    )

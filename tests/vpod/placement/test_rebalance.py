from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from situate.testing.vpod.builders import amounts, make_placements, state, vpod, with_placements
from situate.vpod.model.options import PolicyName, RebalanceOptions, Topology
from situate.vpod.model.records import DrainGoal
from situate.vpod.model.vpod import Key
from situate.vpod.placement.decide import MoveCause, commit
from situate.vpod.placement.rebalance import is_due, moves_allowed, rebalance_candidates, rebalance_vpod
from situate.vpod.policy.registry import Policy, Predicate
from situate.vpod.state.state import State

MANY = RebalanceOptions(enabled=True, max_moves_per_vpod=1000, max_moves=1000)
B = Key("a", "b")


def settle(on: State, key: Key, pods: int, allowed: int = 1000) -> tuple[list[int], int]:
    """Rounds of rebalancing one vpod until it is even: where it lies then, and the moves."""
    moves = 0
    while (decision := rebalance_vpod(on, key, 0.0, allowed)) is not None:
        commit(on, decision)
        on.observe_vpod(with_placements(on.vpods[key].as_vpod(), decision.placements), 0.0)
        moves += decision.moves[MoveCause.REBALANCE]
    return amounts(on.vpods[key].placements, pods), moves


@pytest.mark.rule("vpod:B7")
@given(st.lists(st.integers(0, 9), min_size=1, max_size=7))
def test_the_fewest_moves_to_even(held: list[int]) -> None:
    kept = state(len(held), 100, [vpod("a/b", sum(held), make_placements(*held))], rebalance=MANY)
    if sum(held) == 0:
        assert rebalance_candidates(kept) == []
        return
    floor, larger = divmod(sum(held), len(held))
    by_size = sorted(range(len(held)), key=lambda o: (-held[o], o))
    level = {ordinal: floor + (place < larger) for place, ordinal in enumerate(by_size)}
    fewest = sum(max(0, held[o] - level[o]) for o in range(len(held))) if max(held) - min(held) >= 2 else 0
    after, moves = settle(kept, B, len(held))
    assert max(after) - min(after) <= 1
    assert moves == fewest


@pytest.mark.rule("vpod:B7")
def test_pods_without_room_do_not_count() -> None:
    others = vpod("a/others", 9, make_placements(0, 4, 5))
    kept = state(3, 5, [vpod("a/b", 5, make_placements(5)), others], rebalance=MANY)
    assert settle(kept, B, 3) == ([4, 1, 0], 1)


@pytest.mark.rule("vpod:B7")
def test_never_more_moves_than_allowed() -> None:
    options = RebalanceOptions(enabled=True, max_moves_per_vpod=2)
    kept = state(3, 100, [vpod("a/b", 90, make_placements(90))], rebalance=options)
    assert moves_allowed(kept) == 4
    decision = rebalance_vpod(kept, B, 0.0, 4)
    assert decision is not None
    assert decision.moves == {MoveCause.REBALANCE: 2}
    assert decision.placements == make_placements(88, 1, 1)
    one = rebalance_vpod(kept, B, 0.0, 1)
    assert one is not None
    assert one.placements == make_placements(89, 1)


@pytest.mark.rule("vpod:B7")
def test_when_it_may_begin() -> None:
    kept = state(2, 10, rebalance=RebalanceOptions(enabled=True, interval=300.0))
    assert is_due(kept, None, 0.0, rollout=False)
    assert not is_due(kept, 0.0, 299.0, rollout=False)
    assert is_due(kept, 0.0, 300.0, rollout=False)
    assert not is_due(kept, None, 0.0, rollout=True)
    kept.set_drain(DrainGoal(1, 0.0))
    assert not is_due(kept, None, 0.0, rollout=False)
    assert not is_due(state(2, 10), None, 0.0, rollout=False), "it is opt-in"


@pytest.mark.rule("vpod:B7")
def test_only_what_is_settled_is_moved() -> None:
    written = vpod("a/written", 4, make_placements(4))
    short = vpod("a/short", 9, make_placements(4))
    behind = vpod("a/behind", 2, make_placements(2))
    kept = state(3, 10, [written, short, behind], rebalance=MANY)
    kept.reserve(Key("a", "behind"), {0: 1, 1: 1})
    assert rebalance_candidates(kept) == [written.key]


@pytest.mark.rule("vpod:B7", "vpod:B8")
def test_zones_are_evened_out_before_pods() -> None:
    kept = state(
        3, 20, [vpod("a/b", 8, make_placements(6, 1, 1))], zones=["x", "y", "y"], rebalance=MANY, topology=Topology.ZONE
    )
    assert settle(kept, B, 3) == ([4, 2, 2], 2)


@pytest.mark.rule("vpod:B7")
@pytest.mark.parametrize(
    ("predicate", "held", "want"),
    [
        pytest.param(Predicate("NoMaxResourceCount", '{"NumPartitions": 2}'), (5, 1), [3, 3, 0], id="not a third pod"),
        pytest.param(Predicate("NoMaxResourceCount", '{"NumPartitions": 1}'), (6,), [6, 0, 0], id="nor a second one"),
        pytest.param(Predicate("NoMaxResourceCount", '{"NumPartitions": 3}'), (6,), [2, 2, 2], id="all it may"),
        pytest.param(Predicate("EvenPodSpread", '{"MaxSkew": 1}'), (3, 1, 1), [2, 2, 1], id="even once it has moved"),
    ],
)
def test_no_pod_takes_what_the_predicates_refuse_it(
    predicate: Predicate, held: tuple[int, ...], want: list[int]
) -> None:
    kept = state(
        3,
        10,
        [vpod("a/b", sum(held), make_placements(*held))],
        rebalance=MANY,
        policy=PolicyName.POLICY,
        placing=Policy((predicate,), ()),
    )
    after, _ = settle(kept, B, 3)
    assert after == want


@pytest.mark.rule("vpod:S4")
def test_a_vpod_that_a_pod_gives_up_is_scheduled_first() -> None:
    kept = state(3, 10, [vpod("a/b", 7, make_placements(5, 2))], rebalance=MANY)
    kept.remove_pod("set-0", 0.0)
    assert (
        rebalance_vpod(kept, B, 0.0, 4) is not None
    )  # missing for a moment: what is there is held, the rest evened out

    assert rebalance_vpod(kept, B, kept.options.pod_grace, 4) is None

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from situate.testing.vpod.builders import make_placements, pod, schedule, state, vpod
from situate.vpod.model.options import Fairness
from situate.vpod.model.vpod import Key, total_vreplicas
from situate.vpod.scaling.demand import demand_by_weight
from situate.vpod.state.fairness_limits import Rule, fair_shares


@pytest.mark.rule("vpod:B11")
def test_a_namespace_over_its_quota_is_told_so_and_is_no_demand() -> None:
    kept = state(4, 10, namespace_max_share=0.5, max_replicas=4)
    kept.observe_vpod(vpod("a/b", 30), 0.0)
    decision = schedule(kept, vpod("a/b", 30))
    assert (total_vreplicas(decision.placements), decision.left) == (20, 10)
    assert decision.shortage is not None
    assert (decision.shortage.reason, decision.notices) == ("QuotaExceeded", ())
    assert "QuotaExceeded: namespace a may take 20 units" in str(decision.shortage)
    assert demand_by_weight(kept) == {1: 20}
    assert schedule(kept, vpod("other/b", 20)).left == 0


@pytest.mark.rule("vpod:B11")
def test_under_shortage_namespaces_get_equal_shares_up_to_their_wants() -> None:
    kept = state(2, 10, fairness=Fairness.MAXMIN, max_replicas=2)
    for name, wanted in (("greedy/a", 30), ("modest/a", 3), ("other/a", 12)):
        kept.observe_vpod(vpod(name, wanted), 0.0)
    assert fair_shares(kept) == {"modest": 3, "greedy": 9, "other": 8}
    first = schedule(kept, vpod("greedy/a", 30))
    assert total_vreplicas(first.placements) == 9
    assert first.shortage is not None
    assert first.shortage.limit is not None
    assert first.shortage.limit.rule is Rule.FAIRNESS
    assert total_vreplicas(schedule(kept, vpod("other/a", 12)).placements) == 8
    assert schedule(kept, vpod("modest/a", 3)).left == 0


@pytest.mark.rule("vpod:B11")
def test_without_fairness_who_comes_first_is_served_first() -> None:
    kept = state(2, 10)
    kept.observe_vpod(vpod("modest/a", 3), 0.0)
    assert total_vreplicas(schedule(kept, vpod("greedy/a", 30)).placements) == 20


@given(st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 30), min_size=1), st.integers(0, 4), st.integers(1, 9))
@pytest.mark.rule("vpod:B11")
def test_shares_are_max_min(wants: dict[str, int], pods: int, capacity: int) -> None:
    vpods = [vpod(f"{namespace}/v", wanted) for namespace, wanted in wants.items()]
    kept = state(pods, capacity, vpods, fairness=Fairness.MAXMIN)
    shares = fair_shares(kept)
    room = pods * capacity
    if sum(wants.values()) <= room:
        assert shares == {}
        return
    asking = {namespace: wanted for namespace, wanted in wants.items() if wanted}
    assert sum(shares.values()) == room
    assert all(shares[namespace] <= wanted for namespace, wanted in asking.items())
    cut = [shares[namespace] for namespace, wanted in asking.items() if shares[namespace] < wanted]
    # nobody who got less than it wants could be given more without taking from one who has no more than it
    assert all(share <= min(cut) + 1 for share in shares.values())


def test_higher_priority_comes_first_and_takes_nothing_away() -> None:
    kept = state(1, 4)
    low = schedule(kept, vpod("a/low", 3))
    kept.observe_vpod(vpod("a/high", 4, priority=1), 0.0)
    more = schedule(kept, vpod("a/low", 5, low.placements))
    assert (more.placements, more.left) == (make_placements(3), 2)
    assert more.shortage is not None
    assert more.shortage.limit is not None
    assert more.shortage.limit.rule is Rule.PRIORITY
    high = schedule(kept, vpod("a/high", 4, priority=1))
    assert (high.placements, high.left) == (make_placements(1), 3)
    kept.observe_replicas(2, 1.0, ours=True)
    kept.observe_pod(pod(1), 1.0)
    assert schedule(kept, vpod("a/low", 5, low.placements), 2.0).placements == make_placements(3, 1)
    assert schedule(kept, vpod("a/high", 4, high.placements, priority=1), 2.0).placements == make_placements(1, 3)


def test_who_is_held_back_by_a_rule_does_not_hold_back_others() -> None:
    kept = state(2, 10, namespace_max_share=0.5, max_replicas=2)
    kept.observe_vpod(vpod("a/high", 15, priority=9), 0.0)
    assert schedule(kept, vpod("b/low", 10)).left == 5, "room for the other is kept while it may come"
    assert total_vreplicas(schedule(kept, vpod("a/high", 15, priority=9)).placements) == 10
    assert schedule(kept, kept.vpods[Key("b", "low")].as_vpod()).left == 0

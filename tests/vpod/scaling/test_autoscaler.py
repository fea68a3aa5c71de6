from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from situate.testing.vpod.builders import make_placements, options, pod, schedule, state, vpod, with_placements
from situate.vpod.explain import autoscaler_intention
from situate.vpod.model.options import DrainOptions, Profile, ReferenceVersion
from situate.vpod.model.records import DrainGoal
from situate.vpod.model.vpod import Key, PlainVPod, total_vreplicas
from situate.vpod.placement.decide import commit
from situate.vpod.scaling.autoscaler import (
    LEADER_NAME,
    LEADER_NAMESPACE,
    AutoscalerMemory,
    RoundDecision,
    apply_drain,
    decide_round,
)
from situate.vpod.scaling.demand import bins_needed, pods_needed
from situate.vpod.scaling.drain import schedule_during_drain
from situate.vpod.state.state import State

AT_ONCE: dict[str, Any] = {"scale_down_stabilization": 0.0, "drain": DrainOptions(settle=0.0)}


@dataclass
class Loop:
    """Beats every 100 s on a set whose pods follow the scale; every vpod is scheduled after each beat."""

    state: State
    vpods: dict[Key, PlainVPod]
    memory: AutoscalerMemory = field(default_factory=AutoscalerMemory)
    now: float = 0.0
    pods_come: bool = True
    writes: list[tuple[float, int]] = field(default_factory=list)

    def beat(self, may_shrink: bool = True) -> RoundDecision:
        self.now += 100.0
        decided = decide_round(self.state, self.memory, self.now, may_shrink)
        self.memory = apply_drain(self.state, decided)
        if decided.replicas != self.state.replicas:
            self.scale(decided.replicas)
        self.schedule_all()
        return decided

    def scale(self, replicas: int) -> None:
        before = self.state.replicas
        if replicas < before:
            assert not self.state.is_used_from(replicas), "S8"
        self.writes.append((self.now, replicas))
        self.state.observe_replicas(replicas, self.now, ours=True)
        for ordinal in range(replicas, before):
            self.state.remove_pod(f"set-{ordinal}", self.now)
        for ordinal in range(before, replicas):
            self.state.observe_pod(pod(ordinal, **({} if self.pods_come else {"node": ""})), self.now)

    def schedule_all(self) -> None:
        for key, subject in self.vpods.items():
            decision = schedule_during_drain(self.state, subject, self.now)
            commit(self.state, decision)
            self.vpods[key] = with_placements(subject, decision.placements)
            self.state.observe_vpod(self.vpods[key], self.now)

    def want(self, name: str, vreplicas: int) -> None:
        key = Key.parse(name)
        held = self.vpods[key].placements if key in self.vpods else ()
        self.vpods[key] = vpod(name, vreplicas, held)
        self.state.observe_vpod(self.vpods[key], self.now)

    def short(self) -> int:
        return sum(max(0, e.wanted - e.reserved_total) for e in self.state.vpods.values())


def loop(pods: int, capacity: int, **changes: object) -> Loop:
    return Loop(state(pods, capacity, **changes), {})  # type: ignore[arg-type]  # options of every type


def test_the_leaders_key_never_changes() -> None:
    assert (LEADER_NAMESPACE, LEADER_NAME) == ("knative-eventing", "autoscaler-ephemeral")


@pytest.mark.rule("vpod:V8", "vpod:V18")
def test_pending_vreplicas_bring_as_many_pods_as_they_need() -> None:
    running = loop(1, 10)
    running.want("a/b", 45)
    assert running.beat(may_shrink=False).replicas == 5
    assert running.short() == 0


@pytest.mark.rule("vpod:D5")
def test_pods_that_run_and_reject_are_made_up_for() -> None:
    running = loop(2, 10)
    running.state.observe_pod(pod(0, annotation="true"), 0.0)
    running.want("a/b", 15)
    assert running.beat(may_shrink=False).replicas == 3
    assert running.short() == 0


@pytest.mark.rule("vpod:V22", "vpod:B6")
def test_pods_that_wait_for_room_in_the_cluster_are_not_multiplied() -> None:
    running = loop(1, 10)
    running.pods_come = False
    running.want("a/b", 45)
    replicas = {running.beat().replicas for _ in range(40)}  # more than an hour
    assert replicas == {5}


@pytest.mark.rule("vpod:D6")
def test_targets_that_min_replicas_raises_are_demand() -> None:
    running = loop(0, 4, min_replicas=3)
    for number in range(10):
        running.want(f"a/{number}", 1)
    for _ in range(3):
        running.beat()
    assert running.state.replicas == 8
    assert all(total_vreplicas(subject.placements) == 3 for subject in running.vpods.values())


@pytest.mark.parametrize(
    ("changes", "want"),
    [
        pytest.param({"max_replicas": 4}, 4, id="maxReplicas"),
        pytest.param({"max_scale_up_step": 2}, 3, id="maxScaleUpStep"),
        pytest.param({"min_replicas": 20}, 20, id="minReplicas"),
    ],
)
def test_limits_of_replicas(changes: dict[str, object], want: int) -> None:
    running = loop(1, 10, **changes)
    running.want("a/b", 95)
    assert running.beat().replicas == want


@pytest.mark.rule("vpod:V9", "vpod:V19", "vpod:L4")
def test_unused_pods_go_after_the_stabilization() -> None:
    running = loop(5, 10)
    running.want("a/b", 45)
    running.beat()
    running.want("a/b", 5)
    lowered = running.now
    while running.state.replicas > 1 and running.now < 2000:
        running.beat()
    assert running.state.replicas == 1
    assert running.now - lowered <= 300 + 10 + 2 * 100


@pytest.mark.rule("vpod:B6", "vpod:L4")
def test_a_new_leader_watches_for_the_whole_stabilization_before_it_shrinks() -> None:
    kept = state(5, 10, [vpod("a/b", 5, make_placements(5))])
    memory = apply_drain(kept, decide_round(kept, AutoscalerMemory(), 0.0, True))
    watching = decide_round(kept, memory, 299.0, True)
    assert (watching.replicas, watching.drain) == (5, None)
    assert decide_round(kept, apply_drain(kept, watching), 300.0, True).replicas == 1


@pytest.mark.rule("vpod:B6")
def test_a_dip_does_not_even_begin_a_drain() -> None:
    kept = state(2, 10, [vpod("a/b", 20, make_placements(10, 10))])
    memory = apply_drain(kept, decide_round(kept, AutoscalerMemory(), 0.0, True))
    memory = apply_drain(kept, decide_round(kept, memory, 1000.0, True))
    kept.observe_vpod(vpod("a/b", 8, make_placements(8)), 1100.0)
    dip = decide_round(kept, memory, 1200.0, True)
    assert (dip.needed, dip.replicas, dip.drain) == (1, 2, None)


@pytest.mark.rule("vpod:D19")
def test_triggers_do_not_postpone_the_shrinking() -> None:
    running = loop(5, 10)
    running.want("a/b", 5)
    first = decide_round(running.state, running.memory, 0.0, False)
    memory = apply_drain(running.state, first)
    assert first.wake_at == 300.0
    for second in range(1, 300):
        memory = apply_drain(running.state, decide_round(running.state, memory, float(second), False))
    assert decide_round(running.state, memory, 300.0, True).replicas == 1


@pytest.mark.rule("vpod:B6")
def test_demand_that_swings_every_beat_changes_the_scale_once() -> None:
    running = loop(1, 10)
    for number in range(60):
        running.want("a/b", 100 if number % 2 else 90)
        running.beat()
    times = [at for at, _ in running.writes]
    assert all(later - earlier >= 300 for earlier, later in pairwise(times[1:]))
    assert running.state.replicas == 10


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.integers(0, 25), st.sampled_from([1, 1, 1, 2, 5, 7])), min_size=1, max_size=6),
    st.integers(0, 5),
    st.integers(0, 4),
)
@example([(13, 1), (13, 1), (1, 7), (1, 7)], 0, 3)
@pytest.mark.rule("vpod:B5", "vpod:D6")
def test_constant_demand_is_satisfied_by_the_third_beat_and_then_nothing_is_written(
    wants: list[tuple[int, int]], pods: int, least: int
) -> None:
    running = loop(pods, 10, min_replicas=least)
    for number, (wanted, weight) in enumerate(wants):
        subject = vpod(f"a/{number}", wanted, weight=weight)
        running.vpods[subject.key] = subject
        running.state.observe_vpod(subject, 0.0)
    running.schedule_all()
    for _ in range(3):
        running.beat()
    assert running.short() == 0
    grown = [replicas for _, replicas in running.writes]
    for _ in range(12):
        running.beat()
    settled = dict(running.vpods)
    later = [replicas for _, replicas in running.writes[len(grown) :]]
    assert all(replicas < max([*grown, pods]) for replicas in later), "a scale-up after the third beat"
    running.beat()
    assert running.vpods == settled
    assert running.short() == 0


@given(st.lists(st.tuples(st.integers(1, 10), st.integers(0, 12)), max_size=5), st.integers(10, 20))
@pytest.mark.rule("vpod:B10")
def test_weighted_pods_stay_near_the_optimum(items: list[tuple[int, int]], capacity: int) -> None:
    kept = state(0, capacity)
    for number, (weight, wanted) in enumerate(items):
        kept.observe_vpod(vpod(f"a/{number}", wanted, weight=weight), 0.0)
    units = sum(weight * wanted for weight, wanted in items)
    least = -(-units // capacity)
    heavy = sum(wanted for weight, wanted in items if 2 * weight > capacity)  # no two of these share a pod
    assert max(least, heavy) <= pods_needed(kept)
    # the optimum is not known here; a packing by first fit never leaves two pods less than half full
    assert pods_needed(kept) <= 2 * max(least, 1)


@pytest.mark.parametrize(
    ("wanted", "want"),
    [
        pytest.param({}, 0, id="nothing"),
        pytest.param({1: 21}, 3, id="single units"),
        pytest.param({6: 3, 4: 3}, 3, id="pairs that fit exactly"),
        pytest.param({6: 2, 5: 2}, 3, id="first fit decreasing"),
        pytest.param({7: 1, 3: 1, 2: 5}, 2, id="small ones fill the gaps"),
        pytest.param({3: 10**12, 1: 10**12}, 4 * 10**11, id="any number in a few steps"),
    ],
)
def test_first_fit_decreasing(wanted: dict[int, int], want: int) -> None:
    assert bins_needed(Counter(wanted), 10) == want


def test_a_weight_above_the_capacity_is_no_demand() -> None:
    kept = state(1, 10, [vpod("a/b", 5, weight=11), vpod("a/c", 5)])
    assert pods_needed(kept) == 1


@pytest.mark.rule("vpod:V9")
def test_the_reference_scales_to_zero_and_evicts_what_is_left_above() -> None:
    kept = state(0, 10, [vpod("a/b", 0, make_placements(0, 3))], profile=Profile.REFERENCE)
    decided = decide_round(kept, AutoscalerMemory(), 0.0, True)
    assert decided.replicas == 0
    assert [(e.key.name, e.placement.pod_name) for e in decided.evictions] == [("b", "set-1")]
    later = decide_round(kept, decided.memory, 50.0, True)
    assert later.evictions == (), "the refresh period has not passed"


@pytest.mark.rule("vpod:V15", "vpod:V37")
def test_the_older_reference_compacts_the_last_ordinal() -> None:
    given_vpods = [vpod("a/b", 12, make_placements(6, 4, 2))]
    kept = state(3, 10, given_vpods, profile=Profile.REFERENCE, version=ReferenceVersion.V0_43_1, min_replicas=3)
    assert [e.ordinal for e in decide_round(kept, AutoscalerMemory(), 0.0, True).evictions] == [2]


@pytest.mark.rule("vpod:B10")
def test_a_heavy_vreplica_that_fits_nowhere_beside_the_others_gets_a_pod() -> None:
    running = loop(2, 10)
    running.want("a/light", 10)
    running.schedule_all()
    heavy = vpod("a/heavy", 1, weight=7)
    running.vpods[heavy.key] = heavy
    running.state.observe_vpod(heavy, 0.0)
    running.schedule_all()
    assert running.short() == 1
    running.beat()
    assert running.short() == 0
    for _ in range(10):
        running.beat()
    assert running.short() == 0, "shrinking took its pod away again"


@pytest.mark.rule("vpod:B15")
def test_options_change_while_running() -> None:
    running = loop(2, 10)
    running.want("a/b", 20)
    running.beat()
    running.state.reconfigure(options(5), running.now)
    running.beat()
    assert running.state.replicas == 4
    assert running.short() == 0
    assert max(p.vreplicas for p in running.vpods[Key("a", "b")].placements) == 5


@pytest.mark.rule("vpod:V9")
def test_without_a_drain_the_scale_goes_first() -> None:
    kept = state(3, 10, [vpod("a/b", 6, make_placements(2, 2, 2))], **{**AT_ONCE, "drain": DrainOptions(enabled=False)})
    decided = decide_round(kept, AutoscalerMemory(), 0.0, True)
    assert (decided.replicas, decided.drain) == (1, None)
    kept.observe_replicas(1, 1.0, ours=True)
    evictions = decide_round(kept, decided.memory, 2.0, True).evictions
    assert [e.ordinal for e in evictions] == [2, 1]
    assert schedule(kept, vpod("a/b", 6, make_placements(2, 2, 2)), 3.0).placements == make_placements(6)


@pytest.mark.rule("vpod:V21")
def test_pods_that_somebody_else_took_away_from_under_vreplicas_are_asked_for_again() -> None:
    kept = state(4, 10, [vpod("a/b", 8, make_placements(2, 2, 2, 2))])
    assert kept.observe_replicas(0, 10.0)
    decided = decide_round(kept, AutoscalerMemory(), 10.0, may_shrink=False)
    assert decided.replicas == 4, "one would be enough, but then the others had to move at once"
    memory = apply_drain(kept, decided)
    kept.observe_replicas(4, 11.0, ours=True)
    assert decide_round(kept, memory, 11.0, may_shrink=True).replicas == 4, (
        "what is too much goes by a drain, in its time"
    )


@pytest.mark.rule("vpod:V21")
def test_a_manifest_applied_again_holds_while_the_set_grows_step_by_step() -> None:
    kept = state(4, 10, [vpod("a/b", 8, make_placements(2, 2, 2, 2))], max_scale_up_step=1)
    kept.observe_replicas(0, 10.0)
    for replicas in (1, 2, 3, 4):
        assert decide_round(kept, AutoscalerMemory(), 10.0 + replicas, may_shrink=False).replicas == replicas
        kept.observe_replicas(replicas, 10.0 + replicas, ours=True)
        assert schedule(
            kept, vpod("a/b", 8, make_placements(2, 2, 2, 2)), 10.0 + replicas
        ).placements == make_placements(2, 2, 2, 2)


@pytest.mark.rule("vpod:B5", "vpod:B10")
def test_without_a_drain_too_nothing_is_cut_that_would_have_to_come_back() -> None:
    heavy, light = vpod("a/heavy", 1, make_placements(0, 0, 1), weight=2), vpod("a/light", 4, make_placements(2, 2))
    settings: dict[str, Any] = {"scale_down_stabilization": 0.0, "drain": DrainOptions(enabled=False)}
    kept = state(3, 3, [heavy, light], **settings)
    assert pods_needed(kept) == 2, "if they could be arranged anew"
    assert decide_round(kept, AutoscalerMemory(), 100.0, may_shrink=True).replicas == 3
    lighter = state(3, 3, [vpod("a/heavy", 1, make_placements(0, 0, 1)), light], **settings)
    assert decide_round(lighter, AutoscalerMemory(), 100.0, may_shrink=True).replicas == 2


@pytest.mark.rule("vpod:B5", "vpod:V22", "vpod:B10")
def test_a_pod_that_somebody_waits_for_is_not_cut_before_it_comes() -> None:
    heavy, light = vpod("a/heavy", 1, weight=2), vpod("a/light", 4, make_placements(2, 2))
    kept = state(3, 3, [heavy, light], scale_down_stabilization=0.0, drain=DrainOptions(settle=0.0))
    kept.observe_pod(pod(2, node=""), 0.0)  # Pending
    assert schedule(kept, heavy).left == 1
    decided = decide_round(kept, AutoscalerMemory(), 3600.0, may_shrink=True)
    assert (decided.replicas, decided.drain) == (3, None)


@pytest.mark.parametrize("drained", [True, False])
@pytest.mark.rule("vpod:L4", "vpod:B10", "vpod:V9")
def test_pods_that_hold_nothing_go_also_where_the_others_are_more_than_the_demand_needs(drained: bool) -> None:
    heavy, light = vpod("a/heavy", 1, make_placements(0, 0, 1), weight=2), vpod("a/light", 4, make_placements(2, 2))
    drain = DrainOptions(enabled=drained)
    kept = state(40, 3, [heavy, light], scale_down_stabilization=0.0, drain=drain)
    decided = decide_round(kept, AutoscalerMemory(), 100.0, may_shrink=True)
    assert (decided.needed, decided.replicas) == (2, 3)
    apply_drain(kept, decided)
    kept.observe_replicas(3, 101.0, ours=True)
    again = decide_round(kept, decided.memory, 200.0, may_shrink=True)
    assert (again.replicas, again.drain) == (3, None)


@pytest.mark.rule("vpod:L4", "vpod:B10", "vpod:B4")
def test_as_many_pods_are_drained_as_leave_room_for_what_they_hold() -> None:
    vpods = [
        vpod("a/heavy", 2, make_placements(1, 1), weight=2),
        vpod("a/light", 4, make_placements(0, 0, 2, 1, 0, 0, 0, 1)),
    ]
    kept = state(9, 3, vpods, scale_down_stabilization=0.0, drain=DrainOptions(settle=0.0))
    decided = decide_round(kept, AutoscalerMemory(), 100.0, may_shrink=True)
    assert decided.needed == 3
    assert decided.drain == DrainGoal(3, 100.0), "two of the light ones beside the heavy ones, and two on their own pod"
    memory = apply_drain(kept, decided)
    kept.observe_vpod(vpod("a/light", 4, make_placements(0, 0, 2, 1, 0, 0, 0, 1)), 101.0)
    assert decide_round(kept, memory, 200.0, may_shrink=True).drain == DrainGoal(3, 100.0), "it goes on"


@pytest.mark.rule("vpod:B11", "vpod:B5")
def test_what_a_quota_leaves_over_brings_no_pods_that_go_again() -> None:
    heavy = vpod("a/heavy", 3, weight=2)
    kept = state(1, 3, [heavy], namespace_max_share=0.5)
    decision = schedule(kept, heavy)
    assert total_vreplicas(decision.placements) == 1
    assert decision.shortage is not None
    assert decision.shortage.reason == "QuotaExceeded"
    assert pods_needed(kept) == 1


@pytest.mark.parametrize("drained", [True, False])
@pytest.mark.rule("vpod:B11", "vpod:B5", "vpod:L2")
def test_what_runs_above_a_quota_takes_no_room_from_those_within_theirs(drained: bool) -> None:
    big, small = vpod("big/a", 30, make_placements(9, 9, 8)), vpod("small/a", 13)
    drain = DrainOptions(enabled=drained, settle=0.0)
    kept = state(3, 9, [big, small], namespace_max_share=0.4, scale_down_stabilization=0.0, drain=drain)
    live = Loop(kept, {big.key: big, small.key: small})
    for _ in range(3):
        live.beat()
    held = {key: total_vreplicas(subject.placements) for key, subject in live.vpods.items()}
    assert held == {big.key: 26, small.key: 13}, "26 are above the quota of 18, and stay; no more are granted"
    assert kept.replicas == 5
    live.writes.clear()
    for _ in range(3):
        live.beat()
    assert (kept.replicas, live.writes) == (5, [])


@pytest.mark.finding("N11", "A4")
def test_an_absurd_wish_grows_the_set_by_steps_and_up_to_a_ceiling() -> None:
    kept = state(2, 20, [vpod("a/b", 2**31 - 1)], max_replicas=30, max_scale_up_step=10)
    first = decide_round(kept, AutoscalerMemory(), 0.0, may_shrink=False)
    assert (first.needed_without_limit, first.needed, first.replicas, first.wake_at) == (107374183, 30, 12, 5.0)
    assert autoscaler_intention(kept, first) == (
        "107374183 pods are needed and 2 requested, maxReplicas is 30: scales up to 12, in steps of 10 (maxScaleUpStep)"
    )
    memory = apply_drain(kept, first)
    kept.observe_replicas(12, 0.1, ours=True)
    held_back = decide_round(kept, memory, 0.1, may_shrink=False)  # a shortage wakes it at once
    assert (held_back.replicas, held_back.wake_at) == (12, 5.0)
    second = decide_round(kept, apply_drain(kept, held_back), 5.0, may_shrink=True)
    assert (second.replicas, second.wake_at) == (22, 10.0)
    kept.observe_replicas(22, 5.1, ours=True)
    last = decide_round(kept, apply_drain(kept, second), 10.0, may_shrink=True)
    assert (last.replicas, last.wake_at) == (30, None)


@pytest.mark.finding("N11", "A4")
@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        pytest.param(
            2**31 - 1, "2147483647 vreplicas need 214748365 pods, but maxReplicas is 2", id="one source is too much"
        ),
        pytest.param(15, "maxReplicas is 2, so no pods are added", id="all sources together are"),
    ],
)
def test_a_source_beyond_the_ceiling_is_told_so(wanted: int, said: str) -> None:
    kept = state(2, 10, [vpod("a/other", 10, make_placements(5, 5))], max_replicas=2)
    short = schedule(kept, vpod("a/b", wanted)).shortage
    assert str(short) == f"0/2 pods can take {wanted - 10} more: 2 full; {said}"


@pytest.mark.finding("N11")
def test_a_set_above_the_ceiling_loses_no_pod_that_is_needed() -> None:
    full = vpod("a/b", 35, make_placements(9, 9, 9, 8))
    running = Loop(state(4, 10, [full], max_replicas=2, scale_down_stabilization=0.0), {full.key: full})
    for _ in range(6):
        running.beat()
    assert running.state.replicas == 4
    assert total_vreplicas(running.vpods[full.key].placements) == 35

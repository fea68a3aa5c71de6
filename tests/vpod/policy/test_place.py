"""The safe profile's loops against plain ones that ask the per-pod twins, pod by pod, vreplica by vreplica."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from situate.vpod.policy.place import capacity_upper_bound, place_vreplicas, remove_vreplicas
from situate.vpod.policy.registry import DEFAULT_PLACING, DEFAULT_REMOVING, Policy, Predicate, Priority, compile_policy
from tests.vpod.policy import twins
from tests.vpod.policy.views import PlainPod, PlainView, arrays, plain_view, plain_views

SKEW = '{"MaxSkew": 2}'
ZONE = Priority("AvailabilityZonePriority", 10, SKEW)
PLACING = st.builds(
    Policy,
    st.lists(
        st.sampled_from([Predicate("EvenPodSpread", SKEW), Predicate("NoMaxResourceCount", '{"NumPartitions": 2}')]),
        unique=True,
    ).map(tuple),
    st.lists(
        st.tuples(
            st.sampled_from(
                ["AvailabilityZonePriority", "AvailabilityNodePriority", "EvenPodSpread", "LowestOrdinalPriority"]
            ),
            st.integers(0, 10),
        ),
        unique_by=lambda entry: entry[0],
    ).map(lambda entries: tuple(Priority(name, weight, SKEW) for name, weight in entries)),
)
REMOVING = st.lists(
    st.tuples(
        st.sampled_from(
            [
                "RemoveWithAvailabilityZonePriority",
                "RemoveWithAvailabilityNodePriority",
                "RemoveWithEvenPodSpreadPriority",
                "RemoveWithHighestOrdinalPriority",
            ]
        ),
        st.integers(0, 10),
    ),
    unique_by=lambda entry: entry[0],
).map(lambda entries: Policy((), tuple(Priority(name, weight, SKEW) for name, weight in entries)))

FILTER_TWINS: dict[str, Callable[[PlainView, PlainPod], bool]] = {
    "EvenPodSpread": twins.even_pod_spread(2),
    "NoMaxResourceCount": twins.no_max_resource_count(2),
}
SCORE_TWINS: dict[str, Callable[[PlainView, PlainPod], int]] = {
    "EvenPodSpread": twins.even_pod_spread_score,
    "AvailabilityNodePriority": twins.availability_node,
    "AvailabilityZonePriority": twins.availability_zone,
    "LowestOrdinalPriority": twins.lowest_ordinal,
    "RemoveWithEvenPodSpreadPriority": twins.remove_with_even_pod_spread,
    "RemoveWithAvailabilityNodePriority": twins.remove_with_availability_node,
    "RemoveWithAvailabilityZonePriority": twins.remove_with_availability_zone,
}


def exact(view: PlainView, pod: PlainPod, policy: Policy) -> int:
    """D13: weight x (-penalty), resp. weight x ordinal."""
    total = 0
    for priority in policy.priorities:
        if priority.name == "RemoveWithHighestOrdinalPriority":
            total += priority.weight * pod.ordinal
        else:
            total -= priority.weight * (twins.MAX_UINT64 - SCORE_TWINS[priority.name](view, pod))
    return total


def changed(view: PlainView, ordinal: int, vreplicas: int) -> PlainView:
    """The view with so many more of ours on that pod; places that are empty then are no places of ours."""
    pods = tuple(
        replace(pod, own=pod.own + vreplicas, free=pod.free - vreplicas, in_spread=pod.own + vreplicas > 0)
        if pod.ordinal == ordinal
        else pod
        for pod in view.pods
    )
    return plain_view(view.replicas, pods, view.node_zone)


def healthy(view: PlainView) -> PlainView:
    """As states are: pods exist, and hold what they hold in places that are ours."""
    pods = tuple(replace(pod, own=pod.own % 5, in_spread=pod.own % 5 > 0) for pod in view.pods)
    return plain_view(26, pods, view.node_zone)


@given(plain_views(unknown_nodes=False), PLACING, st.integers(0, 8))
def test_placing_agrees_with_asking_pod_by_pod(view: PlainView, policy: Policy, vreplicas: int) -> None:
    plain = healthy(view)
    outcome = place_vreplicas(arrays(plain), compile_policy(policy), vreplicas)
    changes: dict[int, int] = {}
    left = vreplicas
    while left:
        candidates = [
            pod
            for pod in plain.pods
            if pod.schedulable
            and pod.free > 0
            and all(FILTER_TWINS[predicate.name](plain, pod) for predicate in policy.predicates)
        ]
        if not candidates:
            break
        best = max(candidates, key=lambda pod: (exact(plain, pod, policy), -pod.ordinal))
        plain = changed(plain, best.ordinal, 1)
        changes[best.ordinal] = changes.get(best.ordinal, 0) + 1
        left -= 1
    assert (outcome.changes, outcome.left) == (changes, left)


@given(plain_views(unknown_nodes=False), REMOVING, st.integers(0, 8))
def test_removing_agrees_with_asking_pod_by_pod(view: PlainView, policy: Policy, vreplicas: int) -> None:
    plain = healthy(view)
    outcome = remove_vreplicas(arrays(plain), compile_policy(policy), vreplicas)
    changes: dict[int, int] = {}
    left = vreplicas
    while left:
        holding = [pod for pod in plain.pods if pod.schedulable and pod.own > 0]
        if not holding:
            break
        best = max(holding, key=lambda pod: (exact(plain, pod, policy), pod.ordinal))
        plain = changed(plain, best.ordinal, -1)
        changes[best.ordinal] = changes.get(best.ordinal, 0) + 1
        left -= 1
    assert (outcome.changes, outcome.left) == (changes, left)


@pytest.mark.rule("vpod:S1", "vpod:B10")
@given(plain_views(unknown_nodes=False), PLACING, st.integers(0, 30), st.integers(1, 4))
def test_no_pod_is_filled_above_its_capacity_whatever_the_predicates(
    view: PlainView, policy: Policy, vreplicas: int, weight: int
) -> None:
    plain = healthy(view)
    outcome = place_vreplicas(arrays(plain, weight), compile_policy(policy), vreplicas)
    room = {pod.ordinal: pod.free for pod in plain.pods if pod.schedulable}
    assert all(n * weight <= room[ordinal] for ordinal, n in outcome.changes.items())
    assert sum(outcome.changes.values()) + outcome.left == vreplicas
    if outcome.left and not policy.predicates:
        assert all(free - outcome.changes.get(o, 0) * weight < weight for o, free in room.items())


@given(plain_views(unknown_nodes=False), PLACING, st.integers(1, 3))
def test_never_more_is_placed_than_fits_at_most(view: PlainView, policy: Policy, weight: int) -> None:
    plain = arrays(healthy(view), weight)
    outcome = place_vreplicas(plain, compile_policy(policy), 60)
    assert sum(outcome.changes.values()) <= capacity_upper_bound(plain, compile_policy(policy))


@pytest.mark.rule("vpod:D14")
@given(plain_views(unknown_nodes=True), REMOVING, st.integers(0, 30))
def test_the_surplus_goes_even_where_a_pod_cannot_be_scored(view: PlainView, policy: Policy, vreplicas: int) -> None:
    plain = healthy(view)
    refusing = Policy(
        (Predicate("NoMaxResourceCount", '{"NumPartitions": -1}'), Predicate("EvenPodSpread")), policy.priorities
    )
    held = sum(pod.own for pod in plain.pods if pod.schedulable)
    for each in (policy, refusing):
        outcome = remove_vreplicas(arrays(plain), compile_policy(each), vreplicas)
        assert outcome.left == max(0, vreplicas - held)
        assert sum(outcome.changes.values()) == vreplicas - outcome.left


def even_pods(zones: str, own: dict[int, int], free: int = 10) -> PlainView:
    pods = tuple(
        PlainPod(o, True, free - own.get(o, 0), own.get(o, 0), o in own, f"n{o}", zone) for o, zone in enumerate(zones)
    )
    return plain_view(len(zones), pods, {f"n{o}": zone for o, zone in enumerate(zones)})


@pytest.mark.rule("vpod:D13")
@pytest.mark.parametrize("low", [1, 8, 9, 20])
def test_the_higher_ordinal_loses_wherever_the_reference_wraps(low: int) -> None:
    policy = Policy((), (DEFAULT_REMOVING.priorities[0], DEFAULT_REMOVING.priorities[2]))
    view = arrays(even_pods("a" * 30, {low: 2, low + 1: 2}))
    assert remove_vreplicas(view, compile_policy(policy), 1).changes == {low + 1: 1}


@pytest.mark.rule("vpod:D15")
def test_without_priorities_the_lowest_ordinal_receives_and_the_highest_gives() -> None:
    view = arrays(even_pods("abc", {0: 1, 1: 1, 2: 1}, free=2))
    assert place_vreplicas(view, compile_policy(Policy()), 2).changes == {0: 1, 1: 1}
    assert remove_vreplicas(view, compile_policy(Policy()), 2).changes == {2: 1, 1: 1}


def test_the_shipped_policy_spreads_over_zones_first() -> None:
    view = arrays(even_pods("aabc", {}))
    assert place_vreplicas(view, compile_policy(DEFAULT_PLACING), 6).changes == {0: 1, 1: 1, 2: 2, 3: 2}


def test_a_score_that_fails_leaves_the_rest_and_says_why() -> None:
    plain = plain_view(1, (PlainPod(0, True, 5, 0, False, None, None),), {"n": "z"})
    outcome = place_vreplicas(arrays(plain), compile_policy(Policy((), (ZONE,))), 2)
    assert (outcome.left, outcome.status.reasons) == (2, ("zone does not exist",))


def test_the_view_that_was_given_is_not_changed() -> None:
    view = arrays(even_pods("ab", {0: 1}))
    place_vreplicas(view, compile_policy(DEFAULT_PLACING), 3)
    remove_vreplicas(view, compile_policy(DEFAULT_REMOVING), 1)
    assert (view.own.tolist(), view.free.tolist()) == ([1, 0], [9, 10])

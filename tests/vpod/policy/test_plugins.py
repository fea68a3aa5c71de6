"""Every vectorised plugin against its per-pod twin, and by name with its arguments."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from situate.vpod.policy.filters import INVALID_ARGUMENTS
from situate.vpod.policy.registry import (
    FILTERS,
    SCORES,
    Policy,
    Predicate,
    Priority,
    compile_policy,
    filter_plugin,
    score_plugin,
)
from situate.vpod.policy.status import Code
from tests.vpod.policy import twins
from tests.vpod.policy.views import PlainPod, PlainView, arrays, plain_view, plain_views

SCORE_TWINS: dict[str, Callable[[PlainView, PlainPod], int]] = {
    "EvenPodSpread": twins.even_pod_spread_score,
    "AvailabilityNodePriority": twins.availability_node,
    "AvailabilityZonePriority": twins.availability_zone,
    "LowestOrdinalPriority": twins.lowest_ordinal,
    "RemoveWithEvenPodSpreadPriority": twins.remove_with_even_pod_spread,
    "RemoveWithAvailabilityNodePriority": twins.remove_with_availability_node,
    "RemoveWithAvailabilityZonePriority": twins.remove_with_availability_zone,
    "RemoveWithHighestOrdinalPriority": twins.remove_with_highest_ordinal,
}
SKEW = '{"MaxSkew": 2}'


def test_every_plugin_has_a_twin() -> None:
    assert set(SCORE_TWINS) == set(SCORES)
    assert set(FILTERS) == {"PodFitsResources", "NoMaxResourceCount", "EvenPodSpread"}


@pytest.mark.rule("vpod:V17", "vpod:V25")
@given(plain_views())
def test_pod_fits_resources_agrees_with_its_twin(plain: PlainView) -> None:
    passes = filter_plugin(Predicate("PodFitsResources")).passes(arrays(plain))
    assert list(passes) == [twins.pod_fits_resources(plain, pod) for pod in plain.pods]


@pytest.mark.rule("vpod:V17", "vpod:V25")
@given(plain_views(), st.integers(-1, 9))
def test_no_max_resource_count_agrees_with_its_twin(plain: PlainView, partitions: int) -> None:
    plugin = filter_plugin(Predicate("NoMaxResourceCount", f'{{"NumPartitions": {partitions}}}'))
    twin = twins.no_max_resource_count(partitions)
    assert list(plugin.passes(arrays(plain))) == [twin(plain, pod) for pod in plain.pods]


@pytest.mark.rule("vpod:V17", "vpod:V25")
@given(plain_views(), st.integers(-1, 4))
def test_even_pod_spread_filter_agrees_with_its_twin(plain: PlainView, skew: int) -> None:
    plugin = filter_plugin(Predicate("EvenPodSpread", f'{{"MaxSkew": {skew}}}'))
    twin = twins.even_pod_spread(skew)
    assert list(plugin.passes(arrays(plain))) == [twin(plain, pod) for pod in plain.pods]


@pytest.mark.rule("vpod:V17", "vpod:V25")
@pytest.mark.parametrize("name", sorted(SCORES))
@given(plain=plain_views())
def test_scores_agree_with_their_twins(name: str, plain: PlainView) -> None:
    view = arrays(plain)
    scores = score_plugin(Priority(name, 1, SKEW)).scores(view)
    numbers = scores.as_uint64()
    for index, pod in enumerate(plain.pods):
        try:
            expected = SCORE_TWINS[name](plain, pod)
        except twins.NoScoreHere:
            assert scores.failed[index]
            assert scores.code is Code.ERROR
            assert scores.reason in ("node does not exist", "zone does not exist")
            continue
        if not (plain.replicas == 0 and scores.failed[index]):
            assert int(numbers[index]) == expected


@pytest.mark.parametrize(
    "args",
    [
        pytest.param(None, id="absent"),
        pytest.param("", id="empty"),
        pytest.param("{", id="cut short"),
        pytest.param("2", id="a number"),
        pytest.param("[]", id="a list"),
        pytest.param('{"MaxSkewness": 2}', id="another field"),
        pytest.param('{"MaxSkew": "2"}', id="a string inside"),
        pytest.param('{"MaxSkew": 2.5}', id="a fraction"),
        pytest.param('{"MaxSkew": true}', id="a boolean"),
        pytest.param('{"MaxSkew": 2147483648}', id="more than 32 bits"),
        pytest.param('{"MaxSkew": ' + "1" * 5000 + "}", id="thousands of digits"),
        pytest.param('{"MaxSkew": NaN}', id="no number"),
        pytest.param('{"MaxSkew": 2} x', id="more behind it"),
        pytest.param("[" * 100_000, id="nested deeply"),
        pytest.param("\ud800", id="a lone surrogate"),
    ],
)
@pytest.mark.rule("vpod:B12")
def test_arguments_that_cannot_be_read_make_every_pod_unschedulable(args: str | None) -> None:
    view = arrays(plain_view(1, (PlainPod(0, True, 1, 0, False, "n", "z"),), {"n": "z"}))
    refused = filter_plugin(Predicate("EvenPodSpread", args))
    assert (list(refused.passes(view)), refused.reason) == ([False], INVALID_ARGUMENTS)
    scores = score_plugin(Priority("EvenPodSpread", 1, args)).scores(view)
    assert (scores.code, scores.reason, int(scores.as_uint64()[0])) == (Code.UNSCHEDULABLE, INVALID_ARGUMENTS, 0)


@pytest.mark.parametrize(
    "args", ['{"MaxSkew": 2}', '{"maxskew": 2}', '{"MAXSKEW": 1, "MaxSkew": 2}', ' {"MaxSkew":2}\n']
)
def test_argument_names_match_in_any_case_and_the_last_one_counts(args: str) -> None:
    assert filter_plugin(Predicate("EvenPodSpread", args)) == filter_plugin(Predicate("EvenPodSpread", SKEW))


@pytest.mark.parametrize("args", ["{}", "null", '{"MaxSkew": null}'])
def test_missing_arguments_inside_are_zero(args: str) -> None:
    zero = filter_plugin(Predicate("EvenPodSpread", '{"MaxSkew": 0}'))
    assert filter_plugin(Predicate("EvenPodSpread", args)) == zero


def test_unknown_plugins_are_left_out_and_the_last_of_two_equal_priorities_counts() -> None:
    policy = compile_policy(
        Policy(
            (Predicate("NoSuchThing"), Predicate("PodFitsResources")),
            (Priority("Nothing", 3), Priority("LowestOrdinalPriority", 1), Priority("LowestOrdinalPriority", 4)),
        )
    )
    assert len(policy.filters) == 1
    assert [weight for weight, _ in policy.scores] == [4]

from __future__ import annotations

from typing import Any

import pytest

from situate.testing.vpod.builders import make_placements, options, pod, schedule, state, vpod
from situate.vpod.model.pod_classes import Cause, NodeFacts, PodClass, Verdict, is_true


@pytest.mark.parametrize("value", ["1", "t", "T", "TRUE", "true", "True"])
def test_go_reads_true(value: str) -> None:
    assert is_true(value)


@pytest.mark.parametrize("value", ["0", "f", "false", "FALSE", "yes", "on", "", "tRue", " true", None])
def test_anything_else_counts_as_not_set(value: str | None) -> None:
    assert not is_true(value)


GRACED = [
    pytest.param({"node": ""}, Cause.PENDING, id="without node"),
    pytest.param({"deleting": True}, Cause.TERMINATING, id="terminating"),
    pytest.param({"phase": "Failed"}, Cause.FAILED, id="failed"),
    pytest.param({"phase": "Succeeded"}, Cause.FAILED, id="succeeded"),
    pytest.param({"node": "nowhere"}, Cause.NODE_GONE, id="on a node that is gone"),
]


@pytest.mark.rule("vpod:D4", "vpod:V21", "vpod:V23")
@pytest.mark.parametrize(("change", "cause"), GRACED)
def test_a_pod_out_of_order_is_held_for_its_grace_and_then_rejected(change: dict[str, Any], cause: Cause) -> None:
    kept = state(2, 10)
    kept.observe_pod(pod(1, **change), 100.0)
    assert kept.verdict(1) == Verdict(PodClass.HOLD, cause, 160.0)
    kept.advance(159.9)
    assert kept.verdict(1).pod_class is PodClass.HOLD
    kept.advance(160.0)
    assert kept.verdict(1) == Verdict(PodClass.REJECT, cause)
    kept.observe_pod(pod(1), 161.0)
    assert kept.verdict(1).pod_class is PodClass.ACCEPT


@pytest.mark.rule("vpod:V6", "vpod:V23", "vpod:V21")
def test_a_pod_is_its_name_wherever_it_comes_back() -> None:
    kept = state(2, 10, [vpod("a/b", 12, make_placements(6, 6))])
    kept.observe_pod(pod(1, uid="first", deleting=True), 0.0)
    kept.remove_pod("set-1", 20.0)
    kept.observe_pod(pod(1, uid="second", node="node-7"), 40.0)
    assert kept.verdict(1).pod_class is PodClass.ACCEPT
    assert schedule(kept, vpod("a/b", 12, make_placements(6, 6)), 40.0).placements == make_placements(6, 6)
    assert kept.reservations() == {kept.vpods[vpod("a/b", 0).key].key: {0: 6, 1: 6}}


@pytest.mark.rule("vpod:B3", "vpod:V23")
def test_the_grace_runs_on_while_a_pod_is_replaced() -> None:
    kept = state(2, 10, [vpod("a/b", 2, make_placements(1, 1))])
    kept.observe_pod(pod(1, deleting=True), 0.0)
    kept.remove_pod("set-1", 20.0)
    kept.observe_pod(pod(1, node=""), 40.0)
    kept.advance(59.0)
    assert kept.verdict(1) == Verdict(PodClass.HOLD, Cause.PENDING, 60.0)
    kept.advance(60.0)
    assert kept.verdict(1).pod_class is PodClass.REJECT


@pytest.mark.parametrize(
    ("node", "cause"),
    [
        pytest.param(NodeFacts("node-1", "zone", ready=False), Cause.NODE_UNREACHABLE, id="not ready"),
        pytest.param(NodeFacts("node-1", "zone", unreachable=True), Cause.NODE_UNREACHABLE, id="tainted"),
    ],
)
@pytest.mark.rule("vpod:D4")
def test_a_pod_follows_its_node(node: NodeFacts, cause: Cause) -> None:
    kept = state(2, 10)
    kept.observe_node(node, 0.0)
    assert kept.verdict(1) == Verdict(PodClass.HOLD, cause, 60.0)
    kept.advance(60.0)
    assert kept.verdict(1).pod_class is PodClass.REJECT


@pytest.mark.rule("vpod:V13")
def test_a_cordoned_node_holds_its_pods_for_ever() -> None:
    kept = state(2, 10)
    kept.observe_node(NodeFacts("node-1", "zone", unschedulable=True), 0.0)
    kept.advance(1e6)
    assert kept.verdict(1) == Verdict(PodClass.HOLD, Cause.CORDONED)


def test_readiness_matters_only_when_asked_for() -> None:
    kept = state(1, 10)
    kept.observe_pod(pod(0, ready=False), 0.0)
    assert kept.verdict(0).pod_class is PodClass.ACCEPT
    kept.reconfigure(options(10, require_ready=True), 1.0)
    assert kept.verdict(0).cause is Cause.NOT_READY
    kept.observe_pod(pod(0, ready=True), 2.0)
    assert kept.verdict(0).pod_class is PodClass.ACCEPT


@pytest.mark.rule("vpod:V12")
def test_an_annotated_pod_is_rejected_at_once_and_comes_back_at_once() -> None:
    kept = state(3, 10, [vpod("a/b", 6, make_placements(2, 2, 2))])
    kept.observe_pod(pod(1, annotation="true"), 0.0)
    assert kept.verdict(1) == Verdict(PodClass.REJECT, Cause.UNSCHEDULABLE)
    assert schedule(kept, vpod("a/b", 6, make_placements(2, 2, 2))).placements == make_placements(3, 0, 3)
    kept.observe_pod(pod(1, annotation="false"), 0.0)
    assert kept.verdict(1).pod_class is PodClass.ACCEPT


@pytest.mark.rule("vpod:V21")
def test_replicas_that_somebody_else_lowered_are_held_against_for_the_grace() -> None:
    kept = state(4, 10, [vpod("a/b", 8, make_placements(2, 2, 2, 2))])
    assert kept.observe_replicas(1, 10.0)
    kept.remove_pod("set-3", 11.0)
    assert schedule(kept, vpod("a/b", 8, make_placements(2, 2, 2, 2)), 20.0).placements == make_placements(2, 2, 2, 2)
    assert kept.verdict(3) == Verdict(PodClass.HOLD, Cause.REPLICAS_RESET, 70.0)
    assert not kept.observe_replicas(4, 30.0)
    kept.observe_pod(pod(3), 31.0)
    assert schedule(kept, vpod("a/b", 8, make_placements(2, 2, 2, 2)), 100.0).placements == make_placements(2, 2, 2, 2)


@pytest.mark.rule("vpod:V21")
def test_each_time_that_somebody_else_lowers_replicas_is_held_against_for_the_whole_grace() -> None:
    kept = state(4, 10, [vpod("a/b", 8, make_placements(2, 2, 2, 2))])
    assert kept.observe_replicas(3, 0.0)
    assert kept.observe_replicas(2, 50.0)
    assert kept.verdict(2) == Verdict(PodClass.HOLD, Cause.REPLICAS_RESET, 110.0)
    assert kept.verdict(3) == Verdict(PodClass.HOLD, Cause.REPLICAS_RESET, 110.0)


def test_replicas_that_stay_low_are_believed_after_the_grace() -> None:
    kept = state(2, 10, [vpod("a/b", 4, make_placements(2, 2))])
    kept.observe_replicas(1, 0.0)
    assert schedule(kept, vpod("a/b", 4, make_placements(2, 2)), 60.0).placements == make_placements(4)


def test_replicas_that_we_lowered_reject_at_once() -> None:
    kept = state(2, 10)
    assert not kept.observe_replicas(1, 0.0, ours=True)
    assert kept.verdict(1) == Verdict(PodClass.REJECT, Cause.BEYOND_REPLICAS)

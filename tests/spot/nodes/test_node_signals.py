"""Capacity and state of nodes, by the table (P12, P33)."""

from __future__ import annotations

from typing import Any

import pytest

from situate.objects.settings.section import parse_section
from situate.spot.model.pods_nodes_workloads import Capacity, NodeState
from situate.spot.nodes.known_signals import SIGNALS, on_demand_requirement, pool_tolerations, spot_requirement
from situate.spot.nodes.node_signals import (
    DeadlineFrom,
    NodeEvent,
    Signal,
    capacity_of,
    deadline_in_message,
    node_facts,
)
from tests.spot.builders import NOW, node

CAPACITY = "node.kubernetes.io/capacity"
READY = [{"type": "Ready", "status": "True"}]


@pytest.mark.rule("spot:P12", "spot:S1", "spot:I10", "spot:D6")
@pytest.mark.parametrize(
    ("labels", "want"),
    [
        ({CAPACITY: "on-demand"}, "on-demand"),
        ({CAPACITY: "spot"}, "spot"),
        ({}, "unknown"),
        ({CAPACITY: "cheap"}, "unknown"),
        ({CAPACITY: "cheap", "karpenter.sh/capacity-type": "on-demand"}, "unknown"),
        ({CAPACITY: "on-demand", "karpenter.sh/capacity-type": "spot"}, "spot"),
        ({CAPACITY: "spot", "eks.amazonaws.com/capacityType": "ON_DEMAND"}, "spot"),
        ({"karpenter.sh/capacity-type": "reserved"}, "on-demand"),
        ({"eks.amazonaws.com/capacityType": "SPOT"}, "spot"),
        ({"cloud.google.com/gke-spot": "true"}, "spot"),
        ({"cloud.google.com/gke-spot": "false"}, "unknown"),
        ({"cloud.google.com/gke-provisioning": "standard"}, "on-demand"),
        ({"cloud.google.com/gke-provisioning": "preemptible"}, "spot"),
        ({"kubernetes.azure.com/scalesetpriority": "spot"}, "spot"),
        ({"spotinst.io/node-lifecycle": "od"}, "on-demand"),
        ({"scheduling.cast.ai/spot": "true"}, "spot"),
        ({"node.kubernetes.io/lifecycle": "spot"}, "spot"),
    ],
)
def test_capacity(labels: dict[str, str], want: str) -> None:
    assert capacity_of(node(labels=labels), SIGNALS) == want


@pytest.mark.rule("spot:P12", "spot:P23")
def test_a_cloud_whose_on_demand_nodes_carry_no_label() -> None:
    own = Signal(source="label", key="example.com/spot", value="yes", capacity="spot", absent="on-demand")
    table = (own, *SIGNALS)
    assert capacity_of(node(), table) == "on-demand"
    assert capacity_of(node(labels={"example.com/spot": "yes"}), table) == "spot"
    assert capacity_of(node(labels={"example.com/spot": "no"}), table) == "unknown"
    assert capacity_of(node(labels={CAPACITY: "cheap"}), table) == "unknown"
    wanted = on_demand_requirement(table)
    assert (wanted.key, wanted.operator, wanted.values) == ("example.com/spot", "NotIn", ("yes",))
    assert spot_requirement(table).values == ("yes",)
    assert on_demand_requirement(SIGNALS).values == ("on-demand",)


def taint(key: str, value: str = "", effect: str = "NoSchedule", **more: str) -> dict[str, str]:
    return {"key": key, "value": value, "effect": effect, **more}


@pytest.mark.rule("spot:P33")
@pytest.mark.parametrize(
    ("wire", "state", "left"),
    [
        pytest.param({}, "ok", None, id="nothing said"),
        pytest.param({"unschedulable": True}, "cordoned", None, id="a plain cordon is no notice"),
        pytest.param({"taints": [taint("aws-node-termination-handler/spot-itn", "x")], "unschedulable": True},
                     "doomed", 120, id="NTH cordons too"),
        pytest.param({"taints": [taint("aws-node-termination-handler/rebalance-recommendation")]}, "at-risk", None,
                     id="a recommendation"),
        pytest.param({"taints": [taint("karpenter.sh/disrupted")]}, "doomed", None, id="Karpenter v1"),
        pytest.param({"taints": [taint("karpenter.sh/disruption", "disrupting")]}, "doomed", None, id="v1beta1"),
        pytest.param({"taints": [taint("karpenter.sh/disruption", "candidate")]}, "ok", None, id="a candidate"),
        pytest.param({"taints": [taint("karpenter.sh/unregistered", effect="NoExecute")]}, "not-ready", None,
                     id="not usable yet"),
        pytest.param({"taints": [taint("ToBeDeletedByClusterAutoscaler")]}, "doomed", None, id="autoscaler"),
        pytest.param({"taints": [taint("DeletionCandidateOfClusterAutoscaler")]}, "ok", None, id="its candidate"),
        pytest.param({"deletionTimestamp": "2026-11-21T12:00:00Z"}, "doomed", None, id="being deleted"),
        pytest.param({"taints": [taint("cloud.google.com/impending-node-termination")]}, "doomed", 30, id="GKE"),
        pytest.param({"conditions": [{"type": "Ready", "status": "False", "message": "node is shutting down"}]},
                     "doomed", 30, id="graceful shutdown"),
        pytest.param({"conditions": [{"type": "Ready", "status": "False", "message": "PLEG"}]}, "not-ready", None,
                     id="merely not ready"),
        pytest.param({"conditions": [{"type": "Ready", "status": "Unknown"}]}, "dead", 0, id="silent"),
        pytest.param({"taints": [taint("node.kubernetes.io/unreachable")], "conditions": READY}, "dead", 0,
                     id="unreachable with any effect"),
        pytest.param({"taints": [taint("node.kubernetes.io/out-of-service", "nodeshutdown", "NoExecute")]}, "dead", 0,
                     id="out of service"),
        pytest.param({"conditions": [{"type": "VMEventScheduled", "status": "True"}]}, "at-risk", None, id="AKS"),
        pytest.param({"taints": [taint("kubernetes.azure.com/scalesetpriority", "spot")]}, "ok", None,
                     id="a permanent taint is no notice"),
    ],
)  # fmt: skip
def test_states(wire: dict[str, Any], state: str, left: float | None) -> None:
    facts = node_facts(node(**wire), SIGNALS, NOW)
    assert str(facts.state) == state
    assert (facts.deadline if facts.deadline is None else facts.deadline - NOW) == left


@pytest.mark.rule("spot:P33", "spot:F10")
def test_a_notice_runs_from_when_it_came() -> None:
    itn = taint("aws-node-termination-handler/spot-itn")
    assert node_facts(node(taints=[itn]), SIGNALS, NOW, seen_since=NOW - 50).deadline == NOW + 70
    dated = node(taints=[{**itn, "timeAdded": "2026-11-21T12:00:00Z"}])
    assert node_facts(dated, SIGNALS, NOW).deadline == 1795262400 + 120
    both = node(taints=[itn, taint("cloud.google.com/impending-node-termination")])
    assert node_facts(both, SIGNALS, NOW).deadline == NOW + 30, "the earliest that is known"


@pytest.mark.rule("spot:P33")
def test_a_deadline_in_a_message_is_exact() -> None:
    message = "Preempt Scheduled: Mon, 19 Sep 2022 15:30:00 GMT. DurationInSeconds: -1"
    aks = node(conditions=[*READY, {"type": "PreemptionScheduled", "status": "True", "message": message}])
    assert node_facts(aks, SIGNALS, NOW).deadline == 1663601400
    vague = node(conditions=[{"type": "PreemptionScheduled", "status": "True", "message": "soon"}])
    assert node_facts(vague, SIGNALS, NOW).deadline == NOW + 30, "else the notice"
    source = DeadlineFrom(message="by (.*)", format="rfc3339")
    assert deadline_in_message("by 2026-01-01T00:00:00Z", source) == 1767225600
    assert deadline_in_message("by tomorrow", source) is None


@pytest.mark.rule("spot:P33")
def test_events_about_an_earlier_node_of_that_name_mean_nothing() -> None:
    young = node(creationTimestamp="2026-11-21T12:00:00Z")
    born = 1795262400.0
    before, after = NodeEvent("SpotInterruption", born - 10), NodeEvent("SpotInterruption", born + 10)
    assert node_facts(young, SIGNALS, born + 20, events=[before]).state is NodeState.OK
    assert node_facts(young, SIGNALS, born + 20, events=[after]).deadline == born + 130


@pytest.mark.rule("spot:P33", "spot:B22")
def test_what_is_told_of_a_node() -> None:
    labels = {"node.kubernetes.io/instance-type": "m5.large", "topology.kubernetes.io/zone": "a", CAPACITY: "spot"}
    facts = node_facts(node(labels=labels, unschedulable=True), SIGNALS, NOW)
    assert (facts.capacity, facts.pool, facts.zone, facts.cordoned, facts.tainted) == (
        Capacity.SPOT, "m5.large/a", "a", True, True,
    )  # fmt: skip
    assert facts.why == "field spec.unschedulable"
    assert not node_facts(node(labels=labels), SIGNALS, NOW).tainted


@pytest.mark.rule("spot:P24", "spot:S14")
def test_taints_of_pools_are_data() -> None:
    assert [(each.key, each.value) for each in pool_tolerations(SIGNALS)] == [
        ("kubernetes.azure.com/scalesetpriority", "spot"),
        ("cloud.google.com/gke-spot", "true"),
    ]


@pytest.mark.rule("spot:P33")
@pytest.mark.parametrize(
    ("wire", "path"),
    [
        ({"source": "label", "key": "x"}, "state"),
        ({"source": "field", "key": "spec.podCIDR", "state": "doomed"}, "key"),
        ({"source": "taint", "key": "x", "capacity": "spot", "absent": "on-demand"}, "absent"),
        ({"source": "condition", "key": "x", "state": "doomed", "message": "("}, "message"),
        ({"source": "condition", "key": "x", "state": "doomed",
          "deadlineFrom": {"message": "no group", "format": "rfc3339"}}, "deadlineFrom.message"),
        ({"source": "taint", "key": "x", "state": "doomed", "noticeSeconds": -1}, "noticeSeconds"),
        ({"source": "taint", "key": "x", "state": "finished"}, "state"),
    ],
)  # fmt: skip
def test_mistakes_in_signals_of_ones_own_are_named(wire: dict[str, Any], path: str) -> None:
    found, mistakes = parse_section(wire, Signal, "spot.signals[0]")
    assert found is None
    assert [mistake.path for mistake in mistakes] == [f"spot.signals[0].{path}"]

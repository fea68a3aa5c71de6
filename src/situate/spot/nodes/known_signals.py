"""Built-in table of signals: clouds, their tools, and Kubernetes itself.

Data only. An entry without a stated notice gets no `noticeSeconds`: such a node has no deadline. The entries are those
of "Node states and the signal table" in docs/spec/spot.md. Rules: P23, P24.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Literal

from situate.objects.kinds.pods import NodeSelectorRequirement, Toleration
from situate.spot.model.pods_nodes_workloads import CAPACITY_LABEL
from situate.spot.nodes.node_signals import DeadlineFrom, Signal

_AWS_NOTICE_S: Final = 120.0
_SHORT_NOTICE_S: Final = 30.0
_NTH_TAINT: Final = "aws-node-termination-handler/"


def _label_signals(key: str, spot: Iterable[str], on_demand: Iterable[str] = ()) -> Iterator[Signal]:
    for value in spot:
        yield Signal(source="label", key=key, value=value, capacity="spot")
    for value in on_demand:
        yield Signal(source="label", key=key, value=value, capacity="on-demand")


def _termination_signal(
    source: Literal["taint", "condition", "event", "field"], key: str, notice_s: float | None = None
) -> Signal:
    return Signal(source=source, key=key, state="doomed", notice_seconds=notice_s)


SIGNALS: Final[tuple[Signal, ...]] = (
    *_label_signals(CAPACITY_LABEL, ["spot"], ["on-demand"]),
    *_label_signals("karpenter.sh/capacity-type", ["spot"], ["on-demand", "reserved"]),
    *_label_signals("eks.amazonaws.com/capacityType", ["SPOT"], ["ON_DEMAND"]),
    *_label_signals("cloud.google.com/gke-spot", ["true"]),
    *_label_signals("cloud.google.com/gke-preemptible", ["true"]),
    *_label_signals("cloud.google.com/gke-provisioning", ["spot", "preemptible"], ["standard"]),
    *_label_signals("kubernetes.azure.com/scalesetpriority", ["spot"], ["regular"]),
    *_label_signals("scheduling.cast.ai/spot", ["true"]),
    *_label_signals("spotinst.io/node-lifecycle", ["spot"], ["od"]),
    *_label_signals("node.kubernetes.io/lifecycle", ["spot"]),
    Signal(
        source="taint",
        key="kubernetes.azure.com/scalesetpriority",
        value="spot",
        effect="NoSchedule",
        capacity="spot",
    ),
    Signal(source="taint", key="cloud.google.com/gke-spot", value="true", effect="NoSchedule", capacity="spot"),
    Signal(source="condition", key="Ready", value="Unknown", state="dead"),
    Signal(source="taint", key="node.kubernetes.io/unreachable", state="dead"),
    Signal(source="taint", key="node.kubernetes.io/out-of-service", state="dead"),
    _termination_signal("field", "metadata.deletionTimestamp"),
    _termination_signal("taint", "karpenter.sh/disrupted"),
    Signal(source="taint", key="karpenter.sh/disruption", value="disrupting", state="doomed"),
    _termination_signal("taint", "ToBeDeletedByClusterAutoscaler"),
    _termination_signal("taint", _NTH_TAINT + "spot-itn", _AWS_NOTICE_S),
    _termination_signal("taint", _NTH_TAINT + "asg-lifecycle-termination"),
    _termination_signal("taint", _NTH_TAINT + "scheduled-maintenance"),
    _termination_signal("event", "SpotInterruption", _AWS_NOTICE_S),
    _termination_signal("event", "ASGLifecycle"),
    _termination_signal("event", "ScheduledEvent"),
    _termination_signal("event", "StateChange"),
    _termination_signal("taint", "cloud.google.com/impending-node-termination", _SHORT_NOTICE_S),
    Signal(
        source="condition",
        key="Ready",
        value="False",
        message="node is shutting down",
        state="doomed",
        notice_seconds=_SHORT_NOTICE_S,
    ),
    Signal(
        source="condition",
        key="PreemptionScheduled",
        value="True",
        state="doomed",
        notice_seconds=_SHORT_NOTICE_S,
        deadline_from=DeadlineFrom(message="Preempt Scheduled: (.*? GMT)", format="rfc1123"),
    ),
    _termination_signal("taint", "remediator.kubernetes.azure.com/unschedulable", _SHORT_NOTICE_S),
    Signal(source="taint", key=_NTH_TAINT + "rebalance-recommendation", state="at-risk"),
    Signal(source="event", key="RebalanceRecommendation", state="at-risk"),
    Signal(source="condition", key="VMEventScheduled", value="True", state="at-risk"),
    Signal(source="condition", key="Ready", value="False", state="not-ready"),
    Signal(source="taint", key="node.kubernetes.io/not-ready", state="not-ready"),
    Signal(source="taint", key="karpenter.sh/unregistered", state="not-ready"),
    Signal(source="taint", key="DeletionCandidateOfClusterAutoscaler", state="ok"),
    Signal(source="field", key="spec.unschedulable", state="cordoned"),
)


def pool_tolerations(table: Sequence[Signal]) -> tuple[Toleration, ...]:
    """Return the tolerations for the permanent taints of spot pools."""
    return tuple(
        Toleration(
            key=signal.key,
            operator="Exists" if signal.value is None else "Equal",
            value=signal.value or "",
            effect=signal.effect or "",
        )
        for signal in table
        if signal.source == "taint" and signal.capacity == "spot"
    )


def on_demand_requirement(table: Sequence[Signal]) -> NodeSelectorRequirement:
    """Return the expression that only on-demand nodes meet.

    This is the label `node.kubernetes.io/capacity`. If the table has a label whose absence means on demand, the
    expression excludes the spot values of that label instead. Rule: P23.
    """
    for signal in table:
        if signal.absent is not None and signal.source == "label":
            return NodeSelectorRequirement(signal.key, "NotIn", _label_values(table, signal.key, "spot"))
    return NodeSelectorRequirement(
        CAPACITY_LABEL, "In", _label_values(table, CAPACITY_LABEL, "on-demand") or ("on-demand",)
    )


def spot_requirement(table: Sequence[Signal]) -> NodeSelectorRequirement:
    """Return the expression for the preferred term of the spot class, on the same label."""
    key = on_demand_requirement(table).key
    return NodeSelectorRequirement(key, "In", _label_values(table, key, "spot") or ("spot",))


def _label_values(table: Sequence[Signal], key: str, capacity: str) -> tuple[str, ...]:
    return tuple(
        signal.value
        for signal in table
        if signal.source == "label" and signal.key == key and signal.capacity == capacity and signal.value is not None
    )

"""Rows of the recorder: a pod, a node and a workload of a history at one moment, read from their objects.

This plain twin of the spec's terms shares no code with the deciding code.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from situate.testing.virtual_time.world import EPOCH

Obj = Mapping[str, Any]

CAPACITY: Final = "node.kubernetes.io/capacity"
_PREFIX: Final = "spot.situate.dev/"
ON_DEMAND: Final = _PREFIX + "on-demand"
_ENDING_TAINTS: Final = frozenset(
    {
        "aws-node-termination-handler/spot-itn",
        "cloud.google.com/impending-node-termination",
        "node.kubernetes.io/unreachable",
        "node.kubernetes.io/out-of-service",
        "ToBeDeletedByClusterAutoscaler",
    }
)
_GATE: Final = _PREFIX + "placement"
RIVAL_CLASS: Final = "rival.example.com/class"
"""Annotation of a pod whose affinity the second spot system of a history has set."""
_RISKY_TAINT: Final = "aws-node-termination-handler/rebalance-recommendation"


@dataclass(slots=True)
class NodeRow:
    name: str
    capacity: str
    """`on-demand`, `spot` or empty, by its label."""
    cordoned: bool
    ending: bool
    """Whether its end was announced, or it is silent, or it is being deleted."""
    risky: bool
    labels: Mapping[str, str]
    taints: tuple[Obj, ...]
    changed_at: float
    """Time of the last change of the fields above."""


@dataclass(slots=True)
class PodRow:
    uid: str
    name: str
    controller: str
    """UID of the controller. Empty for a released pod and a pod without a controller."""
    former_owner: str
    """UID of the workload of a released pod."""
    pod_class: str
    node: str
    phase: str
    ready: bool
    terminating: bool
    created: float
    created_timestamp: float
    """Its creationTimestamp in virtual seconds. API servers stamp a Pod before its reviews, which may take seconds."""
    ready_at: float
    """When it last became ready."""
    unready_at: float
    """When it last stopped being ready. Minus infinity: never."""
    bound_at: float
    terminating_at: float
    released_at: float
    """When it was released. Infinity: not released."""
    was_ready: bool
    """Whether it was ready when its deletion began."""
    cost: str
    token: str
    held: bool
    """Whether the history keeps it from ending, or from being ready."""
    gated: bool
    """Whether it waits behind our gate."""
    rivalled: bool
    """Whether another spot system has set its affinity."""

    @property
    def released(self) -> bool:
        return bool(self.former_owner)

    @property
    def active(self) -> bool:
        return not self.terminating and self.phase not in ("Succeeded", "Failed")

    @property
    def live(self) -> bool:
        """Return whether it counts for its workload."""
        return self.active and not self.released


@dataclass(slots=True)
class OwnerRow:
    uid: str
    kind: str
    name: str
    replicas: int
    policy: str
    """The last readable policy. Empty: the default."""
    can_be_read: bool
    """Whether the present policy is readable. If not, a process started since uses the default (P11)."""
    opted_out: bool
    may_restart: bool
    """Whether its user allows moving an only pod."""
    start: int
    """The first ordinal."""
    changed_at: float
    """When a user last wrote to it."""

    @property
    def floor(self) -> int:
        return floor_of(self.kind, self.replicas, self.policy)


def is_readable(policy: str) -> bool:
    """Return whether the text is a policy. An empty text is none."""
    try:
        floor_of("Deployment", 4, policy)
    except ValueError:
        return False
    return policy != ""


def floor_of(kind: str, replicas: int, policy: str) -> int:
    """Return the floor of a policy (P10). Raises `ValueError` if the text is no policy."""
    if replicas == 0:
        return 0
    match policy:
        case "" | "default":
            majority = replicas if replicas <= 1 else replicas // 2 + 1
            return majority if kind == "StatefulSet" else 0
        case "all-on-demand":
            return replicas
        case "all-spot":
            return 0
        case "majority":
            return replicas if replicas <= 1 else replicas // 2 + 1
    if policy.isascii() and policy.isdecimal():
        return min(int(policy), replicas)
    if policy.endswith("%") and policy[:-1].isdecimal() and int(policy[:-1]) <= 100:
        return -(-replicas * int(policy[:-1]) // 100)
    if policy.startswith("base="):
        base, _, weight = policy.removeprefix("base=").partition(",weight=")
        ours, _, theirs = weight.partition(":")
        share = max(0, replicas - int(base)) * int(ours)
        return min(replicas, int(base) + -(-share // (int(ours) + int(theirs))))
    raise ValueError(policy)


def owner_row(obj: Obj, before: OwnerRow | None, now: float) -> OwnerRow:
    """Build the row of a workload. An unreadable policy leaves the last one in force."""
    metadata, spec = obj["metadata"], obj["spec"]
    annotations = metadata.get("annotations") or {}
    said = annotations.get(ON_DEMAND)
    can_be_read = said is None or is_readable(said)
    policy = said or "" if can_be_read else before.policy if before is not None else ""
    return OwnerRow(
        metadata["uid"],
        obj["kind"],
        metadata["name"],
        spec.get("replicas", 1),
        policy,
        can_be_read,
        annotations.get(_PREFIX + "mix") == "disabled",
        annotations.get(_PREFIX + "allow-restart") == "true",
        (spec.get("ordinals") or {}).get("start", 0),
        now,
    )


def pod_row(obj: Obj, before: PodRow | None, now: float) -> PodRow:
    metadata, spec, status = obj["metadata"], obj["spec"], obj.get("status") or {}
    annotations, labels = metadata.get("annotations") or {}, metadata.get("labels") or {}
    controller = next((each["uid"] for each in metadata.get("ownerReferences") or () if each.get("controller")), "")
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in status.get("conditions") or ())
    terminating = "deletionTimestamp" in metadata
    decision = annotations.get(_PREFIX + "decision", "")
    released = labels.get("pod-template-hash", "").startswith("released-")
    node = spec.get("nodeName", "")
    row = PodRow(
        metadata["uid"],
        metadata["name"],
        controller,
        _field(decision, "owner") if released else "",
        labels.get(_PREFIX + "class", ""),
        node,
        status.get("phase", ""),
        ready,
        terminating,
        now,
        datetime.fromisoformat(metadata["creationTimestamp"]).timestamp() - EPOCH,
        now,
        float("-inf"),
        now,
        float("inf"),
        float("inf"),
        ready,
        annotations.get("controller.kubernetes.io/pod-deletion-cost", ""),
        _field(decision, "token"),
        "hold" in annotations or "unready" in annotations,
        any(each["name"] == _GATE for each in spec.get("schedulingGates") or ()),
        RIVAL_CLASS in annotations,
    )
    if before is None:
        row.terminating_at = now if terminating else row.terminating_at
        row.released_at = now if released else row.released_at
        return row
    row.created = before.created
    row.ready_at = before.ready_at if before.ready == ready else now
    row.unready_at = now if before.ready and not ready else before.unready_at
    row.bound_at = before.bound_at if before.node == node else now
    if terminating:
        row.terminating_at = before.terminating_at if before.terminating else now
        row.was_ready = before.was_ready if before.terminating else before.ready
    if released:
        row.released_at = before.released_at if before.released else now
    return row


def _field(decision: str, key: str) -> str:
    _, _, rest = decision.partition(f'"{key}":"')
    return rest.partition('"')[0]


def node_row(obj: Obj, now: float) -> NodeRow:
    metadata, spec, status = obj["metadata"], obj.get("spec") or {}, obj.get("status") or {}
    taints = tuple(spec.get("taints") or ())
    keys = {taint["key"] for taint in taints}
    conditions = {each["type"]: each["status"] for each in status.get("conditions") or ()}
    ending = (
        bool(keys & _ENDING_TAINTS)
        or "deletionTimestamp" in metadata
        or conditions.get("Ready") == "Unknown"
        or conditions.get("PreemptionScheduled") == "True"
    )
    labels = metadata.get("labels") or {}
    capacity = labels.get(CAPACITY, "")
    return NodeRow(
        metadata["name"],
        capacity if capacity in ("on-demand", "spot") else "",
        bool(spec.get("unschedulable")),
        ending,
        _RISKY_TAINT in keys,
        labels,
        taints,
        now,
    )


def is_same_node(before: NodeRow, after: NodeRow) -> bool:
    return (before.capacity, before.cordoned, before.ending, before.risky, before.taints) == (
        after.capacity,
        after.cordoned,
        after.ending,
        after.risky,
        after.taints,
    )

"""Basic values of spot: capacity, keys on objects, and the facts of pods, nodes and workloads.

`node_signals` makes nodes into values, `owners` workloads and pods. This module holds no decisions. Times are seconds
since the epoch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Final, NamedTuple

from situate.objects.kinds.meta import NO_LABELS

CAPACITY_LABEL: Final = "node.kubernetes.io/capacity"
PREFIX: Final = "spot.situate.dev/"
MIX: Final = PREFIX + "mix"
"""Label of a namespace or pod, annotation of a workload: `enabled` or `disabled`."""
ON_DEMAND: Final = PREFIX + "on-demand"
"""Annotation of a workload or namespace: the number of pods that must be on demand."""
CLASS: Final = PREFIX + "class"
"""Label of a pod: the class that admission wrote."""
DECISION: Final = PREFIX + "decision"
"""Annotation of a pod: token, owner, counts and reason of its class, as JSON."""
DEADLINE: Final = PREFIX + "deadline"
"""Annotation of a released pod: the time by which it must be gone, RFC 3339."""
ALLOW_RESTART: Final = PREFIX + "allow-restart"
"""Annotation of a StatefulSet with one replica: `true` lets policy move its only pod."""
SPREAD_POOLS: Final = PREFIX + "spread-pools"
"""Annotation of a workload: `true` adds preferred terms against the pools that it fills most."""
LEADER: Final = PREFIX + "leader"
"""Annotation of a workload: `role=primary`, a label of its leader, or `lease/NAME`."""
WEBHOOK_CHECK: Final = PREFIX + "tried"
"""Annotation of a Pod that `situate check` creates as a dry run: `asked`, or `answered` by the webhook."""
GATE: Final = PREFIX + "placement"
"""Scheduling gate of strict mode."""
DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
MIRROR: Final = "kubernetes.io/config.mirror"
"""Annotation of the mirror of a static pod in the API."""
TEMPLATE_HASH: Final = "pod-template-hash"
RELEASED_PREFIX: Final = "released-"
"""Prefix of the `pod-template-hash` of a pod that was released from its ReplicaSet."""
HOSTNAME: Final = "kubernetes.io/hostname"
INSTANCE_TYPE_LABEL: Final = "node.kubernetes.io/instance-type"
ZONE_LABEL: Final = "topology.kubernetes.io/zone"


def no_labels() -> Mapping[str, str]:
    """Return the one empty map, shared by all values without labels."""
    return NO_LABELS


class Capacity(StrEnum):
    """Capacity type of a node. The class of a pod is also one, but never unknown."""

    ON_DEMAND = "on-demand"
    SPOT = "spot"
    UNKNOWN = "unknown"
    """Never counts as on demand."""


class NodeState(IntEnum):
    """State of a node, from the weakest to the strongest; the strongest signal applies."""

    OK = 0
    CORDONED = 1
    """By another party: the node takes no new pods, and the controller evicts none there."""
    NOT_READY = 2
    """Not usable yet, or not now."""
    AT_RISK = 3
    """May be reclaimed soon."""
    DOOMED = 4
    """Ends, perhaps at a known deadline."""
    DEAD = 5
    """Gone or silent: its pods do not serve."""

    def __str__(self) -> str:
        return self.name.lower().replace("_", "-")


class PodKey(NamedTuple):
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """A node, read from its labels and signals."""

    name: str
    capacity: Capacity = Capacity.UNKNOWN
    state: NodeState = NodeState.OK
    deadline: float | None = None
    """Time of its end; None if unknown."""
    cordoned: bool = False
    """True also if a stronger state applies."""
    why: str = ""
    """The signal that gave the state."""
    pool: str = ""
    """Nodes that are reclaimed together: instance type and zone, as far as they are known."""
    instance_type: str = ""
    zone: str = ""
    created: float = 0.0
    cpu_milli: int = 0
    """Allocatable CPU."""
    tainted: bool = False
    """Whether a taint of its own already keeps new pods away."""

    @property
    def ending(self) -> bool:
        """Whether the pods of the node no longer count."""
        return self.state >= NodeState.DOOMED


@dataclass(frozen=True, slots=True)
class PodFacts:
    """A pod and its controller."""

    key: PodKey
    uid: str
    controller: str = ""
    """Uid of the controlling object; empty for a pod without a controller."""
    revision: str = ""
    pod_class: Capacity | None = None
    """None if it was admitted without a class."""
    token: str = ""
    """Token of the reservation that the pod fulfils."""
    node: str = ""
    """Empty until bound."""
    phase: str = "Pending"
    ready: bool = False
    ready_since: float | None = None
    """None while the pod is not ready."""
    created: float = 0.0
    started: float | None = None
    """Time at which a kubelet accepted the pod; None before."""
    terminating: bool = False
    released: bool = False
    """The controller took it out of its ReplicaSet, and it serves until its deadline."""
    deadline: float | None = None
    """Deadline of a released pod."""
    restarts: int = 0
    cost: int | None = None
    """Its deletion cost; None if it has none."""
    gated: bool = False
    """Whether it still waits behind the gate of strict mode."""
    owners: int = 1
    """Number of owner references of any kind."""
    cpu_milli: int = 0
    """Requested CPU."""
    grace_s: float = 30.0
    labels: Mapping[str, str] = field(default_factory=no_labels)
    evicting: tuple[tuple[str, int], ...] = ()
    """Key and seconds of its tolerations of not-ready and unreachable nodes."""
    former_owner: str = ""
    """Uid of the workload that a released pod served."""

    @property
    def finished(self) -> bool:
        return self.phase in ("Succeeded", "Failed")

    @property
    def active(self) -> bool:
        """Whether a ReplicaSet counts the pod."""
        return not self.terminating and not self.finished

    @property
    def live(self) -> bool:
        """Whether the pod counts for its workload: active and not released."""
        return self.active and not self.released


@dataclass(frozen=True, slots=True)
class Owner:
    """A workload: the object at the end of its pods' controller chain."""

    kind: str
    namespace: str
    name: str
    uid: str
    replicas: int = 1
    stateful: bool = False
    """Whether the ordinals of pods decide their class, and a majority is on demand by default."""
    ordinals_start: int = 0
    revision: str = ""
    """The revision of new pods."""
    revision_label: str = TEMPLATE_HASH
    """Label of the revision on its pods."""
    observed: bool = True
    """Whether its controller has observed the current spec."""
    rolling: bool = False
    """Whether pods of an older revision are being replaced."""
    paused: bool = False
    min_ready_s: float = 0.0
    annotations: Mapping[str, str] = field(default_factory=no_labels)
    labels: Mapping[str, str] = field(default_factory=no_labels)
    template_labels: Mapping[str, str] = field(default_factory=no_labels)
    tolerated: frozenset[str] = frozenset()
    """Keys of the eviction tolerations that its own template sets; an empty key means all keys."""
    pinned: Capacity | None = None
    """The only capacity that the template's own constraints allow."""
    conflict: str = ""
    """Field of the template with these constraints, for reports."""
    releasable: bool = False
    """Whether a ReplicaSet between it and its pods releases a pod if the pod's label changes (K6)."""
    placeable: bool = True
    """Whether the template's own constraints allow any capacity."""
    template_cost: bool = False
    """Whether the template sets a deletion cost; the cost then belongs to the user."""

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"

    def ordinal(self, pod: str) -> int | None:
        """Return the pod's ordinal, counted from 0; None without ordinals or if the name belongs to another set."""
        head, dash, digits = pod.rpartition("-")
        if not self.stateful or not dash or head != self.name or not (digits.isascii() and digits.isdecimal()):
            return None
        if len(digits) > 10 or (digits[0] == "0" and len(digits) > 1):
            return None
        return int(digits) - self.ordinals_start

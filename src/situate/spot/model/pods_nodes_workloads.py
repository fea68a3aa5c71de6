"""The words of spot: capacity and class, the keys on objects, and what is read of pods, nodes and workloads.

Only values live here. Nodes become values in `node_signals`, workloads and pods in `owners`; what follows from them is
decided elsewhere. Times are seconds since the epoch.
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
"""Annotation of a workload or namespace: how many pods must be on demand."""
CLASS: Final = PREFIX + "class"
"""Label of a pod: what admission wrote."""
DECISION: Final = PREFIX + "decision"
"""Annotation of a pod: token, owner, counts and reason of its class, as JSON."""
DEADLINE: Final = PREFIX + "deadline"
"""Annotation of a released pod: when it has to be gone, RFC 3339."""
ALLOW_RESTART: Final = PREFIX + "allow-restart"
"""Annotation of a StatefulSet of one replica: `true` lets its only pod be moved."""
SPREAD_POOLS: Final = PREFIX + "spread-pools"
"""Annotation of a workload: `true` asks for wishes against the pools that it fills most."""
LEADER: Final = PREFIX + "leader"
"""Annotation of a workload: `role=primary`, a label of its leader, or `lease/NAME`."""
TRIED: Final = PREFIX + "tried"
"""Annotation of a Pod that `situate check` creates as a dry run: `asked`, and `answered` by the webhook."""
GATE: Final = PREFIX + "placement"
"""Scheduling gate of strict mode."""
DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
MIRROR: Final = "kubernetes.io/config.mirror"
"""Annotation of a static pod's image in the API."""
TEMPLATE_HASH: Final = "pod-template-hash"
RELEASED: Final = "released-"
"""Begins the `pod-template-hash` of a pod that was released from its ReplicaSet."""
HOSTNAME: Final = "kubernetes.io/hostname"
INSTANCE_TYPE_LABEL: Final = "node.kubernetes.io/instance-type"
ZONE_LABEL: Final = "topology.kubernetes.io/zone"


def no_labels() -> Mapping[str, str]:
    """The one empty map: values without labels share it."""
    return NO_LABELS


class Capacity(StrEnum):
    """What a node is. A pod's class is one too: what admission asked for, never unknown."""

    ON_DEMAND = "on-demand"
    SPOT = "spot"
    UNKNOWN = "unknown"
    """Never counts as on demand."""


class NodeState(IntEnum):
    """From the weakest to the strongest: the strongest signal holds."""

    OK = 0
    CORDONED = 1
    """By somebody: no new pods, and we evict nothing there."""
    NOT_READY = 2
    """Not usable yet, or not now."""
    AT_RISK = 3
    """May be reclaimed soon."""
    DOOMED = 4
    """Ends, perhaps at a known deadline."""
    DEAD = 5
    """Gone, or silent: its pods do not serve."""

    def __str__(self) -> str:
        return self.name.lower().replace("_", "-")


class PodKey(NamedTuple):
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """A node as its labels and signals tell it."""

    name: str
    capacity: Capacity = Capacity.UNKNOWN
    state: NodeState = NodeState.OK
    deadline: float | None = None
    """When it ends; None if nobody said."""
    cordoned: bool = False
    """Also where a stronger state holds."""
    why: str = ""
    """The signal that gave the state."""
    pool: str = ""
    """What is reclaimed together: instance type and zone, as far as they are known."""
    instance_type: str = ""
    zone: str = ""
    created: float = 0.0
    cpu_milli: int = 0
    """Allocatable."""
    tainted: bool = False
    """Whether a taint of its own already keeps new pods away."""

    @property
    def ending(self) -> bool:
        """Whether its pods count for nothing any more."""
        return self.state >= NodeState.DOOMED


@dataclass(frozen=True, slots=True)
class PodFacts:
    """A pod of some controller."""

    key: PodKey
    uid: str
    controller: str = ""
    """Uid of the object that controls it; empty for a pod of nobody's."""
    revision: str = ""
    pod_class: Capacity | None = None
    """None if it was admitted without us."""
    token: str = ""
    """Of the reservation that it fulfils."""
    node: str = ""
    """Empty until bound."""
    phase: str = "Pending"
    ready: bool = False
    ready_since: float | None = None
    """None while it is not ready."""
    created: float = 0.0
    started: float | None = None
    """When a kubelet took it; None before."""
    terminating: bool = False
    released: bool = False
    """Left its ReplicaSet by our hand and serves until its deadline."""
    deadline: float | None = None
    """Of a released pod."""
    restarts: int = 0
    cost: int | None = None
    """Its deletion cost; None if it has none."""
    gated: bool = False
    """Whether it still waits for our gate."""
    owners: int = 1
    """References to owners of any kind."""
    cpu_milli: int = 0
    """Requested."""
    grace_s: float = 30.0
    labels: Mapping[str, str] = field(default_factory=no_labels)
    evicting: tuple[tuple[str, int], ...] = ()
    """Key and seconds of its tolerations of a node that is not ready or unreachable."""
    former_owner: str = ""
    """Of a released pod: uid of the workload that it served for."""

    @property
    def finished(self) -> bool:
        return self.phase in ("Succeeded", "Failed")

    @property
    def active(self) -> bool:
        """Whether a ReplicaSet counts it."""
        return not self.terminating and not self.finished

    @property
    def live(self) -> bool:
        """Whether it counts for its workload: active and not released."""
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
    """Whether pods have ordinals that choose their class, and a majority is kept by default."""
    ordinals_start: int = 0
    revision: str = ""
    """The one that its new pods get."""
    revision_label: str = TEMPLATE_HASH
    """Of its pods."""
    observed: bool = True
    """Whether its controller has seen the present spec."""
    rolling: bool = False
    """Whether pods of an older revision are being replaced."""
    paused: bool = False
    min_ready_s: float = 0.0
    annotations: Mapping[str, str] = field(default_factory=no_labels)
    labels: Mapping[str, str] = field(default_factory=no_labels)
    template_labels: Mapping[str, str] = field(default_factory=no_labels)
    tolerated: frozenset[str] = frozenset()
    """Keys of the evicting tolerations that its own template sets; empty means all keys."""
    pinned: Capacity | None = None
    """The only capacity that its template's own constraints allow."""
    conflict: str = ""
    """Where in the template that is said, for reports."""
    releasable: bool = False
    """Whether a ReplicaSet stands between it and its pods, which lets go of a pod whose label changes (K6)."""
    placeable: bool = True
    """Whether its template's own constraints allow any capacity."""
    template_cost: bool = False
    """Whether its template sets a deletion cost, which is then the user's."""

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"

    def ordinal(self, pod: str) -> int | None:
        """Which of its pods this is, from 0 on; None where pods have no ordinals or the name is another set's."""
        head, dash, digits = pod.rpartition("-")
        if not self.stateful or not dash or head != self.name or not (digits.isascii() and digits.isdecimal()):
            return None
        if len(digits) > 10 or (digits[0] == "0" and len(digits) > 1):
            return None
        return int(digits) - self.ordinals_start

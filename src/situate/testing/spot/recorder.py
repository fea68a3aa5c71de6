"""What is at every moment: of each pod its time, owner, node, phase and whether it serves (spot.md, section 6).

It reads the server's store beside the API, which costs nothing, and shares no code with what decides: a plain twin of
the words of the reference. What must hold of it is `situate.testing.spot.invariants`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from situate.cluster.store import Event, Store

Obj = Mapping[str, Any]

CAPACITY: Final = "node.kubernetes.io/capacity"
_PREFIX: Final = "spot.situate.dev/"
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
RIVALLED: Final = "rival.example.com/class"
"""Annotation of a pod that a second spot system of a history has set the affinity of."""
_RISKY_TAINT: Final = "aws-node-termination-handler/rebalance-recommendation"
_LOG: Final = 4000
"""Rows that are kept for the story of a failure."""


@dataclass(slots=True)
class NodeRow:
    name: str
    capacity: str
    """`on-demand`, `spot` or empty, as its label says."""
    cordoned: bool
    ending: bool
    """It was said to end, is silent, or is being deleted."""
    risky: bool
    labels: Mapping[str, str]
    taints: tuple[Obj, ...]
    changed_at: float
    """When one of these last became what it is."""


@dataclass(slots=True)
class PodRow:
    uid: str
    name: str
    controller: str
    """Uid; empty for a pod that was released, or has none."""
    former_owner: str
    """Of a released pod: the workload that it served for."""
    pod_class: str
    node: str
    phase: str
    ready: bool
    terminating: bool
    created: float
    ready_at: float
    """When it last became ready."""
    unready_at: float
    """When it last stopped being ready; minus infinity for never."""
    bound_at: float
    terminating_at: float
    released_at: float
    """Infinity until it is."""
    was_ready: bool
    """When its deletion began."""
    cost: str
    token: str
    held: bool
    """The history keeps it from ending, or from being ready."""
    gated: bool
    """It waits behind our gate."""
    rivalled: bool
    """Another spot system has set its affinity."""

    @property
    def released(self) -> bool:
        return bool(self.former_owner)

    @property
    def active(self) -> bool:
        return not self.terminating and self.phase not in ("Succeeded", "Failed")

    @property
    def live(self) -> bool:
        """Whether it counts for its workload."""
        return self.active and not self.released


@dataclass(slots=True)
class OwnerRow:
    uid: str
    kind: str
    name: str
    replicas: int
    policy: str
    """The last one that can be read; empty for the default."""
    can_be_read: bool
    """Of the present one; else a process that was started since knows the default only (P11)."""
    opted_out: bool
    may_restart: bool
    """Its user lets an only pod be moved."""
    start: int
    """The first ordinal."""
    changed_at: float
    """When a user last wrote to it."""

    @property
    def floor(self) -> int:
        return floor_of(self.kind, self.replicas, self.policy)


@dataclass(slots=True)
class Recorder:
    """Rows by uid, nodes by name; `works` says whether a machine runs, whatever the API knows."""

    store: Store
    namespace: str
    """Of the workloads; pods elsewhere are not looked at."""
    clock: Callable[[], float]
    works: Callable[[str], bool]
    pods: dict[str, PodRow] = field(default_factory=dict)
    owners: dict[str, OwnerRow] = field(default_factory=dict)
    nodes: dict[str, NodeRow] = field(default_factory=dict)
    log: deque[tuple[float, str, str, str, str, str]] = field(default_factory=lambda: deque(maxlen=_LOG))
    """Time, pod, owner, node, phase, and whether it serves."""
    changed: list[Callable[[str], None]] = field(default_factory=list)
    """Told of the uid of every workload of which a pod has changed."""
    opened: list[Callable[[Obj, Obj], None]] = field(default_factory=list)
    """Told of every pod that is let go from behind our gate: before, and after."""
    gone: dict[str, PodRow] = field(default_factory=dict)
    """The last of each name that was removed."""
    _sets: dict[str, str] = field(default_factory=dict)
    """Workload of each ReplicaSet, by uid."""
    _generations: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.store.subscribe(self._observe)
        for table in self.store.tables():
            for each in table.ordered():
                self._observe(Event("ADDED", table.resource, each.revision, None, each))

    def owner_of(self, pod: PodRow) -> str:
        """Uid of the workload, also of one that is gone; empty for none."""
        return pod.former_owner or self._sets.get(pod.controller, pod.controller)

    def pods_of(self, owner: str) -> list[PodRow]:
        """All of them, also those that end and those that were released."""
        return [pod for pod in self.pods.values() if self.owner_of(pod) == owner]

    def named(self, name: str) -> PodRow | None:
        return next((pod for pod in self.pods.values() if pod.name == name), None)

    def serves(self, pod: PodRow) -> bool:
        """It is ready and the machine under it runs; endpoints vanish when a deletion begins."""
        return pod.ready and not pod.terminating and self.works(pod.node)

    def effective(self, pod: PodRow) -> str:
        """`on-demand`, `spot`, `unknown`, or empty for a pod on a node that ends."""
        if not pod.node:
            return pod.pod_class or "unknown"
        node = self.nodes.get(pod.node)
        if node is None:
            return "unknown"
        return "" if node.ending else node.capacity or "unknown"

    def serving(self, owner: str) -> int:
        return sum(map(self.serves, self.pods_of(owner)))

    def on_demand_serving(self, owner: str) -> int:
        """Those that count, serve, and stand on demand."""
        return sum(pod.live and self.serves(pod) and self.effective(pod) == "on-demand" for pod in self.pods_of(owner))

    def on_demand(self, owner: str) -> int:
        """Those that count and are effectively on demand."""
        return sum(pod.live and self.effective(pod) == "on-demand" for pod in self.pods_of(owner))

    def told(self, owner: str) -> str:
        """Its pods in words."""
        words = []
        for pod in self.pods_of(owner):
            state = "released" if pod.released else "terminating" if pod.terminating else pod.phase or "Pending"
            ready = "ready" if self.serves(pod) else "not ready"
            words.append(f"{pod.name} ({pod.pod_class or 'unclassed'}, on {pod.node or '-'}, {state}, {ready})")
        return ", ".join(words)

    def _observe(self, event: Event) -> None:
        match event.resource:
            case "pods":
                if event.last.namespace == self.namespace:
                    self._pod(event)
            case "nodes":
                self._node(event)
            case "replicasets.apps":
                if event.new is not None:
                    self._sets[event.last.uid] = next(iter(event.last.owners), "")
            case "deployments.apps" | "statefulsets.apps" | "rollouts.argoproj.io" | "clonesets.apps.kruise.io":
                self._owner(event)

    def _pod(self, event: Event) -> None:
        uid, now = event.last.uid, self.clock()
        before = self.pods.get(uid)
        if event.new is None:
            if before is not None:
                self.gone[before.name] = self.pods.pop(uid)
        else:
            self.pods[uid] = _pod_row(event.new.object(), before, now)
            if before is not None and before.gated and not self.pods[uid].gated and event.old is not None:
                for told in self.opened:
                    told(event.old.object(), event.new.object())
        after = self.pods.get(uid)
        row = after or before
        if row is None:
            return
        owner = self.owner_of(row)
        serves = "gone" if after is None else "serves" if self.serves(row) else "does not serve"
        state = "terminating" if row.terminating else "released" if row.released else row.phase
        self.log.append((now, row.name, owner, row.node, state, serves))
        for listener in self.changed:
            listener(owner)

    def _node(self, event: Event) -> None:
        name = event.last.name
        before = self.nodes.pop(name, None)
        if event.new is not None:
            after = self.nodes[name] = _node_row(event.new.object(), self.clock())
            if before is not None and _same(before, after):
                after.changed_at = before.changed_at
                return
        for owner in {self.owner_of(pod) for pod in self.pods.values() if pod.node == name}:
            for listener in self.changed:
                listener(owner)

    def _owner(self, event: Event) -> None:
        uid = event.last.uid
        before = self.owners.get(uid)
        if event.new is None:
            self.owners.pop(uid, None)
            return
        obj = event.new.object()
        metadata, spec = obj["metadata"], obj["spec"]
        annotations = metadata.get("annotations") or {}
        said = annotations.get(_PREFIX + "on-demand")
        can_be_read = said is None or readable(said)
        policy = said or "" if can_be_read else before.policy if before is not None else ""
        row = OwnerRow(
            uid,
            obj["kind"],
            metadata["name"],
            spec.get("replicas", 1),
            policy,
            can_be_read,
            annotations.get(_PREFIX + "mix") == "disabled",
            annotations.get(_PREFIX + "allow-restart") == "true",
            (spec.get("ordinals") or {}).get("start", 0),
            self.clock(),
        )
        generation = (metadata.get("generation", 0), said, row.opted_out, row.may_restart)
        if before is not None and self._generations.get(uid) == hash(generation):
            row.changed_at = before.changed_at
        self._generations[uid] = hash(generation)
        self.owners[uid] = row


def readable(policy: str) -> bool:
    """Whether this is a policy; an empty one is none."""
    try:
        floor_of("Deployment", 4, policy)
    except ValueError:
        return False
    return policy != ""


def floor_of(kind: str, replicas: int, policy: str) -> int:
    """P10. Raises `ValueError` for what is no policy."""
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


def _pod_row(obj: Obj, before: PodRow | None, now: float) -> PodRow:
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
        RIVALLED in annotations,
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


def _node_row(obj: Obj, now: float) -> NodeRow:
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


def _same(before: NodeRow, after: NodeRow) -> bool:
    return (before.capacity, before.cordoned, before.ending, before.risky, before.taints) == (
        after.capacity,
        after.cordoned,
        after.ending,
        after.risky,
        after.taints,
    )


def owners_in_order(recorder: Recorder) -> Iterator[OwnerRow]:
    """By name: every run sees them alike."""
    yield from sorted(recorder.owners.values(), key=lambda each: (each.name, each.uid))

"""The known Pods of one StatefulSet: their slots, nodes and zones, and the class of each Pod.

Each ordinal with a Pod, a placement or a reservation has a `Slot` of `records`. Nothing else uses memory, so the number
of Pods plus placement entries bounds it, however large an ordinal in a status is (D11). `counts` counts the units on a
slot. The rules of the classes are in "Pod classes" of `docs/spec/vpod.md`.

The time only moves forward and is an argument. An unhealthy Pod is on hold until `pod_grace` has passed.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter

from situate.vpod.model.options import Options, Topology
from situate.vpod.model.pod_classes import ACCEPTED, Cause, NodeFacts, PodClass, PodFacts, Verdict, hold_cause, is_true
from situate.vpod.model.records import DrainGoal, Slot, add_count
from situate.vpod.model.vpod import UNKNOWN_ZONE, ordinal_of, pod_name


class PodTable:
    """Pods by ordinal, with the class of each."""

    def __init__(self, options: Options, replicas: int, now: float) -> None:
        self.options = options
        self.replicas = replicas
        self.now = now
        self.version = 0  # differs after every change: with an equal version, equal questions have equal answers
        self.nodes: dict[str, NodeFacts] = {}
        self.nodes_known = False
        self.slots: dict[int, Slot] = {}
        self.drain: DrainGoal | None = None
        self.reset_from: int | None = None  # R before another client lowered it, until podGrace is over
        self.reset_since = 0.0
        self.open: dict[str, list[int]] = {}  # by domain: ordinals with free capacity, ascending
        self.ousted: set[int] = set()  # ordinals that must lose vreplicas: rejecting or overcommitted
        self.causes: Counter[Cause] = Counter()  # of the existing Pods below R; NONE: accepting
        self._ordinals: dict[str, int] = {}
        self._on_node: dict[str, set[int]] = {}
        self._deadlines: dict[int, float] = {}  # ordinal: when its hold ends
        self._next_deadline = float("inf")

    def advance(self, now: float) -> None:
        """Advance the time and end holds that are due. A time that is not later is ignored."""
        if now <= self.now:
            return
        self.now = now
        if now < self._next_deadline:
            return
        if self.reset_from is not None and now >= self.reset_since + self.options.pod_grace:
            self.reset_from = None
            self.version += 1
        for ordinal in sorted(o for o, deadline in self._deadlines.items() if deadline <= now):
            self._classify(self.slots[ordinal])
        self._next_deadline = min(self._deadlines.values(), default=float("inf"))

    def next_deadline(self) -> float | None:
        """Return when the next hold ends if nothing changes before."""
        return None if self._next_deadline == float("inf") else self._next_deadline

    def classify_all(self, now: float) -> None:
        """Compute the class of every Pod again from the facts."""
        self.now = max(self.now, now)
        for slot in list(self.slots.values()):
            self._classify(slot)

    def observe_pod(self, pod: PodFacts, now: float) -> None:
        """Update the facts about a Pod.

        Pods of other StatefulSets are ignored. Rule D12.
        """
        self.advance(now)
        ordinal = self.ordinal(pod.name)
        if ordinal is None:
            return
        slot = self._get_or_add_slot(ordinal)
        if slot.pod == pod:
            return
        self._unlink_node(slot)
        self._replace_pod(slot, pod)
        self._classify(slot)

    def remove_pod(self, name: str, now: float) -> None:
        """Record that a Pod no longer exists."""
        self.advance(now)
        slot = self.slots.get(self._ordinals.get(name, -1))
        if slot is None or slot.pod is None:
            return
        self._unlink_node(slot)
        self._replace_pod(slot, None)
        self._classify(slot)
        self._drop_if_idle(slot)

    def observe_node(self, node: NodeFacts, now: float) -> None:
        """Update the facts about a node. After the first observed node, unknown nodes count as gone."""
        self.advance(now)
        first = not self.nodes_known
        self.nodes_known = True
        before = self.nodes.get(node.name)
        self.nodes[node.name] = node
        if first:
            self.classify_all(now)
        elif before != node:
            self.version += 1  # a zone counts even without a Pod
            self._classify_node(node.name)

    def remove_node(self, name: str, now: float) -> None:
        self.advance(now)
        if self.nodes.pop(name, None) is not None:
            self.version += 1
            self._classify_node(name)

    def verdict(self, ordinal: int) -> Verdict:
        """Return the class of a Pod, whether or not the Pod exists."""
        slot = self.slots.get(ordinal)
        return slot.verdict if slot is not None else self._compute_verdict(None, ordinal, self.now)

    def is_drained(self, ordinal: int) -> bool:
        """Return whether a drain empties this ordinal, even if another cause also holds its Pod."""
        return self.drain is not None and ordinal >= self.drain.target

    def ordinal(self, pod: str) -> int | None:
        """Return the ordinal of a Pod of this StatefulSet, or None."""
        known = self._ordinals.get(pod)
        return known if known is not None else ordinal_of(pod, self.options.statefulset_name)

    def domain(self, slot: Slot) -> str | None:
        """Return the zone or node of the Pod, as `topology` says; None while the Pod has no node."""
        if slot.pod is None or not slot.pod.node:
            return None
        if self.options.topology is Topology.NODE:
            return slot.pod.node
        node = self.nodes.get(slot.pod.node)
        return (node.zone if node is not None else None) or UNKNOWN_ZONE

    def _add_listed_pod(self, pod: PodFacts) -> None:
        """Add a Pod without computing its class; used by `rebuilt`."""
        ordinal = self.ordinal(pod.name)
        if ordinal is None:
            return
        slot = self.slots.get(ordinal)
        if slot is None:
            slot = self.slots[ordinal] = Slot(ordinal, pod.name)
            self._ordinals[slot.name] = ordinal
        self._unlink_node(slot)
        self._replace_pod(slot, pod)

    def _get_or_add_slot(self, ordinal: int) -> Slot:
        slot = self.slots.get(ordinal)
        if slot is None:
            slot = self.slots[ordinal] = Slot(ordinal, pod_name(self.options.statefulset_name, ordinal))
            self._ordinals[slot.name] = ordinal
            # without a slot there is no Pod, so the ordinal is on hold or rejected from now on
            slot.verdict = self._compute_verdict(slot, ordinal, self.now)
            self._store_deadline(slot)
        return slot

    def _drop_if_idle(self, slot: Slot) -> None:
        """Drop a slot without a Pod and without counts."""
        if slot.pod is None and not slot.committed and not slot.adding and not slot.trimming:
            self.slots.pop(slot.ordinal, None)
            self._ordinals.pop(slot.name, None)
            self._deadlines.pop(slot.ordinal, None)
            self.ousted.discard(slot.ordinal)

    def _replace_pod(self, slot: Slot, pod: PodFacts | None) -> None:
        slot.pod = pod
        if pod is not None and pod.node:
            self._on_node.setdefault(pod.node, set()).add(slot.ordinal)

    def _unlink_node(self, slot: Slot) -> None:
        if slot.pod is not None and slot.pod.node:
            there = self._on_node[slot.pod.node]
            there.discard(slot.ordinal)
            if not there:
                del self._on_node[slot.pod.node]

    def _classify_node(self, name: str) -> None:
        for ordinal in sorted(self._on_node.get(name, ())):
            self._classify(self.slots[ordinal])

    def _classify(self, slot: Slot) -> None:
        """Compute the class of a slot again, and update everything that depends on it."""
        self.version += 1
        slot.verdict = self._compute_verdict(slot, slot.ordinal, self.now)
        domain = (self.domain(slot) or "") if self.options.topology is not Topology.NONE else ""
        if domain != slot.domain:
            if slot.open:
                self._remove_from_open(slot)
                slot.open = False
            slot.domain = domain
        self._store_deadline(slot)
        self._count_cause(slot)
        self._refresh_slot(slot)

    def _store_deadline(self, slot: Slot) -> None:
        until = slot.verdict.until
        if until is None:
            self._deadlines.pop(slot.ordinal, None)
        else:
            self._deadlines[slot.ordinal] = until
            self._next_deadline = min(self._next_deadline, until)

    def _compute_verdict(self, slot: Slot | None, ordinal: int, now: float) -> Verdict:
        """Return the first match of the list in "Pod classes" of `docs/spec/vpod.md`. Updates the slot's `since`."""
        options = self.options
        pod = slot.pod if slot is not None else None
        if not options.safe:
            return self._reference_verdict(pod, ordinal)
        node = self.nodes.get(pod.node) if pod is not None and pod.node else None
        cause = hold_cause(pod, node, self.nodes_known, options)
        since = now if slot is None or slot.since is None else slot.since
        if slot is not None:
            slot.since = None if cause is Cause.NONE else since
        if pod is not None and is_true(pod.annotation):
            return Verdict(PodClass.REJECT, Cause.UNSCHEDULABLE)
        if ordinal >= self.replicas:
            until = self.reset_since + options.pod_grace
            if self.reset_from is not None and ordinal < self.reset_from and now < until:
                return Verdict(PodClass.HOLD, Cause.REPLICAS_RESET, until)
            return Verdict(PodClass.REJECT, Cause.BEYOND_REPLICAS)
        if cause is not Cause.NONE:
            until = since + options.pod_grace
            return Verdict(PodClass.HOLD, cause, until) if now < until else Verdict(PodClass.REJECT, cause)
        if node is not None and node.unschedulable:
            return Verdict(PodClass.HOLD, Cause.CORDONED)
        if self.is_drained(ordinal):
            return Verdict(PodClass.HOLD, Cause.DRAINING)
        return ACCEPTED

    def _reference_verdict(self, pod: PodFacts | None, ordinal: int) -> Verdict:
        if pod is None:
            return Verdict(PodClass.REJECT, Cause.MISSING)
        if is_true(pod.annotation):
            return Verdict(PodClass.REJECT, Cause.UNSCHEDULABLE)
        if ordinal >= self.replicas:
            return Verdict(PodClass.REJECT, Cause.BEYOND_REPLICAS)
        return ACCEPTED if pod.node else Verdict(PodClass.REJECT, Cause.PENDING)

    def _count_cause(self, slot: Slot) -> None:
        """Count an existing Pod below R by its cause; an accepting Pod counts under `Cause.NONE`."""
        if slot.counted is not None:
            add_count(self.causes, slot.counted, -1)
        slot.counted = slot.verdict.cause if slot.pod is not None and slot.ordinal < self.replicas else None
        if slot.counted is not None:
            add_count(self.causes, slot.counted, 1)

    def _refresh_slot(self, slot: Slot) -> None:
        """Update `open` and `ousted` from a slot's counts and class."""
        capacity = self.options.capacity
        pod_class = slot.verdict.pod_class
        is_open = pod_class is PodClass.ACCEPT and slot.adding < capacity
        if is_open is not slot.open:
            slot.open = is_open
            if is_open:
                insort(self.open.setdefault(slot.domain, []), slot.ordinal)
            else:
                self._remove_from_open(slot)
        if pod_class is PodClass.REJECT or slot.trimming > capacity:
            self.ousted.add(slot.ordinal)
        elif self.ousted:
            self.ousted.discard(slot.ordinal)
        if slot.pod is None:
            self._drop_if_idle(slot)

    def _remove_from_open(self, slot: Slot) -> None:
        ordinals = self.open[slot.domain]
        del ordinals[bisect_left(ordinals, slot.ordinal)]
        if not ordinals:
            del self.open[slot.domain]

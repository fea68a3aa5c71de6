"""The framework plugin: where pods may go, by the ledger of virtual machines (N16 to N27, C19 to C22).

It answers for all nodes at once and performs nothing; booking a pod is an event of the ledger. Three of the twelve
points have nothing to do here: Bind is left to the default, and QueueSort too unless `queue_sort` takes it (N16, N26).
What PostBind is there for, forgetting that a pod was tentative and timing a target from then on, happens when the watch
shows the pod bound (N27): PostBind itself is asked what to do before the binding is written.

Its Filter needs no PreFilter extensions: a dry run changes the snapshot, and pods are counted over that (see
`situate.vm.model.node_columns`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from situate.framework.cycle.handle import Handle
from situate.framework.plugin_api.actions import Action
from situate.framework.plugin_api.events import Change, EventHint, Hint, Subject
from situate.framework.plugin_api.plugin import (
    RESERVED,
    Diagnosis,
    PostFiltered,
    PreFiltered,
    PreScored,
    Reads,
    Reserved,
    Scores,
)
from situate.framework.pod.pods import PodInfo
from situate.framework.results.status import SKIP, SUCCESS, Code, Status, unresolvable, unschedulable
from situate.framework.results.verdict import Mask, Refusals, Verdict, refusals
from situate.framework.snapshot.snapshot import Snapshot
from situate.objects.kinds.nodes import Node as WireNode
from situate.objects.kinds.pods import Pod as WirePod
from situate.vm.api.nodes import is_drained
from situate.vm.api.parse_errors import Read
from situate.vm.backends.systems import System
from situate.vm.ledger.ledger import Ledger
from situate.vm.model.events import PodReserved, PodUnreserved, TargetRefused
from situate.vm.model.migrations import Move, Stage
from situate.vm.model.node_columns import Columns, Sums, column, held
from situate.vm.model.node_score import randomized, scores
from situate.vm.model.pods_and_nodes import Pod, Role
from situate.vm.model.resource_amounts import Amounts

NAME: Final = "VirtualMachines"
CANCEL_S: Final = 2.0
"""So long Permit holds a pod whose migration is being cancelled (N24)."""
UNKNOWN: Final = "node(s) that do not say how large they are"
HELD: Final = "node(s) whose room is held for others by live migration"
EMPTIED: Final = "node(s) that are emptied of machines"


_OVER: Final = frozenset({Stage.FAILED, Stage.DONE})
"""Of a move: its target is not to be placed any more. Of one that is being cancelled Permit decides."""

ReadPod: TypeAlias = Callable[[WirePod], Read[Pod]]
"""What a pod's object says, together with that of its machine."""


class WrongScheduler(Exception):
    """The pod is none of ours, and should not have come here (N17: an error)."""


class UnknownNode(Exception):
    """The framework asks about a node that the ledger cannot book on (C19: an error)."""


Short: TypeAlias = NDArray[np.bool_]
"""(resources, nodes)"""


@dataclass(frozen=True, slots=True, eq=False)
class Wanted:
    """What PreFilter has read of the pod."""

    pod: Pod
    booking: Amounts
    """What it would take of a node, after overcommit."""
    move: Move | None
    """Of which it is the target; None for every other pod."""


@dataclass(frozen=True, slots=True, eq=False)
class Compared:
    """What PreScore has found out for Score: the same for every node of the cycle."""

    wanted: Wanted
    largest: Amounts
    """The largest Total of any node, whether or not the pod fits there: scores are shares of it (C20)."""


class VirtualMachines:
    """Of one term. An engine for "what if" has to be given `apart`, or it would book into the ledger at work."""

    name = NAME
    reads = Reads.CLUSTER
    """The ledger changes by itself: no answer outlives its cycle."""

    def __init__(self, ledger: Ledger, system: System[Any], read: ReadPod, seed: int) -> None:
        """`system`: of machines; `read`: what a pod books by its object; `seed`: of scores that are random (C21)."""
        self._ledger = ledger
        self._system = system
        self._read = read
        self._seed = seed
        self._columns = Columns(self._as_booked)

    def with_handle(self, handle: Handle) -> VirtualMachines:
        self._ledger.handle = handle
        return self

    def apart(self) -> VirtualMachines:
        """The same over a copy of the ledger."""
        return VirtualMachines(self._ledger.apart(), self._system, self._read, self._seed)

    def events(self) -> Sequence[EventHint]:
        """What the ledger makes room by is not among them: the shell activates pods then (`Wake`)."""
        freed = Change.DELETE | Change.SCALE_DOWN
        return (
            EventHint(Subject.NODE, Change.ADD | Change.ALLOCATABLE),
            EventHint(Subject.NODE, Change.ANNOTATIONS | Change.TAINTS, _after_drain),
            EventHint(Subject.ASSIGNED_POD, freed),
            EventHint(Subject.POD, Change.UPDATE | Change.SCALE_DOWN),
        )

    def pre_filter(self, pod: PodInfo, snapshot: Snapshot) -> PreFiltered:
        """N17. A target of ours gets the node alone on which its room is reserved (B14); no target ever its source's
        (I12)."""
        ours = self._ledger.rules.scheduler_name
        self._count("PreFilter", pod)
        if pod.pod.spec.scheduler_name != ours:
            self._count_failure("PreFilter", pod)
            raise WrongScheduler(f"pod {pod} is for scheduler {pod.pod.spec.scheduler_name}, this one is {ours}")
        read = self._read(pod.pod)
        found = read.value
        if found is None:
            return self._refused(pod, unresolvable(str(read.wrong[0])))
        booking = found.counted(found.reserved)
        arrives = found.machine is not None and found.machine.role is Role.TARGET
        if not arrives and self._system.migration_of(pod.pod) is None:  # a target whose machine is gone is one as well
            return PreFiltered(state=Wanted(found, booking, None))
        move = self._move_of(pod)
        if move is None:
            return self._refused(pod, unresolvable("its migration is not known here; it waits for it"))
        if move.stage in _OVER:
            return self._refused(pod, unresolvable(f"its migration {move.name} is over"))
        state = Wanted(found, booking, move)
        if not move.target_node:
            return PreFiltered(state=state, only=~_where(snapshot, move.source_node))
        if move.target_node == move.source_node:
            return self._refused(pod, unresolvable(f"its migration {move.name} leads to the node that it leaves"))
        return PreFiltered(
            state=state, only=_where(snapshot, move.target_node), elsewhere=frozenset((move.target_node,))
        )

    def filter(self, state: Wanted, pod: PodInfo, snapshot: Snapshot) -> Verdict:
        """C19 and B4: with the pod no resource may be over Total, and none of what is held for others may go."""
        self._count("Filter", pod)
        ledger = self._ledger.state
        sums = self._columns.sums(snapshot, ledger)
        unknown = self._unknown(sums, snapshot)
        kept = held(snapshot, ledger, state.pod.ref, state.move)
        booking, total = self._booking(state), sums.total
        over = sums.booked + booking > total
        taken = sums.booked + kept + booking > total
        closed = unknown | self._emptied(state, sums)
        passes = ~((over | taken).any(axis=0) | closed)
        return Verdict(
            passes, lambda: self._refusals(unknown, closed, over & ~closed, taken & ~closed, booking > total)
        )

    def _refusals(self, unknown: Mask, closed: Mask, over: Short, taken: Short, never: Short) -> Refusals:
        """Unresolvable where the whole node is too small, or takes nobody."""
        short: Mask = np.asarray(over.any(axis=0))
        rules = [
            (mask, f"node(s) with too little {name} that is not booked", Code.UNSCHEDULABLE)
            for name, mask in zip(self._ledger.rules.resources, over, strict=True)
        ]
        rules += [
            (taken.any(axis=0) & ~short, HELD, Code.UNSCHEDULABLE),
            (unknown, UNKNOWN, Code.UNRESOLVABLE),
            (closed & ~unknown, EMPTIED, Code.UNRESOLVABLE),
        ]
        told = refusals(len(short), *rules)
        return Refusals(np.where(never.any(axis=0), np.uint8(Code.UNRESOLVABLE), told.code), told.reasons)

    def _emptied(self, wanted: Wanted, sums: Sums) -> Mask:
        """(nodes,): those that machines leave because they are drained take no other ones (B46).

        The target of a move is placed all the same: its room was reserved there before.
        """
        comes = wanted.pod.machine is not None and wanted.move is None and not self._ledger.rules.compat
        return sums.draining if comes else np.zeros_like(sums.draining)

    def _unknown(self, sums: Sums, snapshot: Snapshot) -> Mask:
        """(nodes,): nodes that cannot be booked on, since their objects do not say how large they are.

        With `compat` such a node is an error that ends the cycle (C19); else it stops nobody but itself.
        """
        unknown: Mask = ~sums.known
        if self._ledger.rules.compat and unknown.any():
            name = snapshot.name(int(np.flatnonzero(unknown)[0]))
            raise UnknownNode(f"node {name} is not in the ledger: status.allocatable says no cpu or no memory")
        return unknown

    def post_filter(self, pod: PodInfo, diagnosis: Diagnosis, cycle: object) -> PostFiltered:  # noqa: ARG002
        """N19: counts, and says what no other plugin can; never a result, so that preemption still runs."""
        self._count("PostFilter", pod)
        self._tell_refusal(pod, diagnosis)
        counts = self._ledger.counts
        counts.unplaced += 1
        waiting = sum(
            int(np.count_nonzero(where[nodes]))
            for plugin, refused, where in diagnosis.refused
            if plugin == self.name
            for text, nodes in refused.reasons
            if text == HELD
        )
        if not waiting:
            return PostFiltered(unschedulable())
        counts.unplaced_for_held_room += 1
        return PostFiltered(unschedulable(f"live migration: {waiting} node(s) have room that is promised to others"))

    def _tell_refusal(self, pod: PodInfo, diagnosis: Diagnosis) -> None:
        """Of a target: that its node does not take it (B14), unless preemption may help: then time tells (B15)."""
        move, snapshot = self._move_of(pod), diagnosis.snapshot
        index = None if move is None else snapshot.nodes.index.get(move.target_node)
        if move is None or index is None or diagnosis.status is not None:
            return
        node = self._ledger.state.nodes.get(move.target_node)
        below = node is not None and any(each.priority < pod.priority for each in node.pods.values())
        if diagnosis.codes()[index] == Code.UNSCHEDULABLE and below:
            return
        by = [plugin for plugin, _, where in diagnosis.refused if where[index]]
        why = f"node {move.target_node} does not take its pod, by {', '.join(by)}"
        self._ledger.apply(TargetRefused(move.key, move.target_node, why))

    def pre_score(self, state: Wanted, pod: PodInfo, snapshot: Snapshot) -> PreScored:  # noqa: ARG002
        """N20: the normalisers of Score, once for all nodes."""
        self._count("PreScore", pod)
        return PreScored(state=Compared(state, self._ledger.largest))

    def score(self, state: Compared, pod: PodInfo, snapshot: Snapshot) -> Scores:
        """C20."""
        self._count("Score", pod)
        ledger, wanted = self._ledger.state, state.wanted
        kept = held(snapshot, ledger, wanted.pod.ref, wanted.move)
        sums = self._columns.sums(snapshot, ledger)
        used = sums.booked + kept + self._booking(wanted)
        return scores(used, sums.total, state.largest, self._ledger.rules.scoring)

    def normalize(self, state: object, pod: PodInfo, raw: Scores) -> Scores:  # noqa: ARG002
        """C21: drawn anew for each pod, and the same for the same pod and seed (I10)."""
        if not self._ledger.rules.scoring.randomize:
            return raw
        return randomized(raw, (self._seed, *pod.uid.encode()))

    def reserve(self, pod: PodInfo, node: str, snapshot: Snapshot) -> Reserved:  # noqa: ARG002
        """C22: books the pod, and never denies it. What was reserved for a target becomes its booking."""
        self._count("Reserve", pod)
        if self._ignores(pod):
            return RESERVED
        known = self._ledger.state.pod(pod.uid)
        if known is not None and known.tentative:
            self._count_failure("Reserve", pod)
            return Reserved(unresolvable("the pod is reserved already"))
        read = self._read(pod.pod)
        if read.value is None:
            self._count_failure("Reserve", pod)
            return Reserved(unresolvable(str(read.wrong[0])))
        self._ledger.apply(PodReserved(replace(read.value, tentative=True), node))
        booked_on = self._ledger.state.nodes.get(node)
        self._ledger.counts.should_deny += booked_on is not None and booked_on.over_budget
        return RESERVED

    def unreserve(self, pod: PodInfo, node: str) -> None:  # noqa: ARG002
        """Undoes exactly what Reserve did; harmless if it did nothing."""
        self._count("Unreserve", pod)
        if not self._ignores(pod):
            self._ledger.apply(PodUnreserved(pod.uid))

    def permit(self, pod: PodInfo, node: str, now: float) -> tuple[Status, float]:  # noqa: ARG002
        """N24: a target is let go only while its migration wants it; the shell says how a cancellation went."""
        self._count("Permit", pod)
        if self._system.migration_of(pod.pod) is None:
            return SUCCESS, 0.0
        move = self._move_of(pod)
        if move is None or move.stage is Stage.FAILED:
            self._count_failure("Permit", pod)
            return unschedulable("its migration is gone"), 0.0
        if move.stage is Stage.ENDING:
            self._ledger.paused[pod.uid] = move.key
            return Status(Code.WAIT), CANCEL_S
        return SUCCESS, 0.0

    def pre_bind_preflight(self, pod: PodInfo, node: str, snapshot: Snapshot) -> Status:  # noqa: ARG002
        """N25: nothing has to be done before binding, but a process that may not write any more binds nothing."""
        self._count("PreBind", pod)
        if not self._ledger.may_write():
            self._count_failure("PreBind", pod)
            return unschedulable("this process no longer holds the lease")
        return SKIP

    def pre_bind(self, pod: PodInfo, node: str, snapshot: Snapshot) -> tuple[Action, ...]:  # noqa: ARG002
        return ()

    def _booking(self, state: Wanted) -> NDArray[np.int64]:
        """(resources, 1)"""
        return column((state.booking,), len(state.booking))

    def _as_booked(self, info: PodInfo) -> Pod:
        """A pod in place that the ledger does not have, as one of an ignored namespace.

        What cannot be read of a machine counts as what its pod requests: it takes of its node in any case.
        """
        return self._read(info.pod).value or self._system.by_requests(info.pod, self._ledger.rules, None)

    def _move_of(self, pod: PodInfo) -> Move | None:
        """The move whose migration the pod was made for."""
        made_for = self._system.migration_of(pod.pod)
        return None if made_for is None else self._ledger.state.moves.get(str(made_for))

    def _ignores(self, pod: PodInfo) -> bool:
        return pod.namespace in self._ledger.rules.ignored_namespaces

    def _refused(self, pod: PodInfo, status: Status) -> PreFiltered:
        self._count_failure("PreFilter", pod)
        return PreFiltered(status)

    def _count(self, method: str, pod: PodInfo) -> None:
        self._ledger.counts.calls[method, self._ignores(pod)] += 1

    def _count_failure(self, method: str, pod: PodInfo) -> None:
        self._ledger.counts.failures[method, self._ignores(pod)] += 1


def _where(snapshot: Snapshot, name: str) -> Mask:
    """(nodes,): the node of this name; of all nodes."""
    mask = np.zeros(snapshot.count, dtype=np.bool_)
    index = snapshot.nodes.index.get(name)
    if index is not None:
        mask[index] = True
    return mask


def _after_drain(pod: PodInfo, old: WireNode | None, new: WireNode) -> Hint:  # noqa: ARG001
    return Hint.QUEUE if old is not None and is_drained(old) and not is_drained(new) else Hint.SKIP

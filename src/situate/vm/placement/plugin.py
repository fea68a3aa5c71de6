"""The scheduling plugin: place Pods by the ledger.

The plugin evaluates all nodes at once and performs nothing; a reserved Pod is an event of the ledger. Three of the
twelve plugin points have nothing to do here. Bind is left to the default, and so is QueueSort unless `queue_sort`
replaces it (N16, N26). PostBind has no work: removing the tentative mark and starting the timer of a target happen when
the watch shows the binding (N27). The framework calls PostBind before the binding is written.

The Filter needs no PreFilter extensions: a dry run changes the snapshot, and Pods are counted over that snapshot, as
`situate.vm.model.node_columns` describes. The rules are N16 to N27 and C19 to C22.
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
from situate.framework.results.status import SKIP, SUCCESS, Code, Status, unresolvable_status, unschedulable_status
from situate.framework.results.verdict import Mask, Refusals, Verdict, refusals
from situate.framework.snapshot.snapshot import Snapshot
from situate.objects.kinds.nodes import Node as WireNode
from situate.objects.kinds.pods import Pod as WirePod
from situate.vm.api.nodes import is_drained
from situate.vm.api.parse_errors import ParseResult
from situate.vm.backends.systems import System
from situate.vm.ledger.ledger import Ledger
from situate.vm.model.events import PodReserved, PodUnreserved, TargetRefused
from situate.vm.model.migrations import Move, Stage
from situate.vm.model.node_columns import NodeColumns, NodeSums, column, held_for_others
from situate.vm.model.node_score import randomize_scores, scores
from situate.vm.model.pods_and_nodes import Pod, Role
from situate.vm.model.resource_amounts import Amounts

NAME: Final = "VirtualMachines"
CANCEL_S: Final = 2.0
"""How long Permit holds a Pod whose migration is being cancelled (N24)."""
UNKNOWN_REASON: Final = "node(s) had no allocatable cpu or memory"
HELD_REASON: Final = "node(s) had capacity reserved for others by live migration"
DRAINED_REASON: Final = "node(s) were being drained of VMs"


_ENDED_STAGES: Final = frozenset({Stage.FAILED, Stage.DONE})
"""Stages in which the target Pod of a migration is not placed.

Permit decides on a migration that is being cancelled.
"""

ReadPod: TypeAlias = Callable[[WirePod], ParseResult[Pod]]
"""Reads the ledger entry of a Pod from its object and that of its VM."""


class WrongScheduler(Exception):
    """The Pod has another `schedulerName`: an error."""


class UnknownNode(Exception):
    """The framework asks about a node that the ledger does not have: an error."""


ResourceMask: TypeAlias = NDArray[np.bool_]
"""(resources, nodes)"""


@dataclass(frozen=True, slots=True, eq=False)
class PreFilterState:
    """The Pod as PreFilter read it."""

    pod: Pod
    reserved: Amounts
    """The amount that it would take of a node, after overcommit."""
    move: Move | None
    """The migration whose target Pod it is. None for all other Pods."""


@dataclass(frozen=True, slots=True, eq=False)
class PreScoreState:
    """Input of Score, the same for every node of the cycle."""

    pre_filter: PreFilterState
    largest: Amounts
    """The largest Total of any node, whether or not the Pod fits there. Scores are relative to it (C20)."""


class VirtualMachines:
    """The plugin for one term of leadership.

    An engine for a what-if needs `independent_copy`, or it would change the ledger in use.
    """

    name = NAME
    reads = Reads.CLUSTER
    """The ledger changes without the framework, so no answer outlives its cycle."""

    def __init__(self, ledger: Ledger, system: System[Any], read: ReadPod, seed: int) -> None:
        """Create the plugin.

        `system` is the VM backend. `read` returns the ledger entry of a Pod from its object. `seed` is for random
        scores (C21).
        """
        self._ledger = ledger
        self._system = system
        self._read = read
        self._seed = seed
        self._columns = NodeColumns(self._placed_pod)

    def with_handle(self, handle: Handle) -> VirtualMachines:
        self._ledger.handle = handle
        return self

    def independent_copy(self) -> VirtualMachines:
        """Return the same plugin over a copy of the ledger."""
        return VirtualMachines(self._ledger.independent_copy(), self._system, self._read, self._seed)

    def events(self) -> Sequence[EventHint]:
        """Return the events that may make a Pod schedulable.

        The ledger's own changes are not among them: then the controller activates Pods (`Wake`).
        """
        freed = Change.DELETE | Change.SCALE_DOWN
        return (
            EventHint(Subject.NODE, Change.ADD | Change.ALLOCATABLE),
            EventHint(Subject.NODE, Change.ANNOTATIONS | Change.TAINTS, _hint_after_drain),
            EventHint(Subject.ASSIGNED_POD, freed),
            EventHint(Subject.POD, Change.UPDATE | Change.SCALE_DOWN),
        )

    def pre_filter(self, pod: PodInfo, snapshot: Snapshot) -> PreFiltered:
        """Read the Pod once and restrict the nodes of a target Pod.

        A target Pod of vm gets only the node of its reservation (B14), and never the node of its source (I12).
        """
        ours = self._ledger.rules.scheduler_name
        self._count("PreFilter", pod)
        if pod.pod.spec.scheduler_name != ours:
            self._count_failure("PreFilter", pod)
            raise WrongScheduler(f"pod {pod} has schedulerName {pod.pod.spec.scheduler_name}, allowed: {ours}")
        read = self._read(pod.pod)
        found = read.value
        if found is None:
            return self._reject(pod, unresolvable_status(str(read.errors[0])))
        booking = found.counted_amount(found.reserved)
        arrives = found.machine is not None and found.machine.role is Role.TARGET
        if not arrives and self._system.migration_of(pod.pod) is None:  # a target whose VM is gone is one as well
            return PreFiltered(state=PreFilterState(found, booking, None))
        move = self._move_of(pod)
        if move is None:
            return self._reject(pod, unresolvable_status("the migration of this target Pod is not known yet"))
        if move.stage in _ENDED_STAGES:
            return self._reject(pod, unresolvable_status(f"migration {move.name} of this target Pod has ended"))
        state = PreFilterState(found, booking, move)
        if not move.target_node:
            return PreFiltered(state=state, only=~_node_mask(snapshot, move.source_node))
        if move.target_node == move.source_node:
            return self._reject(
                pod, unresolvable_status(f"migration {move.name} of this target Pod has the source node as its target")
            )
        return PreFiltered(
            state=state, only=_node_mask(snapshot, move.target_node), elsewhere=frozenset((move.target_node,))
        )

    def filter(self, state: PreFilterState, pod: PodInfo, snapshot: Snapshot) -> Verdict:
        """Accept nodes that stay within Total with the Pod in every resource, without use of held capacity."""
        self._count("Filter", pod)
        ledger = self._ledger.state
        sums = self._columns.sums(snapshot, ledger)
        unknown = self._unknown_nodes(sums, snapshot)
        kept = held_for_others(snapshot, ledger, state.pod.ref, state.move)
        booking, total = self._reserved_column(state), sums.total
        over = sums.reserved + booking > total
        taken = sums.reserved + kept + booking > total
        closed = unknown | self._draining_nodes(state, sums)
        passes = ~((over | taken).any(axis=0) | closed)
        return Verdict(
            passes, lambda: self._refusals(unknown, closed, over & ~closed, taken & ~closed, booking > total)
        )

    def _refusals(
        self, unknown: Mask, closed: Mask, over: ResourceMask, taken: ResourceMask, never: ResourceMask
    ) -> Refusals:
        """Return the reasons for the rejected nodes. Unresolvable: the whole node is too small, or accepts no VM."""
        short: Mask = np.asarray(over.any(axis=0))
        rules = [
            (mask, f"node(s) had insufficient unreserved {name}", Code.UNSCHEDULABLE)
            for name, mask in zip(self._ledger.rules.resources, over, strict=True)
        ]
        rules += [
            (taken.any(axis=0) & ~short, HELD_REASON, Code.UNSCHEDULABLE),
            (unknown, UNKNOWN_REASON, Code.UNRESOLVABLE),
            (closed & ~unknown, DRAINED_REASON, Code.UNRESOLVABLE),
        ]
        told = refusals(len(short), *rules)
        return Refusals(np.where(never.any(axis=0), np.uint8(Code.UNRESOLVABLE), told.code), told.reasons)

    def _draining_nodes(self, wanted: PreFilterState, sums: NodeSums) -> Mask:
        """Return (nodes,): nodes that drain and accept no new VM.

        The target Pod of a migration is placed there anyway: its capacity was reserved before.
        """
        comes = wanted.pod.machine is not None and wanted.move is None and not self._ledger.rules.compat
        return sums.draining if comes else np.zeros_like(sums.draining)

    def _unknown_nodes(self, sums: NodeSums, snapshot: Snapshot) -> Mask:
        """Return (nodes,): nodes that the ledger lacks, because their objects have no size.

        With `compat`, such a node is an error that ends the cycle (C19). Otherwise only that node is rejected.
        """
        unknown: Mask = ~sums.known
        if self._ledger.rules.compat and unknown.any():
            name = snapshot.name(int(np.flatnonzero(unknown)[0]))
            raise UnknownNode(f"node {name} is not in the ledger: status.allocatable has no cpu or no memory")
        return unknown

    def post_filter(self, pod: PodInfo, diagnosis: Diagnosis, cycle: object) -> PostFiltered:  # noqa: ARG002
        """Count the failure and explain held capacity. Return no result, so that preemption still runs."""
        self._count("PostFilter", pod)
        self._report_refusal(pod, diagnosis)
        counts = self._ledger.counts
        counts.unplaced += 1
        waiting = sum(
            int(np.count_nonzero(where[nodes]))
            for plugin, refused, where in diagnosis.refused
            if plugin == self.name
            for text, nodes in refused.reasons
            if text == HELD_REASON
        )
        if not waiting:
            return PostFiltered(unschedulable_status())
        counts.unplaced_for_held_capacity += 1
        return PostFiltered(
            unschedulable_status(f"live migration: {waiting} node(s) have capacity that is reserved for others")
        )

    def _report_refusal(self, pod: PodInfo, diagnosis: Diagnosis) -> None:
        """Report to the ledger that the node refuses the target Pod.

        If preemption may help, the report is omitted. Then the time limits apply (B15).
        """
        move, snapshot = self._move_of(pod), diagnosis.snapshot
        index = None if move is None else snapshot.nodes.index.get(move.target_node)
        if move is None or index is None or diagnosis.status is not None:
            return
        node = self._ledger.state.nodes.get(move.target_node)
        below = node is not None and any(each.priority < pod.priority for each in node.pods.values())
        if diagnosis.codes()[index] == Code.UNSCHEDULABLE and below:
            return
        by = [plugin for plugin, _, where in diagnosis.refused if where[index]]
        why = f"node {move.target_node} rejected the target Pod (plugins: {', '.join(by)})"
        self._ledger.apply(TargetRefused(move.key, move.target_node, why))

    def pre_score(self, state: PreFilterState, pod: PodInfo, snapshot: Snapshot) -> PreScored:  # noqa: ARG002
        """Compute the normalisers of Score, once for all nodes."""
        self._count("PreScore", pod)
        return PreScored(state=PreScoreState(state, self._ledger.largest))

    def score(self, state: PreScoreState, pod: PodInfo, snapshot: Snapshot) -> Scores:
        """Return the scores of all nodes."""
        self._count("Score", pod)
        ledger, wanted = self._ledger.state, state.pre_filter
        kept = held_for_others(snapshot, ledger, wanted.pod.ref, wanted.move)
        sums = self._columns.sums(snapshot, ledger)
        used = sums.reserved + kept + self._reserved_column(wanted)
        return scores(used, sums.total, state.largest, self._ledger.rules.scoring)

    def normalize(self, state: object, pod: PodInfo, raw: Scores) -> Scores:  # noqa: ARG002
        """Randomise the scores, differently for each Pod, but equally for the same Pod and seed."""
        if not self._ledger.rules.scoring.randomize:
            return raw
        return randomize_scores(raw, (self._seed, *pod.uid.encode()))

    def reserve(self, pod: PodInfo, node: str, snapshot: Snapshot) -> Reserved:  # noqa: ARG002
        """Reserve the Pod in the ledger, and never deny it.

        The target reservation becomes the reserved amount (C22).
        """
        self._count("Reserve", pod)
        if self._ignores(pod):
            return RESERVED
        known = self._ledger.state.pod(pod.uid)
        if known is not None and known.tentative:
            self._count_failure("Reserve", pod)
            return Reserved(unresolvable_status("the pod already has a reservation"))
        read = self._read(pod.pod)
        if read.value is None:
            self._count_failure("Reserve", pod)
            return Reserved(unresolvable_status(str(read.errors[0])))
        self._ledger.apply(PodReserved(replace(read.value, tentative=True), node))
        booked_on = self._ledger.state.nodes.get(node)
        self._ledger.counts.should_deny += booked_on is not None and booked_on.over_budget
        return RESERVED

    def unreserve(self, pod: PodInfo, node: str) -> None:  # noqa: ARG002
        """Undo exactly the reservation of Reserve. Harmless without one."""
        self._count("Unreserve", pod)
        if not self._ignores(pod):
            self._ledger.apply(PodUnreserved(pod.uid))

    def permit(self, pod: PodInfo, node: str, now: float) -> tuple[Status, float]:  # noqa: ARG002
        """Approve a target Pod only while its migration exists.

        The controller reports the result of a cancellation.
        """
        self._count("Permit", pod)
        if self._system.migration_of(pod.pod) is None:
            return SUCCESS, 0.0
        move = self._move_of(pod)
        if move is None or move.stage is Stage.FAILED:
            self._count_failure("Permit", pod)
            return unschedulable_status("the migration of this target Pod is gone"), 0.0
        if move.stage is Stage.ENDING:
            self._ledger.paused[pod.uid] = move.key
            return Status(Code.WAIT), CANCEL_S
        return SUCCESS, 0.0

    def pre_bind_preflight(self, pod: PodInfo, node: str, snapshot: Snapshot) -> Status:  # noqa: ARG002
        """Refuse to bind if this process must not write any more. No other work is due before binding."""
        self._count("PreBind", pod)
        if not self._ledger.may_write():
            self._count_failure("PreBind", pod)
            return unschedulable_status("this process no longer holds the Lease")
        return SKIP

    def pre_bind(self, pod: PodInfo, node: str, snapshot: Snapshot) -> tuple[Action, ...]:  # noqa: ARG002
        return ()

    def _reserved_column(self, state: PreFilterState) -> NDArray[np.int64]:
        """(resources, 1)"""
        return column((state.reserved,), len(state.reserved))

    def _placed_pod(self, info: PodInfo) -> Pod:
        """Return the entry of a Pod that is placed and not in the ledger, such as one of an ignored namespace.

        An unreadable VM Pod counts with its requests, because it uses its node in any case.
        """
        return self._read(info.pod).value or self._system.pod_from_requests(info.pod, self._ledger.rules, None)

    def _move_of(self, pod: PodInfo) -> Move | None:
        """Return the migration that created the Pod as its target."""
        made_for = self._system.migration_of(pod.pod)
        return None if made_for is None else self._ledger.state.moves.get(str(made_for))

    def _ignores(self, pod: PodInfo) -> bool:
        return pod.namespace in self._ledger.rules.ignored_namespaces

    def _reject(self, pod: PodInfo, status: Status) -> PreFiltered:
        self._count_failure("PreFilter", pod)
        return PreFiltered(status)

    def _count(self, method: str, pod: PodInfo) -> None:
        self._ledger.counts.calls[method, self._ignores(pod)] += 1

    def _count_failure(self, method: str, pod: PodInfo) -> None:
        self._ledger.counts.failures[method, self._ignores(pod)] += 1


def _node_mask(snapshot: Snapshot, name: str) -> Mask:
    """Return (nodes,): true for the node of this name, among all nodes."""
    mask = np.zeros(snapshot.count, dtype=np.bool_)
    index = snapshot.nodes.index.get(name)
    if index is not None:
        mask[index] = True
    return mask


def _hint_after_drain(pod: PodInfo, old: WireNode | None, new: WireNode) -> Hint:  # noqa: ARG001
    return Hint.QUEUE if old is not None and is_drained(old) and not is_drained(new) else Hint.SKIP

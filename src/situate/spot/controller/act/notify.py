"""Events on workloads: moved pods, refused moves, and reasons why pods are not moved.

A notice becomes an Event when it begins, not at each decision. The workload itself is never written. `conditions`
writes the conditions of pods. Rules: B8, B11, B14.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from situate.kube.events import NORMAL, WARNING, RecordEvent
from situate.objects.kinds.events import ObjectReference
from situate.spot.controller.act.attempt import Attempt, AttemptOutcome
from situate.spot.model.actions import POLICY_REASONS, Delete, Evict, Move, Reason, Release
from situate.spot.model.pods_nodes_workloads import Owner
from situate.spot.rebalance.decide import Decision, Notice
from situate.spot.workloads.cluster_objects import Cluster
from situate.spot.workloads.owners import KINDS

_MERGE_S: Final = 60.0
_MOST_NAMED: Final = 10
"""Pods named in a message, the last ones."""
_EVENT_VERBS = {Evict: "Evicted", Delete: "Deleted", Release: "Released"}
_WOULD = {Evict: "evict", Delete: "delete", Release: "release"}


@dataclass(frozen=True, slots=True)
class _MovedPods:
    names: tuple[str, ...]
    last: float
    """Time of the last move."""


class Notifier:
    """Events of one term: a new leader repeats those that still apply."""

    def __init__(self, cluster: Cluster, record: RecordEvent, clock: Callable[[], float]) -> None:
        """`clock`: seconds of a monotonic clock."""
        self._cluster = cluster
        self._record = record
        self._clock = clock
        self._moved_pods: dict[tuple[str, str, Reason], _MovedPods] = {}
        self._notified: dict[Notice, None] = {}
        self._notified_moves: frozenset[tuple[str, Reason]] = frozenset()

    def notify_decision(self, decision: Decision) -> None:
        """Record notices that are new, and in read-only mode the moves that would be made."""
        current = dict.fromkeys(decision.notices)
        for notice in current:
            if notice not in self._notified:
                self._record_event(notice.owner, WARNING, notice.reason, notice.text)
        self._notified = current
        would = [action for action in decision.read_only_actions if isinstance(action, Move)]
        for action in would:
            if (action.uid, action.reason) not in self._notified_moves:
                message = f"spot would {_WOULD[type(action)]} pod {action.pod.name}: {action.reason}"
                self._record_event(action.owner, NORMAL, "ReadOnly", message)
        self._notified_moves = frozenset((action.uid, action.reason) for action in would)

    def notify_attempt(self, attempt: Attempt) -> None:
        """Record pods that were moved, and moves that were refused."""
        action = attempt.action
        if not isinstance(action, Move):
            return
        done = _EVENT_VERBS[type(action)]
        if attempt.outcome is AttemptOutcome.DONE:
            message = f"spot {done.lower()} {self._moved_pods_text(action, done)}: {action.reason}"
            self._record_event(action.owner, NORMAL, f"Pod{done}", message)
        elif attempt.outcome in (AttemptOutcome.REFUSED, AttemptOutcome.FAILED):
            message = f"spot has not {done.lower()} pod {action.pod.name} ({action.reason}): {attempt.why}"
            self._record_event(action.owner, WARNING, f"PodNot{done}", message)

    def _moved_pods_text(self, action: Move, done: str) -> str:
        """Return the workload's pods that were moved for one reason shortly after each other.

        Events with the same reason are merged, and the last message stays; so each message names all these pods. Policy
        moves one pod at a time, and each such move has its own message.
        """
        if action.reason in POLICY_REASONS:
            return f"pod {action.pod.name}"
        now = self._clock()
        self._moved_pods = {key: each for key, each in self._moved_pods.items() if now - each.last < _MERGE_S}
        key = (action.owner, done, action.reason)
        names = (*(self._moved_pods[key].names if key in self._moved_pods else ()), action.pod.name)
        self._moved_pods[key] = _MovedPods(names, now)
        if len(names) == 1:
            return f"pod {names[0]}"
        more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
        return f"{len(names)} pods, {', '.join(names[-_MOST_NAMED:])}{more}"

    def _record_event(self, uid: str, type_: str, reason: str, message: str) -> None:
        owner = self._cluster.owners.get(uid)
        if owner is not None:
            self._record(workload_reference(owner), type_, reason, message)


def workload_reference(owner: Owner) -> ObjectReference:
    """Return the reference of the workload for Events."""
    kind = KINDS[owner.kind]
    return ObjectReference(f"{kind.group}/{kind.version}", owner.kind, owner.namespace, owner.name, owner.uid)

"""Events on workloads: moved pods, refused moves, and reasons why pods are not moved.

A notice becomes an Event when it begins, not at each decision. The workload itself is never written. `conditions`
writes the conditions of pods. Rules: B8, B11, B14.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from situate.kube.events import NORMAL, WARNING
from situate.objects.kinds.events import ObjectReference
from situate.spot.controller.act.attempt import Attempt, Outcome
from situate.spot.model.actions import BY_POLICY, Delete, Evict, Move, Reason, Release
from situate.spot.model.pods_nodes_workloads import Owner
from situate.spot.rebalance.decide import Decision, Notice
from situate.spot.workloads.cluster_objects import Cluster
from situate.spot.workloads.owners import KINDS

Record = Callable[[ObjectReference, str, str, str], None]
"""Writes an Event: object, `Normal` or `Warning`, reason, message. Never blocks and never raises."""

_TOGETHER_S: Final = 60.0
_NAMED: Final = 10
"""Pods named in a message, the last ones."""
_DONE = {Evict: "Evicted", Delete: "Deleted", Release: "Released"}
_WOULD = {Evict: "evict", Delete: "delete", Release: "release"}


@dataclass(frozen=True, slots=True)
class _Moved:
    names: tuple[str, ...]
    last: float
    """Time of the last move."""


class Telling:
    """Events of one term: a new leader repeats those that still apply."""

    def __init__(self, cluster: Cluster, record: Record, clock: Callable[[], float]) -> None:
        """`clock`: seconds of a monotonic clock."""
        self._cluster = cluster
        self._record = record
        self._clock = clock
        self._moved: dict[tuple[str, str, Reason], _Moved] = {}
        self._told: dict[Notice, None] = {}
        self._would: frozenset[tuple[str, Reason]] = frozenset()

    def decided(self, decision: Decision) -> None:
        """Record notices that are new, and in read-only mode the moves that would be made."""
        current = dict.fromkeys(decision.notices)
        for notice in current:
            if notice not in self._told:
                self._about(notice.owner, WARNING, notice.reason, notice.text)
        self._told = current
        would = [action for action in decision.would if isinstance(action, Move)]
        for action in would:
            if (action.uid, action.reason) not in self._would:
                message = f"spot would {_WOULD[type(action)]} pod {action.pod.name}: {action.reason}"
                self._about(action.owner, NORMAL, "ReadOnly", message)
        self._would = frozenset((action.uid, action.reason) for action in would)

    def attempted(self, attempt: Attempt) -> None:
        """Record pods that were moved, and moves that were refused."""
        action = attempt.action
        if not isinstance(action, Move):
            return
        done = _DONE[type(action)]
        if attempt.outcome is Outcome.DONE:
            message = f"spot {done.lower()} {self._together(action, done)}: {action.reason}"
            self._about(action.owner, NORMAL, f"Pod{done}", message)
        elif attempt.outcome in (Outcome.REFUSED, Outcome.FAILED):
            message = f"spot has not {done.lower()} pod {action.pod.name} ({action.reason}): {attempt.why}"
            self._about(action.owner, WARNING, f"PodNot{done}", message)

    def _together(self, action: Move, done: str) -> str:
        """Return the workload's pods that were moved for one reason shortly after each other.

        Events with the same reason are merged, and the last message stays; so each message names all these pods. Policy
        moves one pod at a time, and each such move has its own message.
        """
        if action.reason in BY_POLICY:
            return f"pod {action.pod.name}"
        now = self._clock()
        self._moved = {key: each for key, each in self._moved.items() if now - each.last < _TOGETHER_S}
        key = (action.owner, done, action.reason)
        names = (*(self._moved[key].names if key in self._moved else ()), action.pod.name)
        self._moved[key] = _Moved(names, now)
        if len(names) == 1:
            return f"pod {names[0]}"
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        return f"{len(names)} pods, {', '.join(names[-_NAMED:])}{more}"

    def _about(self, uid: str, type_: str, reason: str, message: str) -> None:
        owner = self._cluster.owners.get(uid)
        if owner is not None:
            self._record(about(owner), type_, reason, message)


def about(owner: Owner) -> ObjectReference:
    """Return the reference of the workload for Events."""
    kind = KINDS[owner.kind]
    return ObjectReference(f"{kind.group}/{kind.version}", owner.kind, owner.namespace, owner.name, owner.uid)

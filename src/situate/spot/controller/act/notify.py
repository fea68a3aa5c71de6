"""Tells people what was moved, and what was not and why: as Events on workloads (B8, B11, B14).

A notice is told when it begins, not as often as it is decided; nothing is ever written on a workload. What stands on
pods is left to `conditions`.
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
from situate.spot.workloads.cluster_view import Cluster
from situate.spot.workloads.owners import KINDS

Record = Callable[[ObjectReference, str, str, str], None]
"""Writes an Event: object, `Normal` or `Warning`, reason, message. Never blocks and never raises."""

_TOGETHER_S: Final = 60.0
_NAMED: Final = 10
"""Pods that a message names, the last ones."""
_DONE = {Evict: "Evicted", Delete: "Deleted", Release: "Released"}


@dataclass(frozen=True, slots=True)
class _Moved:
    names: tuple[str, ...]
    last: float
    """When the last of them was moved."""


class Telling:
    """Of one term: a new leader tells once more what still holds."""

    def __init__(self, cluster: Cluster, record: Record, clock: Callable[[], float]) -> None:
        """`clock`: seconds of a clock that nobody sets."""
        self._cluster = cluster
        self._record = record
        self._clock = clock
        self._moved: dict[tuple[str, str, Reason], _Moved] = {}
        self._told: dict[Notice, None] = {}
        self._would: frozenset[tuple[str, Reason]] = frozenset()

    def decided(self, decision: Decision) -> None:
        """Tells what was not so before, and in read-only mode what would be done (B14)."""
        current = dict.fromkeys(decision.notices)
        for notice in current:
            if notice not in self._told:
                self._about(notice.owner, WARNING, notice.reason, notice.text)
        self._told = current
        would = [action for action in decision.would if isinstance(action, Move)]
        for action in would:
            if (action.uid, action.reason) not in self._would:
                message = f"pod {action.pod.name} would be {_DONE[type(action)].lower()}: {action.reason}"
                self._about(action.owner, NORMAL, "ReadOnly", message)
        self._would = frozenset((action.uid, action.reason) for action in would)

    def attempted(self, attempt: Attempt) -> None:
        """Tells of pods that were moved, and of moves that were refused."""
        action = attempt.action
        if not isinstance(action, Move):
            return
        done = _DONE[type(action)]
        if attempt.outcome is Outcome.DONE:
            message = f"{done.lower()} {self._together(action, done)}: {action.reason}"
            self._about(action.owner, NORMAL, f"Pod{done}", message)
        elif attempt.outcome in (Outcome.REFUSED, Outcome.FAILED):
            message = f"pod {action.pod.name} was not {done.lower()} ({action.reason}): {attempt.why}"
            self._about(action.owner, WARNING, f"PodNot{done}", message)

    def _together(self, action: Move, done: str) -> str:
        """The pods of a workload that were moved for one reason shortly one after the other.

        Events of one reason are merged into one, which keeps the last message: so each message names them all. Policy
        moves one pod at a time, and each of those is told by itself.
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
    """The workload as Events name it."""
    kind = KINDS[owner.kind]
    return ObjectReference(f"{kind.group}/{kind.version}", owner.kind, owner.namespace, owner.name, owner.uid)

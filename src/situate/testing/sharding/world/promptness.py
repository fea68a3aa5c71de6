"""Checks that objects are assigned, reassigned and given up in time (L1, L2, L3) while all is calm.

The times of the spec hold if messages arrive and a supervisor leads. A wait counts if all was calm from its begin to
its end. Calm means three things: earlier lost or late messages are repaired, a leader works, and an executor is
eligible. Faults of executors, pods and the archive do not end the calm, because the check measures their cost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from situate.cluster.storage.store import Event
from situate.sharding.model.object_view import ObjectView, view_of
from situate.testing.sharding.world.executor_world import TABLE
from situate.testing.sharding.world.holder_history import EligibilityHistory
from situate.testing.sharding.world.reports import PATHS

CHECK_S: Final = 0.5
AT_ONCE_S: Final = 1.0
"""The spec's time limit from the moment in which an object may be assigned."""
SLACK_S: Final = 1.0
UNSETTLED_S: Final = 2.0
"""Extra seconds for a new object while executors come, go or fill up (`max_jitter_wait`)."""


@dataclass(slots=True)
class _Object:
    """One UID."""

    view: ObjectView
    since: float
    """When it was created, assigned, released, or revoked last."""
    drain_requested_at: float | None = None
    """When its holder was asked to give it up."""
    taken_from: str = ""
    """UID of the holder from which it was revoked."""
    edited: bool = False
    """Whether a user wrote its assignment. The spec gives no time limit for the repair."""


@dataclass(frozen=True, slots=True)
class _Wait:
    kind: str
    since: float
    until: float


class Promptness:
    """The time checks of one history."""

    def __init__(
        self,
        standings: EligibilityHistory,
        happened: Counter[str],
        *,
        lease_s: float,
        drain_s: float,
        now: Callable[[], float],
        fill_up: bool = False,
    ) -> None:
        """`fill_up`: the capacity of executors is small."""
        self.calm_since = 0.0
        """Since when it is calm. Later than now: it is not calm, or not for long enough."""
        self.breaches: list[str] = []
        self._eligibility = standings
        self._happened = happened
        self._lease_s = lease_s
        self._drain_s = drain_s
        self._now = now
        self._fill_up = fill_up
        self._objects: dict[str, _Object] = {}

    def record_disturbance(self, repaired_s: float) -> None:
        """Record a disturbance now. Its effects are repaired `repaired_s` later."""
        self.calm_since = max(self.calm_since, self._now() + repaired_s)

    def record_edit(self, uid: str) -> None:
        """Record that a user has just edited the object."""
        if uid in self._objects:
            self._objects[uid].edited = True

    def open_counts(self) -> Counter[str]:
        """Return the number of open objects by the UID of their holder."""
        return Counter(each.view.executor_uid for each in self._objects.values() if each.view.holder is not None)

    def check_waits(self) -> None:
        """Check whether an object waits too long by now."""
        now = self._now()
        if self.calm_since >= now:
            return
        for each in self._objects.values():
            for wait in (*self._open_waits(each, now),):
                if now > wait.until and wait.since >= self.calm_since:
                    self._record_breach(each, wait, now)
                    each.edited = True  # report it once

    def record_change(self, event: Event) -> None:
        """Handle a stored change."""
        if event.resource != TABLE:
            return
        if event.new is None:
            assert event.old is not None
            self._objects.pop(event.old.uid, None)
            return
        now, view = self._now(), view_of(event.new.object(), PATHS)
        each = self._objects.get(view.uid)
        if each is None:
            if event.old is None:
                self._objects[view.uid] = _Object(view, now)
            return
        before, each.view = each.view, view
        if view.epoch > before.epoch or view.holder != before.holder or view.completed:
            before_now = _Object(before, each.since, each.drain_requested_at, each.taken_from, each.edited)
            self._end_waits(before_now, view, now)
            if view.completed:
                del self._objects[view.uid]
                return
            each.since = now
            each.edited = each.edited and view.epoch == before.epoch
            each.taken_from = before.executor_uid if view.epoch > before.epoch and view.holder is None else ""
        if view.drain is None or view.holder is None:
            each.drain_requested_at = None
        elif each.drain_requested_at is None or view.epoch > before.epoch:
            each.drain_requested_at = now

    def _end_waits(self, before: _Object, view: ObjectView, now: float) -> None:
        """End the waits of an object, and check their length."""
        for wait in self._open_waits(before, now):
            if wait.since < self.calm_since or (wait.kind != "L3" and view.holder is None):
                continue
            self._happened[f"judged: {wait.kind}"] += 1
            if now > wait.until:
                self._record_breach(before, wait, now)

    def _open_waits(self, each: _Object, now: float) -> Iterator[_Wait]:
        view, since = each.view, each.since
        if view.completed or each.edited:
            return
        if view.holder is not None:
            loss = self._loss_wait(view.executor_uid, since, now)
            if loss is None:
                if each.drain_requested_at is not None:
                    yield _Wait("L3", each.drain_requested_at, each.drain_requested_at + self._drain_s + SLACK_S)
            elif not view.deleting:
                yield loss
        elif view.deleting:
            return
        elif view.epoch == 0:
            settled = not self._fill_up and self._eligibility.changed_at(now) <= since
            yield _Wait("L1", since, since + AT_ONCE_S + (0.0 if settled else UNSETTLED_S))
        elif each.taken_from:
            loss = self._loss_wait(each.taken_from, since, now)
            fades = _Wait("L2 taken back", since, since + self._lease_s + AT_ONCE_S + SLACK_S)
            yield fades if loss is None or loss.until > fades.until else loss
        else:
            yield _Wait("L2 given up", since, since + AT_ONCE_S)

    def _loss_wait(self, uid: str, since: float, now: float) -> _Wait | None:
        """Return the wait of an object whose holder is lost, or None. It is in its present state since `since`."""
        holder = self._eligibility.states.get(uid)
        if holder is None:
            return None
        if holder.ended_at is not None:
            return _Wait("L2 ended", max(holder.ended_at, since), max(holder.ended_at, since) + AT_ONCE_S)
        if now < holder.renewed_at + self._lease_s:
            return None
        until = max(holder.renewed_at + self._lease_s, since) + AT_ONCE_S + SLACK_S
        return _Wait("L2 silent", holder.renewed_at, until)

    def _record_breach(self, each: _Object, wait: _Wait, now: float) -> None:
        self.breaches.append(
            f"{wait.kind} at {now:g} s: {each.view.name} waits since {wait.since:g} s, until {wait.until:g} s at most, "
            f"and all is calm since {max(self.calm_since, 0.0):g} s: {each.view}"
        )

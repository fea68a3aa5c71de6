"""What an executor does next about one object: start, stop, release, wait. No clock, no I/O.

An object is an executor's if it is assigned to its id *and* its incarnation, is not completed, and can be read. It is
worked on only under the lease in which it was assigned: what is found after a lease was lost, or after the process was
begun anew in the same pod, is released, for a supervisor may be on its way to give it to somebody else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from situate.sharding.model.object_view import ObjectView


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a handler returns, unless None: that the object is as it should be until its spec changes."""

    successful: bool | None
    """How the object is completed; None: it is not, the handler wants to be called again."""
    reason: str = ""
    after_s: float = 0.0
    """When it is called again; of a completed object nothing."""

    @staticmethod
    def succeeded(reason: str = "") -> Outcome:
        return Outcome(True, reason)

    @staticmethod
    def failed(reason: str) -> Outcome:
        return Outcome(False, reason)

    @staticmethod
    def again(after_s: float) -> Outcome:
        return Outcome(None, "", after_s)


@dataclass(frozen=True, slots=True)
class Me:
    """One incarnation of an executor."""

    id: str
    uid: str


class StopReason(StrEnum):
    """Why a handler is cancelled; a label of the metrics."""

    NOT_OURS = "not ours"
    """Gone, completed, or assigned otherwise."""
    DRAIN = "drain"
    """Asked for, of this object or of the whole executor."""
    LEASE_LOST = "lease lost"
    NO_PROGRESS = "no progress"
    """No heartbeat within the time that the executor allows."""


@dataclass(frozen=True, slots=True)
class Local:
    """What an executor remembers of one object, besides what the object says."""

    running: int | None = None
    """The epoch under which its handler runs; None: none runs."""
    running_uid: str = ""
    """The object on which it runs."""
    failures: int = 0
    """Of the handler, in a row."""
    resume_at: float | None = None
    """Not to be started before; None: whenever it is its turn."""
    settled: int | None = None
    """The generation that the handler has settled; None: it has not."""
    forgone: int = 0
    """The epoch that this incarnation was given under an earlier lease, and no longer works under; 0: none."""


NOTHING_KNOWN = Local()


@dataclass(frozen=True, slots=True)
class Situation:
    """What holds for all objects."""

    me: Me
    now: float
    leased: bool
    """The lease is valid and the watch makes progress."""
    draining: bool = False
    """The executor is about to end."""
    max_failures: int | None = None
    """None: a handler may fail for ever."""


@dataclass(frozen=True, slots=True)
class Start:
    """Call the handler under this epoch, once the server has confirmed it."""

    epoch: int


@dataclass(frozen=True, slots=True)
class Stop:
    """Cancel the handler; what follows is decided when it has ended."""

    reason: StopReason


@dataclass(frozen=True, slots=True)
class Release:
    """Give the object up: nothing of it runs here."""


@dataclass(frozen=True, slots=True)
class Fail:
    """Complete it as failed: its handler has failed too often."""


@dataclass(frozen=True, slots=True)
class Rest:
    """Nothing to do before then; None: before something changes."""

    until: float | None = None


@dataclass(frozen=True, slots=True)
class Forget:
    """It is none of our business any more, and nothing of it runs here."""


Step: TypeAlias = Start | Stop | Release | Fail | Rest | Forget


def owns(view: ObjectView, me: Me) -> bool:
    """Whether the object is this incarnation's to work on. One that cannot be read is nobody's."""
    mine = view.executor == me.id and view.executor_uid == me.uid != ""
    return mine and view.epoch > 0 and not view.completed and not view.faults


def next_step(view: ObjectView | None, generation: int, local: Local, situation: Situation) -> Step:
    """The one thing to do now. `view` None: the object is gone, or not shown to us any more.

    `generation` is the object's; handlers are called again when it has changed.
    """
    ours = view is not None and owns(view, situation.me)
    if local.running is not None:
        return _of_running(view if ours else None, local, situation)
    if view is None or not ours:
        return Forget()
    if not situation.leased:
        return Rest()
    if view.drain is not None or situation.draining or view.epoch <= local.forgone:
        return Release()
    if situation.max_failures is not None and local.failures >= situation.max_failures:
        return Fail()
    if local.settled is not None and local.settled == generation and local.resume_at is None:
        return Rest()
    if local.resume_at is not None and situation.now < local.resume_at:
        return Rest(local.resume_at)
    return Start(view.epoch)


def _of_running(view: ObjectView | None, local: Local, situation: Situation) -> Step:
    """`view` None: not ours."""
    if view is None or view.epoch != local.running or view.uid != local.running_uid:
        return Stop(StopReason.NOT_OURS)
    if not situation.leased:
        return Stop(StopReason.LEASE_LOST)
    if view.drain is not None or situation.draining:
        return Stop(StopReason.DRAIN)
    return Rest()


@dataclass(frozen=True, slots=True)
class HandlerRetries:
    """How long an object rests after its handler has failed. Spread by whoever has a random source."""

    initial_s: float = 1.0
    cap_s: float = 300.0

    def delay_s(self, failures: int, asked_s: float | None = None) -> float:
        """After so many failures in a row, counted from 1; at least what the server asked for (Retry-After)."""
        own = min(self.cap_s, self.initial_s * 2.0 ** min(failures - 1, 100))
        return max(own, asked_s or 0.0)


@dataclass(frozen=True, slots=True)
class Forgone:
    """Epochs that an incarnation was given under leases that it has lost, by the UID of the object."""

    epochs: Mapping[str, int] = field(default_factory=dict)

    def of(self, uid: str) -> int:
        return self.epochs.get(uid, 0)

    def with_all(self, views: Mapping[str, ObjectView], me: Me) -> Forgone:
        """After a lease was lost: everything that is ours now, by uid. What is gone is remembered no longer."""
        return Forgone({uid: view.epoch for uid, view in views.items() if owns(view, me)})

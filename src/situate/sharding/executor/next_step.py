"""Choose the next step of an executor for one object: start, stop, release or wait. No clock, no I/O.

An executor owns an object that is assigned to its id *and* its incarnation, is not completed, and can be read. The
executor works on an object only under the lease in which the object was assigned. After a lost lease, or after a
restart of the process in the same Pod, it releases the objects that it finds. A supervisor may already be assigning
them to another executor.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from situate.sharding.model.object_view import ObjectView


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a handler. A handler that returns None instead has settled the object until its spec changes."""

    successful: bool | None
    """How the object is completed; None: it is not completed, and the executor calls the handler again."""
    reason: str = ""
    after_s: float = 0.0
    """Delay before the next call; ignored for a completed object."""

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
class Incarnation:
    """The id and Pod UID of one incarnation of an executor."""

    id: str
    uid: str


class StopReason(StrEnum):
    """Why the executor cancels a handler; a label of the metrics."""

    NOT_OURS = "not ours"
    """The object is gone, completed, or assigned to another holder or epoch."""
    DRAIN = "drain"
    """A drain was requested, of this object or of the whole executor."""
    LEASE_LOST = "lease lost"
    NO_PROGRESS = "no progress"
    """The handler sent no heartbeat within the time that the executor allows."""


@dataclass(frozen=True, slots=True)
class LocalState:
    """State that an executor remembers about one object and that the object itself does not hold."""

    running: int | None = None
    """The epoch under which the object's handler runs; None: no handler runs."""
    running_uid: str = ""
    """The UID of the object on which the handler runs."""
    failures: int = 0
    """Failures of the handler in a row."""
    resume_at: float | None = None
    """Earliest time of the next start; None: no delay."""
    settled: int | None = None
    """The generation that the handler has settled; None: no generation is settled."""
    forgone: int = 0
    """The epoch that was assigned under an earlier lease, and under which this incarnation no longer works; 0: none."""


@dataclass(frozen=True, slots=True)
class ExecutorState:
    """Inputs of the decision that are the same for all objects."""

    me: Incarnation
    now: float
    leased: bool
    """The lease is valid and the watch makes progress."""
    draining: bool = False
    """The executor is shutting down."""
    max_failures: int | None = None
    """Failures in a row after which the object is completed as failed; None: no limit."""


@dataclass(frozen=True, slots=True)
class Start:
    """Call the handler under this epoch, once the server has confirmed the epoch."""

    epoch: int


@dataclass(frozen=True, slots=True)
class Stop:
    """Cancel the handler. The next step is decided when the handler has ended."""

    reason: StopReason


@dataclass(frozen=True, slots=True)
class Release:
    """Release the object: no handler of it runs here."""


@dataclass(frozen=True, slots=True)
class Fail:
    """Complete the object as failed: its handler has failed too often."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Do nothing before `until`; None: do nothing before a change."""

    until: float | None = None


@dataclass(frozen=True, slots=True)
class Forget:
    """Drop the object: it is no longer owned, and no handler of it runs here."""


Step: TypeAlias = Start | Stop | Release | Fail | Wait | Forget


def owns(view: ObjectView, me: Incarnation) -> bool:
    """Return whether this incarnation may work on the object. No executor owns an object that cannot be read."""
    mine = view.executor == me.id and view.executor_uid == me.uid != ""
    return mine and view.epoch > 0 and not view.completed and not view.faults


def next_step(view: ObjectView | None, generation: int, local: LocalState, situation: ExecutorState) -> Step:
    """Return the one step to take now. `view` None: the object is gone, or the watch no longer shows it.

    `generation` is the generation of the object. The handler is called again after the generation changes.
    """
    ours = view is not None and owns(view, situation.me)
    if local.running is not None:
        return _step_while_running(view if ours else None, local, situation)
    if view is None or not ours:
        return Forget()
    if not situation.leased:
        return Wait()
    if view.drain is not None or situation.draining or view.epoch <= local.forgone:
        return Release()
    if situation.max_failures is not None and local.failures >= situation.max_failures:
        return Fail()
    if local.settled is not None and local.settled == generation and local.resume_at is None:
        return Wait()
    if local.resume_at is not None and situation.now < local.resume_at:
        return Wait(local.resume_at)
    return Start(view.epoch)


def _step_while_running(view: ObjectView | None, local: LocalState, situation: ExecutorState) -> Step:
    """Return the step of an object whose handler runs. `view` None: the object is not owned."""
    if view is None or view.epoch != local.running or view.uid != local.running_uid:
        return Stop(StopReason.NOT_OURS)
    if not situation.leased:
        return Stop(StopReason.LEASE_LOST)
    if view.drain is not None or situation.draining:
        return Stop(StopReason.DRAIN)
    return Wait()


@dataclass(frozen=True, slots=True)
class HandlerRetries:
    """Back-off of an object after its handler has failed. The caller adds the jitter."""

    initial_s: float = 1.0
    cap_s: float = 300.0

    def delay_s(self, failures: int, asked_s: float | None = None) -> float:
        """Return the delay after this many failures in a row (the first is 1).

        The delay is at least the time that the server requested (Retry-After).
        """
        own = min(self.cap_s, self.initial_s * 2.0 ** min(failures - 1, 100))
        return max(own, asked_s or 0.0)


@dataclass(frozen=True, slots=True)
class ForgoneEpochs:
    """Epochs that an incarnation received under leases it has since lost, by UID of the object."""

    epochs: Mapping[str, int] = field(default_factory=dict)

    def epoch_of(self, uid: str) -> int:
        return self.epochs.get(uid, 0)

    def with_owned(self, views: Mapping[str, ObjectView], me: Incarnation) -> ForgoneEpochs:
        """Record every owned object after a lost lease, by UID. Objects that are gone are dropped."""
        return ForgoneEpochs({uid: view.epoch for uid, view in views.items() if owns(view, me)})

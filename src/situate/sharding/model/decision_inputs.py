"""Define the inputs of a decision about one object, besides the object, and its result: plain values."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Final, Protocol

import msgspec

from situate.sharding.model.actions import Action
from situate.sharding.model.executors import Members
from situate.sharding.model.field_paths import FieldPaths, ObjectAdapter
from situate.sharding.model.names import Reason
from situate.sharding.model.object_view import Holder, ObjectView
from situate.sharding.model.supervisor_config import SupervisorConfig


class Ownership(Enum):
    """The relation of an object to this supervisor's partition."""

    OURS = "ours"
    FROZEN = "frozen"
    """Ours, and about to move to another partition: no supervisor assigns the object, and its holder is drained."""
    FOREIGN = "foreign"


class ExecutorChooser(Protocol):
    """The choice of a strategy. Raises `Unschedulable`."""

    def __call__(self, view: ObjectView, among: frozenset[str] | None, /) -> str:
        """Return the id of a healthy executor, one of `among` unless `among` is None."""


@dataclass(frozen=True, slots=True)
class MoveLimit:
    """The rate limit of forced moves: each move gets a time slot, and no move is refused."""

    per_s: float
    next_at: float = 0.0
    """The first time slot that is still free, on the monotonic clock."""

    def reserve_move(self, now: float) -> tuple[float, MoveLimit]:
        """Return the time of one move, not before now, and the limit for the moves after it."""
        at = max(now, self.next_at)
        return at, MoveLimit(self.per_s, at + 1 / self.per_s)


class Memory(msgspec.Struct, frozen=True):
    """The memory of one supervisor about one object.

    If the memory is lost with the process, the object waits at most one lease duration longer. Times are on the
    monotonic clock.
    """

    holder: Holder | None = None
    epoch: int = 0
    since: float = 0.0
    """When the supervisor first saw this holder under this epoch."""
    drain_due: float | None = None
    """When the supervisor revokes the object if the holder does not answer its drain request; None: no request."""
    revoked_at: float | None = None
    """When the supervisor first saw the revocation that made the present epoch; None: no revocation."""
    drain_cause: str = ""
    """Cause of the drain request."""
    gave_up: Holder | None = None
    """The holder that released the object last; None if no release was seen, or the assignment changed since."""
    gave_up_cause: str = ""
    """Cause of the drain that led to the release; empty if no drain was requested."""
    gave_up_at: float = 0.0
    gave_up_revision: str = ""
    jitter_since: float | None = None
    """When the object began to wait for a stable set of executors; None while it does not wait."""
    jittered_s: float = 0.0
    """Sum of the earlier waits for a stable set of executors."""
    forced_at: float | None = None
    """When the object may be moved from a lost holder; None: no time slot is reserved."""
    told: bool = False
    """Whether the completion was reported to the strategy."""


INITIAL_MEMORY: Final = Memory(epoch=-1)
"""The memory about an object that was never seen."""


@dataclass(frozen=True, slots=True)
class ClusterView:
    """The inputs that are equal for all decisions of one moment."""

    now: float
    """On the monotonic clock."""
    wall: datetime
    """The supervisor's wall clock, for times written on objects and for the age of completed objects."""
    members: Members
    choose: ExecutorChooser
    term: int
    config: SupervisorConfig = field(default_factory=SupervisorConfig)
    adapter: ObjectAdapter = field(default_factory=FieldPaths)
    has_archiver: bool = False
    ownership: Callable[[ObjectView], Ownership] = lambda _: Ownership.OURS
    rank: Callable[[ObjectView], int | None] = lambda _: None
    """Rank among the completed objects of its controlling owner, 1 for the latest; None: no owner. See
    `archive_steps.ranks`."""
    owners_due_s: Callable[[ObjectView], float] = lambda _: math.inf
    """Seconds until an owner is archived by age: its dependents go first. See `archive_steps.owners_archive_due_s`."""
    dependents: Callable[[ObjectView], Iterable[ObjectView]] = lambda _: ()
    """The objects that are deleted together with an object, as far as this supervisor is responsible for them."""
    drains: int = 0
    """Number of open objects with a drain request in the listing, plus the requests that are being sent."""
    limit: MoveLimit = MoveLimit(math.inf)
    """The limit that the last decision returned; the first one comes from the configuration."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The content of the condition `Assigned`."""

    assigned: bool
    reason: Reason
    message: str = ""
    brief: bool = False
    """The state lasts only a moment: shown by `explain`, not worth a write."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The actions for one object, in order, and the time of the next decision."""

    memory: Memory
    limit: MoveLimit
    actions: tuple[Action, ...] = ()
    wake_at: float | None = None
    """When time alone may change the decision, on the monotonic clock; None: it cannot."""
    waits: bool = False
    """Whether an event of the object or of executors may change the decision.

    An object with a living holder needs no `wake_at`: `Members` reports the removal of the holder for all its objects.
    """
    verdict: Verdict | None = None
    """None: the condition does not change."""

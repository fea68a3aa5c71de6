"""All that a decision about one object depends on, besides the object, and what comes out of it: values alone."""

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
    """What the partitions say about an object."""

    OURS = "ours"
    FROZEN = "frozen"
    """Ours, and about to be another's: nobody assigns it, and whoever works on it is asked to stop."""
    FOREIGN = "foreign"


class Choose(Protocol):
    """A strategy's choice. Raises `Unschedulable`."""

    def __call__(self, view: ObjectView, among: frozenset[str] | None, /) -> str:
        """The id of a healthy executor; of one of `among` unless that is None."""


@dataclass(frozen=True, slots=True)
class MoveLimit:
    """Forced moves take turns: each is given a moment, and none is refused."""

    per_s: float
    next_at: float = 0.0
    """The first moment that nobody has yet, on the monotonic clock."""

    def reserved(self, now: float) -> tuple[float, MoveLimit]:
        """The moment for one move, not before now, and the limit for those after it."""
        at = max(now, self.next_at)
        return at, MoveLimit(self.per_s, at + 1 / self.per_s)


class Memory(msgspec.Struct, frozen=True):
    """What one supervisor remembers of one object. Lost with the process, it costs at most one more lease's wait.

    Times are the monotonic clock's.
    """

    holder: Holder | None = None
    epoch: int = 0
    since: float = 0.0
    """When this holder under this epoch was first seen."""
    drain_due: float | None = None
    """When the drain request that was seen is to be revoked; None: there is none."""
    revoked_at: float | None = None
    """When the revocation that made the present epoch was first seen; None: there is none."""
    drain_cause: str = ""
    """Of that request."""
    gave_up: Holder | None = None
    """Who released it last; None if that was not seen, or somebody else holds it."""
    gave_up_cause: str = ""
    """Of the drain for which it was released; empty if nobody had asked for that."""
    gave_up_at: float = 0.0
    gave_up_revision: str = ""
    jitter_since: float | None = None
    """When the present wait for the set of executors to settle began; None: there is none."""
    jittered_s: float = 0.0
    """Earlier waits of that kind, in sum."""
    forced_at: float | None = None
    """When its move from a lost holder may be made; None: no moment was reserved."""
    told: bool = False
    """Whether the strategy knows that it is completed."""


NEW: Final = Memory(epoch=-1)
"""Of an object that was never seen."""


@dataclass(frozen=True, slots=True)
class Situation:
    """The same for all objects that are decided on at one moment."""

    now: float
    """Monotonic."""
    wall: datetime
    """The supervisor's clock, for what is written on objects and for the age of completed ones."""
    members: Members
    choose: Choose
    term: int
    config: SupervisorConfig = field(default_factory=SupervisorConfig)
    adapter: ObjectAdapter = field(default_factory=FieldPaths)
    has_archiver: bool = False
    ownership: Callable[[ObjectView], Ownership] = lambda _: Ownership.OURS
    rank: Callable[[ObjectView], int | None] = lambda _: None
    """Among the completed objects of its controlling owner, 1 is the latest; None: no owner. See `archiving.ranks`."""
    owners_due_s: Callable[[ObjectView], float] = lambda _: math.inf
    """Seconds until an owner is to be archived by age: its dependents go first. See `archiving.owners_due_in`."""
    dependents: Callable[[ObjectView], Iterable[ObjectView]] = lambda _: ()
    """The objects that go when it goes, as far as they are supervised here."""
    drains: int = 0
    """Open objects with a drain request, from the listing, and requests that are on their way."""
    limit: MoveLimit = MoveLimit(math.inf)
    """Of the last decision; begin with the configuration's."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the condition `Assigned` shall say."""

    assigned: bool
    reason: Reason
    message: str = ""
    brief: bool = False
    """It will be over in a moment: for `explain`, not worth a write."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do about one object now, in this order, and when to look again."""

    memory: Memory
    limit: MoveLimit
    actions: tuple[Action, ...] = ()
    wake_at: float | None = None
    """When time alone may change the decision, on the monotonic clock; None: it cannot."""
    waits: bool = False
    """Whether an event, of the object or of executors, is awaited. Of a living holder that is all: it is removed by
    `Members`, for all that it holds at once."""
    verdict: Verdict | None = None
    """None: nothing new is to be said."""

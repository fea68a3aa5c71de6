"""Events of a history of sharding, as an all-seeing observer logs them.

The wire form is a JSON object with the kind in `ev` and the observer's seconds in `t`. The fields are those of the
vectors of ksched, plus `revoke`. Readers ignore further fields. `invariants` gives the events their meaning.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import msgspec


class Incarnation(NamedTuple):
    """One life of an executor."""

    executor: str
    number: int | str
    """Distinguishes the lives of one executor: a count, or the pod's UID."""

    def __str__(self) -> str:
        return f"{self.executor}/{self.number}"


class _Event(msgspec.Struct, frozen=True, tag_field="ev"):
    t: float


class _IncarnationEvent(_Event, frozen=True):
    ex: str
    inc: int | str

    @property
    def incarnation(self) -> Incarnation:
        return Incarnation(self.ex, self.inc)


class ObjectCreated(_Event, frozen=True, tag="create"):
    """An object is created. The same name with another UID is another object."""

    obj: str
    uid: str


class Eligible(_IncarnationEvent, frozen=True, tag="eligible"):
    """From now on the executor may get assignments."""


class Ineligible(_IncarnationEvent, frozen=True, tag="ineligible"):
    """From now on the executor gets no assignments: it is unready, full or draining. It retains its objects."""


class LeaseLost(_IncarnationEvent, frozen=True, tag="lease_lost"):
    """The executor's Lease has expired or was released. Its work goes on until it stops."""


class Crash(_IncarnationEvent, frozen=True, tag="crash"):
    """The executor ends with all its work."""


class Assign(_Event, frozen=True, tag="assign"):
    """An assignment is stored."""

    obj: str
    to: str
    inc: int | str
    epoch: int
    term: int | None = None
    """Term of the supervisor that wrote it. None if the log does not give it."""

    @property
    def incarnation(self) -> Incarnation:
        return Incarnation(self.to, self.inc)


class Revoke(_Event, frozen=True, tag="revoke"):
    """The supervisor takes the assignment back without an ack. The epoch is the new one."""

    obj: str
    epoch: int


class Start(_IncarnationEvent, frozen=True, tag="start"):
    """Work begins."""

    obj: str
    epoch: int


class Stop(_IncarnationEvent, frozen=True, tag="stop"):
    """Work has ended, for any reason."""

    obj: str


class Ack(_IncarnationEvent, frozen=True, tag="ack"):
    """The holder gives the object up: a release is stored."""

    obj: str


class Write(_IncarnationEvent, frozen=True, tag="write"):
    """An executor's write has reached the server."""

    obj: str
    epoch: int
    accepted: bool
    rv: int | str | None = None


class ObjectCompleted(_Event, frozen=True, tag="complete"):
    """The terminal marks are stored."""

    obj: str


class ArchivePut(_Event, frozen=True, tag="archive_put"):
    """A copy of this version is in the archive."""

    uid: str
    rv: int | str
    key: str | None = None
    """Name of the copy. None: the name that every put of this version has."""


class ArchiveVerified(_Event, frozen=True, tag="archive_verified"):
    """The copy was read back and is equal."""

    uid: str
    rv: int | str


class FinalizerRemoved(_Event, frozen=True, tag="finalizer_removed"):
    """Our finalizer is removed from this version."""

    uid: str
    rv: int | str


class Deleted(_Event, frozen=True, tag="deleted"):
    """We have deleted the object."""

    uid: str


Event: TypeAlias = (
    ObjectCreated
    | Eligible
    | Ineligible
    | LeaseLost
    | Crash
    | Assign
    | Revoke
    | Start
    | Stop
    | Ack
    | Write
    | ObjectCompleted
    | ArchivePut
    | ArchiveVerified
    | FinalizerRemoved
    | Deleted
)


def read_events(log: Sequence[Mapping[str, Any]]) -> list[Event]:
    """Read the events of a log from plain data.

    Raises `msgspec.ValidationError`, which names the event and the field.
    """
    return msgspec.convert(log, list[Event], strict=True)

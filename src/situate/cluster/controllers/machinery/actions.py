"""The writes that controllers ask for, as values, and the two doors of the API that they need.

An action is safe to repeat. It is performed through the API server in the name of the controller, and its answer
comes back as a value: a refusal (quota, admission, conflict) is no exception.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

import msgspec

from situate.cluster.controllers.machinery.tables import Obj


@dataclass(frozen=True, slots=True)
class Note:
    """An Event about an object. In its message `{error}` is the refusal's text and `{name}` the created name."""

    regarding: Obj
    """The object, or at least its apiVersion, kind and metadata."""
    reason: str
    message: str
    type: Literal["Normal", "Warning"] = "Normal"


@dataclass(frozen=True, slots=True)
class Create:
    resource: str
    namespace: str
    body: Obj
    done: Note | None = None
    """Recorded when the object was created."""
    failed: Note | None = None
    """Recorded when the API refused."""


@dataclass(frozen=True, slots=True)
class Patch:
    """A JSON merge patch; with `uid` only of the object that has it."""

    resource: str
    namespace: str
    name: str
    body: Obj
    subresource: str = ""
    done: Note | None = None
    failed: Note | None = None


@dataclass(frozen=True, slots=True)
class Finalize:
    """Write the finalizers of a namespace's spec, through its subresource."""

    namespace: Obj
    """The whole Namespace as it should be."""
    done: Note | None = None
    failed: Note | None = None


@dataclass(frozen=True, slots=True)
class Delete:
    """Deletion of the object with this uid; it being gone already is success."""

    resource: str
    namespace: str
    name: str
    uid: str
    propagation: Literal["Background", "Foreground", "Orphan", ""] = ""
    """Empty: what the API does by default for the resource."""
    grace_seconds: int | None = None
    """None: the pod's own grace period."""
    done: Note | None = None
    failed: Note | None = None


@dataclass(frozen=True, slots=True)
class Bind:
    """Assign a pod to a node through the binding subresource."""

    namespace: str
    name: str
    uid: str
    node: str
    done: Note | None = None
    failed: Note | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """Write only an Event."""

    done: Note


Write: TypeAlias = Create | Patch | Finalize | Delete | Bind
Action: TypeAlias = Write | Record


class Answer(msgspec.Struct, frozen=True):
    """What the API said to one action."""

    status: int
    """HTTP status."""
    reason: str = ""
    """Of a refusal, such as `AlreadyExists`."""
    message: str = ""
    name: str = ""
    """Of the object, where the API chose it."""
    causes: tuple[str, ...] = ()
    """Reasons in `details.causes`."""

    @property
    def ok(self) -> bool:
        return self.status < 400


class Outcome(msgspec.Struct, frozen=True):
    """What one look at a key came to.

    Batches run one after the other and the actions of a batch together; the first refused action ends the row, and
    the key is looked at again after a back-off.
    """

    batches: tuple[tuple[Action, ...], ...] = ()
    again_at: float | None = None
    """Look again at this time even if nothing changes."""
    afterwards: tuple[Action, ...] = ()
    """Comes last, whether or not anything before was refused: the status of what was found."""


NOTHING = Outcome()


def in_order(actions: Iterable[Action], again_at: float | None = None) -> Outcome:
    """Each action after the one before."""
    return Outcome(tuple((action,) for action in actions), again_at)


def together(actions: Iterable[Action], again_at: float | None = None) -> Outcome:
    batch = tuple(actions)
    return Outcome((batch,) if batch else (), again_at)


def slow_start(actions: Iterable[Action]) -> tuple[tuple[Action, ...], ...]:
    """Batches of 1, 2, 4, ... so that a refusal costs little (upstream: controller_utils.go, slowStartBatch)."""
    rest = list(actions)
    batches: list[tuple[Action, ...]] = []
    size = 1
    while rest:
        batches.append(tuple(rest[:size]))
        rest = rest[size:]
        size *= 2
    return tuple(batches)


class Writer(Protocol):
    """The API, written to. It may answer later: None then, and `Machinery.settle` with the ticket brings the answer."""

    def perform(self, action: Write, user: str, manager: str, ticket: int) -> Answer | None:
        """Run one write as `user` with the field manager `manager`."""
        ...


class Rng(Protocol):
    """The one source of chance, seeded by the caller (`random.Random` is one)."""

    def random(self) -> float: ...


@dataclass(frozen=True, slots=True)
class Refusal:
    """An action that the API did not accept."""

    action: Action
    answer: Answer


def merge_patch(before: Any, after: Any) -> Any:
    """The JSON merge patch that turns one JSON value into another (RFC 7386); `{}` if they are equal."""
    if not isinstance(before, dict) or not isinstance(after, dict):
        return after
    patch: dict[str, Any] = {}
    for name, value in after.items():
        if name not in before:
            patch[name] = value
        elif before[name] != value:
            patch[name] = merge_patch(before[name], value)
    patch.update(dict.fromkeys(before.keys() - after.keys()))
    return patch

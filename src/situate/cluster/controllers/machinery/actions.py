"""The writes that controllers request, as values, and the two protocols that the machinery needs.

An action is safe to repeat. It goes through the API server under the controller's name, and its answer comes back as a
value. A refusal (quota, admission, conflict) does not raise an exception.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

import msgspec

from situate.cluster.controllers.machinery.tables import Obj


@dataclass(frozen=True, slots=True)
class EventTemplate:
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
    done: EventTemplate | None = None
    """Recorded after the object was created."""
    failed: EventTemplate | None = None
    """Recorded after a refusal by the API."""


@dataclass(frozen=True, slots=True)
class Patch:
    """A write of a JSON merge patch. With a uid in the body it only applies to the object with that uid."""

    resource: str
    namespace: str
    name: str
    body: Obj
    subresource: str = ""
    done: EventTemplate | None = None
    failed: EventTemplate | None = None


@dataclass(frozen=True, slots=True)
class Finalize:
    """A write of the finalizers in a namespace's spec, through its subresource."""

    namespace: Obj
    """The whole Namespace in its new form."""
    done: EventTemplate | None = None
    failed: EventTemplate | None = None


@dataclass(frozen=True, slots=True)
class Delete:
    """A deletion of the object with this uid. It succeeds if the object is already gone."""

    resource: str
    namespace: str
    name: str
    uid: str
    propagation: Literal["Background", "Foreground", "Orphan", ""] = ""
    """Empty: the API's default for the resource."""
    grace_seconds: int | None = None
    """None: the pod's own grace period."""
    done: EventTemplate | None = None
    failed: EventTemplate | None = None


@dataclass(frozen=True, slots=True)
class Bind:
    """A binding of a pod to a node, through the binding subresource."""

    namespace: str
    name: str
    uid: str
    node: str
    done: EventTemplate | None = None
    failed: EventTemplate | None = None


@dataclass(frozen=True, slots=True)
class RecordEvent:
    """An Event without another write."""

    done: EventTemplate


Write: TypeAlias = Create | Patch | Finalize | Delete | Bind
Action: TypeAlias = Write | RecordEvent


class WriteAnswer(msgspec.Struct, frozen=True):
    """The API's answer to one action."""

    status: int
    """HTTP status."""
    reason: str = ""
    """Reason of a refusal, such as `AlreadyExists`."""
    message: str = ""
    name: str = ""
    """Name of the object, if the API chose it."""
    causes: tuple[str, ...] = ()
    """Reasons in `details.causes`."""

    @property
    def ok(self) -> bool:
        return self.status < 400


class ReconcileResult(msgspec.Struct, frozen=True):
    """Result of one reconcile of a key.

    Batches run one after the other; the actions of a batch run together. After a refusal no further batch runs, and the
    key is reconciled again after a back-off.
    """

    batches: tuple[tuple[Action, ...], ...] = ()
    requeue_at: float | None = None
    """Time to reconcile again even without a change."""
    final_actions: tuple[Action, ...] = ()
    """Actions that run last, even after a refusal, such as the status of the observed state."""


NO_WRITES = ReconcileResult()


def sequential_writes(actions: Iterable[Action], again_at: float | None = None) -> ReconcileResult:
    """Run each action after the previous one."""
    return ReconcileResult(tuple((action,) for action in actions), again_at)


def concurrent_writes(actions: Iterable[Action], again_at: float | None = None) -> ReconcileResult:
    batch = tuple(actions)
    return ReconcileResult((batch,) if batch else (), again_at)


def slow_start_batches(actions: Iterable[Action]) -> tuple[tuple[Action, ...], ...]:
    """Return batches of 1, 2, 4, ... so that a refusal costs little (upstream: controller_utils.go, slowStartBatch)."""
    rest = list(actions)
    batches: list[tuple[Action, ...]] = []
    size = 1
    while rest:
        batches.append(tuple(rest[:size]))
        rest = rest[size:]
        size *= 2
    return tuple(batches)


class ActionWriter(Protocol):
    """The API for writes.

    If the API answers later, `perform` returns None, and the answer goes to `Machinery.settle` with the ticket.
    """

    def perform(self, action: Write, user: str, manager: str, ticket: int) -> WriteAnswer | None:
        """Run one write as `user` with the field manager `manager`."""
        ...


class Rng(Protocol):
    """The one source of randomness, seeded by the caller (such as `random.Random`)."""

    def random(self) -> float: ...


@dataclass(frozen=True, slots=True)
class Refusal:
    """An action that the API refused."""

    action: Action
    answer: WriteAnswer


def uid_patch(resource: str, obj: Obj, change: Obj, subresource: str = "", done: EventTemplate | None = None) -> Patch:
    """Return a patch of this very object. The API refuses the patch if the object was replaced meanwhile."""
    metadata = obj["metadata"]
    body = {**change, "metadata": {"uid": metadata["uid"], **change.get("metadata", {})}}
    return Patch(resource, metadata.get("namespace", ""), metadata["name"], body, subresource, done=done)


def merge_patch(before: Any, after: Any) -> Any:
    """Return the JSON merge patch from one JSON value to another (RFC 7386); `{}` if they are equal."""
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

"""Result of a reconciliation: at most one write, with a precondition, and the time of the next one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from situate.vm.api.well_known import MACHINE_KIND, MIGRATION_KIND
from situate.vm.emulator.crds import MACHINES, MIGRATIONS

Obj: TypeAlias = Mapping[str, Any]
"""A Kubernetes object as decoded JSON. It is never changed in place."""


class Kind(Enum):
    """Kinds that the emulator reads and writes; the value is the plural name."""

    MACHINE = MACHINES
    MIGRATION = MIGRATIONS
    POD = "pods"


class Key(NamedTuple):
    """Key of a VM or a migration to reconcile."""

    kind: Kind
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind.value} {self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Note:
    """An Event about an object, recorded once its write was accepted."""

    regarding: Obj
    reason: str
    message: str
    warning: bool = False

    @property
    def kind(self) -> str:
        """Return the kind of the object. Listed objects do not contain it."""
        return MIGRATION_KIND if "vmName" in (self.regarding.get("spec") or {}) else MACHINE_KIND


@dataclass(frozen=True, slots=True)
class Create:
    kind: Kind
    namespace: str
    body: Obj
    """Its name is the same each time, so a second creation is refused as AlreadyExists and does no harm."""
    note: Note | None = None


@dataclass(frozen=True, slots=True)
class Patch:
    """A JSON merge patch with a precondition in `metadata`: the UID, and mostly the resourceVersion too."""

    kind: Kind
    namespace: str
    name: str
    body: Obj
    subresource: Literal["", "status"] = ""
    note: Note | None = None


@dataclass(frozen=True, slots=True)
class Delete:
    kind: Kind
    namespace: str
    name: str
    uid: str
    note: Note | None = None


Write: TypeAlias = Create | Patch | Delete


@dataclass(frozen=True, slots=True)
class ReconcileResult:
    write: Write | None = None
    """It changes a watched object, which causes the next reconciliation."""
    requeue_at: float | None = None
    """Seconds since the epoch: reconcile again then, even if nothing changes."""


NOTHING_TO_DO: Final = ReconcileResult()
"""Reconcile again only after a change."""

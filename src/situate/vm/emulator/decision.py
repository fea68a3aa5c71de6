"""What a look comes to: at most one write, with a precondition, and when to look again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from situate.vm.api.well_known import MACHINE_KIND, MIGRATION_KIND
from situate.vm.emulator.crds import MACHINES, MIGRATIONS

Obj: TypeAlias = Mapping[str, Any]
"""A Kubernetes object as decoded JSON; nobody changes one in place."""


class Kind(Enum):
    """What the stand-in reads and writes; the value is the plural name."""

    MACHINE = MACHINES
    MIGRATION = MIGRATIONS
    POD = "pods"


class Key(NamedTuple):
    """What is looked at: a machine or a migration."""

    kind: Kind
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind.value} {self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Note:
    """An Event about an object, recorded once the write that it stands with was accepted."""

    regarding: Obj
    reason: str
    message: str
    warning: bool = False

    @property
    def kind(self) -> str:
        """Of the object: what is listed does not say it of itself."""
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
    """A JSON merge patch whose `metadata` holds the precondition: the uid, mostly the resourceVersion too."""

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
class Look:
    write: Write | None = None
    """It changes something that is watched, which brings the next look."""
    again_at: float | None = None
    """Seconds of the epoch: look again then even if nothing changes."""


QUIET: Final = Look()
"""Only a change calls for another look."""

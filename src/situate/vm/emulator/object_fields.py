"""Fields of objects, read without trusting their form, and the patches that change them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from situate.objects.values.timestamps import BadTime, micro_time, parse_time
from situate.vm.api.well_known import API_VERSION, FINALIZER, MACHINE_KIND, MIGRATION_KIND
from situate.vm.emulator.decision import Delete, Kind, Note, Obj, Patch

ALIVE = frozenset({"Running", "Scaling", "PreMigrating", "Migrating"})
FROZEN = frozenset({"PreMigrating", "Migrating"})
"""Phases of a VM (C33)."""
ONGOING = frozenset({"", "Pending", "Running"})
"""Phases of a migration that has not ended."""


def is_held(machine: Obj, migrations: Iterable[Obj]) -> bool:
    """Return whether one of these live migrations explains that a VM is frozen.

    A migration that has not begun may have frozen the VM and continues from there, but does not copy.
    """
    holding = ONGOING if phase(machine) == "PreMigrating" else ONGOING - {""}
    return any(phase(each) in holding for each in migrations)


def spec(obj: Obj) -> Mapping[str, Any]:
    return obj.get("spec") or {}


def status(obj: Obj) -> Mapping[str, Any]:
    return obj.get("status") or {}


def phase(obj: Obj) -> str:
    return str(status(obj).get("phase") or "")


def name(obj: Obj) -> str:
    return str(obj["metadata"]["name"])


def namespace(obj: Obj) -> str:
    return str(obj["metadata"].get("namespace") or "")


def uid(obj: Obj) -> str:
    return str(obj["metadata"].get("uid") or "")


def labels_of(obj: Obj) -> Mapping[str, str]:
    return obj["metadata"].get("labels") or {}


def annotations_of(obj: Obj) -> Mapping[str, str]:
    return obj["metadata"].get("annotations") or {}


def is_deleting(obj: Obj) -> bool:
    return obj["metadata"].get("deletionTimestamp") is not None


def is_released(migration: Obj) -> bool:
    """Return whether it is being deleted without the finalizer. Then nothing more is done for it."""
    return is_deleting(migration) and FINALIZER not in (migration["metadata"].get("finalizers") or ())


def has_ended(pod: Obj) -> bool:
    return phase(pod) in ("Succeeded", "Failed")


def is_ready(pod: Obj) -> bool:
    found = condition(pod, "Ready")
    return phase(pod) == "Running" and found is not None and found.get("status") == "True"


def condition(obj: Obj, kind: str) -> Mapping[str, Any] | None:
    for entry in status(obj).get("conditions") or ():
        if entry.get("type") == kind:
            return entry  # type: ignore[no-any-return]  # decoded JSON
    return None


def with_condition(obj: Obj, kind: str, value: str, reason: str, message: str, at: str) -> list[Mapping[str, Any]]:
    """Return all conditions, with this one set. Its time changes only with its status."""
    new = {"type": kind, "status": value, "reason": reason, "message": message, "lastTransitionTime": at}
    entries = [entry for entry in status(obj).get("conditions") or () if entry.get("type") != kind]
    before = condition(obj, kind)
    if before is not None and before.get("status") == value:
        new["lastTransitionTime"] = before.get("lastTransitionTime", at)
    return [*entries, new]


def owners(obj: Obj) -> list[Mapping[str, Any]]:
    return list(obj["metadata"].get("ownerReferences") or ())


def is_owned_by(obj: Obj, owner: Obj, *, controller: bool | None = None) -> bool:
    """Return whether it has this owner; with `controller`, one that does or does not control it."""
    return any(
        each.get("uid") == uid(owner) and controller in (None, bool(each.get("controller"))) for each in owners(obj)
    )


def is_owned_by_machine(obj: Obj) -> bool:
    """Return whether a VM is among its owners, even one that was replaced under its name."""
    return any((each.get("apiVersion"), each.get("kind")) == (API_VERSION, MACHINE_KIND) for each in owners(obj))


def machine_owner(machine: Obj, *, controller: bool) -> dict[str, Any]:
    return _owner(MACHINE_KIND, machine, controller)


def migration_owner(migration: Obj, *, controller: bool) -> dict[str, Any]:
    return _owner(MIGRATION_KIND, migration, controller)


def without_owner(obj: Obj, owner: Obj) -> list[Mapping[str, Any]]:
    return [each for each in owners(obj) if each.get("uid") != uid(owner)]


def with_owners(obj: Obj, *references: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return its owners, with these references replacing older ones of the same owners."""
    uids = {each["uid"] for each in references}
    return [*(each for each in owners(obj) if each.get("uid") not in uids), *references]


def _owner(kind: str, owner: Obj, controller: bool) -> dict[str, Any]:
    return {
        "apiVersion": API_VERSION,
        "kind": kind,
        "name": name(owner),
        "uid": uid(owner),
        "controller": controller,
        "blockOwnerDeletion": True,
    }


def status_patch(kind: Kind, obj: Obj, changes: Mapping[str, Any], note: Note | None = None) -> Patch:
    """Patch the status as it was seen: refused if the object has changed since."""
    metadata = {"uid": uid(obj), "resourceVersion": obj["metadata"].get("resourceVersion", "")}
    return Patch(kind, namespace(obj), name(obj), {"metadata": metadata, "status": changes}, "status", note)


def metadata_patch(kind: Kind, obj: Obj, changes: Mapping[str, Any]) -> Patch:
    """Patch the metadata as it was seen: for lists, which a merge patch replaces."""
    metadata = {"uid": uid(obj), "resourceVersion": obj["metadata"].get("resourceVersion", ""), **changes}
    return Patch(kind, namespace(obj), name(obj), {"metadata": metadata})


def deletion(kind: Kind, obj: Obj) -> Delete:
    return Delete(kind, namespace(obj), name(obj), uid(obj))


def age_order(objects: Iterable[Obj]) -> list[Obj]:
    """Sort oldest first; ties by UID."""
    return sorted(objects, key=lambda obj: (obj["metadata"].get("creationTimestamp") or "", uid(obj)))


def timestamp(now: float) -> str:
    """Format a time to the microsecond: a second is too coarse here."""
    return micro_time(datetime.fromtimestamp(now, UTC))


def parse_moment(text: object, otherwise: float) -> float:
    """Return seconds since the epoch, or `otherwise` if the text is no time."""
    try:
        return parse_time(text).timestamp() if isinstance(text, str) else otherwise
    except BadTime:
        return otherwise

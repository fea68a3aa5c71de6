"""Fields of foreign objects, read with nothing taken for granted, and the patches that change them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from situate.objects.values.timestamps import BadTime, micro_time, parse_time
from situate.vm.api.well_known import API_VERSION, FINALIZER, MACHINE_KIND, MIGRATION_KIND
from situate.vm.emulator.decision import Delete, Kind, Note, Obj, Patch

ALIVE = frozenset({"Running", "Scaling", "PreMigrating", "Migrating"})
FROZEN = frozenset({"PreMigrating", "Migrating"})
"""Phases of a machine (C33)."""
AT_WORK = frozenset({"", "Pending", "Running"})
"""Phases of a migration that is not over."""


def held(machine: Obj, migrations: Iterable[Obj]) -> bool:
    """Whether one of these migrations, none of which is over, is why a machine is frozen.

    One that has not begun may have frozen it, and goes on from there, but does not copy.
    """
    holding = AT_WORK if phase(machine) == "PreMigrating" else AT_WORK - {""}
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


def deleting(obj: Obj) -> bool:
    return obj["metadata"].get("deletionTimestamp") is not None


def let_go(migration: Obj) -> bool:
    """Whether it is being deleted without our finalizer, by which alone anything is done for it."""
    return deleting(migration) and FINALIZER not in (migration["metadata"].get("finalizers") or ())


def ended(pod: Obj) -> bool:
    return phase(pod) in ("Succeeded", "Failed")


def ready(pod: Obj) -> bool:
    found = condition(pod, "Ready")
    return phase(pod) == "Running" and found is not None and found.get("status") == "True"


def condition(obj: Obj, kind: str) -> Mapping[str, Any] | None:
    for entry in status(obj).get("conditions") or ():
        if entry.get("type") == kind:
            return entry  # type: ignore[no-any-return]  # decoded JSON
    return None


def conditions(obj: Obj, kind: str, value: str, reason: str, message: str, at: str) -> list[Mapping[str, Any]]:
    """All conditions, with this one set; its time stays unless its status changes."""
    new = {"type": kind, "status": value, "reason": reason, "message": message, "lastTransitionTime": at}
    entries = [entry for entry in status(obj).get("conditions") or () if entry.get("type") != kind]
    before = condition(obj, kind)
    if before is not None and before.get("status") == value:
        new["lastTransitionTime"] = before.get("lastTransitionTime", at)
    return [*entries, new]


def owners(obj: Obj) -> list[Mapping[str, Any]]:
    return list(obj["metadata"].get("ownerReferences") or ())


def owned_by(obj: Obj, owner: Obj, *, controller: bool | None = None) -> bool:
    """Whether the owner is one of its owners; with `controller` one that does or does not control it."""
    return any(
        each.get("uid") == uid(owner) and controller in (None, bool(each.get("controller"))) for each in owners(obj)
    )


def owned_by_machines(obj: Obj) -> bool:
    """Whether a machine is among its owners, even if it is another one of the same name by now."""
    return any((each.get("apiVersion"), each.get("kind")) == (API_VERSION, MACHINE_KIND) for each in owners(obj))


def machine_owner(machine: Obj, *, controller: bool) -> dict[str, Any]:
    return _owner(MACHINE_KIND, machine, controller)


def migration_owner(migration: Obj, *, controller: bool) -> dict[str, Any]:
    return _owner(MIGRATION_KIND, migration, controller)


def without_owner(obj: Obj, owner: Obj) -> list[Mapping[str, Any]]:
    return [each for each in owners(obj) if each.get("uid") != uid(owner)]


def with_owners(obj: Obj, *references: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Its owners with these in place of what was said of the same ones."""
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
    """Of the status as it was seen: refused if anything of the object is another by now."""
    metadata = {"uid": uid(obj), "resourceVersion": obj["metadata"].get("resourceVersion", "")}
    return Patch(kind, namespace(obj), name(obj), {"metadata": metadata, "status": changes}, "status", note)


def metadata_patch(kind: Kind, obj: Obj, changes: Mapping[str, Any], note: Note | None = None) -> Patch:
    """Of the metadata as they were seen: for lists, which a merge patch replaces."""
    metadata = {"uid": uid(obj), "resourceVersion": obj["metadata"].get("resourceVersion", ""), **changes}
    return Patch(kind, namespace(obj), name(obj), {"metadata": metadata}, note=note)


def deletion(kind: Kind, obj: Obj, note: Note | None = None) -> Delete:
    return Delete(kind, namespace(obj), name(obj), uid(obj), note)


def age_order(objects: Iterable[Obj]) -> list[Obj]:
    """Oldest first; ties by uid."""
    return sorted(objects, key=lambda obj: (obj["metadata"].get("creationTimestamp") or "", uid(obj)))


def timestamp(now: float) -> str:
    """To the microsecond: a second is long for what happens here."""
    return micro_time(datetime.fromtimestamp(now, UTC))


def moment(text: object, otherwise: float) -> float:
    """Seconds of the epoch; `otherwise` for what is no time."""
    try:
        return parse_time(text).timestamp() if isinstance(text, str) else otherwise
    except BadTime:
        return otherwise

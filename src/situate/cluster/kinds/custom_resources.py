"""CustomResourceDefinitions: accept and serve them, and delete their objects when they are deleted.

This does the work of apiextensions-apiserver's naming, establishing and finalizing controllers, at once. `settle` runs
at the end of each request that may have changed a definition.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from situate.cluster.errors.times import timestamp
from situate.cluster.kinds.rules import Obj
from situate.cluster.read.negotiation import decoded
from situate.cluster.storage.resources import ALL_VERBS, Catalog, Origin, Resource, Subresource
from situate.cluster.storage.store import Event, Store
from situate.cluster.storage.stored_object import Stored

CRDS: Final = "customresourcedefinitions.apiextensions.k8s.io"
_CLEANUP: Final = "customresourcecleanup.apiextensions.k8s.io"
_STATUS_VERBS: Final = ("get", "patch", "update")
_VERBS: Final = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
assert set(_VERBS) == set(ALL_VERBS)


class CustomResources:
    """The definitions in one store, and the catalog rows that they add."""

    def __init__(self, store: Store, catalog: Catalog, put: Callable[[Resource, Obj], Stored]) -> None:
        """Subscribe to the store. `put` stores an object as it is."""
        self._store = store
        self._catalog = catalog
        self._put = put
        self._served: dict[str, list[Resource]] = {}
        self._dirty: dict[str, None] = {}
        self._dying: dict[str, str] = {}
        store.subscribe(self._observe)
        for stored in store.table(CRDS).ordered():
            self._dirty[stored.name] = None

    @property
    def definitions(self) -> list[Obj]:
        """All served definitions, sorted by name."""
        return [stored.object() for stored in self._store.table(CRDS).ordered() if stored.name in self._served]

    def settle(self, now: float) -> None:
        """Update the catalog, and the status of changed definitions."""
        while self._dirty:
            name = next(iter(self._dirty))
            del self._dirty[name]
            stored = self._store.get(CRDS, "", name)
            if stored is None:
                self._withdraw(name)
            elif stored.deleting:
                self._take_down(stored, now)
            else:
                self._establish(stored, now)

    def _observe(self, event: Event) -> None:
        if event.resource == CRDS:
            self._dirty[(event.new or event.last).name] = None
        elif event.new is None and event.resource in self._dying:
            self._dirty[self._dying[event.resource]] = None

    def _establish(self, stored: Stored, now: float) -> None:
        crd = stored.whole()
        conflict = self._name_conflict(crd)
        before = stored.whole()
        _accept(crd, conflict, now)
        if crd != before:
            row = self._catalog.of_kind("apiextensions.k8s.io/v1", "CustomResourceDefinition")
            assert row is not None
            self._put(row, crd)
            self._dirty.pop(stored.name, None)
        if _is_true(crd, "Established"):
            self._serve(crd)

    def _name_conflict(self, crd: Obj) -> str:
        """Return the plural of a resource that already uses one of the names; empty if none does."""
        names, group = crd["spec"]["names"], crd["spec"]["group"]
        wanted = {names["plural"], names.get("singular"), *(names.get("shortNames") or ())}
        mine = {id(row) for row in self._served.get(crd["metadata"]["name"], ())}
        for version in self._catalog.versions(group):
            for row in self._catalog.of(group, version):
                if id(row) not in mine and (wanted & {row.plural, row.singular} or row.kind == names["kind"]):
                    return row.plural
        return ""

    def _serve(self, crd: Obj) -> None:
        name = crd["metadata"]["name"]
        rows = [_row(crd, version) for version in _by_priority(crd["spec"]["versions"]) if version["served"]]
        for row in self._served.get(name, ()):
            self._catalog.remove(row)
        for row in rows:
            self._catalog.add(row)
        self._served[name] = rows

    def _withdraw(self, name: str) -> None:
        for row in self._served.pop(name, ()):
            self._catalog.remove(row)
        self._dying = {table: crd for table, crd in self._dying.items() if crd != name}

    def _take_down(self, stored: Stored, now: float) -> None:
        """Delete the objects of a definition that is being deleted. The definition is removed after its last object."""
        crd = stored.whole()
        finalizers = crd["metadata"].get("finalizers") or []
        if _CLEANUP not in finalizers:
            return
        names, group = crd["spec"]["names"], crd["spec"]["group"]
        table = f"{names['plural']}.{group}"
        rows = self._served.get(stored.name) or [_row(crd, version) for version in crd["spec"]["versions"]]
        for obj in self._store.table(table).ordered():
            self._delete(rows[0], obj, now)
        if self._store.table(table).objects:
            self._dying[table] = stored.name
            return
        finalizers.remove(_CLEANUP)
        row = self._catalog.of_kind("apiextensions.k8s.io/v1", "CustomResourceDefinition")
        assert row is not None
        if finalizers:
            self._put(row, crd)
        else:
            self._store.remove(CRDS, "", stored.name)

    def _delete(self, row: Resource, stored: Stored, now: float) -> None:
        obj = decoded(row, stored)
        if not obj["metadata"].get("finalizers"):
            self._store.remove(row.table, stored.namespace, stored.name)
        elif "deletionTimestamp" not in obj["metadata"]:
            obj["metadata"]["deletionTimestamp"] = timestamp(now)
            obj["metadata"]["deletionGracePeriodSeconds"] = 0
            self._put(row, obj)


def _accept(crd: Obj, conflict: str, now: float) -> None:
    """Set status and finalizer in place as the controllers do."""
    finalizers = crd["metadata"].setdefault("finalizers", [])
    if _CLEANUP not in finalizers:
        finalizers.append(_CLEANUP)
    status = crd.setdefault("status", {})
    versions = crd["spec"]["versions"]
    kept = [name for name in status.get("storedVersions") or () if any(v["name"] == name for v in versions)]
    storage = next(version["name"] for version in versions if version["storage"])
    status["storedVersions"] = kept if storage in kept else [*kept, storage]
    if not isinstance(status.get("conditions"), list):
        status["conditions"] = []
    if conflict:
        _set(status, "NamesAccepted", "False", "PluralConflict", f'"{conflict}" is already in use', now)
        if not _is_true(crd, "Established"):
            _set(status, "Established", "False", "NotAccepted", "not all names are accepted", now)
        return
    status["acceptedNames"] = dict(crd["spec"]["names"])
    _set(status, "NamesAccepted", "True", "NoConflicts", "no conflicts found", now)
    if not _is_true(crd, "Established"):
        _set(status, "Established", "True", "InitialNamesAccepted", "the initial names have been accepted", now)


def _set(status: Obj, kind: str, value: str, reason: str, message: str, now: float) -> None:
    condition = {
        "type": kind,
        "status": value,
        "lastTransitionTime": timestamp(now),
        "reason": reason,
        "message": message,
    }
    for index, present in enumerate(status["conditions"]):
        if present["type"] == kind:
            if present["status"] == value:
                condition["lastTransitionTime"] = present["lastTransitionTime"]
            status["conditions"][index] = condition
            return
    status["conditions"].append(condition)


def _is_true(crd: Obj, kind: str) -> bool:
    conditions = crd.get("status", {}).get("conditions") or ()
    return any(c["type"] == kind and c["status"] == "True" for c in conditions)


def _by_priority(versions: list[Obj]) -> list[Obj]:
    """Sort stable versions before beta before alpha, and higher before lower (apimachinery version/helpers.go)."""
    return sorted(versions, key=lambda version: _version_key(version["name"]))


def _version_key(name: str) -> tuple[Any, ...]:
    match = re.fullmatch(r"v(\d+)(?:(alpha|beta)(\d+))?", name)
    if match is None:
        return (1, name)
    stage = {None: 0, "beta": 1, "alpha": 2}[match[2]]
    return (0, stage, -int(match[1]), -int(match[3] or 0))


def _row(crd: Obj, version: Obj) -> Resource:
    spec, names = crd["spec"], crd["spec"]["names"]
    storage = next(entry["name"] for entry in spec["versions"] if entry["storage"])
    subresources = version.get("subresources") or {}
    subs: list[Subresource] = []
    if "scale" in subresources:
        subs.append(Subresource("scale", "Scale", _STATUS_VERBS, "autoscaling", "v1"))
    if "status" in subresources:
        subs.append(Subresource("status", names["kind"], _STATUS_VERBS))
    return Resource(
        group=spec["group"],
        version=version["name"],
        plural=names["plural"],
        singular=names.get("singular") or names["kind"].lower(),
        kind=names["kind"],
        namespaced=spec["scope"] == "Namespaced",
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        verbs=_VERBS,
        subresources=tuple(subs),
        origin=Origin.CUSTOM,
        list_kind=names.get("listKind") or f"{names['kind']}List",
        stored_group=spec["group"],
        stored_version=storage,
        selectable=tuple(field["jsonPath"].removeprefix(".") for field in version.get("selectableFields") or ()),
        definition=crd,
    )

"""CustomResourceDefinitions: accept and serve them, and delete their objects when they are deleted.

This does the work of apiextensions-apiserver's naming, establishing and finalizing controllers, at once.
`process_changes` runs at the end of each request that may have changed a definition.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from situate.cluster.errors.times import timestamp
from situate.cluster.kinds.conditions import set_condition
from situate.cluster.kinds.rules import Obj
from situate.cluster.read.negotiation import decode_whole
from situate.cluster.storage.resources import ALL_VERBS, Catalog, Origin, Resource, Subresource
from situate.cluster.storage.store import Event, Store
from situate.cluster.storage.stored_object import StoredObject

CRDS: Final = "customresourcedefinitions.apiextensions.k8s.io"
_CLEANUP: Final = "customresourcecleanup.apiextensions.k8s.io"
_STATUS_VERBS: Final = ("get", "patch", "update")
_VERBS: Final = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
assert set(_VERBS) == set(ALL_VERBS)


class CustomResources:
    """The definitions in one store, and the catalog rows that they add."""

    def __init__(self, store: Store, catalog: Catalog, put: Callable[[Resource, Obj], StoredObject]) -> None:
        """Subscribe to the store. `put` stores an object as it is."""
        self._store = store
        self._catalog = catalog
        self._put = put
        self._served: dict[str, list[Resource]] = {}
        self._dirty: dict[str, None] = {}
        self._terminating: dict[str, str] = {}
        store.subscribe(self._observe)
        for stored in store.table(CRDS).sorted_objects():
            self._dirty[stored.name] = None

    @property
    def definitions(self) -> list[Obj]:
        """All served definitions, sorted by name."""
        return [stored.object() for stored in self._store.table(CRDS).sorted_objects() if stored.name in self._served]

    def process_changes(self, now: float) -> None:
        """Update the catalog, and the status of changed definitions."""
        while self._dirty:
            name = next(iter(self._dirty))
            del self._dirty[name]
            stored = self._store.get(CRDS, "", name)
            if stored is None:
                self._remove_from_catalog(name)
            elif stored.deleting:
                self._delete_objects(stored, now)
            else:
                self._establish(stored, now)

    def _observe(self, event: Event) -> None:
        if event.resource == CRDS:
            self._dirty[(event.new or event.last).name] = None
        elif event.new is None and event.resource in self._terminating:
            self._dirty[self._terminating[event.resource]] = None

    def _establish(self, stored: StoredObject, now: float) -> None:
        crd = stored.object_with_managers()
        conflict = self._name_conflict(crd)
        before = stored.object_with_managers()
        _update_status(crd, conflict, now)
        if crd != before:
            row = self._catalog.find_kind("apiextensions.k8s.io/v1", "CustomResourceDefinition")
            assert row is not None
            self._put(row, crd)
            self._dirty.pop(stored.name, None)
        if _is_true(crd, "Established"):
            self._add_to_catalog(crd)

    def _name_conflict(self, crd: Obj) -> str:
        """Return the plural of a resource that already uses one of the names; empty if none does."""
        names, group = crd["spec"]["names"], crd["spec"]["group"]
        wanted = {names["plural"], names.get("singular"), *(names.get("shortNames") or ())}
        mine = {id(row) for row in self._served.get(crd["metadata"]["name"], ())}
        for version in self._catalog.versions(group):
            for row in self._catalog.resources_of_version(group, version):
                if id(row) not in mine and (wanted & {row.plural, row.singular} or row.kind == names["kind"]):
                    return row.plural
        return ""

    def _add_to_catalog(self, crd: Obj) -> None:
        name = crd["metadata"]["name"]
        rows = [
            _catalog_row(crd, version) for version in _sort_by_priority(crd["spec"]["versions"]) if version["served"]
        ]
        for row in self._served.get(name, ()):
            self._catalog.remove(row)
        for row in rows:
            self._catalog.add(row)
        self._served[name] = rows

    def _remove_from_catalog(self, name: str) -> None:
        for row in self._served.pop(name, ()):
            self._catalog.remove(row)
        self._terminating = {table: crd for table, crd in self._terminating.items() if crd != name}

    def _delete_objects(self, stored: StoredObject, now: float) -> None:
        """Delete the objects of a definition that is being deleted. The definition is removed after its last object."""
        crd = stored.object_with_managers()
        finalizers = crd["metadata"].get("finalizers") or []
        if _CLEANUP not in finalizers:
            return
        names, group = crd["spec"]["names"], crd["spec"]["group"]
        table = f"{names['plural']}.{group}"
        rows = self._served.get(stored.name) or [_catalog_row(crd, version) for version in crd["spec"]["versions"]]
        for obj in self._store.table(table).sorted_objects():
            self._delete(rows[0], obj, now)
        if self._store.table(table).objects:
            self._terminating[table] = stored.name
            return
        finalizers.remove(_CLEANUP)
        row = self._catalog.find_kind("apiextensions.k8s.io/v1", "CustomResourceDefinition")
        assert row is not None
        if finalizers:
            self._put(row, crd)
        else:
            self._store.remove(CRDS, "", stored.name)

    def _delete(self, row: Resource, stored: StoredObject, now: float) -> None:
        obj = decode_whole(row, stored)
        if not obj["metadata"].get("finalizers"):
            self._store.remove(row.table, stored.namespace, stored.name)
        elif "deletionTimestamp" not in obj["metadata"]:
            obj["metadata"]["deletionTimestamp"] = timestamp(now)
            obj["metadata"]["deletionGracePeriodSeconds"] = 0
            self._put(row, obj)


def _update_status(crd: Obj, conflict: str, now: float) -> None:
    """Set status and finalizer in place as the controllers do."""
    finalizers = crd["metadata"].setdefault("finalizers", [])
    if _CLEANUP not in finalizers:
        finalizers.append(_CLEANUP)
    status = crd.setdefault("status", {})
    versions = crd["spec"]["versions"]
    kept = [name for name in status.get("storedVersions") or () if any(v["name"] == name for v in versions)]
    storage = next(version["name"] for version in versions if version["storage"])
    status["storedVersions"] = kept if storage in kept else [*kept, storage]
    if conflict:
        found = [("NamesAccepted", "False", "PluralConflict", f'"{conflict}" is already in use')]
        if not _is_true(crd, "Established"):
            found.append(("Established", "False", "NotAccepted", "not all names are accepted"))
    else:
        status["acceptedNames"] = dict(crd["spec"]["names"])
        found = [("NamesAccepted", "True", "NoConflicts", "no conflicts found")]
        if not _is_true(crd, "Established"):
            found.append(("Established", "True", "InitialNamesAccepted", "the initial names have been accepted"))
    for kind, value, reason, message in found:
        condition = {"type": kind, "status": value, "lastTransitionTime": "", "reason": reason, "message": message}
        set_condition(status, condition, now)


def _is_true(crd: Obj, kind: str) -> bool:
    conditions = crd.get("status", {}).get("conditions") or ()
    return any(c["type"] == kind and c["status"] == "True" for c in conditions)


def _sort_by_priority(versions: list[Obj]) -> list[Obj]:
    """Sort stable versions before beta before alpha, and higher before lower (apimachinery version/helpers.go)."""
    return sorted(versions, key=lambda version: _version_key(version["name"]))


def _version_key(name: str) -> tuple[Any, ...]:
    match = re.fullmatch(r"v(\d+)(?:(alpha|beta)(\d+))?", name)
    if match is None:
        return (1, name)
    stage = {None: 0, "beta": 1, "alpha": 2}[match[2]]
    return (0, stage, -int(match[1]), -int(match[3] or 0))


def _catalog_row(crd: Obj, version: Obj) -> Resource:
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

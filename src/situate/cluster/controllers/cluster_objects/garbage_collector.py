"""Delete objects without a living owner, and perform foreground and orphan deletion.

Upstream: pkg/controller/garbagecollector. An owner is found by kind, name and uid in the object's own namespace. An
owner of a kind that is not served counts as living, because its state is unknown.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Any

from situate.cluster.controllers.machinery.actions import (
    NO_WRITES,
    Action,
    Delete,
    Patch,
    ReconcileResult,
    sequential_writes,
    uid_patch,
)
from situate.cluster.controllers.machinery.changes import Change
from situate.cluster.controllers.machinery.controllers import Controller, ControllerContext
from situate.cluster.controllers.machinery.owners import release
from situate.cluster.controllers.machinery.tables import Key, Obj
from situate.cluster.storage.stored_object import StoredObject

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"


class _OwnerState(Enum):
    LIVING = "living"
    GONE = "gone"
    WAITING = "waiting for its dependents"


class GarbageCollector(Controller):
    """Controller of owner references. A key is a namespace, and resource and name joined by a slash."""

    name = "garbage-collector"
    user = "system:serviceaccount:kube-system:generic-garbage-collector"
    manager = "generic-garbage-collector"
    watches = None

    def __init__(self, cluster: ControllerContext) -> None:
        self._cluster = cluster
        self._dependents: dict[str, dict[Key, None]] = {}
        self._deleting: dict[str, Key] = {}

    def observe(self, change: Change, now: float) -> Iterator[Key]:  # noqa: ARG002  # the protocol's
        obj = change.last
        key = (obj.namespace, f"{change.resource}/{obj.name}")
        before = change.old.owners if change.old else ()
        after = change.new.owners if change.new else ()
        if before != after:
            yield from self._update_owners(key, change, before, after)
        if change.new is None:
            self._deleting.pop(obj.uid, None)
            yield from tuple(self._dependents.get(obj.uid, ()))
        elif obj.deleting and (change.old is None or not change.old.deleting):
            yield key
            # Dependents with another living owner remove their reference to an owner that waits for them.
            yield from tuple(self._dependents.get(obj.uid, ()))
        elif obj.deleting:
            yield key

    def reconcile(self, key: Key, now: float) -> ReconcileResult:  # noqa: ARG002  # the protocol's
        resource, _, name = key[1].partition("/")
        stored = self._cluster.store.get(resource, key[0], name)
        if stored is None or not (stored.owners or stored.deleting):
            return NO_WRITES
        obj = stored.object()
        finalizers = obj["metadata"].get("finalizers") or []
        if stored.deleting:
            if ORPHAN in finalizers:
                return sequential_writes(self._orphan_dependents(resource, obj))
            if FOREGROUND in finalizers:
                return sequential_writes(self._delete_dependents(key, resource, obj))
            return NO_WRITES
        action = self._attempt_to_delete(resource, obj)
        return sequential_writes([action]) if action else NO_WRITES

    def _update_owners(
        self, key: Key, change: Change, before: tuple[str, ...], after: tuple[str, ...]
    ) -> Iterator[Key]:
        for uid in before:
            if uid not in after:
                known = self._dependents.get(uid)
                if known is not None:
                    known.pop(key, None)
                    if not known:
                        del self._dependents[uid]
            if uid in self._deleting:
                yield self._deleting[uid]
        for uid in after:
            self._dependents.setdefault(uid, {})[key] = None
        if after and any(
            self._owner_state(change.last.namespace, reference) is not _OwnerState.LIVING
            for reference in change.object["metadata"].get("ownerReferences") or ()
        ):
            yield key

    def _attempt_to_delete(self, resource: str, obj: Obj) -> Patch | Delete | None:
        """Return the write for an object with owners (upstream: attemptToDeleteItem)."""
        metadata = obj["metadata"]
        references = metadata.get("ownerReferences") or []
        states = [self._owner_state(metadata.get("namespace", ""), reference) for reference in references]
        if _OwnerState.LIVING in states:
            kept = [entry for entry, state in zip(references, states, strict=True) if state is _OwnerState.LIVING]
            if len(kept) == len(references):
                return None
            return uid_patch(resource, obj, {"metadata": {"ownerReferences": kept}})
        finalizers = metadata.get("finalizers") or []
        waited_for = _OwnerState.WAITING in states and bool(self._dependents.get(metadata["uid"]))
        if waited_for or FOREGROUND in finalizers:
            return _delete(resource, metadata, "Foreground")
        return _delete(resource, metadata, "Orphan" if ORPHAN in finalizers else "Background")

    def _delete_dependents(self, key: Key, resource: str, obj: Obj) -> Iterator[Action]:
        """Delete the dependents. The owner goes when the last dependent that blocks it is gone."""
        metadata = obj["metadata"]
        self._deleting[metadata["uid"]] = key
        blocked = False
        for dependent_resource, dependent in self._dependents_of(metadata["uid"]):
            references = dependent["metadata"].get("ownerReferences") or ()
            own = next(entry for entry in references if entry.get("uid") == metadata["uid"])
            blocked = blocked or bool(own.get("blockOwnerDeletion"))
            if "deletionTimestamp" not in dependent["metadata"]:
                action = self._attempt_to_delete(dependent_resource, dependent)
                if action is not None:
                    yield action
        if not blocked:
            yield _without_finalizer(resource, obj, FOREGROUND)

    def _orphan_dependents(self, resource: str, obj: Obj) -> Iterator[Action]:
        """Remove the owner from all dependents, then release it."""
        metadata = obj["metadata"]
        for dependent_resource, dependent in self._dependents_of(metadata["uid"]):
            yield release(dependent_resource, dependent, metadata["uid"])
        yield _without_finalizer(resource, obj, ORPHAN)

    def _dependents_of(self, uid: str) -> Iterator[tuple[str, Obj]]:
        for namespace, path in tuple(self._dependents.get(uid, ())):
            resource, _, name = path.partition("/")
            obj = self._cluster.get(resource, namespace, name)
            if obj is not None:
                yield resource, obj

    def _owner_state(self, namespace: str, reference: dict[str, Any]) -> _OwnerState:
        served = self._cluster.catalog.find_kind(reference.get("apiVersion", ""), reference.get("kind", ""))
        if served is None or (served.namespaced and not namespace):
            return _OwnerState.LIVING
        owner: StoredObject | None = self._cluster.store.get(
            served.table, namespace if served.namespaced else "", reference.get("name", "")
        )
        if owner is None or owner.uid != reference.get("uid"):
            return _OwnerState.GONE
        if not owner.deleting:
            return _OwnerState.LIVING
        waits = FOREGROUND in (owner.object()["metadata"].get("finalizers") or ())
        return _OwnerState.WAITING if waits and reference.get("blockOwnerDeletion") else _OwnerState.LIVING


def _delete(resource: str, metadata: Obj, propagation: Any) -> Delete:
    namespace = metadata.get("namespace", "")
    return Delete(resource, namespace, metadata["name"], metadata["uid"], propagation=propagation)


def _without_finalizer(resource: str, obj: Obj, finalizer: str) -> Patch:
    kept = [entry for entry in obj["metadata"].get("finalizers") or () if entry != finalizer]
    return uid_patch(resource, obj, {"metadata": {"finalizers": kept or None}})

"""Ownership: controller references, and adoption and release of pods.

Upstream: pkg/controller/controller_ref_manager.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from situate.cluster.controllers.machinery.actions import Patch, uid_patch
from situate.cluster.controllers.machinery.changes import Change
from situate.cluster.controllers.machinery.controllers import ControllerContext
from situate.cluster.controllers.machinery.selectors import Selectors
from situate.cluster.controllers.machinery.tables import PODS, Key, Obj
from situate.cluster.controllers.node.pods import PodFacts, controller_of
from situate.cluster.storage.selection import LabelTest


def controller_reference(owner: Obj) -> dict[str, Any]:
    """Return the owner reference of a controlled object."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def adopt(resource: str, obj: Obj, owner: Obj) -> Patch:
    """Make `owner` the controller of an object. The API refuses if the object was replaced meanwhile."""
    references = [*(obj["metadata"].get("ownerReferences") or ()), controller_reference(owner)]
    return uid_patch(resource, obj, {"metadata": {"ownerReferences": references}})


def release(resource: str, obj: Obj, owner_uid: str) -> Patch:
    """Remove the reference to an owner from an object."""
    references = obj["metadata"].get("ownerReferences") or ()
    kept = [reference for reference in references if reference.get("uid") != owner_uid]
    return uid_patch(resource, obj, {"metadata": {"ownerReferences": kept or None}})


class OwnedObjects:
    """The objects of one resource: by controlling owner, and by namespace those without one."""

    def __init__(self) -> None:
        self._owned: dict[str, dict[str, Obj]] = {}
        self._without_owner: dict[str, dict[str, Obj]] = {}
        self._owner: dict[Key, str] = {}

    def apply(self, change: Change) -> Obj | None:
        """Take in a change. Return the object's reference to its controlling owner, or None."""
        namespace, name = change.key
        before = self._owner.pop(change.key, None)
        if before:
            self._owned[before].pop(name, None)
        self._without_owner.get(namespace, {}).pop(name, None)
        owner = controller_of(change.object)
        if change.new is not None:
            if owner is None:
                self._without_owner.setdefault(namespace, {})[name] = change.object
            else:
                self._owner[change.key] = owner["uid"]
                self._owned.setdefault(owner["uid"], {})[name] = change.object
        return owner

    def owned_by(self, uid: str) -> Mapping[str, Obj]:
        """Return the objects of an owner by name."""
        return self._owned.get(uid, {})

    def without_owner(self, namespace: str) -> Mapping[str, Obj]:
        """Return the objects in a namespace that have no controlling owner, by name."""
        return self._without_owner.get(namespace, {})


class PodOwnership:
    """Pods to adopt or release by the objects of one kind.

    Selectors do not change in apps/v1. So only new or relabelled pods are checked, and all pods without an owner in a
    namespace when an owner is created there.
    """

    def __init__(self, cluster: ControllerContext, resource: str, kind: str) -> None:
        self._cluster = cluster
        self._resource = resource
        self._kind = kind
        self._selectors = Selectors(resource)
        self._pods_to_check: dict[Key, set[str]] = {}

    def observe(self, change: Change) -> Iterator[Key]:
        """Yield the owners to reconcile after a change of a pod or of themselves."""
        if change.resource == self._resource:
            self._selectors.apply(change)
            if change.new is None:
                self._pods_to_check.pop(change.key, None)
            elif change.old is None:
                for pod in self._cluster.pods.pods_without_owner(change.key[0]):
                    self._mark_for_check(change.key, pod)
            yield change.key
        elif change.resource == PODS:
            yield from self._observe_pod(change.pod_before, change.pod)

    def ownership_patches(self, owner: Obj, selector: LabelTest) -> list[Patch]:
        """Return the due releases and adoptions; none while the owner is being deleted."""
        metadata = owner["metadata"]
        key = (metadata["namespace"], metadata["name"])
        suspects = self._pods_to_check.get(key)
        if not suspects:
            return []
        actions = []
        for name in sorted(suspects):
            pod = self._cluster.pods.pods.get((key[0], name))
            action = None if pod is None else self._ownership_patch(pod, owner, selector)
            if action is None:
                suspects.discard(name)
            elif "deletionTimestamp" not in metadata:
                actions.append(action)
        return actions

    def _ownership_patch(self, pod: PodFacts, owner: Obj, selector: LabelTest) -> Patch | None:
        uid = owner["metadata"]["uid"]
        matches = selector(pod.labels)
        adopts = not pod.owner_uid and matches and pod.active
        releases = pod.owner_uid == uid and not matches and pod.active
        if not adopts and not releases:
            return None
        obj = self._cluster.get(PODS, pod.namespace, pod.name)
        if obj is None:
            return None
        return adopt(PODS, obj, owner) if adopts else release(PODS, obj, uid)

    def _observe_pod(self, before: PodFacts | None, after: PodFacts | None) -> Iterator[Key]:
        if before is not None and before.owner_kind == self._kind:
            yield before.namespace, before.owner_name
        if after is None:
            return
        if after.owner_uid:
            if after.owner_kind != self._kind:
                return
            owner = (after.namespace, after.owner_name)
            if before is None or before.labels != after.labels or before.owner_uid != after.owner_uid:
                self._mark_for_check(owner, after)
            yield owner
        elif before is None or before.labels != after.labels or before.owner_uid:
            for name in self._selectors.names_selecting(after.namespace, after.labels):
                self._mark_for_check((after.namespace, name), after)
                yield after.namespace, name

    def _mark_for_check(self, owner: Key, pod: PodFacts) -> None:
        self._pods_to_check.setdefault(owner, set()).add(pod.name)

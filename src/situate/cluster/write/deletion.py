"""Delete objects: preconditions, finalizers, propagation to dependents, and the grace period of pods.

After apiserver's registry/rest/delete.go and registry/generic/registry/store.go. The garbage collector deletes the
dependents, and the namespace controller deletes the contents of namespaces.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from situate.cluster.admission.attributes import Attributes, Steps
from situate.cluster.admission.chain import Admission
from situate.cluster.errors.refusals import RequestRefused, conflict, forbidden, not_found, status_details
from situate.cluster.errors.times import parse_seconds, timestamp
from situate.cluster.kinds.rules import Obj
from situate.cluster.read.negotiation import decode_whole
from situate.cluster.storage.effects import Identity
from situate.cluster.storage.options import DeleteOptions
from situate.cluster.storage.resources import Resource
from situate.cluster.storage.store import Store
from situate.cluster.storage.stored_object import StoredObject
from situate.cluster.write import ObjectWriter
from situate.cluster.write.calls import Written

_ORPHAN: Final = "orphan"
_FOREGROUND: Final = "foregroundDeletion"
_PROTECTED_NAMESPACES: Final = frozenset({"default", "kube-system", "kube-public"})


@dataclass(frozen=True, slots=True)
class Deletion:
    """A request to delete one object."""

    resource: Resource
    namespace: str
    name: str
    options: DeleteOptions
    identity: Identity
    now: float
    one_of_many: bool = False
    """True if a whole collection is deleted; admission then gets no name."""


class ObjectDeleter:
    """Deletions in one store."""

    def __init__(self, store: Store, admission: Admission, writing: ObjectWriter) -> None:
        self._store = store
        self._admission = admission
        self._writing = writing

    def delete(self, deletion: Deletion, warnings: list[str], *, asked: bool = False) -> Steps[Written]:
        """Delete the object or mark it as terminating. The answer is a Status where upstream returns one.

        With `asked`, admission already checked the request that this deletion is part of.
        """
        resource, name = deletion.resource, deletion.name
        if resource.table == "namespaces" and name in _PROTECTED_NAMESPACES:
            raise RequestRefused(forbidden(resource, name, "this namespace may not be deleted"))
        present = self._current_object(deletion)
        self.check_preconditions(deletion, present)
        if not asked:
            yield from self._admission.validate(self._attributes(deletion, present, warnings))
            yield from self._admission.mutate(self._attributes(deletion, present, warnings))
        present = self._current_object(deletion)
        self.check_preconditions(deletion, present)
        obj = decode_whole(resource, present)
        if resource.table == "namespaces" and obj.get("spec", {}).get("finalizers"):
            return self._terminate_namespace(deletion, present, obj)
        if self._mark_terminating(deletion, obj):
            return Written(200, self._store_if_changed(deletion, present, obj))
        if resource.table == "pods" and not deletion.options.dry_run:
            # A pod is always marked first, so that watchers see the mark and the deletion.
            present = self._writing.storage.put(resource, obj) if obj != decode_whole(resource, present) else present
        if not deletion.options.dry_run:
            event = self._store.remove(resource.table, deletion.namespace, name)
            obj = decode_whole(resource, event.last)
        if self._writing.rules(resource).shown_when_deleted:
            return Written(200, obj)
        return Written(200, deleted_status(resource, present))

    def _current_object(self, deletion: Deletion) -> StoredObject:
        found = self._store.get(deletion.resource.table, deletion.namespace, deletion.name)
        if found is None:
            raise RequestRefused(not_found(deletion.resource, deletion.name))
        return found

    def check_preconditions(self, deletion: Deletion, present: StoredObject) -> None:
        """Raise `RequestRefused` if a precondition names another object or another version of it."""
        options, resource = deletion.options, deletion.resource
        if options.uid is not None and options.uid != present.uid:
            why = f"the UID in the precondition ({options.uid}) does not match the UID in record ({present.uid}). "
            why += "The object might have been deleted and then recreated"
            raise _precondition_refusal(resource, deletion.name, why)
        if options.revision is not None and options.revision != str(present.revision):
            why = f"the ResourceVersion in the precondition ({options.revision}) does not match the ResourceVersion "
            why += f"in record ({present.revision}). The object might have been modified"
            raise _precondition_refusal(resource, deletion.name, why)

    def _mark_terminating(self, deletion: Deletion, obj: Obj) -> bool:
        """Start the deletion of the object in place. Return whether a finalizer or the kubelet must finish it."""
        metadata = obj["metadata"]
        had_finalizers = list(metadata.get("finalizers") or ())
        finalizers = _with_gc_finalizers(had_finalizers, deletion.options.propagation)
        if finalizers:
            metadata["finalizers"] = finalizers
        else:
            metadata.pop("finalizers", None)
        grace = 0
        if deletion.resource.table == "pods":
            grace = _grace_period(obj, deletion.options)
            pending = _continues_gracefully(
                metadata, grace, given=deletion.options.grace_seconds is not None, now=deletion.now
            )
            if pending:
                return True
        elif not finalizers:
            return False
        if "deletionTimestamp" not in metadata:
            if metadata.get("generation"):
                metadata["generation"] += 1
            metadata["deletionTimestamp"] = timestamp(deletion.now + grace)
        elif not grace and parse_seconds(metadata["deletionTimestamp"]) > deletion.now:
            metadata["deletionTimestamp"] = timestamp(deletion.now)
        metadata["deletionGracePeriodSeconds"] = grace
        return bool(grace or finalizers)

    def _store_if_changed(self, deletion: Deletion, present: StoredObject, obj: Obj) -> StoredObject | Obj:
        if deletion.options.dry_run:
            return obj
        before = decode_whole(deletion.resource, present)
        if before == obj:
            return present
        return self._writing.storage.put(deletion.resource, obj)

    def _terminate_namespace(self, deletion: Deletion, present: StoredObject, obj: Obj) -> Written:
        metadata = obj["metadata"]
        if "deletionTimestamp" not in metadata:
            metadata["deletionTimestamp"] = timestamp(deletion.now)
            obj.setdefault("status", {})["phase"] = "Terminating"
            finalizers = _with_gc_finalizers(list(metadata.get("finalizers") or ()), deletion.options.propagation)
            if finalizers:
                metadata["finalizers"] = finalizers
        return Written(200, self._store_if_changed(deletion, present, obj))

    def _attributes(self, deletion: Deletion, present: StoredObject, warnings: list[str]) -> Attributes:
        resource, options = deletion.resource, deletion.options
        shown: Obj = {"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"}
        if options.grace_seconds is not None:
            shown["gracePeriodSeconds"] = options.grace_seconds
        if options.propagation:
            shown["propagationPolicy"] = options.propagation
        if options.dry_run:
            shown["dryRun"] = ["All"]
        return Attributes(
            operation="DELETE",
            resource=resource,
            subresource="",
            kind=(resource.group, resource.version, resource.kind),
            namespace=deletion.namespace,
            name="" if deletion.one_of_many else deletion.name,
            object=None,
            old=decode_whole(resource, present),
            options=shown,
            dry_run=options.dry_run,
            identity=deletion.identity,
            now=deletion.now,
            warnings=warnings,
        )


def _precondition_refusal(resource: Resource, name: str, why: str) -> RequestRefused:
    """Build the conflict for a failed precondition. Upstream names the kind here, and the resource elsewhere."""
    return RequestRefused(conflict(resource, name, why, kind=resource.kind))


def deleted_status(resource: Resource, gone: StoredObject) -> Obj:
    """Return the Status for a deleted object."""
    details = status_details(resource, gone.name, uid=gone.uid)
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}


def _with_gc_finalizers(present: Sequence[str], propagation: str) -> list[str]:
    """Return the finalizers, with those of the garbage collector set by `propagation`. If it is empty they stay."""
    if not propagation:
        return list(present)
    kept = [name for name in present if name not in (_ORPHAN, _FOREGROUND)]
    if propagation == "Orphan":
        kept.append(_ORPHAN)
    if propagation == "Foreground":
        kept.append(_FOREGROUND)
    return kept


def _grace_period(pod: Obj, options: DeleteOptions) -> int:
    """Return the grace period of a pod in seconds; 0 removes the object at once (pod/strategy.go)."""
    spec, status = pod["spec"], pod.get("status", {})
    if not spec.get("nodeName") or status.get("phase") in ("Succeeded", "Failed"):
        return 0
    grace = options.grace_seconds
    if grace is None:
        grace = spec.get("terminationGracePeriodSeconds", 0)
    return 1 if grace < 0 else int(grace)


def _continues_gracefully(metadata: Obj, grace: int, *, given: bool, now: float) -> bool:
    """Return whether a graceful deletion continues, as before or with a shorter grace period set in place."""
    if "deletionTimestamp" not in metadata:
        return False
    left = metadata.get("deletionGracePeriodSeconds") or 0
    if not left:
        return False
    if not given or grace >= left:
        return True
    if grace == 0:
        return False
    end = parse_seconds(metadata["deletionTimestamp"]) - left + grace
    if end < now:
        end, grace = now, 1
    metadata["deletionTimestamp"] = timestamp(end)
    metadata["deletionGracePeriodSeconds"] = grace
    return True

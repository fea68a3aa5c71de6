"""Evict pods within disruption budgets (Kubernetes' registry/core/pod/storage/eviction.go)."""

from __future__ import annotations

from typing import Any, Final

from situate.cluster.admission.attributes import Steps
from situate.cluster.errors.field_errors import Refused, bad_request
from situate.cluster.errors.refusals import RequestRefused, forbidden, not_found, raise_if_refused
from situate.cluster.errors.times import timestamp
from situate.cluster.kinds.conditions import set_condition, set_pod_condition
from situate.cluster.kinds.rules import Obj
from situate.cluster.kinds.schemas.bodies import decode
from situate.cluster.read.negotiation import decode_whole
from situate.cluster.storage.options import DeleteOptions, delete_options
from situate.cluster.storage.resources import Catalog
from situate.cluster.storage.selection import object_selector
from situate.cluster.storage.store import Store
from situate.cluster.storage.stored_object import StoredObject
from situate.cluster.write import ObjectWriter
from situate.cluster.write.calls import Call, Written
from situate.cluster.write.deletion import Deletion, ObjectDeleter
from situate.cluster.write.subresources import SUCCESS

_BUDGETS: Final = "poddisruptionbudgets.policy"
_MAX_DISRUPTED: Final = 2000
"""Largest number of evictions that the disruption controller may not have seen yet."""
_REFUSAL_MESSAGE: Final = "Cannot evict pod as it would violate the pod's disruption budget."
_RETRY_S: Final = 10


class Evictions:
    """Evictions in one store."""

    def __init__(self, store: Store, catalog: Catalog, writing: ObjectWriter, deleting: ObjectDeleter) -> None:
        self._store = store
        self._catalog = catalog
        self._writing = writing
        self._deleting = deleting

    def evict(self, call: Call) -> Steps[Written]:
        """Handle a POST of an Eviction."""
        body = raise_if_refused(decode(call.request.body))
        if not isinstance(body, dict) or body.get("kind", "Eviction") != "Eviction":
            raise RequestRefused(bad_request("not a Eviction object"))
        named = (body.get("metadata") or {}).get("name", "")
        if named != call.name:
            raise RequestRefused(bad_request("name in URL does not match name in Eviction object"))
        options = delete_options(call.request, body.get("deleteOptions") or {"kind": "DeleteOptions"})
        dry_run = options.dry_run or call.options.dry_run
        yield from self._writing.admission.admit_posted(call, body, "eviction", ("policy", "v1", "Eviction"))
        present = self._store.get("pods", call.target.namespace, call.name)
        if present is None:
            raise RequestRefused(not_found(call.resource, call.name))
        pod = decode_whole(call.resource, present)
        if not _needs_no_budget(pod):
            self._check_budget(call, present, pod, dry_run=dry_run)
        if not dry_run:
            deletion = self._deletion(call, options, dry_run=True)
            self._deleting.check_preconditions(deletion, present)
            self._set_disruption_target(call, present, pod)
        yield from self._deleting.delete(self._deletion(call, options, dry_run=dry_run), call.warnings, asked=True)
        return Written(201, dict(SUCCESS))

    def _check_budget(self, call: Call, present: StoredObject, pod: Obj, *, dry_run: bool) -> None:
        budgets = self._budgets_of(present)
        if len(budgets) > 1:
            text = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
            raise RequestRefused(Refused(500, "", text))
        if not budgets:
            return
        budget = budgets[0].object_with_managers()
        if not _is_ready(pod) and _allows_unready_eviction(budget):
            return
        self._count_disruption(call, budget, dry_run=dry_run)

    def _budgets_of(self, pod: StoredObject) -> list[StoredObject]:
        found = []
        for stored in self._store.table(_BUDGETS).sorted_objects(pod.namespace):
            selector = stored.object().get("spec", {}).get("selector")
            if selector is not None and object_selector(selector)(pod.labels):
                found.append(stored)
        return found

    def _count_disruption(self, call: Call, budget: Obj, *, dry_run: bool) -> None:
        """Count one disruption. Raises `RequestRefused` if the budget allows none."""
        metadata, status = budget["metadata"], budget.setdefault("status", {})
        name = metadata["name"]
        resource = self._catalog.find_kind("policy/v1", "PodDisruptionBudget")
        assert resource is not None
        if status.get("observedGeneration", 0) < metadata.get("generation", 0):
            cause = f"The disruption budget {name} is still being processed by the server."
            raise RequestRefused(_too_many_requests(cause, _RETRY_S))
        allowed = status.get("disruptionsAllowed", 0)
        if allowed < 0:
            raise RequestRefused(forbidden(resource, name, "pdb disruptions allowed is negative"))
        if len(status.get("disruptedPods") or ()) > _MAX_DISRUPTED:
            why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
            raise RequestRefused(forbidden(resource, name, why))
        if allowed == 0:
            raise RequestRefused(_too_many_requests(_refusal_cause(name, status), None))
        status["disruptionsAllowed"] = allowed - 1
        if allowed == 1:
            _set_exhausted(metadata, status, call.now)
        if not dry_run:
            status.setdefault("disruptedPods", {})[call.name] = timestamp(call.now)
            self._writing.storage.put(resource, budget)

    def _set_disruption_target(self, call: Call, present: StoredObject, pod: Obj) -> None:
        """Set the condition DisruptionTarget, which gives controllers the reason of the deletion."""
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting",
        }
        set_pod_condition(pod.setdefault("status", {}), condition, call.now)
        if pod != decode_whole(call.resource, present):
            self._writing.storage.put(call.resource, pod)

    def _deletion(self, call: Call, options: DeleteOptions, *, dry_run: bool) -> Deletion:
        # The new condition changed the pod's version. The requested version was compared before that.
        revision = options.revision if dry_run else None
        checked = DeleteOptions(dry_run, options.grace_seconds, options.propagation, options.uid, revision)
        return Deletion(call.resource, call.target.namespace, call.name, checked, call.identity, call.now)


def _needs_no_budget(pod: Obj) -> bool:
    phase = pod.get("status", {}).get("phase")
    return phase in ("Succeeded", "Failed", "Pending") or "deletionTimestamp" in pod["metadata"]


def _is_ready(pod: Obj) -> bool:
    conditions = pod.get("status", {}).get("conditions") or ()
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def _allows_unready_eviction(budget: Obj) -> bool:
    if budget.get("spec", {}).get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = budget.get("status", {})
    desired = status.get("desiredHealthy", 0)
    return bool(desired > 0 and status.get("currentHealthy", 0) >= desired)


def _too_many_requests(cause: str, retry_s: int | None) -> Refused:
    details: dict[str, Any] = {"causes": [{"reason": "DisruptionBudget", "message": cause}]}
    if retry_s is not None:
        details["retryAfterSeconds"] = retry_s
    return Refused(429, "TooManyRequests", _REFUSAL_MESSAGE, details)


def _refusal_cause(name: str, status: Obj) -> str:
    condition = next((c for c in status.get("conditions") or () if c["type"] == "DisruptionAllowed"), None)
    explained = condition is not None and condition["status"] == "False" and condition.get("message")
    if condition is not None and explained and condition.get("reason") == "SyncFailed":
        message = condition["message"]
        return f"The disruption budget {name} does not allow evicting pods currently because it failed sync: {message}"
    current, desired = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
    if current <= desired:
        return f"The disruption budget {name} needs {desired} healthy pods and has {current} currently"
    if condition is not None and explained:
        return (
            f"The disruption budget {name} does not allow evicting pods currently ({condition['reason']}): "
            f"{condition['message']}"
        )
    return f"The disruption budget {name} does not allow evicting pods currently"


def _set_exhausted(metadata: Obj, status: Obj, now: float) -> None:
    """Set the condition of an exhausted budget (pdbhelper.UpdateDisruptionAllowedCondition)."""
    condition = {
        "type": "DisruptionAllowed",
        "status": "False",
        "observedGeneration": metadata.get("generation", 0),
        "lastTransitionTime": "",
        "reason": "InsufficientPods",
        "message": "",
    }
    set_condition(status, condition, now)

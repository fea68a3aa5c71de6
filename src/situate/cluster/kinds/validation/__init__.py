"""Validate built-in objects beyond their types, by apiVersion and kind.

Objects are decoded and defaulted. Each function returns the errors in upstream's order; the list is empty for a valid
object.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from situate.cluster.errors.field_errors import FieldError
from situate.cluster.kinds.schemas.catalog import published_data
from situate.cluster.kinds.validation import admission, kinds, policies, workloads
from situate.cluster.kinds.validation.metadata import (
    validate_field_manager,
    validate_metadata,
    validate_metadata_update,
    validate_non_negative,
    with_general_update,
)
from situate.cluster.kinds.validation.pod_updates import validate_pod_resize, validate_pod_status, validate_pod_update
from situate.cluster.kinds.validation.pods import validate_pod_create

__all__ = [
    "validate_create",
    "validate_field_manager",
    "validate_metadata",
    "validate_metadata_update",
    "validate_resize",
    "validate_scale",
    "validate_status",
    "validate_update",
]

_Map = Mapping[str, Any]
_Create = Callable[[_Map], list[FieldError]]
_Update = Callable[[_Map, _Map], list[FieldError]]


def validate_create(obj: _Map) -> list[FieldError]:
    """Validate a new object after its name was generated."""
    found = _KINDS.get((obj["apiVersion"], obj["kind"]))
    if found is not None:
        return found[0](obj)
    return validate_metadata(obj["metadata"], namespaced=_is_namespaced(obj))


def validate_update(new: _Map, old: _Map) -> list[FieldError]:
    """Validate a write to the object itself. Its status is unchanged."""
    found = _KINDS.get((new["apiVersion"], new["kind"]))
    errors = _validate_metadata_update(new, old) if found is None else found[1](new, old)
    return with_general_update(new, old, _is_namespaced(new), errors) if errors else errors


def validate_status(new: _Map, old: _Map) -> list[FieldError]:
    """Validate a write to the subresource status. Only status and metadata can differ."""
    errors = _STATUS.get((new["apiVersion"], new["kind"]), _validate_metadata_update)(new, old)
    return with_general_update(new, old, _is_namespaced(new), errors) if errors else errors


def validate_resize(new: _Map, old: _Map) -> list[FieldError]:
    """Validate a write to pods/resize."""
    errors = validate_pod_resize(new, old)
    return with_general_update(new, old, True, errors) if errors else errors


def validate_scale(scale: _Map) -> list[FieldError]:
    """Validate a write to the subresource scale."""
    return validate_non_negative(scale.get("spec", {}).get("replicas"), "spec.replicas")


def _is_namespaced(obj: _Map) -> bool:
    version = obj["apiVersion"]
    prefix = "apis" if "/" in version else "api"
    for resource in published_data()["resources"].get(f"{prefix}/{version}", ()):
        if resource["kind"] == obj["kind"] and "/" not in resource["name"]:
            return bool(resource["namespaced"])
    return bool(obj["metadata"].get("namespace"))


def _validate_metadata_update(new: _Map, old: _Map) -> list[FieldError]:
    return validate_metadata_update(new["metadata"], old["metadata"])


def _pair(content: _Create, *, namespaced: bool = True, changes: _Update | None = None) -> tuple[_Create, _Update]:
    """Return the validators of a kind: metadata, then `content`, and for an update `changes`."""

    def create(obj: _Map) -> list[FieldError]:
        return validate_metadata(obj["metadata"], namespaced=namespaced) + content(obj)

    def update(new: _Map, old: _Map) -> list[FieldError]:
        errors = _validate_metadata_update(new, old) + content(new)
        return errors if changes is None else errors + changes(new, old)

    return create, update


_RBAC: Final = "rbac.authorization.k8s.io/v1"
_ADMISSION: Final = "admissionregistration.k8s.io/v1"
_KINDS: Final[Mapping[tuple[str, str], tuple[_Create, _Update]]] = {
    ("v1", "Pod"): (validate_pod_create, validate_pod_update),
    ("v1", "ConfigMap"): (kinds.config_map, kinds.config_map_update),
    ("v1", "Secret"): (kinds.secret, kinds.secret_update),
    ("v1", "Service"): (kinds.service, kinds.service_update),
    ("v1", "Node"): (kinds.node, kinds.node_update),
    ("v1", "Event"): (kinds.event, kinds.event_update),
    ("v1", "Namespace"): (kinds.namespace, _validate_metadata_update),
    ("apps/v1", "StatefulSet"): (workloads.stateful_set, workloads.stateful_set_update),
    ("apps/v1", "Deployment"): _pair(workloads.deployment_spec, changes=workloads.same_selector),
    ("apps/v1", "ReplicaSet"): _pair(workloads.replica_set_spec, changes=workloads.same_selector),
    ("apps/v1", "DaemonSet"): (workloads.daemon_set, workloads.daemon_set_update),
    ("batch/v1", "Job"): (workloads.job, workloads.job_update),
    ("policy/v1", "PodDisruptionBudget"): _pair(kinds.disruption_budget_spec),
    ("coordination.k8s.io/v1", "Lease"): _pair(kinds.lease_spec),
    ("scheduling.k8s.io/v1", "PriorityClass"): (kinds.priority_class, kinds.priority_class_update),
    (_RBAC, "Role"): (kinds.role, kinds.role_update),
    (_RBAC, "ClusterRole"): (kinds.role, kinds.role_update),
    (_RBAC, "RoleBinding"): (kinds.role_binding, kinds.role_binding_update),
    (_RBAC, "ClusterRoleBinding"): (kinds.role_binding, kinds.role_binding_update),
    (_ADMISSION, "MutatingWebhookConfiguration"): _pair(admission.webhooks, namespaced=False),
    (_ADMISSION, "ValidatingWebhookConfiguration"): _pair(admission.webhooks, namespaced=False),
    (_ADMISSION, "ValidatingAdmissionPolicy"): _pair(policies.policy_spec, namespaced=False),
    (_ADMISSION, "ValidatingAdmissionPolicyBinding"): _pair(policies.binding_spec, namespaced=False),
}
_STATUS: Final[Mapping[tuple[str, str], _Update]] = {
    ("v1", "Pod"): validate_pod_status,
    ("v1", "Node"): kinds.node_update,
    ("apps/v1", "StatefulSet"): workloads.replicas_in_status,
    ("apps/v1", "Deployment"): workloads.replicas_in_status,
    ("apps/v1", "ReplicaSet"): workloads.replicas_in_status,
    ("policy/v1", "PodDisruptionBudget"): kinds.disruption_budget_status,
}

"""Apply the API's own changes to an object on each write, apart from defaults and validation.

Status is written separately from the rest, generation counts changes of the desired state, and some kinds have special
rules. After the `strategy.go` of each resource in Kubernetes' pkg/registry. All custom resources have the same rules
(apiextensions-apiserver pkg/registry/customresource/strategy.go).
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from situate.cluster.errors.times import timestamp
from situate.cluster.kinds.defaults import qos_class
from situate.cluster.kinds.schemas import built_in_schema
from situate.cluster.kinds.schemas.decoding import struct_decoder
from situate.cluster.storage.resources import Origin, Resource

Obj: TypeAlias = dict[str, Any]

_GENERATION_FIELDS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        **dict.fromkeys(("pods", "replicationcontrollers", "jobs.batch", "cronjobs.batch"), ("spec",)),
        **{f"{plural}.apps": ("spec",) for plural in ("deployments", "replicasets", "statefulsets", "daemonsets")},
        **{f"{plural}.networking.k8s.io": ("spec",) for plural in ("networkpolicies", "ingresses", "ingressclasses")},
        "poddisruptionbudgets.policy": ("spec",),
        "customresourcedefinitions.apiextensions.k8s.io": ("spec",),
        "mutatingwebhookconfigurations.admissionregistration.k8s.io": ("webhooks",),
        "validatingwebhookconfigurations.admissionregistration.k8s.io": ("webhooks",),
        "validatingadmissionpolicies.admissionregistration.k8s.io": ("spec",),
        "validatingadmissionpolicybindings.admissionregistration.k8s.io": ("spec",),
        "priorityclasses.scheduling.k8s.io": ("value",),
        "endpointslices.discovery.k8s.io": ("addressType", "endpoints", "ports"),
        "resourceclaims.resource.k8s.io": ("spec",),
    }
)
"""Kinds with a generation, and the fields that it counts."""

_CREATED_BY_UPDATE: Final = frozenset(
    {
        "runtimeclasses.node.k8s.io",
        "rolebindings.rbac.authorization.k8s.io",
        "clusterrolebindings.rbac.authorization.k8s.io",
        "roles.rbac.authorization.k8s.io",
        "clusterroles.rbac.authorization.k8s.io",
        "leases.coordination.k8s.io",
        "events",
        "services",
        "endpoints",
    }
)
"""Kinds that a PUT can create."""

_CONDITIONAL_ONLY: Final = frozenset(
    {
        "runtimeclasses.node.k8s.io",
        "poddisruptionbudgets.policy",
        "csidrivers.storage.k8s.io",
        "csistoragecapacities.storage.k8s.io",
        "volumeattachments.storage.k8s.io",
        "csinodes.storage.k8s.io",
        "leases.coordination.k8s.io",
        "validatingadmissionpolicies.admissionregistration.k8s.io",
        "mutatingwebhookconfigurations.admissionregistration.k8s.io",
        "validatingwebhookconfigurations.admissionregistration.k8s.io",
        "validatingadmissionpolicybindings.admissionregistration.k8s.io",
        "customresourcedefinitions.apiextensions.k8s.io",
    }
)
"""Kinds for which a PUT must carry a resourceVersion."""

_SHOWN_WHEN_DELETED: Final = frozenset(
    {
        "csidrivers.storage.k8s.io",
        "storageclasses.storage.k8s.io",
        "volumeattachments.storage.k8s.io",
        "csinodes.storage.k8s.io",
        "persistentvolumes",
        "serviceaccounts",
        "persistentvolumeclaims",
        "namespaces",
        "pods",
        "services",
        "podtemplates",
    }
)
"""Kinds for which a deletion answers with the object instead of a Status."""


@dataclass(frozen=True, slots=True)
class ResourceRules:
    """The rules of one resource."""

    generation_fields: tuple[str, ...]
    """Fields whose changes the generation counts. Empty if the kind has no generation."""
    has_status: bool
    custom: bool
    create_on_update: bool
    unconditional_update: bool
    shown_when_deleted: bool
    empty_status: Callable[[], Any] | None
    """Returns the initial status. None: keep the status in the request, as for Nodes that kubelets create."""
    on_create: Callable[[Obj, float], None] | None = None
    on_update: Callable[[Obj, Obj], None] | None = None
    on_status: Callable[[Obj, Obj], None] | None = None

    def prepare_create(self, obj: Obj, now: float) -> None:
        """Prepare a new object in place."""
        metadata = obj["metadata"]
        metadata.pop("generation", None)
        if self.generation_fields or self.custom:
            metadata["generation"] = 1
        if self.has_status and self.empty_status is not None:
            status = self.empty_status()
            if status is None:
                obj.pop("status", None)
            else:
                obj["status"] = status
        if self.on_create is not None:
            self.on_create(obj, now)

    def prepare_update(self, new: Obj, old: Obj) -> None:
        """Prepare the new version in place: status stays, and generation counts."""
        _restore_system_fields(new, old)
        if self.has_status:
            restore_field(new, old, "status")
        if self.on_update is not None:
            self.on_update(new, old)
        if self._generation_changes(new, old):
            new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1

    def prepare_status(self, new: Obj, old: Obj) -> None:
        """Prepare the new version in place: only status changes, and for built-in kinds also metadata."""
        _restore_system_fields(new, old)
        if self.custom:
            restore_metadata(new, old)
        for field in {*new, *old} - {"apiVersion", "kind", "metadata", "status"}:
            restore_field(new, old, field)
        if self.on_status is not None:
            self.on_status(new, old)

    def _generation_changes(self, new: Obj, old: Obj) -> bool:
        if not self.custom:
            return any(new.get(field) != old.get(field) for field in self.generation_fields)
        left_out = {"metadata", "status"} if self.has_status else {"metadata"}
        return any(new.get(field) != old.get(field) for field in {*new, *old} - left_out)


def restore_metadata(new: Obj, old: Obj) -> None:
    """Give an object the metadata of its old version, except for the managedFields."""
    managed = new["metadata"].get("managedFields")
    new["metadata"] = {**old["metadata"]}
    if managed is not None:
        new["metadata"]["managedFields"] = managed


def restore_field(new: Obj, old: Obj, field: str) -> None:
    """Give an object a field of its old version, or none if that version has none."""
    if field in old:
        new[field] = old[field]
    else:
        new.pop(field, None)


def _restore_system_fields(new: Obj, old: Obj) -> None:
    """Restore the fields that no update may change (registry/rest/update.go, BeforeUpdate)."""
    fresh, was = new["metadata"], old["metadata"]
    for field in ("generation", "creationTimestamp", "selfLink"):
        restore_field(fresh, was, field)
    if not fresh.get("uid"):
        fresh["uid"] = was["uid"]
    restore_field(fresh, was, "deletionTimestamp")
    if "deletionGracePeriodSeconds" in was:
        fresh.setdefault("deletionGracePeriodSeconds", was["deletionGracePeriodSeconds"])


def _new_pod(pod: Obj, now: float) -> None:
    status: Obj = {"phase": "Pending"}
    if pod["spec"].get("schedulingGates"):
        status["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "lastProbeTime": None,
                "lastTransitionTime": timestamp(now),
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
            }
        ]
    status["qosClass"] = qos_class(pod)
    pod["status"] = status


def _pod_status(new: Obj, old: Obj) -> None:
    new["metadata"].pop("ownerReferences", None)
    restore_field(new["metadata"], old["metadata"], "ownerReferences")
    status, was = new.setdefault("status", {}), old.get("status", {})
    if not status.get("qosClass") and "qosClass" in was:
        status["qosClass"] = was["qosClass"]
    if not status.get("observedGeneration") and was.get("observedGeneration"):
        status["observedGeneration"] = was["observedGeneration"]
    seen: dict[str, list[int]] = {}
    for condition in was.get("conditions") or ():
        seen.setdefault(condition.get("type", ""), []).append(condition.get("observedGeneration", 0))
    for condition in status.get("conditions") or ():
        known = seen.get(condition.get("type", ""))
        before = known.pop(0) if known else 0
        if before and not condition.get("observedGeneration"):
            condition["observedGeneration"] = before


def _new_namespace(namespace: Obj, _now: float) -> None:
    finalizers = namespace.setdefault("spec", {}).setdefault("finalizers", [])
    if "kubernetes" not in finalizers:
        finalizers.append("kubernetes")
    namespace["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = namespace["metadata"]["name"]


def _namespace(new: Obj, old: Obj) -> None:
    new.setdefault("spec", {}).pop("finalizers", None)
    if "finalizers" in old.get("spec", {}):
        new["spec"]["finalizers"] = old["spec"]["finalizers"]
    new["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = new["metadata"]["name"]


def _deployment(new: Obj, old: Obj) -> None:
    # Changed annotations count as well, because the ReplicaSet inherits them.
    if new["metadata"].get("annotations") != old["metadata"].get("annotations"):
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1


def _deployment_status(new: Obj, old: Obj) -> None:
    restore_field(new["metadata"], old["metadata"], "labels")


def read_string_data(secret: Obj) -> None:
    """Move `stringData` of a Secret to `data` in place. `stringData` only exists in requests."""
    strings = secret.pop("stringData", None)
    if strings:
        data = secret.setdefault("data", {})
        for key, text in strings.items():
            data[key] = b64encode(text.encode()).decode()


def _new_definition(crd: Obj, _now: float) -> None:
    storage = [version["name"] for version in crd["spec"]["versions"] if version.get("storage")]
    crd["status"] = {"conditions": None, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": storage}


_ON_CREATE: Final[Mapping[str, Callable[[Obj, float], None]]] = {
    "customresourcedefinitions.apiextensions.k8s.io": _new_definition,
    "pods": _new_pod,
    "namespaces": _new_namespace,
}
_ON_UPDATE: Final[Mapping[str, Callable[[Obj, Obj], None]]] = {
    "namespaces": _namespace,
    "deployments.apps": _deployment,
}
_ON_STATUS: Final[Mapping[str, Callable[[Obj, Obj], None]]] = {
    "pods": _pod_status,
    "deployments.apps": _deployment_status,
}
_PHASES: Final[Mapping[str, Obj]] = {
    "namespaces": {"phase": "Active"},
    "persistentvolumes": {"phase": "Pending"},
    "persistentvolumeclaims": {"phase": "Pending"},
}


def rules_of(resource: Resource) -> ResourceRules:
    """Return the rules of a resource."""
    if resource.origin is Origin.CUSTOM:
        return ResourceRules(
            generation_fields=(),
            has_status=resource.subresource("status") is not None,
            custom=True,
            create_on_update=False,
            unconditional_update=False,
            shown_when_deleted=False,
            empty_status=lambda: None,
        )
    table = resource.table
    return ResourceRules(
        generation_fields=_GENERATION_FIELDS.get(table, ()),
        has_status=resource.subresource("status") is not None,
        custom=False,
        create_on_update=table in _CREATED_BY_UPDATE,
        unconditional_update=table not in _CONDITIONAL_ONLY,
        shown_when_deleted=table in _SHOWN_WHEN_DELETED,
        empty_status=_empty_status(resource),
        on_create=_ON_CREATE.get(table),
        on_update=_ON_UPDATE.get(table),
        on_status=_ON_STATUS.get(table),
    )


def _empty_status(resource: Resource) -> Callable[[], Any] | None:
    if resource.table == "nodes":
        return None
    if resource.table in _PHASES:
        return lambda: dict(_PHASES[resource.table])
    schema = built_in_schema(resource.stored_api_version, resource.kind)
    if schema is None or "status" not in schema.properties:
        return lambda: None
    decode = struct_decoder(schema.properties["status"])
    return lambda: decode({}, (), [])

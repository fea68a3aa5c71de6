"""Built-in resources that are served, as kube-apiserver 1.36 announces them, and those that are left out.

A resource is left out if storing it without acting on it would mislead. Examples are a quota that limits nothing and an
aggregated API that never gets a request. Its path answers 404 with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from situate.cluster.storage.events import from_core_event, to_core_event
from situate.cluster.storage.resources import ALL_VERBS, Origin, Resource, Subresource

_PODS_FIELDS: Final = (
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "spec.hostNetwork",
    "status.phase",
    "status.podIP",
    "status.nominatedNodeName",
)
_EVENT_FIELDS: Final = (
    "involvedObject.kind",
    "involvedObject.namespace",
    "involvedObject.name",
    "involvedObject.uid",
    "involvedObject.apiVersion",
    "involvedObject.resourceVersion",
    "involvedObject.fieldPath",
    "reason",
    "reportingComponent",
    "source",
    "type",
)
_STATUS_VERBS: Final = ("get", "patch", "update")


def _status_subresource(kind: str) -> Subresource:
    return Subresource("status", kind, _STATUS_VERBS)


_SCALE: Final = Subresource("scale", "Scale", _STATUS_VERBS, "autoscaling", "v1")


def _resource(
    api_version: str,
    kind: str,
    plural: str,
    scope: str,
    short: str = "",
    categories: str = "",
    subresources: tuple[Subresource, ...] = (),
    selectable: tuple[str, ...] = (),
    verbs: tuple[str, ...] = ALL_VERBS,
    origin: Origin = Origin.BUILT_IN,
) -> Resource:
    group, _, version = api_version.rpartition("/")
    return Resource(
        group=group,
        version=version,
        plural=plural,
        singular=kind.lower(),
        kind=kind,
        namespaced=scope == "Namespaced",
        short_names=tuple(short.split(",")) if short else (),
        categories=tuple(categories.split(",")) if categories else (),
        verbs=verbs,
        subresources=subresources,
        origin=origin,
        list_kind=f"{kind}List",
        stored_group=group,
        stored_version=version,
        selectable=selectable,
    )


def _resource_with_status(
    api_version: str, kind: str, plural: str, scope: str, short: str = "", categories: str = ""
) -> Resource:
    return _resource(api_version, kind, plural, scope, short, categories, (_status_subresource(kind),))


def _workload_resource(
    kind: str, plural: str, short: str, selectable: tuple[str, ...] = (), api_version: str = "apps/v1"
) -> Resource:
    subresources = (_SCALE, _status_subresource(kind))
    return _resource(api_version, kind, plural, "Namespaced", short, "all", subresources, selectable)


def _review_resource(api_version: str, kind: str, plural: str, scope: str) -> Resource:
    return _resource(api_version, kind, plural, scope, verbs=("create",), origin=Origin.REVIEW)


_POD_SUBRESOURCES: Final = (
    Subresource("binding", "Binding", ("create",)),
    Subresource("eviction", "Eviction", ("create",), "policy", "v1"),
    Subresource("resize", "Pod", _STATUS_VERBS),
    _status_subresource("Pod"),
)

_TOKEN: Final = Subresource("token", "TokenRequest", ("create",), "authentication.k8s.io", "v1")

_NAMESPACE_VERBS: Final = tuple(verb for verb in ALL_VERBS if verb != "deletecollection")

_N, _C = "Namespaced", "Cluster"
_STORAGE, _RBAC, _NETWORK = "storage.k8s.io/v1", "rbac.authorization.k8s.io/v1", "networking.k8s.io/v1"
_ADMISSION, _EXTENSIONS = "admissionregistration.k8s.io/v1", "api-extensions"
_AUTHORIZATION, _CRDS = "authorization.k8s.io/v1", "apiextensions.k8s.io/v1"

_EVENTS: Final = _resource("v1", "Event", "events", _N, "ev", selectable=_EVENT_FIELDS)

BUILT_IN: Final[tuple[Resource, ...]] = (
    _resource("v1", "ConfigMap", "configmaps", _N, "cm"),
    _resource("v1", "Endpoints", "endpoints", _N, "ep"),
    _EVENTS,
    _resource(
        *("v1", "Namespace", "namespaces", _C, "ns"),
        subresources=(Subresource("finalize", "Namespace", ("update",)), _status_subresource("Namespace")),
        selectable=("status.phase",),
        verbs=_NAMESPACE_VERBS,
    ),
    _resource("v1", "Node", "nodes", _C, "no", "", (_status_subresource("Node"),), ("spec.unschedulable",)),
    _resource_with_status("v1", "PersistentVolumeClaim", "persistentvolumeclaims", _N, "pvc"),
    _resource_with_status("v1", "PersistentVolume", "persistentvolumes", _C, "pv"),
    _resource("v1", "Pod", "pods", _N, "po", "all", _POD_SUBRESOURCES, _PODS_FIELDS),
    _resource("v1", "PodTemplate", "podtemplates", _N),
    _workload_resource("ReplicationController", "replicationcontrollers", "rc", ("status.replicas",), "v1"),
    _resource("v1", "Secret", "secrets", _N, selectable=("type",)),
    _resource("v1", "ServiceAccount", "serviceaccounts", _N, "sa", "", (_TOKEN,)),
    _resource(
        *("v1", "Service", "services", _N, "svc", "all"),
        subresources=(_status_subresource("Service"),),
        selectable=("spec.clusterIP", "spec.type"),
    ),
    _resource("apps/v1", "ControllerRevision", "controllerrevisions", _N),
    _resource_with_status("apps/v1", "DaemonSet", "daemonsets", _N, "ds", "all"),
    _workload_resource("Deployment", "deployments", "deploy"),
    _workload_resource("ReplicaSet", "replicasets", "rs", ("status.replicas",)),
    _workload_resource("StatefulSet", "statefulsets", "sts"),
    Resource(
        group="events.k8s.io",
        version="v1",
        plural="events",
        singular="event",
        kind="Event",
        namespaced=True,
        short_names=("ev",),
        list_kind="EventList",
        stored_group="",
        stored_version="v1",
        selectable=_EVENT_FIELDS,
        from_stored=from_core_event,
        to_stored=to_core_event,
    ),
    _review_resource("authentication.k8s.io/v1", "SelfSubjectReview", "selfsubjectreviews", _C),
    _review_resource("authentication.k8s.io/v1", "TokenReview", "tokenreviews", _C),
    _review_resource(_AUTHORIZATION, "LocalSubjectAccessReview", "localsubjectaccessreviews", _N),
    _review_resource(_AUTHORIZATION, "SelfSubjectAccessReview", "selfsubjectaccessreviews", _C),
    _review_resource(_AUTHORIZATION, "SelfSubjectRulesReview", "selfsubjectrulesreviews", _C),
    _review_resource(_AUTHORIZATION, "SubjectAccessReview", "subjectaccessreviews", _C),
    _resource_with_status("batch/v1", "CronJob", "cronjobs", _N, "cj", "all"),
    _resource("batch/v1", "Job", "jobs", _N, "", "all", (_status_subresource("Job"),), ("status.successful",)),
    _resource(_NETWORK, "IngressClass", "ingressclasses", _C),
    _resource_with_status(_NETWORK, "Ingress", "ingresses", _N, "ing"),
    _resource(_NETWORK, "NetworkPolicy", "networkpolicies", _N, "netpol"),
    _resource_with_status("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets", _N, "pdb"),
    _resource(_RBAC, "ClusterRoleBinding", "clusterrolebindings", _C),
    _resource(_RBAC, "ClusterRole", "clusterroles", _C),
    _resource(_RBAC, "RoleBinding", "rolebindings", _N),
    _resource(_RBAC, "Role", "roles", _N),
    _resource(_STORAGE, "CSIDriver", "csidrivers", _C),
    _resource(_STORAGE, "CSINode", "csinodes", _C),
    _resource(_STORAGE, "CSIStorageCapacity", "csistoragecapacities", _N),
    _resource(_STORAGE, "StorageClass", "storageclasses", _C, "sc"),
    _resource_with_status(_STORAGE, "VolumeAttachment", "volumeattachments", _C),
    _resource(_ADMISSION, "MutatingWebhookConfiguration", "mutatingwebhookconfigurations", _C, "", _EXTENSIONS),
    _resource(_ADMISSION, "ValidatingWebhookConfiguration", "validatingwebhookconfigurations", _C, "", _EXTENSIONS),
    _resource_with_status(_ADMISSION, "ValidatingAdmissionPolicy", "validatingadmissionpolicies", _C, "", _EXTENSIONS),
    _resource(_ADMISSION, "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", _C, "", _EXTENSIONS),
    _resource_with_status(_CRDS, "CustomResourceDefinition", "customresourcedefinitions", _C, "crd,crds", _EXTENSIONS),
    _resource("scheduling.k8s.io/v1", "PriorityClass", "priorityclasses", _C, "pc"),
    _resource("coordination.k8s.io/v1", "Lease", "leases", _N),
    _resource("node.k8s.io/v1", "RuntimeClass", "runtimeclasses", _C),
    _resource("discovery.k8s.io/v1", "EndpointSlice", "endpointslices", _N),
)

_FLOW_CONTROL: Final = "flowcontrol.apiserver.k8s.io"
_NO_MUTATING_POLICIES: Final = "their expressions make typed objects, which are not evaluated here; use a webhook"

NOT_SERVED: Final[Mapping[tuple[str, str], str]] = MappingProxyType(
    {
        ("", "bindings"): "bind a pod through pods/NAME/binding",
        ("", "componentstatuses"): "there are no components to ask",
        ("", "limitranges"): "limit ranges are not enforced",
        ("", "resourcequotas"): "quotas are not enforced",
        ("admissionregistration.k8s.io", "mutatingadmissionpolicies"): _NO_MUTATING_POLICIES,
        ("admissionregistration.k8s.io", "mutatingadmissionpolicybindings"): _NO_MUTATING_POLICIES,
        ("apiregistration.k8s.io", "apiservices"): "other API servers are not aggregated",
        ("autoscaling", "horizontalpodautoscalers"): "nothing scales by itself here",
        ("certificates.k8s.io", "certificatesigningrequests"): "nobody signs certificates",
        (_FLOW_CONTROL, "flowschemas"): "requests are answered in the order of arrival",
        (_FLOW_CONTROL, "prioritylevelconfigurations"): "requests are answered in the order of arrival",
        ("networking.k8s.io", "ipaddresses"): "cluster addresses are not allocated as objects",
        ("networking.k8s.io", "servicecidrs"): "cluster addresses are not allocated as objects",
        ("resource.k8s.io", "deviceclasses"): "devices are not allocated dynamically",
        ("resource.k8s.io", "resourceclaims"): "devices are not allocated dynamically",
        ("resource.k8s.io", "resourceclaimtemplates"): "devices are not allocated dynamically",
        ("resource.k8s.io", "resourceslices"): "devices are not allocated dynamically",
        ("storage.k8s.io", "volumeattributesclasses"): "volumes are not modified",
        ("storagemigration.k8s.io", "storageversionmigrations"): "stored objects are not migrated",
    }
)
"""Resources of kube-apiserver that are not served, each with the reason."""

SUBRESOURCES_NOT_SERVED: Final[Mapping[tuple[str, str], str]] = MappingProxyType(
    {
        ("pods", "ephemeralcontainers"): "containers do not run",
        ("pods", "log"): "containers do not run, so they print nothing",
        ("pods", "exec"): "containers do not run",
        ("pods", "attach"): "containers do not run",
        ("pods", "portforward"): "containers do not run",
        ("pods", "proxy"): "containers do not run",
        ("nodes", "proxy"): "there are no kubelets to connect to",
        ("services", "proxy"): "containers do not run",
    }
)
"""Subresources of kube-apiserver that are not served, each with the reason. Keys are plural and name."""

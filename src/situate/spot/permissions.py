"""Permissions that spot needs: the one list behind the printed RBAC and the access check.

No permission writes a workload. Nodes are written only if the capacity label is enabled. Rules: B36, I6.
"""

from __future__ import annotations

from collections.abc import Sequence

from situate.objects.reviews.authorization import READ, Permission
from situate.spot.model.object_names import CERTIFICATES, NAME, POLICIES, configuration_name
from situate.spot.workloads.owners import DEFAULT_KINDS, KINDS


def permissions(
    namespace: str,
    lease_namespace: str,
    prices: str | None = None,
    kinds: Sequence[str] = DEFAULT_KINDS,
    *,
    normalise: bool = False,
) -> tuple[Permission, ...]:
    """Return the permissions. `namespace`: of the process and its objects; `prices`: their ConfigMap, `namespace/name`.

    `kinds`: of workloads that take part. `normalise`: whether nodes get the capacity label (P34), the only write to
    nodes.
    """
    policies = "keeping the last valid policy of each workload"
    certificates = "serving the webhook with certificates of its own"
    admission = "admissionregistration.k8s.io"
    place, _, name = (prices or "").partition("/")
    priced = (Permission("", "configmaps", ("get",), "reading prices", place, name),) if prices else ()
    further = tuple(
        Permission(KINDS[kind].group, KINDS[kind].plural, READ, "knowing what a workload asks for")
        for kind in kinds
        if kind not in DEFAULT_KINDS
    )
    labels = (Permission("", "nodes", ("patch",), "labelling nodes with their capacity"),) if normalise else ()
    return (
        *priced,
        *further,
        *labels,
        Permission("", "pods", READ, "counting the pods of each workload"),
        Permission("", "pods", ("patch",), "marking the pod that answers, releasing pods on notice, deletion costs"),
        Permission("", "pods", ("delete",), "ending pods of nodes that end, and released pods"),
        Permission("", "pods/eviction", ("create",), "moving pods"),
        Permission("", "pods/status", ("patch",), "telling on pods why they wait"),
        Permission("", "nodes", READ, "knowing which nodes are on demand, and which end"),
        Permission("", "namespaces", READ, "reading the policies of namespaces"),
        Permission("policy", "poddisruptionbudgets", READ, "moving no pod whose budget forbids it"),
        Permission("", "services", READ, "knowing which pods may be released"),
        Permission("networking.k8s.io", "networkpolicies", READ, "knowing which pods may be released"),
        Permission("", "resourcequotas", READ, "knowing where a replacement may be made"),
        Permission("", "persistentvolumeclaims", READ, "moving no pod away from its volume"),
        Permission("", "persistentvolumes", READ, "moving no pod away from its volume"),
        Permission("storage.k8s.io", "storageclasses", READ, "moving no pod away from its volume"),
        Permission("coordination.k8s.io", "leases", ("get",), "knowing which pod leads its workload"),
        Permission("apps", "deployments", READ, "knowing what a workload asks for"),
        Permission("apps", "replicasets", READ, "knowing whose a pod is"),
        Permission("apps", "statefulsets", READ, "knowing what a workload asks for"),
        Permission(
            "", "events", ("get", "list", "watch", "create", "patch"), "hearing of refused pods, and explaining"
        ),
        Permission(
            admission,
            "mutatingwebhookconfigurations",
            (*READ, "patch"),
            "telling API servers whom to trust",
            name=configuration_name(namespace),
        ),
        Permission("", "secrets", (*READ, "patch"), certificates, namespace, CERTIFICATES),
        Permission("", "secrets", ("create",), certificates, namespace),
        Permission("", "configmaps", (*READ, "patch"), policies, namespace, POLICIES),
        Permission("", "configmaps", ("create",), policies, namespace),
        Permission("coordination.k8s.io", "leases", (*READ, "patch"), "electing a leader", lease_namespace, NAME),
        Permission("coordination.k8s.io", "leases", ("create",), "electing a leader", lease_namespace),
    )

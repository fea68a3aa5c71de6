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
    policies = "recording the last valid policy of each workload"
    certificates = "storing the certificates of the webhook"
    admission = "admissionregistration.k8s.io"
    place, _, name = (prices or "").partition("/")
    priced = (Permission("", "configmaps", ("get",), "reading prices", place, name),) if prices else ()
    further = tuple(
        Permission(KINDS[kind].group, KINDS[kind].plural, READ, "reading the workloads and their policies")
        for kind in kinds
        if kind not in DEFAULT_KINDS
    )
    labels = (Permission("", "nodes", ("patch",), "labelling Nodes with their capacity"),) if normalise else ()
    return (
        *priced,
        *further,
        *labels,
        Permission("", "pods", READ, "counting the Pods of each workload"),
        Permission(
            "", "pods", ("patch",), "labelling the Pod of the leader, releasing Pods, and setting deletion costs"
        ),
        Permission("", "pods", ("delete",), "deleting released Pods, and Pods on ending nodes"),
        Permission("", "pods/eviction", ("create",), "evicting Pods"),
        Permission("", "pods/status", ("patch",), "reporting why Pods wait"),
        Permission("", "nodes", READ, "detecting on-demand nodes and ending nodes"),
        Permission("", "namespaces", READ, "reading the policies of Namespaces"),
        Permission("policy", "poddisruptionbudgets", READ, "respecting PodDisruptionBudgets"),
        Permission("", "services", READ, "detecting Services that forbid the release of a Pod"),
        Permission(
            "networking.k8s.io", "networkpolicies", READ, "detecting NetworkPolicies that forbid the release of a Pod"
        ),
        Permission("", "resourcequotas", READ, "detecting namespaces without quota for a replacement"),
        Permission("", "persistentvolumeclaims", READ, "keeping Pods near their volumes"),
        Permission("", "persistentvolumes", READ, "keeping Pods near their volumes"),
        Permission("storage.k8s.io", "storageclasses", READ, "keeping Pods near their volumes"),
        Permission("coordination.k8s.io", "leases", ("get",), "detecting the Pod that leads its workload"),
        Permission("apps", "deployments", READ, "reading the workloads and their policies"),
        Permission("apps", "replicasets", READ, "finding the workload of a Pod"),
        Permission("apps", "statefulsets", READ, "reading the workloads and their policies"),
        Permission(
            "",
            "events",
            ("get", "list", "watch", "create", "patch"),
            "detecting refused Pods, and recording decisions as Events",
        ),
        Permission(
            admission,
            "mutatingwebhookconfigurations",
            (*READ, "patch"),
            "publishing the certificate authority of the webhook",
            name=configuration_name(namespace),
        ),
        Permission("", "secrets", (*READ, "patch"), certificates, namespace, CERTIFICATES),
        Permission("", "secrets", ("create",), certificates, namespace),
        Permission("", "configmaps", (*READ, "patch"), policies, namespace, POLICIES),
        Permission("", "configmaps", ("create",), policies, namespace),
        Permission("coordination.k8s.io", "leases", (*READ, "patch"), "electing a leader", lease_namespace, NAME),
        Permission("coordination.k8s.io", "leases", ("create",), "electing a leader", lease_namespace),
    )

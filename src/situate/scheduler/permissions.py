"""The permissions of the scheduler: the only list behind the printed RBAC and the access check."""

from __future__ import annotations

from collections.abc import Iterator

from situate.kube.election.lease_record import LeaseName
from situate.objects.reviews.authorization import READ, Permission

_WATCHED_RESOURCES = (
    ("", "nodes", "reading the capacity of nodes"),
    ("", "pods", "reading pending pods and the nodes of all other pods"),
    ("", "namespaces", "matching pod affinity by the labels of namespaces"),
    ("", "services", "spreading pods by default"),
    ("", "replicationcontrollers", "spreading pods by default"),
    ("apps", "replicasets", "spreading pods by default"),
    ("apps", "statefulsets", "spreading pods by default"),
    ("policy", "poddisruptionbudgets", "preferring preemptions that violate no disruption budget"),
    ("", "persistentvolumeclaims", "placing pods on nodes that reach their volumes"),
    ("", "persistentvolumes", "placing pods on nodes that reach their volumes"),
    *(
        ("storage.k8s.io", resource, "placing pods on nodes that can get their volumes")
        for resource in ("storageclasses", "csinodes", "csidrivers", "csistoragecapacities", "volumeattachments")
    ),
)


def permissions(lease: LeaseName | None, *, shadow: bool, allots: bool = False) -> tuple[Permission, ...]:
    """Return the permissions; `lease` None is without election, and `allots` lets it annotate pods with their devices.

    A shadow only reads, apart from its Lease and its Events.
    """
    return tuple(_permissions(lease, shadow=shadow, allots=allots))


def _permissions(lease: LeaseName | None, *, shadow: bool, allots: bool) -> Iterator[Permission]:
    for group, resource, why in _WATCHED_RESOURCES:
        yield Permission(group, resource, READ, why)
    if not shadow:
        yield Permission("", "pods/binding", ("create",), "binding pods")
        yield Permission("", "pods/status", ("patch",), "writing why a pod waits, and its nominated node")
        yield Permission("", "pods", ("delete",), "preempting pods")
        if allots:
            yield Permission("", "pods", ("patch",), "annotating pods with their devices")
        yield Permission("", "persistentvolumes", ("patch",), "binding volumes to claims")
        yield Permission(
            "", "persistentvolumeclaims", ("patch",), "selecting the node for which a volume is provisioned"
        )
    yield Permission("events.k8s.io", "events", ("create", "patch"), "recording Events about pods and nodes")
    if lease is not None:
        coordination = "coordination.k8s.io"
        yield Permission(coordination, "leases", ("get", "create", "patch"), "electing a leader", lease.namespace)

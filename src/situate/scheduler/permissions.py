"""The permissions of the scheduler: the only list behind the printed RBAC and the access check."""

from __future__ import annotations

from collections.abc import Iterator

from situate.kube.election.lease_record import LeaseName
from situate.objects.reviews.authorization import READ, Permission

_WATCHED = (
    ("", "nodes", "knowing where there is room"),
    ("", "pods", "knowing what waits and what is where"),
    ("", "namespaces", "affinity by the labels of namespaces"),
    ("", "services", "spreading by default"),
    ("", "replicationcontrollers", "spreading by default"),
    ("apps", "replicasets", "spreading by default"),
    ("apps", "statefulsets", "spreading by default"),
    ("policy", "poddisruptionbudgets", "preempting where it breaks no budget"),
    ("", "persistentvolumeclaims", "placing pods where their volumes are"),
    ("", "persistentvolumes", "placing pods where their volumes are"),
    *(
        ("storage.k8s.io", resource, "placing pods where their volumes can be")
        for resource in ("storageclasses", "csinodes", "csidrivers", "csistoragecapacities", "volumeattachments")
    ),
)


def permissions(lease: LeaseName | None, *, shadow: bool, allots: bool = False) -> tuple[Permission, ...]:
    """Return the permissions; `lease` None is without election, and `allots` lets it annotate pods with their devices.

    A shadow only reads, apart from its Lease and its Events.
    """
    return tuple(_permissions(lease, shadow=shadow, allots=allots))


def _permissions(lease: LeaseName | None, *, shadow: bool, allots: bool) -> Iterator[Permission]:
    for group, resource, why in _WATCHED:
        yield Permission(group, resource, READ, why)
    if not shadow:
        yield Permission("", "pods/binding", ("create",), "binding pods")
        yield Permission("", "pods/status", ("patch",), "saying why a pod waits, and what it has been promised")
        yield Permission("", "pods", ("delete",), "preempting pods")
        if allots:
            yield Permission("", "pods", ("patch",), "telling pods which devices they got")
        yield Permission("", "persistentvolumes", ("patch",), "giving volumes to claims")
        yield Permission("", "persistentvolumeclaims", ("patch",), "saying for which node a volume is to be made")
    yield Permission("events.k8s.io", "events", ("create", "patch"), "explaining on the object")
    if lease is not None:
        coordination = "coordination.k8s.io"
        yield Permission(coordination, "leases", ("get", "create", "patch"), "electing a leader", lease.namespace)

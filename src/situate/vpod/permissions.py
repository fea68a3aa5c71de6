"""The RBAC permissions that vpod needs for given settings: one list for the printed RBAC and for the access check."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from situate.objects.reviews.authorization import READ, Permission
from situate.vpod.config.settings import StatefulSetSettings
from situate.vpod.sources.crds import INTERNAL_GROUP


def permissions(entries: Iterable[StatefulSetSettings], lease_namespace: str) -> tuple[Permission, ...]:
    """Return all permissions that the entries need, without duplicates, in a stable order."""
    found: dict[Permission, None] = {}
    for entry in entries:
        found.update(dict.fromkeys(_entry_permissions(entry)))
    found[
        Permission("coordination.k8s.io", "leases", ("get", "create", "patch"), "electing a leader", lease_namespace)
    ] = None
    return tuple(found)


def _entry_permissions(entry: StatefulSetSettings) -> Iterator[Permission]:
    namespace, name = entry.stateful_set_namespace, entry.stateful_set_name
    yield Permission("apps", "statefulsets", READ, "reading the number of Pods", namespace)
    yield Permission("apps", "statefulsets/scale", ("get", "update"), "autoscaling", namespace, name)
    yield Permission("", "pods", READ, "detecting Pods that can take vreplicas", namespace)
    yield Permission("", "nodes", READ, "detecting cordoned nodes, lost nodes and zones")
    yield Permission("", "events", ("create", "patch"), "recording decisions as Events")
    if entry.policy == "policy":
        yield Permission("", "configmaps", READ, "reading predicates and priorities", namespace)
    for source in entry.completed_sources():
        yield Permission(source.group, source.resource, READ, f"watching the {source.kind}s", source.namespace)
        status = f"{source.resource}/status"
        yield Permission(source.group, status, ("patch",), "writing placements", source.namespace)
        if source.kind == "ConsumerGroup" and source.workers:
            verbs = (*READ, "create", "patch", "delete")
            yield Permission(
                INTERNAL_GROUP, "consumers", verbs, "maintaining one Consumer for each placement", source.namespace
            )

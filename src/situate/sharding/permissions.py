"""List the permissions of supervisors and executors; the printed RBAC and the access check both use this list.

RBAC cannot confine an executor to its own Lease, because Lease names are unknown before the Leases exist. The admission
policy (`situate.sharding.fencing.admission_policy`) confines an executor to its own objects.
"""

from __future__ import annotations

from situate.objects.reviews.authorization import READ, Permission

_LEASES = "coordination.k8s.io"


def supervisor_permissions(
    group: str,
    plural: str,
    lease: tuple[str, str],
    *,
    namespace: str | None = None,
    executor_namespace: str | None = None,
    archives: bool = False,
    table: str = "",
) -> tuple[Permission, ...]:
    """Return the permissions of a supervisor.

    `lease`: namespace and name of the supervisors' Lease. `namespace`: of the objects; None means all. `archives`:
    whether completed objects are deleted. `table`: the ConfigMap of the partition table, in the Lease's namespace.
    """
    within, name = lease
    deletes = (Permission(group, plural, ("delete",), "deleting what is archived", namespace),) if archives else ()
    tables = (
        (
            Permission("", "configmaps", READ, "following the table of partitions", within, table),
            Permission("", "events", ("create", "patch"), "telling what is wrong with that table", within),
        )
        if table
        else ()
    )
    return (
        Permission(group, plural, READ, "knowing the objects", namespace),
        Permission(group, plural, ("patch",), "assigning objects", namespace),
        Permission(group, f"{plural}/status", ("patch",), "telling why objects wait", namespace),
        *deletes,
        *tables,
        Permission("", "pods", READ, "knowing which executors are ready", executor_namespace),
        Permission(_LEASES, "leases", READ, "knowing which executors live", executor_namespace),
        Permission(_LEASES, "leases", ("delete",), "clearing away what dead executors have left", executor_namespace),
        Permission("", "nodes", READ, "knowing which executors are lost with their node"),
        Permission("", "events", ("create", "patch"), "explaining what becomes of objects", namespace),
        Permission(_LEASES, "leases", (*READ, "patch"), "electing a leader", within, name),
        Permission(_LEASES, "leases", ("create",), "electing a leader", within),
    )


def executor_permissions(
    group: str, plural: str, lease_namespace: str, *, namespace: str | None = None
) -> tuple[Permission, ...]:
    """Return the permissions of an executor.

    `lease_namespace`: of the executors' pods, and therefore of their Leases. `namespace`: of the objects; None means
    all.
    """
    return (
        Permission(group, plural, READ, "watching the objects that are assigned to it", namespace),
        Permission(group, plural, ("patch",), "releasing objects", namespace),
        Permission(group, f"{plural}/status", ("patch",), "writing status and completion", namespace),
        Permission(_LEASES, "leases", ("get", "create", "patch"), "saying that it lives", lease_namespace),
    )


def archive_server_permissions(group: str, plural: str) -> tuple[Permission, ...]:
    """Return the permissions of the archive server, which checks the access of each of its users itself."""
    return (
        Permission(group, plural, ("get", "list"), "showing what is live"),
        Permission("authentication.k8s.io", "tokenreviews", ("create",), "knowing who asks"),
        Permission("authorization.k8s.io", "subjectaccessreviews", ("create",), "knowing what who asks may do"),
    )

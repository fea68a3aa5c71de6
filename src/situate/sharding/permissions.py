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
    deletes = (Permission(group, plural, ("delete",), "deleting archived objects", namespace),) if archives else ()
    tables = (
        (
            Permission("", "configmaps", READ, "watching the partition table", within, table),
            Permission("", "events", ("create", "patch"), "reporting errors of the partition table", within),
        )
        if table
        else ()
    )
    return (
        Permission(group, plural, READ, "watching the objects", namespace),
        Permission(group, plural, ("patch",), "assigning objects", namespace),
        Permission(group, f"{plural}/status", ("patch",), "reporting why objects wait", namespace),
        *deletes,
        *tables,
        Permission("", "pods", READ, "watching the readiness of executors", executor_namespace),
        Permission(_LEASES, "leases", READ, "watching the Leases of executors", executor_namespace),
        Permission(_LEASES, "leases", ("delete",), "deleting the Leases of dead executors", executor_namespace),
        Permission("", "nodes", READ, "detecting executors lost with their node"),
        Permission("", "events", ("create", "patch"), "reporting Events about objects", namespace),
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
        Permission(group, plural, READ, "watching its assigned objects", namespace),
        Permission(group, plural, ("patch",), "releasing objects", namespace),
        Permission(group, f"{plural}/status", ("patch",), "writing status and completion", namespace),
        Permission(_LEASES, "leases", ("get", "create", "patch"), "renewing its Lease", lease_namespace),
    )


def archive_server_permissions(group: str, plural: str) -> tuple[Permission, ...]:
    """Return the permissions of the archive server, which checks the access of each of its users itself."""
    return (
        Permission(group, plural, ("get", "list"), "reading live objects"),
        Permission("authentication.k8s.io", "tokenreviews", ("create",), "authenticating users"),
        Permission("authorization.k8s.io", "subjectaccessreviews", ("create",), "checking the access of users"),
    )

"""Permissions that the emulator needs: the one list behind the printed RBAC and the tests."""

from __future__ import annotations

from situate.kube.election.lease_record import LeaseName
from situate.objects.reviews.authorization import READ, Permission
from situate.vm.api.well_known import GROUP
from situate.vm.emulator.decision import Kind

_OWNERS = "owning runner Pods in clusters that restrict blockOwnerDeletion"


def permissions(lease: LeaseName, namespace: str | None) -> tuple[Permission, ...]:
    """List the permissions. `namespace`: of VMs, None: all. The emulator never changes the spec of a VM."""
    machines, migrations, pods = (kind.value for kind in (Kind.MACHINE, Kind.MIGRATION, Kind.POD))
    return (
        Permission(GROUP, machines, READ, "reading the specs of VMs", namespace),
        Permission(GROUP, f"{machines}/status", ("patch",), "writing the status of VMs", namespace),
        Permission(GROUP, migrations, (*READ, "patch"), "preparing migrations and cleaning up after them", namespace),
        Permission(GROUP, f"{migrations}/status", ("patch",), "writing the progress of migrations", namespace),
        Permission(GROUP, f"{machines}/finalizers", ("update",), _OWNERS, namespace),
        Permission(GROUP, f"{migrations}/finalizers", ("update",), _OWNERS, namespace),
        Permission("", pods, (*READ, "create", "patch", "delete"), "running VMs", namespace),
        Permission("", "events", ("create", "patch"), "recording Events for VMs and migrations", namespace),
        Permission("coordination.k8s.io", "leases", ("create",), "electing a leader", lease.namespace),
        Permission("coordination.k8s.io", "leases", ("get", "patch"), "electing a leader", lease.namespace, lease.name),
    )

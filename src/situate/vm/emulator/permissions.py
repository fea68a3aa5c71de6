"""Permissions that the emulator needs: the one list behind the printed RBAC and the tests."""

from __future__ import annotations

from situate.kube.election.lease_record import LeaseName
from situate.objects.reviews.authorization import READ, Permission
from situate.vm.api.well_known import GROUP
from situate.vm.emulator.decision import Kind

_OWNERS = "owning runner pods, where clusters ask who may hold up a deletion"


def permissions(lease: LeaseName, namespace: str | None) -> tuple[Permission, ...]:
    """List the permissions. `namespace`: of VMs, None: all. The emulator never changes the spec of a VM."""
    machines, migrations, pods = (kind.value for kind in (Kind.MACHINE, Kind.MIGRATION, Kind.POD))
    return (
        Permission(GROUP, machines, READ, "knowing what machines are to be", namespace),
        Permission(GROUP, f"{machines}/status", ("patch",), "saying what machines are", namespace),
        Permission(GROUP, migrations, (*READ, "patch"), "moving machines, and ending what was begun", namespace),
        Permission(GROUP, f"{migrations}/status", ("patch",), "saying how far moves are", namespace),
        Permission(GROUP, f"{machines}/finalizers", ("update",), _OWNERS, namespace),
        Permission(GROUP, f"{migrations}/finalizers", ("update",), _OWNERS, namespace),
        Permission("", pods, (*READ, "create", "patch", "delete"), "running machines", namespace),
        Permission("", "events", ("create", "patch"), "saying on machines and moves what became of them", namespace),
        Permission("coordination.k8s.io", "leases", ("create",), "electing a leader", lease.namespace),
        Permission("coordination.k8s.io", "leases", ("get", "patch"), "electing a leader", lease.namespace, lease.name),
    )

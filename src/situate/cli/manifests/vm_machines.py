"""Objects that `situate vm machines` needs: a Deployment, of which one Pod leads, and its rights."""

from __future__ import annotations

from typing import Final

from situate.kube.election.lease_record import LeaseName
from situate.objects.reviews.authorization import Permission
from situate.vm.emulator.controller.controller import LEASE
from situate.vm.emulator.permissions import permissions

NAME: Final = "situate-vm-machines"


def machines_arguments(namespace: str, port: int) -> tuple[str, ...]:
    """Return the arguments of the process. `namespace` is the namespace of its Lease."""
    return ("vm", "machines", "--installation-namespace", namespace, "--health-address", f":{port}")


def machines_rights(namespace: str) -> tuple[Permission, ...]:
    return permissions(LeaseName(namespace, LEASE), None)

"""Permissions that an agent needs: the one list behind the printed RBAC and the tests."""

from __future__ import annotations

from situate.objects.reviews.authorization import READ, Permission
from situate.vm.agent.model.settings import AgentSettings
from situate.vm.api.well_known import GROUP


def permissions(settings: AgentSettings) -> tuple[Permission, ...]:
    """List the permissions of an agent. The agent writes the size of VMs, and nothing else on them."""
    scheduler = settings.scheduler
    find = Permission("", "pods", READ, "finding the scheduler that grants permits", namespace=scheduler.namespace)
    return (
        Permission(GROUP, "virtualmachines", (*READ, "patch"), "reading VMs and writing their size"),
        Permission("", "events", ("create", "patch"), "reporting unreadable fields of a VM"),
        Permission("", "nodes", ("get",), "checking that the node of the agent exists"),
        *(() if scheduler.url is not None else (find,)),
    )

"""Permissions that vm needs: the one list behind the printed RBAC and the access check.

vm is a scheduler, so the list begins with the permissions of a scheduler. vm never writes the spec of a VM.
"""

from __future__ import annotations

from typing import Any

from situate.kube.election.lease_record import LeaseName
from situate.objects.reviews.authorization import READ, Permission
from situate.scheduler.permissions import permissions as scheduler_permissions
from situate.vm.backends.systems import System
from situate.vm.model.policy import Rules
from situate.vm.protocol.eviction_webhook_objects import CERTIFICATES, configuration_name


def permissions(
    lease: LeaseName,
    rules: Rules,
    system: System[Any],
    evictions_in: str | None = None,
    certificates_in: str | None = None,
) -> tuple[Permission, ...]:
    """List the permissions of vm.

    The holder of `lease` decides. `evictions_in` is the namespace of an installation that turns evictions into
    migrations. `certificates_in` is the namespace of an installation that creates its own certificates.
    """
    machines, migrations = system.machines, system.backend(rules).resource
    return (
        *scheduler_permissions(lease, shadow=False),
        Permission(
            "coordination.k8s.io", "leases", READ, "watching for requests for the Lease", lease.namespace, lease.name
        ),
        Permission(machines.group, machines.plural, READ, "reading the size of VMs"),
        Permission(
            machines.group, machines.plural, ("patch",), "writing the approved size and the last migration of VMs"
        ),
        Permission(migrations.group, migrations.plural, READ, "reading migrations and their claims"),
        Permission(
            migrations.group,
            migrations.plural,
            ("create", "patch", "delete"),
            "migrating VMs and storing their claims",
        ),
        *_pod_permissions(rules),
        *(_eviction_permissions(evictions_in) if evictions_in is not None else ()),
        *(_certificate_permissions(certificates_in) if certificates_in is not None else ()),
        Permission("", "events", ("create", "patch"), "recording decisions as Events on VMs and Pods"),
        Permission("authentication.k8s.io", "tokenreviews", ("create",), "authenticating callers of the permit port"),
        Permission(
            "authorization.k8s.io", "subjectaccessreviews", ("create",), "authorizing callers of the permit port"
        ),
    )


def _eviction_permissions(namespace: str) -> tuple[Permission, ...]:
    return (
        Permission(
            "policy", "poddisruptionbudgets", ("create", "delete"), "protecting the Pods of VMs against eviction"
        ),
        Permission(
            "admissionregistration.k8s.io",
            "validatingwebhookconfigurations",
            (*READ, "patch"),
            "publishing the CA certificate of the webhook",
            name=configuration_name(namespace),
        ),
    )


def _certificate_permissions(namespace: str) -> tuple[Permission, ...]:
    purpose = "storing the certificates that agents and API servers check"
    return (
        Permission("", "secrets", (*READ, "patch"), purpose, namespace, CERTIFICATES),
        Permission("", "secrets", ("create",), purpose, namespace),
    )


def _pod_permissions(rules: Rules) -> tuple[Permission, ...]:
    """Permissions for Pods. The scheduler's own ones already allow deleting the source of a finished migration."""
    note = Permission("", "pods", ("patch",), "labelling the Pod of the leader, and writing resize requests to Pods")
    resize = Permission("", "pods/resize", ("patch",), "resizing Pods to their grants")
    evict = Permission("", "pods/eviction", ("create",), "evicting Pods where no migration helps")
    return (note, *(() if rules.compat else (resize,)), *((evict,) if rules.evict else ()))

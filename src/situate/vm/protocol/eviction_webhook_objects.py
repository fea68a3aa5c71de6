"""Webhook for evictions, and PodDisruptionBudgets that protect Pods of VMs while the webhook is unreachable (B48).

The webhook starts migrations. While it is unreachable, API servers continue without it. So an outage of vm blocks no
other Pod, and the budget of each VM protects the Pods of that VM.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from situate.objects.kinds.meta import NO_LABELS, ObjectMeta
from situate.objects.kinds.unstructured import Unstructured
from situate.vm.api.well_known import ALWAYS_MIGRATE_LABEL, AUTO_MIGRATION_LABEL, NAME_LABEL, PREFIX

CONFIGURATION_API: Final = "admissionregistration.k8s.io/v1"
CONFIGURATION_KIND: Final = "ValidatingWebhookConfiguration"
WEBHOOK: Final = "evictions.vm.situate.dev"
"""The only webhook of the configuration."""
PATH: Final = "/evictions"
CERTIFICATES: Final = "situate-vm-certificates"
"""Name of the Secret."""
AUTHORITY_KEYS: Final = ("ca.crt", "next-ca.crt", "previous-ca.crt")
"""Keys of the Secret for authorities: the current one, the next one and the previous one."""
SERVICE: Final = "situate-permits"
"""Service that leads to the deciding replica."""
MANAGED: Final[Mapping[str, str]] = {"app.kubernetes.io/managed-by": "situate-vm"}
"""Labels of budgets."""
SCHEDULER: Final = f"{PREFIX}/scheduler"
"""Annotation of a budget: the scheduler that it belongs to. A cluster may have two installations."""
MIN_AVAILABLE: Final = 2
"""The largest number of Pods that a VM has, during a migration: neither Pod may be evicted. It is a number, because
`maxUnavailable: 0` would require API servers to know how many Pods a VirtualMachine wants."""
_NAME: Final = "situate-vm"
_SYSTEM: Final = ("kube-node-lease", "kube-public", "kube-system")


def configuration_name(namespace: str) -> str:
    """Return the name of the cluster-wide ValidatingWebhookConfiguration; it contains the namespace."""
    return f"{_NAME}-{namespace}"


def webhook_configuration(namespace: str, timeout_s: int = 2, labels: Mapping[str, str] = NO_LABELS) -> dict[str, Any]:
    """Return the configuration without a `caBundle`.

    The leader writes that field, and applying the manifest keeps it.
    """
    elsewhere = {
        "key": "kubernetes.io/metadata.name",
        "operator": "NotIn",
        "values": sorted({*_SYSTEM, namespace}),
    }
    webhook = {
        "name": WEBHOOK,
        "clientConfig": {"service": {"namespace": namespace, "name": SERVICE, "path": PATH, "port": 443}},
        "rules": [
            {
                "apiGroups": [""],
                "apiVersions": ["v1"],
                "operations": ["CREATE"],
                "resources": ["pods/eviction"],
                "scope": "Namespaced",
            }
        ],
        "admissionReviewVersions": ["v1"],
        "failurePolicy": "Ignore",
        "matchPolicy": "Equivalent",
        "sideEffects": "NoneOnDryRun",
        "timeoutSeconds": timeout_s,
        "namespaceSelector": {"matchExpressions": [elsewhere]},
    }
    return {
        "apiVersion": CONFIGURATION_API,
        "kind": CONFIGURATION_KIND,
        "metadata": {"name": configuration_name(namespace), "labels": dict(labels)},
        "webhooks": [webhook],
    }


def needs_budget(machine: Unstructured, scheduler_name: str) -> bool:
    """Return whether the Pods of a VM need a budget: the VM uses this scheduler and may be migrated (C9)."""
    meta = machine.metadata
    movable = any(meta.labels.get(label) == "true" for label in (AUTO_MIGRATION_LABEL, ALWAYS_MIGRATE_LABEL))
    if not movable or meta.deletion_timestamp is not None:
        return False
    spec = machine.content.get("spec")
    return isinstance(spec, Mapping) and spec.get("schedulerName") == scheduler_name


def is_budget(meta: ObjectMeta, scheduler_name: str) -> bool:
    """Return whether a PodDisruptionBudget belongs to this scheduler."""
    managed = all(meta.labels.get(key) == value for key, value in MANAGED.items())
    return managed and meta.annotations.get(SCHEDULER) == scheduler_name


def budget_name(machine: str) -> str:
    return f"situate-{machine}"


def budget(machine: Unstructured, scheduler_name: str, configuration: ObjectMeta) -> dict[str, Any]:
    """Return the budget of a VM. The webhook configuration owns it, so no budget outlives an uninstalled vm.

    The leader deletes the budget of a deleted VM. Until then the budget selects no Pod.
    """
    meta = machine.metadata
    owner = {
        "apiVersion": CONFIGURATION_API,
        "kind": CONFIGURATION_KIND,
        "name": configuration.name,
        "uid": configuration.uid,
    }
    return {
        "metadata": {
            "name": budget_name(meta.name),
            "namespace": meta.namespace,
            "labels": dict(MANAGED),
            "annotations": {SCHEDULER: scheduler_name},
            "ownerReferences": [owner],
        },
        "spec": {"minAvailable": MIN_AVAILABLE, "selector": {"matchLabels": {NAME_LABEL: meta.name}}},
    }

"""Which evictions API servers ask about, whom, and what keeps pods of machines where nobody answers (B48).

The webhook starts moves. The budget of each machine keeps its pods while the webhook cannot be reached: API servers go
on without it then, so that our outage holds up no other pod.
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
"""The one webhook of the configuration."""
PATH: Final = "/evictions"
CERTIFICATES: Final = "situate-vm-certificates"
"""The Secret."""
AUTHORITY_KEYS: Final = ("ca.crt", "next-ca.crt", "previous-ca.crt")
"""What it holds of authorities: the one whose certificate is shown, and those after and before it."""
SERVICE: Final = "situate-permits"
"""It leads to the replica that decides."""
MANAGED: Final[Mapping[str, str]] = {"app.kubernetes.io/managed-by": "situate-vm"}
"""Labels of budgets."""
SCHEDULER: Final = f"{PREFIX}/scheduler"
"""Annotation of a budget: whose it is, for there may be two installations."""
HEALTHY: Final = 2
"""As many pods as a machine ever has, which is while it moves: neither of them may be evicted. It is a number and not
`maxUnavailable: 0`, for which API servers would have to know how many pods a VirtualMachine wants."""
_NAME: Final = "situate-vm"
_SYSTEM: Final = ("kube-node-lease", "kube-public", "kube-system")


def configuration_name(namespace: str) -> str:
    """Of the ValidatingWebhookConfiguration; it belongs to the cluster, so it says whose it is."""
    return f"{_NAME}-{namespace}"


def webhook_configuration(namespace: str, timeout_s: int = 2, labels: Mapping[str, str] = NO_LABELS) -> dict[str, Any]:
    """Without a `caBundle`: the leader writes that, and an apply of the manifest leaves it alone."""
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


def budgeted(machine: Unstructured, scheduler_name: str) -> bool:
    """Whether its pods are to have a budget: it is ours, and may be moved (C9)."""
    meta = machine.metadata
    movable = any(meta.labels.get(label) == "true" for label in (AUTO_MIGRATION_LABEL, ALWAYS_MIGRATE_LABEL))
    if not movable or meta.deletion_timestamp is not None:
        return False
    spec = machine.content.get("spec")
    return isinstance(spec, Mapping) and spec.get("schedulerName") == scheduler_name


def is_budget(meta: ObjectMeta, scheduler_name: str) -> bool:
    """Whether it is one of ours."""
    managed = all(meta.labels.get(key) == value for key, value in MANAGED.items())
    return managed and meta.annotations.get(SCHEDULER) == scheduler_name


def budget_name(machine: str) -> str:
    return f"situate-{machine}"


def budget(machine: Unstructured, scheduler_name: str, configuration: ObjectMeta) -> dict[str, Any]:
    """It goes with the webhook: what is left of an installation that is gone must hold up nobody. Of a machine that is
    gone whoever leads takes it away, and meanwhile it selects nothing."""
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
        "spec": {"minAvailable": HEALTHY, "selector": {"matchLabels": {NAME_LABEL: meta.name}}},
    }

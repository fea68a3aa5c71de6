"""The MutatingWebhookConfiguration (P2, P3): which pods are asked about, by whom, and what happens when nobody answers.

It carries no `caBundle`: the leader writes that, and an apply of the manifest leaves it alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from situate.objects.meta import NO_LABELS
from situate.spot.admission import SYSTEM_NAMESPACES
from situate.spot.model import MIX
from situate.spot.names import NAME, WEBHOOK, WEBHOOK_PATH, configuration_name

CONTROLLED: Final = (
    "has(object.metadata.ownerReferences) && object.metadata.ownerReferences.exists(r, has(r.controller) && "
    "r.controller && r.apiVersion.startsWith('apps/') && r.kind in ['ReplicaSet','StatefulSet'])"
)
"""CEL: a ReplicaSet or a StatefulSet controls the pod."""


def webhook_configuration(namespace: str, timeout_s: int = 2, labels: Mapping[str, str] = NO_LABELS) -> dict[str, Any]:
    """`namespace`: of the installation, whose own pods are left out."""
    webhook = {
        "name": WEBHOOK,
        "clientConfig": {"service": {"namespace": namespace, "name": NAME, "path": WEBHOOK_PATH, "port": 443}},
        "rules": [
            {
                "apiGroups": [""],
                "apiVersions": ["v1"],
                "operations": ["CREATE"],
                "resources": ["pods"],
                "scope": "Namespaced",
            }
        ],
        "admissionReviewVersions": ["v1"],
        "failurePolicy": "Ignore",
        "matchPolicy": "Equivalent",
        "reinvocationPolicy": "IfNeeded",
        "sideEffects": "NoneOnDryRun",
        "timeoutSeconds": timeout_s,
        "namespaceSelector": {
            "matchExpressions": [
                {
                    "key": "kubernetes.io/metadata.name",
                    "operator": "NotIn",
                    "values": sorted({*SYSTEM_NAMESPACES, namespace}),
                }
            ]
        },
        "objectSelector": {"matchExpressions": [{"key": MIX, "operator": "NotIn", "values": ["disabled"]}]},
        "matchConditions": [{"name": "controlled-by-a-workload", "expression": CONTROLLED}],
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": configuration_name(namespace), "labels": dict(labels)},
        "webhooks": [webhook],
    }

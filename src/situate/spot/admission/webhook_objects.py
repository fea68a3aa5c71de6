"""Webhook configuration, and the MutatingAdmissionPolicy that sets the gate of strict mode.

The configuration selects the pods for which API servers call the webhook, and lets pods pass if it does not answer (P2,
P3). It carries no `caBundle`: the leader writes that field, and applying the manifest does not change it. In strict
mode the policy may set the gate. It needs no server, so no pod misses the gate (P7; stable from 1.36).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from situate.objects.kinds.meta import NO_LABELS
from situate.objects.kinds.selectors import LabelSelector
from situate.spot.admission.admit import SYSTEM_NAMESPACES
from situate.spot.model.object_names import NAME, WEBHOOK, WEBHOOK_PATH, configuration_name
from situate.spot.model.pods_nodes_workloads import GATE, MIX
from situate.spot.workloads.owners import DEFAULT_KINDS, KINDS, OwnerKind

_UNBOUND_EXPRESSION: Final = "!has(object.spec.nodeName) || object.spec.nodeName == ''"
_ADD_GATE: Final = f"Object{{spec: Object.spec{{schedulingGates: [Object.spec.schedulingGates{{name: '{GATE}'}}]}}}}"
"""CEL: an apply of the gate; lists merge by name, so the gates of others stay and this gate appears once."""
_ADMISSION: Final = "admissionregistration.k8s.io/v1"
_RULE: Final = {
    "apiGroups": [""],
    "apiVersions": ["v1"],
    "operations": ["CREATE"],
    "resources": ["pods"],
    "scope": "Namespaced",
}
_NOT_DISABLED: Final = {"matchExpressions": [{"key": MIX, "operator": "NotIn", "values": ["disabled"]}]}
DEFAULT_OWNER_KINDS: Final = tuple(KINDS[kind] for kind in DEFAULT_KINDS)


def controller_expression(kinds: Sequence[OwnerKind]) -> str:
    """Return CEL: a workload of these kinds controls the pod, directly or through its ReplicaSet."""
    by_group: dict[str, list[str]] = {}
    for kind in kinds:
        group, name = ("apps", kind.intermediate_kind) if kind.intermediate_kind else (kind.group, kind.kind)
        if name not in by_group.setdefault(group, []):
            by_group[group].append(name)
    said = [
        f"r.apiVersion.startsWith('{group}/') && r.kind in [{','.join(map(repr, names))}]"
        for group, names in by_group.items()
    ]
    one = said[0] if len(said) == 1 else "(" + " || ".join(said) + ")"
    return (
        "has(object.metadata.ownerReferences) && object.metadata.ownerReferences.exists(r, has(r.controller) && "
        f"r.controller && {one})"
    )


def webhook_configuration(
    namespace: str,
    timeout_s: int = 2,
    labels: Mapping[str, str] = NO_LABELS,
    kinds: Sequence[OwnerKind] = DEFAULT_OWNER_KINDS,
) -> dict[str, Any]:
    """Build the configuration. `namespace`: of the installation, whose own pods are left out."""
    webhook = {
        "name": WEBHOOK,
        "clientConfig": {"service": {"namespace": namespace, "name": NAME, "path": WEBHOOK_PATH, "port": 443}},
        "rules": [_RULE],
        "admissionReviewVersions": ["v1"],
        "failurePolicy": "Ignore",
        "matchPolicy": "Equivalent",
        "reinvocationPolicy": "IfNeeded",
        "sideEffects": "NoneOnDryRun",
        "timeoutSeconds": timeout_s,
        "namespaceSelector": {"matchExpressions": [_outside_system_namespaces(namespace)]},
        "objectSelector": _NOT_DISABLED,
        "matchConditions": [{"name": "controlled-by-a-workload", "expression": controller_expression(kinds)}],
    }
    return {
        "apiVersion": _ADMISSION,
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": configuration_name(namespace), "labels": dict(labels)},
        "webhooks": [webhook],
    }


def gating_policy(
    namespace: str, strict: LabelSelector, labels: Mapping[str, str], kinds: Sequence[OwnerKind]
) -> Iterator[dict[str, Any]]:
    """Yield the policy that sets the gate, and its binding. `strict`: labels of the namespaces with the gate."""
    metadata = {"name": configuration_name(namespace), "labels": dict(labels)}
    expressions = [
        {"key": each.key, "operator": each.operator} | ({"values": list(each.values)} if each.values else {})
        for each in strict.match_expressions
    ]
    selector: dict[str, Any] = {"matchExpressions": [_outside_system_namespaces(namespace), *expressions]}
    if strict.match_labels:
        selector["matchLabels"] = dict(strict.match_labels)
    yield {
        "apiVersion": _ADMISSION,
        "kind": "MutatingAdmissionPolicy",
        "metadata": metadata,
        "spec": {
            "matchConstraints": {
                "namespaceSelector": selector,
                "objectSelector": _NOT_DISABLED,
                "resourceRules": [_RULE],
            },
            "matchConditions": [
                {"name": "controlled-by-a-workload", "expression": controller_expression(kinds)},
                {"name": "not-bound", "expression": _UNBOUND_EXPRESSION},
            ],
            "failurePolicy": "Ignore",
            "reinvocationPolicy": "IfNeeded",
            "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": _ADD_GATE}}],
        },
    }
    yield {
        "apiVersion": _ADMISSION,
        "kind": "MutatingAdmissionPolicyBinding",
        "metadata": metadata,
        "spec": {"policyName": metadata["name"]},
    }


def _outside_system_namespaces(namespace: str) -> dict[str, Any]:
    """Exclude the system namespaces and the installation's own."""
    values = sorted({*SYSTEM_NAMESPACES, namespace})
    return {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": values}

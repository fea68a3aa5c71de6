"""ValidatingAdmissionPolicy that refuses on-demand annotations which `parse_policy` cannot read.

API servers evaluate the policy themselves, so a typo is refused also while no replica of situate answers. Only changed
values are checked: an object with an old invalid value can still be updated, scaled and deleted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from situate.spot.admission.admit import SYSTEM_NAMESPACES
from situate.spot.model.object_names import configuration_name
from situate.spot.model.pods_nodes_workloads import ON_DEMAND
from situate.spot.workloads.on_demand_policy import ALLOWED_VALUES, LONGEST_POLICY, POLICY_PATTERN, ZERO_WEIGHTS_PATTERN
from situate.spot.workloads.owners import OwnerKind

_ADMISSION: Final = "admissionregistration.k8s.io/v1"
_SHOWN_LENGTH: Final = 64
"""Length up to which the message repeats the value, in characters."""
_VALUE: Final = f"object.metadata.annotations['{ON_DEMAND}']"
_OLD_VALUE: Final = f"oldObject.metadata.annotations['{ON_DEMAND}']"
_HAS_VALUE: Final = f"has(object.metadata.annotations) && '{ON_DEMAND}' in object.metadata.annotations"
_VALUE_CHANGED: Final = (
    f"oldObject == null || !has(oldObject.metadata.annotations) || !('{ON_DEMAND}' in oldObject.metadata.annotations) "
    f"|| {_OLD_VALUE} != {_VALUE}"
)
READABLE_EXPRESSION: Final = (
    f"size({_VALUE}) <= {LONGEST_POLICY} && {_VALUE}.matches('^({POLICY_PATTERN})$') && "
    f"!{_VALUE}.matches('^{ZERO_WEIGHTS_PATTERN}$')"
)
"""CEL: the value is a valid policy. The length check comes first because the cost of a match grows with the length."""
_MESSAGE: Final = f"{ON_DEMAND}: allowed: {ALLOWED_VALUES}"


def on_demand_policy(namespace: str, labels: Mapping[str, str], kinds: Sequence[OwnerKind]) -> Iterator[dict[str, Any]]:
    """Yield the policy and its binding, for workloads of these kinds and for Namespaces.

    `failurePolicy` is Ignore: the policy stops no Deployment for any reason other than its value.
    """
    metadata = {"name": configuration_name(namespace), "labels": dict(labels)}
    found = f"'{ON_DEMAND}: found \"' + {_VALUE} + '\", allowed: {ALLOWED_VALUES}'"
    elsewhere = {
        "key": "kubernetes.io/metadata.name",
        "operator": "NotIn",
        "values": sorted({*SYSTEM_NAMESPACES, namespace}),
    }
    yield {
        "apiVersion": _ADMISSION,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": metadata,
        "spec": {
            "failurePolicy": "Ignore",
            "matchConstraints": {
                "namespaceSelector": {"matchExpressions": [elsewhere]},
                "resourceRules": [
                    *(_resource_rule(each.group, each.version, each.plural) for each in kinds),
                    _resource_rule("", "v1", "namespaces"),
                ],
            },
            "matchConditions": [
                {"name": "has-a-value", "expression": _HAS_VALUE},
                {"name": "of-its-own", "expression": _VALUE_CHANGED},
            ],
            "validations": [
                {
                    "expression": READABLE_EXPRESSION,
                    "message": _MESSAGE,
                    "messageExpression": f"size({_VALUE}) <= {_SHOWN_LENGTH} ? {found} : '{_MESSAGE}'",
                    "reason": "Invalid",
                }
            ],
        },
    }
    yield {
        "apiVersion": _ADMISSION,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": metadata,
        "spec": {"policyName": metadata["name"], "validationActions": ["Deny"]},
    }


def _resource_rule(group: str, version: str, plural: str) -> dict[str, Any]:
    return {
        "apiGroups": [group],
        "apiVersions": [version],
        "operations": ["CREATE", "UPDATE"],
        "resources": [plural],
        "scope": "*",
    }

"""Variables of admission expressions, and their types.

After `apiserver/pkg/admission/plugin/cel/compile.go`. Objects and parameters have the type dyn.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from situate.cluster.cel.types import BOOL, DYN, INT, STRING, TIMESTAMP, Type, list_of, map_of, object_type

_TEXTS: Final = list_of(STRING)
_LABELS: Final = map_of(STRING, STRING)
_KIND: Final = object_type("kubernetes.GroupVersionKind", dict.fromkeys(("group", "version", "kind"), STRING))
_RESOURCE: Final = object_type(
    "kubernetes.GroupVersionResource", dict.fromkeys(("group", "version", "resource"), STRING)
)
_USER: Final = object_type(
    "kubernetes.UserInfo",
    {"username": STRING, "uid": STRING, "groups": _TEXTS, "extra": map_of(STRING, _TEXTS)},
)
_REQUEST: Final = object_type(
    "kubernetes.AdmissionRequest",
    {
        "kind": _KIND,
        "resource": _RESOURCE,
        "requestKind": _KIND,
        "requestResource": _RESOURCE,
        **dict.fromkeys(("subResource", "requestSubResource", "name", "namespace", "operation"), STRING),
        "userInfo": _USER,
        "dryRun": BOOL,
        "options": DYN,
    },
)
_CONDITION: Final = object_type(
    "kubernetes.NamespaceCondition",
    {**dict.fromkeys(("type", "status", "reason", "message"), STRING), "lastTransitionTime": TIMESTAMP},
)
_NAMESPACE: Final = object_type(
    "kubernetes.Namespace",
    {
        "metadata": object_type(
            "kubernetes.NamespaceMetadata",
            {
                **dict.fromkeys(("name", "generateName", "namespace", "resourceVersion"), STRING),
                **dict.fromkeys(("creationTimestamp", "deletionTimestamp"), TIMESTAMP),
                **dict.fromkeys(("generation", "deletionGracePeriodSeconds"), INT),
                **dict.fromkeys(("labels", "annotations"), _LABELS),
                "finalizers": _TEXTS,
            },
        ),
        "spec": object_type("kubernetes.NamespaceSpec", {"finalizers": _TEXTS}),
        "status": object_type("kubernetes.NamespaceStatus", {"phase": STRING, "conditions": list_of(_CONDITION)}),
    },
)

CONDITION_VARIABLES: Final[Mapping[str, Type]] = MappingProxyType(
    {"object": DYN, "oldObject": DYN, "request": _REQUEST, "namespaceObject": _NAMESPACE}
)
"""Variables of match conditions of webhooks, and of policies without parameters."""
PARAMETER_VARIABLES: Final[Mapping[str, Type]] = MappingProxyType({**CONDITION_VARIABLES, "params": DYN})
"""Variables of policies with parameters."""


def with_variables(declared: Mapping[str, Type], variables: Mapping[str, Type]) -> Mapping[str, Type]:
    """Return the declared variables with a policy's own variables added."""
    return {**declared, "variables": object_type("kubernetes.variables", variables)}

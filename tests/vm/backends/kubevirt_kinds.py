"""Definitions of KubeVirt's kinds as far as tests need them. They are ours and match no release in particular.

They have structural schemas. As in KubeVirt, a VirtualMachineInstance has no status subresource, and the spec of a
migration never changes.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from situate.objects.kinds.unstructured import Unstructured
from situate.objects.resources import ResourceType
from situate.vm.backends.kubevirt_names import INSTANCE_MIGRATIONS, INSTANCES

Schema: TypeAlias = dict[str, Any]

_STRING: Schema = {"type": "string"}
_FLAG: Schema = {"type": "boolean"}
_TIME: Schema = {"type": "string", "format": "date-time", "nullable": True}
_OPEN: Schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_STRINGS: Schema = {"type": "object", "additionalProperties": _STRING}
_CONDITIONS: Schema = {"type": "array", "items": _OPEN}
_STATE: Final[Schema] = {
    "type": "object",
    "properties": {
        **dict.fromkeys(("migrationUid", "sourceNode", "sourcePod", "targetNode", "targetPod"), _STRING),
        **dict.fromkeys(("targetNodeAddress", "failureReason", "abortStatus"), _STRING),
        **dict.fromkeys(("completed", "failed", "abortRequested"), _FLAG),
        **dict.fromkeys(("startTimestamp", "endTimestamp"), _TIME),
    },
}


def kubevirt_definitions(*, pinning: bool = True) -> tuple[dict[str, Any], ...]:
    """Return the definitions of both kinds. `pinning` adds `addedNodeSelector`, as in KubeVirt since 1.6."""
    instance: dict[str, Schema] = {
        "spec": _OPEN,
        "status": {
            "type": "object",
            "properties": {
                "phase": _STRING,
                "nodeName": _STRING,
                "activePods": _STRINGS,
                "conditions": _CONDITIONS,
                "migrationState": _STATE,
            },
        },
    }
    fields = {"vmiName": _STRING, **({"addedNodeSelector": _STRINGS} if pinning else {})}
    immutable = {"rule": "self == oldSelf", "message": "the spec of a migration never changes"}
    migration: dict[str, Schema] = {
        "spec": {"type": "object", "properties": fields, "x-kubernetes-validations": [immutable]},
        "status": {
            "type": "object",
            "properties": {"phase": _STRING, "conditions": _CONDITIONS, "migrationState": _STATE},
        },
    }
    return (_definition(INSTANCES, instance, {}), _definition(INSTANCE_MIGRATIONS, migration, {"status": {}}))


def _definition(
    resource: ResourceType[Unstructured], properties: dict[str, Schema], subresources: dict[str, Any]
) -> dict[str, Any]:
    whole = {"apiVersion": _STRING, "kind": _STRING, "metadata": {"type": "object"}, **properties}
    version: dict[str, Any] = {
        "name": resource.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": whole, "required": ["spec"]}},
        "subresources": subresources,
    }
    names = {"kind": resource.kind, "listKind": f"{resource.kind}List", "plural": resource.plural}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": resource.group_resource},
        "spec": {
            "group": resource.group,
            "names": {**names, "singular": resource.kind.lower()},
            "scope": "Namespaced",
            "versions": [version],
        },
    }

"""VirtualMachine and VirtualMachineMigration as CustomResourceDefinition objects, for a cluster without NeonVM.

Group, version, names, field paths, types, defaults and status are those of neondatabase/autoscaling at commit a4bce09e
(`neonvm/apis/neonvm/v1`), with `overcommit` and `targetArchitecture`. What its admission webhooks refuse (bounds that
change, `use` outside of them) is refused here by rules in CEL. Its many fields of disks, networks and images are kept
as they come: nothing here acts upon them. On a cluster with NeonVM use its own definitions.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from situate.vm.names import GROUP, MACHINE_KIND, MIGRATION_KIND

Schema: TypeAlias = dict[str, Any]

RELEASE: Final = "v0.49.1"
"""The release of neondatabase/autoscaling whose API these definitions describe."""
MACHINES: Final = "virtualmachines"
MIGRATIONS: Final = "virtualmachinemigrations"
"""Plural names."""
MOST_SLOTS: Final = 512
SLOT_MULTIPLE: Final = 8 * 2**20
"""Bytes: virtio-mem's block size."""

_STRING: Schema = {"type": "string"}
_BOOLEAN: Schema = {"type": "boolean"}
_INT32: Schema = {"type": "integer", "format": "int32"}
_INT64: Schema = {"type": "integer", "format": "int64"}
_TIME: Schema = {"type": "string", "format": "date-time"}
_STRINGS: Schema = {"type": "object", "additionalProperties": _STRING}
_ANYTHING: Schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_QUANTITY: Schema = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "x-kubernetes-int-or-string": True,
    "pattern": r"^[+-]?([0-9]+|[0-9]+\.[0-9]*|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?$",
    "maxLength": 32,
}
_MILLI_CPU: Schema = {**_QUANTITY, "pattern": r"^[0-9]+((\.[0-9]*)?|m)$"}
_SLOTS: Schema = {**_INT32, "minimum": 1, "maximum": MOST_SLOTS}


def definitions() -> tuple[dict[str, Any], ...]:
    """VirtualMachine and VirtualMachineMigration."""
    return (virtual_machine(), virtual_machine_migration())


def virtual_machine() -> dict[str, Any]:
    """virtualmachines.vm.neon.tech."""
    columns = [
        _column("Cpus", ".status.cpus"),
        _column("Memory", ".status.memorySize"),
        _column("Pod", ".status.podName"),
        _column("Node", ".status.node", priority=1),
        _column("Status", ".status.phase"),
        _column("Restarts", ".status.restartCount"),
        _age(),
    ]
    schema = _resource(spec=_machine_spec(), status=_machine_status())
    return _definition(MACHINE_KIND, MACHINES, "neonvm", schema, columns)


def virtual_machine_migration() -> dict[str, Any]:
    """virtualmachinemigrations.vm.neon.tech; the spec is immutable."""
    columns = [
        _column("VM", ".spec.vmName"),
        _column("Source", ".status.sourcePodName"),
        _column("SourceIP", ".status.sourcePodIP", priority=1),
        _column("Target", ".status.targetPodName"),
        _column("TargetIP", ".status.targetPodIP", priority=1),
        _column("Status", ".status.phase"),
        _age(),
    ]
    schema = _resource(spec=_migration_spec(), status=_migration_status())
    return _definition(MIGRATION_KIND, MIGRATIONS, "neonvmm", schema, columns)


def _machine_spec() -> Schema:
    spec = _object(
        schedulerName=_STRING,
        nodeSelector=_STRINGS,
        affinity=_ANYTHING,
        tolerations={"type": "array", "items": _ANYTHING},
        serviceAccountName=_STRING,
        terminationGracePeriodSeconds={**_INT64, "default": 5},
        podResources=_object(limits=_amounts(), requests=_amounts()),
        restartPolicy={**_STRING, "enum": ["Always", "OnFailure", "Never"], "default": "Always"},
        guest=_guest(),
        overcommit=_object(cpu=_QUANTITY, memory=_QUANTITY),
        targetRevision=_revision(),
        cpuScalingMode={**_STRING, "enum": ["QmpScaling", "SysfsScaling"]},
        targetArchitecture={**_STRING, "enum": ["amd64", "arm64"]},
    )
    rules = [
        _set_once("cpuScalingMode"),
        _set_once("targetArchitecture"),
        _rule(
            "has(self.podResources) == has(oldSelf.podResources) && "
            "(!has(self.podResources) || self.podResources == oldSelf.podResources)",
            "podResources is immutable",
        ),
        *(
            _rule(
                f"!has(self.overcommit) || !has(self.overcommit.{name}) || "
                f"quantity(string(self.overcommit.{name})).isGreaterThan(quantity('0'))",
                f"overcommit.{name} must be more than 0",
            )
            for name in ("cpu", "memory")
        ),
    ]
    kept = {**spec, "x-kubernetes-preserve-unknown-fields": True, "x-kubernetes-validations": rules}
    return _requiring(kept, "guest")


def _guest() -> Schema:
    slot_size = "quantity(string(self.memorySlotSize))"
    guest = _object(
        cpus={
            **_requiring(_object(min=_MILLI_CPU, max=_MILLI_CPU, use=_MILLI_CPU), "min", "max", "use"),
            "x-kubernetes-validations": [
                *(
                    _rule(f"{_cpu(name)}.compareTo({_cpu(name, 'oldSelf')}) == 0", f"{name} is immutable")
                    for name in _ENDS
                ),
                _rule(
                    f"{_cpu('min')}.compareTo({_cpu('use')}) <= 0 && {_cpu('use')}.compareTo({_cpu('max')}) <= 0",
                    "it must hold that min <= use <= max",
                ),
            ],
        },
        memorySlots={
            **_requiring(_object(min=_SLOTS, max=_SLOTS, use=_SLOTS), "min", "max", "use"),
            "x-kubernetes-validations": [
                *(_rule(f"self.{name} == oldSelf.{name}", f"{name} is immutable") for name in _ENDS),
                _rule("self.min <= self.use && self.use <= self.max", "it must hold that min <= use <= max"),
            ],
        },
        memorySlotSize={**_QUANTITY, "default": "1Gi"},
    )
    rule = _rule(
        f"{slot_size}.isGreaterThan(quantity('0')) && {slot_size}.isInteger() && "
        f"{slot_size}.asInteger() % {SLOT_MULTIPLE} == 0",
        "memorySlotSize must be a multiple of 8Mi",
    )
    kept = {**guest, "x-kubernetes-preserve-unknown-fields": True, "x-kubernetes-validations": [rule]}
    return _requiring(kept, "cpus", "memorySlots")


_ENDS: Final = ("min", "max")


def _cpu(name: str, where: str = "self") -> str:
    """Whole ones may be written as numbers, parts as text: both are compared as amounts."""
    return f"quantity(string({where}.{name}))"


def _machine_status() -> Schema:
    status = _object(
        phase=_STRING,
        podName=_STRING,
        podIP=_STRING,
        node=_STRING,
        cpus=_QUANTITY,
        memorySize=_QUANTITY,
        restartCount=_INT32,
        currentRevision=_revision(),
        conditions=_conditions(),
    )
    return {**status, "x-kubernetes-preserve-unknown-fields": True}


def _migration_spec() -> Schema:
    spec = _object(
        vmName={**_STRING, "minLength": 1},
        preventMigrationToSameHost={**_BOOLEAN, "default": True},
        completionTimeout={**_INT32, "default": 3600, "minimum": 1},
        incremental={**_BOOLEAN, "default": True},
        allowPostCopy={**_BOOLEAN, "default": False},
        autoConverge={**_BOOLEAN, "default": True},
        maxBandwidth={**_QUANTITY, "default": "1Gi"},
        nodeSelector=_STRINGS,
        nodeAffinity=_node_affinity(),
    )
    rules = [
        _rule("self == oldSelf", "the spec of a migration is immutable"),
        _rule("quantity(string(self.maxBandwidth)).isGreaterThan(quantity('0'))", "maxBandwidth must be more than 0"),
    ]
    return {**_requiring(spec, "vmName"), "x-kubernetes-validations": rules}


def _node_affinity() -> Schema:
    """core/v1's, field by field: what a schema leaves open its rules do not see, and the spec is immutable."""
    requirement = _requiring(
        _object(key=_STRING, operator=_STRING, values={"type": "array", "items": _STRING}), "key", "operator"
    )
    requirements: Schema = {"type": "array", "items": requirement}
    term = _object(matchExpressions=requirements, matchFields=requirements)
    required = _requiring(_object(nodeSelectorTerms={"type": "array", "items": term}), "nodeSelectorTerms")
    preferred = _requiring(
        _object(weight={**_INT32, "minimum": 1, "maximum": 100}, preference=term), "weight", "preference"
    )
    return _object(
        requiredDuringSchedulingIgnoredDuringExecution=required,
        preferredDuringSchedulingIgnoredDuringExecution={"type": "array", "items": preferred},
    )


def _migration_status() -> Schema:
    info = _object(
        status=_STRING,
        totalTimeMs=_INT64,
        setupTimeMs=_INT64,
        downtimeMs=_INT64,
        ram=_object(transferred=_INT64, remaining=_INT64, total=_INT64),
        compression=_object(compressedSize=_INT64, compressionRate=_INT64),
    )
    names = ("sourcePodName", "sourcePodIP", "sourceNode", "targetPodName", "targetPodIP", "targetNode")
    return _object(phase=_STRING, **dict.fromkeys(names, _STRING), info=info, conditions=_conditions())


def _revision() -> Schema:
    revision = _requiring(_object(value=_INT64, flags=_INT64), "value", "flags")
    return _requiring(_object(revision=revision, updatedAt=_TIME), "revision", "updatedAt")


def _conditions() -> Schema:
    condition = _object(
        type=_STRING,
        status=_STRING,
        reason=_STRING,
        message=_STRING,
        lastTransitionTime=_TIME,
        observedGeneration=_INT64,
    )
    items = _requiring(condition, "type", "status")
    return {"type": "array", "items": items, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}


def _amounts() -> Schema:
    return {"type": "object", "maxProperties": 32, "additionalProperties": _QUANTITY}


def _set_once(name: str) -> Schema:
    rule = f"!has(oldSelf.{name}) || (has(self.{name}) && self.{name} == oldSelf.{name})"
    return _rule(rule, f"{name} is set once and stays")


def _rule(rule: str, message: str) -> Schema:
    return {"rule": rule, "message": message}


def _object(**properties: Schema) -> Schema:
    return {"type": "object", "properties": properties}


def _requiring(schema: Schema, *fields: str) -> Schema:
    return {**schema, "required": list(fields)}


def _resource(*, spec: Schema, status: Schema) -> Schema:
    whole = _object(apiVersion=_STRING, kind=_STRING, metadata={"type": "object"}, spec=spec, status=status)
    return _requiring(whole, "spec")


def _column(name: str, path: str, *, priority: int = 0) -> dict[str, Any]:
    column: dict[str, Any] = {"name": name, "type": "string", "jsonPath": path}
    return {**column, "priority": priority} if priority else column


def _age() -> dict[str, Any]:
    return {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}


def _definition(kind: str, plural: str, singular: str, schema: Schema, columns: list[dict[str, Any]]) -> dict[str, Any]:
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
        "additionalPrinterColumns": columns,
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "names": {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": singular},
            "scope": "Namespaced",
            "versions": [version],
        },
    }

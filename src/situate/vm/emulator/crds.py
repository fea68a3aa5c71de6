"""VirtualMachine and VirtualMachineMigration as CustomResourceDefinition objects, for a cluster without NeonVM.

Group, version, names, field paths, types, defaults and status are those of neondatabase/autoscaling at commit a4bce09e
(`neonvm/apis/neonvm/v1`), with `overcommit` and `targetArchitecture`. Rules in CEL refuse the same changes as its
admission webhooks (changed bounds, `use` outside of them). Its many fields of disks, networks and images are preserved,
with defaults where NeonVM's controller relies on them; the emulator does not use them. On a cluster with NeonVM, use
its own definitions.
"""

from __future__ import annotations

from typing import Any, Final

from situate.vm.api.well_known import GROUP, MACHINE_KIND, MIGRATION_KIND
from situate.vm.emulator.schemas import (
    ANYTHING,
    BOOLEAN,
    INT32,
    INT64,
    MILLI_CPU,
    QUANTITY,
    STRING,
    STRINGS,
    Schema,
    amounts,
    array_of,
    conditions,
    immutable_once_set,
    mapping,
    preserve_unknown_fields,
    revision,
    rule,
    with_default,
    with_required,
)

RELEASE: Final = "v0.49.1"
"""The release of neondatabase/autoscaling whose API these definitions describe."""
MACHINES: Final = "virtualmachines"
MIGRATIONS: Final = "virtualmachinemigrations"
"""Plural names."""
MAX_SLOTS: Final = 512
SLOT_MULTIPLE: Final = 8 * 2**20
"""Bytes: the block size of virtio-mem."""

_SLOTS: Schema = {**INT32, "minimum": 1, "maximum": MAX_SLOTS}
_PORT: Schema = {**INT32, "minimum": 1, "maximum": 65535}


def definitions() -> tuple[dict[str, Any], ...]:
    """Return the definitions of VirtualMachine and VirtualMachineMigration."""
    return (virtual_machine(), virtual_machine_migration())


def virtual_machine() -> dict[str, Any]:
    """Return the definition of virtualmachines.vm.neon.tech."""
    columns = [
        _column("Cpus", ".status.cpus"),
        _column("Memory", ".status.memorySize"),
        _column("Pod", ".status.podName"),
        _column("Node", ".status.node", priority=1),
        _column("Status", ".status.phase"),
        _column("Restarts", ".status.restartCount"),
        _age_column(),
    ]
    schema = _resource(spec=_machine_spec(), status=_machine_status())
    return _definition(MACHINE_KIND, MACHINES, "neonvm", schema, columns)


def virtual_machine_migration() -> dict[str, Any]:
    """Return the definition of virtualmachinemigrations.vm.neon.tech. The spec is immutable."""
    columns = [
        _column("VM", ".spec.vmName"),
        _column("Source", ".status.sourcePodName"),
        _column("SourceIP", ".status.sourcePodIP", priority=1),
        _column("Target", ".status.targetPodName"),
        _column("TargetIP", ".status.targetPodIP", priority=1),
        _column("Status", ".status.phase"),
        _age_column(),
    ]
    schema = _resource(spec=_migration_spec(), status=_migration_status())
    return _definition(MIGRATION_KIND, MIGRATIONS, "neonvmm", schema, columns)


def _machine_spec() -> Schema:
    spec = mapping(
        schedulerName=STRING,
        nodeSelector=STRINGS,
        affinity=ANYTHING,
        tolerations=array_of(ANYTHING),
        serviceAccountName=STRING,
        terminationGracePeriodSeconds=with_default(INT64, 5),
        podResources=mapping(limits=amounts(), requests=amounts(), claims=_claims()),
        restartPolicy={**STRING, "enum": ["Always", "OnFailure", "Never"], "default": "Always"},
        guest=_guest(),
        overcommit=mapping(cpu=QUANTITY, memory=QUANTITY),
        targetRevision=revision(),
        cpuScalingMode={**STRING, "enum": ["QmpScaling", "SysfsScaling"]},
        targetArchitecture={**STRING, "enum": ["amd64", "arm64"]},
        **_runner_fields(),
    )
    rules = [
        immutable_once_set("cpuScalingMode"),
        immutable_once_set("targetArchitecture"),
        rule(
            "has(self.podResources) == has(oldSelf.podResources) && "
            "(!has(self.podResources) || self.podResources == oldSelf.podResources)",
            "podResources is immutable",
        ),
        *(
            rule(
                f"!has(self.overcommit) || !has(self.overcommit.{name}) || "
                f"quantity(string(self.overcommit.{name})).isGreaterThan(quantity('0'))",
                f"overcommit.{name} must be more than 0",
            )
            for name in ("cpu", "memory")
        ),
    ]
    return with_required({**preserve_unknown_fields(spec), "x-kubernetes-validations": rules}, "guest")


def _runner_fields() -> dict[str, Schema]:
    """Return fields that NeonVM's controller expects with defaults: without them it finds port 0 and nil pointers."""
    return {
        "qmp": with_default(_PORT, 20183),
        "qmpManual": with_default(_PORT, 20184),
        "runnerPort": with_default(_PORT, 25183),
        "enableAcceleration": with_default(BOOLEAN, True),
        "enableSSH": with_default(BOOLEAN, True),
        "enableNetworkMonitoring": with_default(BOOLEAN, False),
        "extraNetwork": preserve_unknown_fields(
            mapping(enable=with_default(BOOLEAN, False), interface=with_default(STRING, "net1"))
        ),
        "tls": preserve_unknown_fields(mapping(mountPath=with_default(STRING, "/var/tls"))),
    }


def _claims() -> Schema:
    claim = with_required(mapping(name={**STRING, "maxLength": 63}, request=STRING), "name")
    keyed = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
    return {**array_of(claim), **keyed, "maxItems": 32}


def _guest() -> Schema:
    slot_size = "quantity(string(self.memorySlotSize))"
    guest = mapping(
        cpus={
            **with_required(mapping(min=MILLI_CPU, max=MILLI_CPU, use=MILLI_CPU), "min", "max", "use"),
            "x-kubernetes-validations": [
                *(
                    rule(f"{_cpu(name)}.compareTo({_cpu(name, 'oldSelf')}) == 0", f"{name} is immutable")
                    for name in _ENDS
                ),
                rule(
                    f"{_cpu('min')}.compareTo({_cpu('use')}) <= 0 && {_cpu('use')}.compareTo({_cpu('max')}) <= 0",
                    "min <= use <= max must hold",
                ),
            ],
        },
        memorySlots={
            **with_required(mapping(min=_SLOTS, max=_SLOTS, use=_SLOTS), "min", "max", "use"),
            "x-kubernetes-validations": [
                *(rule(f"self.{name} == oldSelf.{name}", f"{name} is immutable") for name in _ENDS),
                rule("self.min <= self.use && self.use <= self.max", "min <= use <= max must hold"),
            ],
        },
        memorySlotSize=with_default(QUANTITY, "1Gi"),
        rootDisk=preserve_unknown_fields(
            with_required(mapping(image=STRING, imagePullPolicy=with_default(STRING, "IfNotPresent")), "image")
        ),
        ports=array_of(with_required(mapping(name=STRING, port=_PORT, protocol=with_default(STRING, "TCP")), "port")),
    )
    in_blocks = rule(
        f"{slot_size}.isGreaterThan(quantity('0')) && {slot_size}.isInteger() && "
        f"{slot_size}.asInteger() % {SLOT_MULTIPLE} == 0",
        "memorySlotSize must be a multiple of 8Mi",
    )
    return with_required(
        {**preserve_unknown_fields(guest), "x-kubernetes-validations": [in_blocks]}, "cpus", "memorySlots"
    )


_ENDS: Final = ("min", "max")


def _cpu(name: str, where: str = "self") -> str:
    """Return the CPU as a quantity in CEL. Users may write whole CPUs as numbers, and parts as text."""
    return f"quantity(string({where}.{name}))"


def _machine_status() -> Schema:
    status = mapping(
        phase=STRING,
        podName=STRING,
        podIP=STRING,
        node=STRING,
        cpus=QUANTITY,
        memorySize=QUANTITY,
        restartCount=INT32,
        currentRevision=revision(),
        conditions=conditions(),
    )
    return preserve_unknown_fields(status)


def _migration_spec() -> Schema:
    spec = mapping(
        vmName={**STRING, "minLength": 1},
        preventMigrationToSameHost=with_default(BOOLEAN, True),
        completionTimeout={**INT32, "default": 3600, "minimum": 1},
        incremental=with_default(BOOLEAN, True),
        allowPostCopy=with_default(BOOLEAN, False),
        autoConverge=with_default(BOOLEAN, True),
        maxBandwidth=with_default(QUANTITY, "1Gi"),
        nodeSelector=STRINGS,
        nodeAffinity=_node_affinity(),
    )
    rules = [
        rule("self == oldSelf", "the spec of a migration is immutable"),
        rule("quantity(string(self.maxBandwidth)).isGreaterThan(quantity('0'))", "maxBandwidth must be more than 0"),
    ]
    return {**with_required(spec, "vmName"), "x-kubernetes-validations": rules}


def _node_affinity() -> Schema:
    """Return the schema of core/v1 field by field: rules do not see open fields, and the spec must be immutable."""
    requirement = with_required(mapping(key=STRING, operator=STRING, values=array_of(STRING)), "key", "operator")
    requirements: Schema = array_of(requirement)
    term = mapping(matchExpressions=requirements, matchFields=requirements)
    required = with_required(mapping(nodeSelectorTerms=array_of(term)), "nodeSelectorTerms")
    preferred = with_required(
        mapping(weight={**INT32, "minimum": 1, "maximum": 100}, preference=term), "weight", "preference"
    )
    return mapping(
        requiredDuringSchedulingIgnoredDuringExecution=required,
        preferredDuringSchedulingIgnoredDuringExecution=array_of(preferred),
    )


def _migration_status() -> Schema:
    info = mapping(
        status=STRING,
        totalTimeMs=INT64,
        setupTimeMs=INT64,
        downtimeMs=INT64,
        ram=mapping(transferred=INT64, remaining=INT64, total=INT64),
        compression=mapping(compressedSize=INT64, compressionRate=INT64),
    )
    names = ("sourcePodName", "sourcePodIP", "sourceNode", "targetPodName", "targetPodIP", "targetNode")
    return mapping(phase=STRING, **dict.fromkeys(names, STRING), info=info, conditions=conditions())


def _resource(*, spec: Schema, status: Schema) -> Schema:
    whole = mapping(apiVersion=STRING, kind=STRING, metadata={"type": "object"}, spec=spec, status=status)
    return with_required(whole, "spec")


def _column(name: str, path: str, *, priority: int = 0) -> dict[str, Any]:
    column: dict[str, Any] = {"name": name, "type": "string", "jsonPath": path}
    return {**column, "priority": priority} if priority else column


def _age_column() -> dict[str, Any]:
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

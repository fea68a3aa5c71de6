"""Containers and their statuses as received, interned by the fields that situate reads.

Their bytes rarely repeat, because they contain names of mounted tokens and container ids. The tables of
`situate.objects.decoding.interning` alone would therefore decode every one of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeVar

import msgspec

from situate.objects.decoding.interning import LIMIT, LONGEST, NOTHING, PartError
from situate.objects.kinds.pods import (
    Container,
    ContainerPort,
    ContainerResizePolicy,
    ContainerRestartRule,
    ContainerState,
    ContainerStatus,
    ResourceRequirements,
)
from situate.objects.values.quantity import NO_QUANTITIES, Quantity, decode_quantity

K = TypeVar("K")
T = TypeVar("T")

NO_STATE: Final = ContainerState()


class ContainerWire(msgspec.Struct, gc=False, rename="camel"):
    """A container with undecoded amounts and ports."""

    name: str = ""
    image: str = ""
    resources: msgspec.Raw = NOTHING
    ports: msgspec.Raw = NOTHING
    restart_policy: str = ""
    restart_policy_rules: msgspec.Raw = NOTHING
    resize_policy: msgspec.Raw = NOTHING


class ContainerStatusWire(msgspec.Struct, gc=False, rename="camel"):
    """A container's status with undecoded amounts."""

    name: str = ""
    ready: bool = False
    started: bool | None = None
    restart_count: int = 0
    state: ContainerState = NO_STATE
    allocated_resources: msgspec.Raw = NOTHING
    resources: msgspec.Raw = NOTHING


class ContainerReader:
    """Builds containers and statuses from received values; equal ones are shared."""

    def __init__(self) -> None:
        self._containers: dict[tuple[object, ...], tuple[Container, ...]] = {}
        self._statuses: dict[tuple[object, ...], tuple[ContainerStatus, ...]] = {}
        # Whole statuses contain times and rarely repeat; the amounts in them do.
        self._resources = _PartTable(_RESOURCES, ResourceRequirements(), "resources")
        self._ports = _PartTable(_PORTS, (), "ports")
        self._rules = _PartTable(_RULES, (), "restartPolicyRules")
        self._policies = _PartTable(_POLICIES, (), "resizePolicy")
        self._allocated = _PartTable(_QUANTITIES, NO_QUANTITIES, "allocatedResources")
        self._in_use = _PartTable(_RESOURCES, None, "resources")

    def containers(self, wires: list[ContainerWire], path: str) -> tuple[Container, ...]:
        """Build the containers of a Pod. Raises `PartError` with the path in the whole object."""
        if not wires:
            return ()
        key = (_container_key(wires[0]),) if len(wires) == 1 else tuple([_container_key(wire) for wire in wires])
        known = self._containers.get(key)
        if known is not None:
            return known
        built = tuple(
            Container(
                wire.name,
                wire.image,
                self._resources.read(wire.resources, path, n),
                self._ports.read(wire.ports, path, n),
                wire.restart_policy,
                self._rules.read(wire.restart_policy_rules, path, n),
                self._policies.read(wire.resize_policy, path, n),
            )
            for n, wire in enumerate(wires)
        )
        return _remember(self._containers, key, built)

    def statuses(self, wires: list[ContainerStatusWire], path: str) -> tuple[ContainerStatus, ...]:
        """Build the container statuses of a Pod. Raises `PartError` with the path in the whole object."""
        if not wires:
            return ()
        key = (_status_key(wires[0]),) if len(wires) == 1 else tuple([_status_key(wire) for wire in wires])
        known = self._statuses.get(key)
        if known is not None:
            return known
        built = tuple(
            ContainerStatus(
                wire.name,
                wire.ready,
                wire.started,
                wire.restart_count,
                wire.state,
                self._allocated.read(wire.allocated_resources, path, n),
                self._in_use.read(wire.resources, path, n),
            )
            for n, wire in enumerate(wires)
        )
        return _remember(self._statuses, key, built)

    def changed_statuses(self, wires: list[ContainerStatusWire], path: str) -> tuple[ContainerStatus, ...]:
        """Do the same as `statuses` for a Pod that has just changed, without looking up whole statuses.

        Such statuses are new as a whole. Raises `PartError` with the path in the whole object.
        """
        allocated, in_use = self._allocated, self._in_use
        return tuple(
            [
                ContainerStatus(
                    wire.name,
                    wire.ready,
                    wire.started,
                    wire.restart_count,
                    wire.state,
                    allocated.known.get(bytes(wire.allocated_resources))
                    or allocated.read(wire.allocated_resources, path, n),
                    in_use.known.get(bytes(wire.resources)) or in_use.read(wire.resources, path, n),
                )
                for n, wire in enumerate(wires)
            ]
        )


def _container_key(wire: ContainerWire) -> tuple[object, ...]:
    rules, policies = wire.restart_policy_rules, wire.resize_policy
    return (
        wire.name,
        wire.image,
        wire.restart_policy,
        bytes(wire.resources),
        bytes(wire.ports),
        b"" if rules is NOTHING else bytes(rules),
        b"" if policies is NOTHING else bytes(policies),
    )


def _status_key(wire: ContainerStatusWire) -> tuple[object, ...]:
    allocated, resources = wire.allocated_resources, wire.resources
    return (
        wire.name,
        wire.ready,
        wire.started,
        wire.restart_count,
        wire.state,
        b"" if allocated is NOTHING else bytes(allocated),
        b"" if resources is NOTHING else bytes(resources),
    )


def _remember(table: dict[K, T], key: K, value: T) -> T:
    if len(table) >= LIMIT:
        table.clear()
    table[key] = value
    return value


class _PartTable:
    """The repeated parts of containers, by their bytes."""

    def __init__(self, decoder: msgspec.json.Decoder[Any], absent: Any, field: str) -> None:
        self._decoder = decoder
        self._absent = absent
        self._field = field
        self.known: dict[bytes, Any] = {}
        """The known values, for callers that cannot afford a function call for a lookup."""

    def read(self, raw: msgspec.Raw, path: str, number: int) -> Any:
        if raw is NOTHING:
            return self._absent
        key = bytes(raw)
        known = self.known.get(key)
        if known is not None:
            return known
        try:
            value = self._decoder.decode(key)
        except msgspec.ValidationError as error:
            raise PartError(error, f"{path}[{number}].{self._field}") from error
        return value if len(key) > LONGEST else _remember(self.known, key, value)


def json_decoder(type_: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(type_, dec_hook=decode_quantity)


_RESOURCES: Final = json_decoder(ResourceRequirements)
_PORTS: Final = json_decoder(tuple[ContainerPort, ...])
_RULES: Final = json_decoder(tuple[ContainerRestartRule, ...])
_POLICIES: Final = json_decoder(tuple[ContainerResizePolicy, ...])
_QUANTITIES: Final = json_decoder(Mapping[str, Quantity])

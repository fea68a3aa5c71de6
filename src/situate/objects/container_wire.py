"""Containers and their statuses as they arrive, told apart by what is read of them.

Their bytes hardly ever repeat, because of the names of mounted tokens and the ids of containers, so the tables of
`situate.objects.interning` alone would decode each of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeVar

import msgspec

from situate.objects.interning import LIMIT, PartError
from situate.objects.pods import Container, ContainerPort, ContainerState, ContainerStatus, ResourceRequirements
from situate.objects.quantity import NO_QUANTITIES, Quantity, decode_quantity

T = TypeVar("T")

_NOTHING: Final = msgspec.Raw()


class ContainerWire(msgspec.Struct, gc=False, rename="camel"):
    """A container whose amounts and ports are still bytes."""

    name: str = ""
    image: str = ""
    resources: msgspec.Raw = _NOTHING
    ports: msgspec.Raw = _NOTHING
    restart_policy: str = ""


class ContainerStatusWire(msgspec.Struct, gc=False, rename="camel"):
    """A container's status whose state and amounts are still bytes."""

    name: str = ""
    ready: bool = False
    started: bool | None = None
    restart_count: int = 0
    state: msgspec.Raw = _NOTHING
    allocated_resources: msgspec.Raw = _NOTHING
    resources: msgspec.Raw = _NOTHING


class ContainerReader:
    """Makes containers and statuses out of what arrived, sharing equal ones."""

    def __init__(self) -> None:
        self._containers: dict[tuple[object, ...], tuple[Container, ...]] = {}
        self._statuses: dict[tuple[object, ...], tuple[ContainerStatus, ...]] = {}

    def containers(self, wires: list[ContainerWire], path: str) -> tuple[Container, ...]:
        """Raises `PartError` with the path in the whole object."""
        if not wires:
            return ()
        key = tuple([(w.name, w.image, w.restart_policy, bytes(w.resources), bytes(w.ports)) for w in wires])
        known = self._containers.get(key)
        if known is not None:
            return known
        built = tuple(
            Container(
                name=wire.name,
                image=wire.image,
                resources=_decoded(_RESOURCES, wire.resources, ResourceRequirements(), f"{path}[{n}].resources"),
                ports=_decoded(_PORTS, wire.ports, (), f"{path}[{n}].ports"),
                restart_policy=wire.restart_policy,
            )
            for n, wire in enumerate(wires)
        )
        return _remembered(self._containers, key, built)

    def statuses(self, wires: list[ContainerStatusWire], path: str) -> tuple[ContainerStatus, ...]:
        """Raises `PartError` with the path in the whole object."""
        if not wires:
            return ()
        key = tuple([_status_key(wire) for wire in wires])
        known = self._statuses.get(key)
        if known is not None:
            return known
        built = tuple(
            ContainerStatus(
                name=wire.name,
                ready=wire.ready,
                started=wire.started,
                restart_count=wire.restart_count,
                state=_decoded(_STATE, wire.state, ContainerState(), f"{path}[{n}].state"),
                allocated_resources=_decoded(
                    _QUANTITIES, wire.allocated_resources, NO_QUANTITIES, f"{path}[{n}].allocatedResources"
                ),
                resources=_decoded(_RESOURCES, wire.resources, None, f"{path}[{n}].resources"),
            )
            for n, wire in enumerate(wires)
        )
        return _remembered(self._statuses, key, built)


def _status_key(wire: ContainerStatusWire) -> tuple[object, ...]:
    state, allocated, resources = bytes(wire.state), bytes(wire.allocated_resources), bytes(wire.resources)
    return (wire.name, wire.ready, wire.started, wire.restart_count, state, allocated, resources)


def _remembered(table: dict[tuple[object, ...], T], key: tuple[object, ...], value: T) -> T:
    if len(table) >= LIMIT:
        table.clear()
    table[key] = value
    return value


def _decoded(decoder: msgspec.json.Decoder[Any], raw: msgspec.Raw, absent: Any, path: str) -> Any:
    body = bytes(raw)
    if not body:
        return absent
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        raise PartError(error, path) from error


def decoder(type_: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(type_, dec_hook=decode_quantity)


_RESOURCES: Final = decoder(ResourceRequirements)
_PORTS: Final = decoder(tuple[ContainerPort, ...])
_STATE: Final = decoder(ContainerState)
_QUANTITIES: Final = decoder(Mapping[str, Quantity])

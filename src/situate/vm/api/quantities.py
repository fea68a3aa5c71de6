"""Amounts as annotations hold them: JSON text that is compared as text, so it has exactly one form (C4).

The text has no spaces, and `vCPUs` comes before `mem`. CPU is an integer if it is whole, else in thousandths. Memory is
an integer below 1024, else a quantity in its largest exact binary unit. Readers accept any Kubernetes quantity and
ignore unknown fields. Further resources (B45) follow under their own names if they are not zero. Claims are in
`situate.vm.api.claims`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Generic, TypeVar

import msgspec

from situate.objects.values.quantity import Quantity
from situate.vm.api.parse_errors import NO_PLACE, ParseError, ParseFailure, Part, Place
from situate.vm.model.pods_and_nodes import NO_OVERCOMMIT
from situate.vm.model.resource_amounts import RESOURCES, Amounts

T = TypeVar("T")
GIB: Final = 2**30
MAX_CACHED_TEXT: Final = 1024
"""Characters. Real texts are shorter."""
_OTHER_RESOURCE_PREFIXES: Final = ("ephemeral-storage", "hugepages-")
"""Beginnings of names without a domain for resources other than CPU and memory."""
MIN_CPU: Final = 50
MAX_CPU: Final = 512_000
"""Limits of bounds, in milli-CPU (C5)."""


@dataclass(frozen=True, slots=True)
class GuestResources:
    """Content of `vm.neon.tech/resources` of a VM: its hard limits, and the use in its spec."""

    minimum: Amounts
    use: Amounts
    maximum: Amounts
    slot_size: int
    """Bytes."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds for scaling, inside the hard limits (C5)."""

    minimum: Amounts
    maximum: Amounts


@dataclass(frozen=True, slots=True)
class ContainerResizeRequest:
    """Request of a plain Pod for one of its containers (B34)."""

    container: str
    """Empty: the only container of the Pod."""
    cpu: int | None
    """Milli-CPU; None: unchanged."""
    memory: int | None
    cpu_step: int = 0
    """Grants are multiples of this, in milli-CPU; 0: the whole request or nothing."""
    memory_step: int = 0
    others: tuple[str, ...] = ()
    """Names of further requested resources. They cannot be resized in place (B36)."""


def amounts_value(amounts: Amounts, resources: Sequence[str] = RESOURCES) -> dict[str, int | str]:
    """Return plain data in the order of the text."""
    return {"vCPUs": cpu_value(amounts.cpu), "mem": memory_value(amounts.memory), **_further_values(amounts, resources)}


def amounts_text(amounts: Amounts, resources: Sequence[str] = RESOURCES) -> str:
    """Return `{"vCPUs":"250m","mem":"1Gi"}`."""
    return json_text(amounts_value(amounts, resources))


def cpu_value(milli: int) -> int | str:
    return f"{milli}m" if milli % 1000 else milli // 1000


def memory_value(amount: int) -> int | str:
    return str(Quantity(amount * 10**9, "binary")) if amount >= 1024 else amount


def json_text(value: Mapping[str, Any] | Sequence[Any]) -> str:
    """Encode without spaces, with the fields in their given order."""
    return msgspec.json.encode(value).decode()


class TextReader(Generic[T]):
    """Parser of texts with one value. Many objects have equal texts, so it caches the last few thousand texts.

    Long texts are not cached. An annotation may have 256 KiB, so their authors could fill the memory.
    """

    def __init__(self, of: Callable[[Part, tuple[str, ...]], T]) -> None:
        self._of = of
        self._read = lru_cache(maxsize=4096)(self._parse)

    def __call__(self, text: str, place: Place, resources: Sequence[str] = RESOURCES) -> T | ParseError:
        reading = self._read if len(text) <= MAX_CACHED_TEXT else self._parse
        read = reading(text, tuple(resources))
        return place.locate_error(read) if isinstance(read, ParseError) else read

    def _parse(self, text: str, resources: tuple[str, ...]) -> T | ParseError:
        try:
            return self._of(Part.parse_json(text, NO_PLACE), resources)
        except ParseFailure as problem:
            return problem.error


def parse_amounts(part: Part, resources: Sequence[str] = RESOURCES) -> Amounts:
    """Parse `{vCPUs,mem}` and further resources. Raises `ParseFailure`."""
    part.mapping()
    further = (part[name].units() if part[name].is_present else 0 for name in resources[len(RESOURCES) :])
    return Amounts.from_values(part["vCPUs"].milli(), part["mem"].units(), *further)


def parse_unit(part: Part, resources: Sequence[str] = RESOURCES) -> Amounts:
    """Parse a compute unit. Neither CPU nor memory may be zero. Raises `ParseFailure`."""
    part.mapping()
    part["vCPUs"].milli(least=1)
    part["mem"].units(least=1)
    return parse_amounts(part, resources)


def parse_guest(part: Part, resources: Sequence[str] = RESOURCES) -> GuestResources:
    """Parse `{cpus{min,max,use},memorySlots{min,max,use},memorySlotSize}`. Raises `ParseFailure`.

    The annotation and `spec.guest` of a VirtualMachine have the same form.
    """
    part.mapping()
    slot = part["memorySlotSize"]
    slot_size = slot.units(least=1) if slot.is_present else GIB
    cpus, slots = part["cpus"], part["memorySlots"]
    further = (0,) * (len(resources) - len(RESOURCES))

    def amounts(key: str) -> Amounts:
        return Amounts.from_values(cpus[key].milli(), slots[key].integer(most=2**20) * slot_size, *further)

    return GuestResources(amounts("min"), amounts("use"), amounts("max"), slot_size)


def parse_usage(part: Part, resources: Sequence[str] = RESOURCES) -> Amounts:
    """Parse `{cpu,memory}`, as in the VM's status. Absent amounts are zero. Raises `ParseFailure`."""
    part.mapping()
    cpu, memory = part["cpu"], part["memory"]
    further = (0,) * (len(resources) - len(RESOURCES))
    return Amounts.from_values(
        cpu.milli() if cpu.is_present else 0, memory.units() if memory.is_present else 0, *further
    )


def parse_overcommit(part: Part, resources: Sequence[str] = RESOURCES) -> Amounts:
    """Parse `{cpu?,memory?}` in thousandths. Absent resources are not overcommitted. Raises `ParseFailure`."""
    part.mapping()
    names = (part[name] for name in resources)
    return Amounts(tuple(each.milli(least=1) if each.is_present else NO_OVERCOMMIT for each in names))


def read_bounds(
    text: str, place: Place, slot_size: int, resources: Sequence[str] = RESOURCES
) -> Bounds | tuple[ParseError, ...]:
    """Parse `{min,max{cpu,mem}}`, or return all violations of C5."""
    reading = _parse_bounds if len(text) <= MAX_CACHED_TEXT else _parse_bounds.__wrapped__
    read = reading(text, slot_size, tuple(resources))
    return read if isinstance(read, Bounds) else tuple(map(place.locate_error, read))


@lru_cache(maxsize=4096)
def _parse_bounds(text: str, slot_size: int, resources: tuple[str, ...]) -> Bounds | tuple[ParseError, ...]:
    try:
        part = Part.parse_json(text, NO_PLACE)
        part.mapping()
    except ParseFailure as problem:
        return (problem.error,)
    wrong: list[ParseError] = []
    found: dict[str, dict[str, int]] = {"min": {}, "max": {}}
    for end in ("min", "max"):
        for name in ("cpu", "mem"):
            try:
                value = part[end][name]
                found[end][name] = _parse_bound(value, name, slot_size)
            except ParseFailure as problem:
                wrong.append(problem.error)
    for name in ("cpu", "mem"):
        least, most = found["min"].get(name), found["max"].get(name)
        if least is not None and most is not None and least > most:
            step = f"max.{name} is {format_amount(name, most)}"
            wrong.append(part["min"][name].failure(f"at most max.{name}", step).error)
    if wrong:
        return tuple(dict.fromkeys(wrong))  # an end that is no mapping gives the same error twice
    further = (0,) * (len(resources) - len(RESOURCES))
    lowest, highest = (Amounts.from_values(found[end]["cpu"], found[end]["mem"], *further) for end in ("min", "max"))
    return Bounds(lowest, highest)


def format_amount(name: str, amount: int) -> str:
    return str(cpu_value(amount) if name == "cpu" else memory_value(amount))


def parse_resize(part: Part, resources: Sequence[str] = RESOURCES) -> ContainerResizeRequest:  # noqa: ARG001  # as all that are read
    """Parse `{"container":..,"cpu":..,"memory":..}`, and `"step":{"cpu":..,"memory":..}` if a part of it is useful.

    At least one of the two amounts is given, or an amount of a resource that cannot be resized. Raises `ParseFailure`.
    """
    members, cpu, memory = part.mapping(), part["cpu"], part["memory"]
    others = tuple(sorted(name for name in members if "/" in name or name.startswith(_OTHER_RESOURCE_PREFIXES)))
    if not cpu.is_present and not memory.is_present and not others:
        raise part.failure("cpu, memory or both", "set the size that the container needs")
    step = part["step"]
    if step.is_present:
        step.mapping()
    return ContainerResizeRequest(
        part["container"].text(default=""),
        cpu.milli(least=1) if cpu.is_present else None,
        memory.units(least=1) if memory.is_present else None,
        step["cpu"].milli(least=1) if step["cpu"].is_present else 0,
        step["memory"].units(least=1) if step["memory"].is_present else 0,
        others,
    )


read_amounts: Final = TextReader(parse_amounts)
"""Reads the output of `amounts_text`, or other notations. CPU and memory must both be present."""
read_unit: Final = TextReader(parse_unit)
"""A compute unit: neither CPU nor memory is zero."""
read_guest: Final = TextReader(parse_guest)
read_usage: Final = TextReader(parse_usage)
read_overcommit: Final = TextReader(parse_overcommit)
read_resize: Final = TextReader(parse_resize)


def _parse_bound(value: Part, name: str, slot_size: int) -> int:
    if name == "cpu":
        cpu = value.milli()
        if not MIN_CPU <= cpu <= MAX_CPU:
            raise value.failure("from 50m to 512")
        return cpu
    memory = value.units(least=1)
    if memory % slot_size:
        raise value.failure(f"a multiple of the memory slot size, {memory_value(slot_size)}")
    return memory


def _further_values(amounts: Amounts, resources: Sequence[str]) -> dict[str, int | str]:
    pairs = zip(resources[len(RESOURCES) :], amounts.values[len(RESOURCES) :], strict=False)
    return {name: memory_value(amount) for name, amount in pairs if amount}

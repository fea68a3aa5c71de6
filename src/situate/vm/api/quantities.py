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
from situate.vm.api.parse_errors import NOWHERE, Misread, Part, Place, Unreadable
from situate.vm.model.pods_and_nodes import NO_OVERCOMMIT
from situate.vm.model.resource_amounts import RESOURCES, Amounts

T = TypeVar("T")
GIB: Final = 2**30
REMEMBERED: Final = 1024
"""Characters. Real texts are shorter."""
_FURTHER: Final = ("ephemeral-storage", "hugepages-")
"""Beginnings of names without a domain for resources other than CPU and memory."""
LEAST_CPU: Final = 50
MOST_CPU: Final = 512_000
"""Limits of bounds, in milli-CPU (C5)."""


@dataclass(frozen=True, slots=True)
class Guest:
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
class ResizeWish:
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
    return {"vCPUs": cpu_value(amounts.cpu), "mem": memory_value(amounts.memory), **_further(amounts, resources)}


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


class Reader(Generic[T]):
    """Parser of texts with one value. Many objects have equal texts, so it caches the last few thousand texts.

    Long texts are not cached. An annotation may have 256 KiB, so their authors could fill the memory.
    """

    def __init__(self, of: Callable[[Part, tuple[str, ...]], T]) -> None:
        self._of = of
        self._read = lru_cache(maxsize=4096)(self._fresh)

    def __call__(self, text: str, place: Place, resources: Sequence[str] = RESOURCES) -> T | Unreadable:
        reading = self._read if len(text) <= REMEMBERED else self._fresh
        read = reading(text, tuple(resources))
        return place.of(read) if isinstance(read, Unreadable) else read

    def _fresh(self, text: str, resources: tuple[str, ...]) -> T | Unreadable:
        try:
            return self._of(Part.of_text(text, NOWHERE), resources)
        except Misread as problem:
            return problem.unreadable


def amounts_of(part: Part, resources: Sequence[str] = RESOURCES) -> Amounts:
    """Parse `{vCPUs,mem}` and further resources. Raises `Misread`."""
    part.mapping()
    further = (part[name].units() if part[name].there else 0 for name in resources[len(RESOURCES) :])
    return Amounts.of(part["vCPUs"].milli(), part["mem"].units(), *further)


def unit_of(part: Part, resources: Sequence[str] = RESOURCES) -> Amounts:
    """Parse a compute unit. Neither CPU nor memory may be zero. Raises `Misread`."""
    part.mapping()
    part["vCPUs"].milli(least=1)
    part["mem"].units(least=1)
    return amounts_of(part, resources)


def guest_of(part: Part, resources: Sequence[str] = RESOURCES) -> Guest:
    """Parse `{cpus{min,max,use},memorySlots{min,max,use},memorySlotSize}`. Raises `Misread`.

    The annotation and `spec.guest` of a VirtualMachine have the same form.
    """
    part.mapping()
    slot = part["memorySlotSize"]
    slot_size = slot.units(least=1) if slot.there else GIB
    cpus, slots = part["cpus"], part["memorySlots"]
    further = (0,) * (len(resources) - len(RESOURCES))

    def amounts(key: str) -> Amounts:
        return Amounts.of(cpus[key].milli(), slots[key].integer(most=2**20) * slot_size, *further)

    return Guest(amounts("min"), amounts("use"), amounts("max"), slot_size)


def usage_of(part: Part, resources: Sequence[str] = RESOURCES) -> Amounts:
    """Parse `{cpu,memory}`, as in the VM's status. Absent amounts are zero. Raises `Misread`."""
    part.mapping()
    cpu, memory = part["cpu"], part["memory"]
    further = (0,) * (len(resources) - len(RESOURCES))
    return Amounts.of(cpu.milli() if cpu.there else 0, memory.units() if memory.there else 0, *further)


def overcommit_of(part: Part, resources: Sequence[str] = RESOURCES) -> Amounts:
    """Parse `{cpu?,memory?}` in thousandths. Absent resources are not overcommitted. Raises `Misread`."""
    part.mapping()
    names = (part[name] for name in resources)
    return Amounts(tuple(each.milli(least=1) if each.there else NO_OVERCOMMIT for each in names))


def read_bounds(
    text: str, place: Place, slot_size: int, resources: Sequence[str] = RESOURCES
) -> Bounds | tuple[Unreadable, ...]:
    """Parse `{min,max{cpu,mem}}`, or return all violations of C5."""
    reading = _bounds if len(text) <= REMEMBERED else _bounds.__wrapped__
    read = reading(text, slot_size, tuple(resources))
    return read if isinstance(read, Bounds) else tuple(map(place.of, read))


@lru_cache(maxsize=4096)
def _bounds(text: str, slot_size: int, resources: tuple[str, ...]) -> Bounds | tuple[Unreadable, ...]:
    try:
        part = Part.of_text(text, NOWHERE)
        part.mapping()
    except Misread as problem:
        return (problem.unreadable,)
    wrong: list[Unreadable] = []
    found: dict[str, dict[str, int]] = {"min": {}, "max": {}}
    for end in ("min", "max"):
        for name in ("cpu", "mem"):
            try:
                value = part[end][name]
                found[end][name] = _bound(value, name, slot_size)
            except Misread as problem:
                wrong.append(problem.unreadable)
    for name in ("cpu", "mem"):
        least, most = found["min"].get(name), found["max"].get(name)
        if least is not None and most is not None and least > most:
            step = f"max.{name} is {shown_amount(name, most)}"
            wrong.append(part["min"][name].misread(f"at most max.{name}", step).unreadable)
    if wrong:
        return tuple(dict.fromkeys(wrong))  # an end that is no mapping gives the same error twice
    further = (0,) * (len(resources) - len(RESOURCES))
    lowest, highest = (Amounts.of(found[end]["cpu"], found[end]["mem"], *further) for end in ("min", "max"))
    return Bounds(lowest, highest)


def shown_amount(name: str, amount: int) -> str:
    return str(cpu_value(amount) if name == "cpu" else memory_value(amount))


def resize_of(part: Part, resources: Sequence[str] = RESOURCES) -> ResizeWish:  # noqa: ARG001  # as all that are read
    """Parse `{"container":..,"cpu":..,"memory":..}`, and `"step":{"cpu":..,"memory":..}` if a part of it is useful.

    At least one of the two amounts is given, or an amount of a resource that cannot be resized. Raises `Misread`.
    """
    members, cpu, memory = part.mapping(), part["cpu"], part["memory"]
    others = tuple(sorted(name for name in members if "/" in name or name.startswith(_FURTHER)))
    if not cpu.there and not memory.there and not others:
        raise part.misread("cpu, memory or both", "set the size that the container needs")
    step = part["step"]
    if step.there:
        step.mapping()
    return ResizeWish(
        part["container"].text(default=""),
        cpu.milli(least=1) if cpu.there else None,
        memory.units(least=1) if memory.there else None,
        step["cpu"].milli(least=1) if step["cpu"].there else 0,
        step["memory"].units(least=1) if step["memory"].there else 0,
        others,
    )


read_amounts: Final = Reader(amounts_of)
"""Reads the output of `amounts_text`, or other notations. CPU and memory must both be present."""
read_unit: Final = Reader(unit_of)
"""A compute unit: neither CPU nor memory is zero."""
read_guest: Final = Reader(guest_of)
read_usage: Final = Reader(usage_of)
read_overcommit: Final = Reader(overcommit_of)
read_resize: Final = Reader(resize_of)


def _bound(value: Part, name: str, slot_size: int) -> int:
    if name == "cpu":
        cpu = value.milli()
        if not LEAST_CPU <= cpu <= MOST_CPU:
            raise value.misread("from 50m to 512")
        return cpu
    memory = value.units(least=1)
    if memory % slot_size:
        raise value.misread(f"a multiple of the memory slot size, {memory_value(slot_size)}")
    return memory


def _further(amounts: Amounts, resources: Sequence[str]) -> dict[str, int | str]:
    pairs = zip(resources[len(RESOURCES) :], amounts.values[len(RESOURCES) :], strict=False)
    return {name: memory_value(amount) for name, amount in pairs if amount}

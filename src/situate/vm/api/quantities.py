"""Amounts as annotations hold them: JSON text that is compared as text, so it is written in one way only (C4).

Written without spaces, `vCPUs` before `mem`, CPU as an integer where it is whole and else in thousandths, memory as an
integer below 1024 and else as a quantity in its largest exact binary unit. Read is any Kubernetes quantity, and unknown
members are passed over. Further resources (B45) follow under their own names where there is any of them. Claims are
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
"""Characters: what anybody says in earnest is shorter."""
_FURTHER: Final = ("ephemeral-storage", "hugepages-")
"""Beside names with a domain, those of resources that are no CPU or memory."""
LEAST_CPU: Final = 50
MOST_CPU: Final = 512_000
"""Of bounds, in milli-CPU (C5)."""


@dataclass(frozen=True, slots=True)
class Guest:
    """What `vm.neon.tech/resources` says of a machine: its hard bounds, and what its spec uses."""

    minimum: Amounts
    use: Amounts
    maximum: Amounts
    slot_size: int
    """Bytes."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """For scaling, inside of the hard ones (C5)."""

    minimum: Amounts
    maximum: Amounts


@dataclass(frozen=True, slots=True)
class ResizeWish:
    """What a plain pod asks for one of its containers (B34)."""

    container: str
    """Empty: the pod's only one."""
    cpu: int | None
    """Milli-CPU; None leaves it."""
    memory: int | None
    cpu_step: int = 0
    """It may be granted in multiples of this, in milli-CPU; 0: all of it or nothing."""
    memory_step: int = 0
    others: tuple[str, ...] = ()
    """Names of further resources that are wished, which nobody resizes in place (B36)."""


def amounts_value(amounts: Amounts, resources: Sequence[str] = RESOURCES) -> dict[str, int | str]:
    """As plain data, in the order in which it is written."""
    return {"vCPUs": cpu_value(amounts.cpu), "mem": memory_value(amounts.memory), **_further(amounts, resources)}


def amounts_text(amounts: Amounts, resources: Sequence[str] = RESOURCES) -> str:
    """`{"vCPUs":"250m","mem":"1Gi"}`."""
    return json_text(amounts_value(amounts, resources))


def cpu_value(milli: int) -> int | str:
    return f"{milli}m" if milli % 1000 else milli // 1000


def memory_value(amount: int) -> int | str:
    return str(Quantity(amount * 10**9, "binary")) if amount >= 1024 else amount


def json_text(value: Mapping[str, Any] | Sequence[Any]) -> str:
    """Without spaces, members in the order that they have."""
    return msgspec.json.encode(value).decode()


class Reader(Generic[T]):
    """Reads a text that says one thing. Many objects say the same, so the last few thousand texts are remembered.

    Long ones are not: an annotation may have 256 KiB, and thousands of them would be memory that anybody can take.
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
    """Raises `Misread`."""
    part.mapping()
    further = (part[name].units() if part[name].there else 0 for name in resources[len(RESOURCES) :])
    return Amounts.of(part["vCPUs"].milli(), part["mem"].units(), *further)


def unit_of(part: Part, resources: Sequence[str] = RESOURCES) -> Amounts:
    """Raises `Misread`."""
    part.mapping()
    part["vCPUs"].milli(least=1)
    part["mem"].units(least=1)
    return amounts_of(part, resources)


def guest_of(part: Part, resources: Sequence[str] = RESOURCES) -> Guest:
    """`{cpus{min,max,use},memorySlots{min,max,use},memorySlotSize}`: of the annotation, or of a VirtualMachine's
    `spec.guest`, which says the same. Raises `Misread`."""
    part.mapping()
    slot = part["memorySlotSize"]
    slot_size = slot.units(least=1) if slot.there else GIB
    cpus, slots = part["cpus"], part["memorySlots"]
    further = (0,) * (len(resources) - len(RESOURCES))

    def amounts(key: str) -> Amounts:
        return Amounts.of(cpus[key].milli(), slots[key].integer(most=2**20) * slot_size, *further)

    return Guest(amounts("min"), amounts("use"), amounts("max"), slot_size)


def usage_of(part: Part, resources: Sequence[str] = RESOURCES) -> Amounts:
    """`{cpu,memory}`, as the machine's status has it; what is missing is zero. Raises `Misread`."""
    part.mapping()
    cpu, memory = part["cpu"], part["memory"]
    further = (0,) * (len(resources) - len(RESOURCES))
    return Amounts.of(cpu.milli() if cpu.there else 0, memory.units() if memory.there else 0, *further)


def overcommit_of(part: Part, resources: Sequence[str] = RESOURCES) -> Amounts:
    """`{cpu?,memory?}` in thousandths; what is not named is not overcommitted. Raises `Misread`."""
    part.mapping()
    names = (part[name] for name in resources)
    return Amounts(tuple(each.milli(least=1) if each.there else NO_OVERCOMMIT for each in names))


def read_bounds(
    text: str, place: Place, slot_size: int, resources: Sequence[str] = RESOURCES
) -> Bounds | tuple[Unreadable, ...]:
    """`{min,max{cpu,mem}}`, or everything that C5 finds wrong with them."""
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
        return tuple(dict.fromkeys(wrong))  # an end that is no mapping has neither of its two
    further = (0,) * (len(resources) - len(RESOURCES))
    lowest, highest = (Amounts.of(found[end]["cpu"], found[end]["mem"], *further) for end in ("min", "max"))
    return Bounds(lowest, highest)


def shown_amount(name: str, amount: int) -> str:
    return str(cpu_value(amount) if name == "cpu" else memory_value(amount))


def resize_of(part: Part, resources: Sequence[str] = RESOURCES) -> ResizeWish:  # noqa: ARG001  # as all that are read
    """`{"container":..,"cpu":..,"memory":..}`, with `"step":{"cpu":..,"memory":..}` where a part of it is of use.

    One of the two amounts is there at least, or that of a resource that cannot be resized. Raises `Misread`.
    """
    members, cpu, memory = part.mapping(), part["cpu"], part["memory"]
    others = tuple(sorted(name for name in members if "/" in name or name.startswith(_FURTHER)))
    if not cpu.there and not memory.there and not others:
        raise part.misread("cpu, memory or both", "name the amount that the container is to have")
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
"""What `amounts_text` wrote, or anybody else in other words; both of CPU and memory must be there."""
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
        raise value.misread(f"a multiple of the memory slots' size, {memory_value(slot_size)}")
    return memory


def _further(amounts: Amounts, resources: Sequence[str]) -> dict[str, int | str]:
    pairs = zip(resources[len(RESOURCES) :], amounts.values[len(RESOURCES) :], strict=False)
    return {name: memory_value(amount) for name, amount in pairs if amount}

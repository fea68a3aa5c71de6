"""Traces of pods and nodes, one change a line of JSON, in the order in which they happened (B42).

    {"time":0,"event":"node-added","uid":"n1","allocatable":{"cpu":"16","memory":"64Gi"}}
    {"time":0,"event":"pod-added","uid":"a","node":"n1","resources":{"cpu":"2","memory":"8Gi"},
     "bounds":{"min":{"cpu":"1","memory":"4Gi"},"max":{"cpu":"8","memory":"32Gi"}},"priority":0}
    {"time":60,"event":"pod-changed","uid":"a","resources":{"cpu":"4","memory":"16Gi"}}

A pod with bounds is a machine that grows and moves, and `resources` of a later change is what it wants; one without is
a plain pod. A pod without a node waits for one that has its `affinity`, a mapping of the node's `labels`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

import msgspec

from situate.objects.quantity import BadQuantity, parse_quantity
from situate.objects.settings import Mistake, parse_section, shown
from situate.vm.amounts import Amounts

EventKind = Literal["node-added", "node-changed", "node-deleted", "pod-added", "pod-changed", "pod-deleted"]


class Vector(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Quantities as Kubernetes writes them."""

    cpu: str
    memory: str

    @property
    def amounts(self) -> Amounts:
        return Amounts.of(parse_quantity(self.cpu).milli_value, parse_quantity(self.memory).value)

    @classmethod
    def of(cls, amounts: Amounts) -> Vector:
        return cls(cpu=f"{amounts.cpu}m", memory=str(amounts.memory))


class Bounds(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    min: Vector
    max: Vector


class Change(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One line. What is absent stays as it is."""

    time: Annotated[float, msgspec.Meta(ge=0)]
    """Seconds since the begin of the trace."""
    event: EventKind
    uid: Annotated[str, msgspec.Meta(min_length=1)]
    """Of a node, its name."""
    node: str = ""
    """Where a new pod runs already; empty: it waits for a node."""
    resources: Vector | None = None
    bounds: Bounds | None = None
    priority: int = 0
    affinity: Mapping[str, str] = {}
    labels: Mapping[str, str] = {}
    allocatable: Vector | None = None
    used_memory: Annotated[int, msgspec.Meta(ge=0)] = 0
    """Bytes that moving it copies; 0: all that it has."""
    dirty_rate: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    """Bytes a second."""
    migratable: bool = True


@dataclass(frozen=True, slots=True)
class Trace:
    """`duration_s` goes on after the last change."""

    name: str
    duration_s: float
    changes: tuple[Change, ...]


def lines(changes: Iterable[Change]) -> Iterator[str]:
    for change in changes:
        yield msgspec.json.encode(change).decode()


def read_trace(text: str, name: str, after_s: float = 600.0) -> tuple[Trace | None, tuple[Mistake, ...]]:
    """`after_s`: how long it goes on after the last line. Every mistake is told with its line, from 1."""
    changes: list[Change] = []
    mistakes: list[Mistake] = []
    known: set[str] = set()
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        where = f"line {number}"
        try:
            data = json.loads(line)
        except (ValueError, RecursionError) as problem:
            mistakes.append(Mistake(where, shown(line), "one JSON object", str(problem)))
            continue
        change, wrong = parse_section(data, Change, where)
        mistakes += wrong
        if change is None:
            continue
        found = list(_wrong(change, where, changes[-1].time if changes else 0.0, known))
        mistakes += found
        if not found:
            changes.append(change)
    if not changes and not mistakes:
        mistakes.append(Mistake(name, "no line", "at least one change"))
    if mistakes:
        return None, tuple(mistakes)
    return Trace(name, changes[-1].time + after_s, tuple(changes)), ()


def _wrong(change: Change, where: str, before: float, known: set[str]) -> Iterator[Mistake]:
    """What the type alone does not say. `known` follows what exists by then."""
    if change.time < before:
        yield Mistake(f"{where}.time", shown(change.time), f"at least {before:g}, as of the line before")
    for field in ("allocatable", "resources"):
        vector = getattr(change, field)
        if vector is not None:
            yield from _wrong_vector(vector, f"{where}.{field}")
    if change.bounds is not None:
        yield from _wrong_vector(change.bounds.min, f"{where}.bounds.min")
        yield from _wrong_vector(change.bounds.max, f"{where}.bounds.max")
    kind, _, what = change.event.partition("-")
    key = f"{kind}/{change.uid}"
    if what == "added":
        if key in known:
            yield Mistake(f"{where}.uid", shown(change.uid), f"a {kind} that is not there yet")
        needed = "allocatable" if kind == "node" else "resources"
        if getattr(change, needed) is None:
            yield Mistake(f"{where}.{needed}", "nothing", "cpu and memory, as the first line of each says them")
        known.add(key)
    elif key not in known:
        yield Mistake(f"{where}.uid", shown(change.uid), f"a {kind} that was added before")
    elif what == "deleted":
        known.discard(key)
    if change.node and f"node/{change.node}" not in known:
        yield Mistake(f"{where}.node", shown(change.node), "a node that was added before")


def _wrong_vector(vector: Vector, where: str) -> Iterator[Mistake]:
    for field in ("cpu", "memory"):
        text = getattr(vector, field)
        try:
            if parse_quantity(text).milli_value < 0:
                yield Mistake(f"{where}.{field}", shown(text), "0 or more")
        except BadQuantity:
            yield Mistake(f"{where}.{field}", shown(text), 'a quantity such as "250m" or "4Gi"')

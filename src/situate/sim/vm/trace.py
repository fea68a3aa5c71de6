"""Traces of pods and nodes: one change per line of JSON, in the order of the changes (B42).

    {"time":0,"event":"node-added","uid":"n1","allocatable":{"cpu":"16","memory":"64Gi"}}
    {"time":0,"event":"pod-added","uid":"a","node":"n1","resources":{"cpu":"2","memory":"8Gi"},
     "bounds":{"min":{"cpu":"1","memory":"4Gi"},"max":{"cpu":"8","memory":"32Gi"}},"priority":0}
    {"time":60,"event":"pod-changed","uid":"a","resources":{"cpu":"4","memory":"16Gi"}}

A pod with bounds is a VM that grows and migrates, and `resources` of a later change is its request. A pod without
bounds is a plain pod. A pod without a node waits for a node whose `labels` contain its `affinity`. A field that the
event cannot change is a mistake, and is not ignored.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Final, Literal

import msgspec

from situate.objects.settings.section import Mistake, format_value, parse_section
from situate.objects.values.quantity import BadQuantity, parse_quantity
from situate.vm.model.resource_amounts import RESOURCES, Amounts

LONGEST_S: Final = 366 * 86_400
"""One year. A larger value is seconds since 1970, which would simulate decades."""
CREATED_UID_MARK: Final = "#"
"""Part of the UIDs of pods that the simulation creates. A trace must not use it."""
MOST_MISTAKES: Final = 20
"""Maximum number of reported mistakes. Recorded lines are wrong by the million, or not at all."""

EventKind = Literal["node-added", "node-changed", "node-deleted", "pod-added", "pod-changed", "pod-deleted"]


class Vector(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Quantities in Kubernetes' notation."""

    cpu: str
    memory: str

    @property
    def amounts(self) -> Amounts:
        return Amounts.from_values(parse_quantity(self.cpu).milli_value, parse_quantity(self.memory).value)

    @classmethod
    def from_amounts(cls, amounts: Amounts) -> Vector:
        return cls(cpu=f"{amounts.cpu}m", memory=str(amounts.memory))


class Bounds(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    min: Vector
    max: Vector


class Change(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One line. An absent field stays unchanged."""

    time: Annotated[float, msgspec.Meta(ge=0)]
    """Seconds since the beginning of the trace."""
    event: EventKind
    uid: Annotated[str, msgspec.Meta(min_length=1)]
    """UID of a pod, or name of a node."""
    node: str = ""
    """Node on which a new pod already runs. Empty: it waits for a node."""
    resources: Vector | None = None
    bounds: Bounds | None = None
    priority: int = 0
    affinity: Mapping[str, str] = {}
    labels: Mapping[str, str] = {}
    allocatable: Vector | None = None
    used_memory: Annotated[int, msgspec.Meta(ge=0)] = 0
    """Bytes that a migration copies. 0: all its memory."""
    dirty_rate: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    """Bytes per second."""
    migratable: bool = True


_ALLOWED_FIELDS: Final[Mapping[EventKind, frozenset[str]]] = {
    "node-added": frozenset(("allocatable", "labels")),
    "node-changed": frozenset(("allocatable", "labels")),
    "node-deleted": frozenset(),
    "pod-added": frozenset(
        ("node", "resources", "bounds", "priority", "affinity", "used_memory", "dirty_rate", "migratable")
    ),
    "pod-changed": frozenset(("resources", "bounds")),
    "pod-deleted": frozenset(),
}
"""Fields allowed for each event, besides time, event and UID."""
_COMMON_FIELDS: Final = frozenset(("time", "event", "uid"))


@dataclass(frozen=True, slots=True)
class Trace:
    """A trace. `duration_s` extends beyond the last change."""

    name: str
    duration_s: float
    changes: tuple[Change, ...]


def trace_lines(changes: Iterable[Change]) -> Iterator[str]:
    for change in changes:
        yield msgspec.json.encode(change).decode()


def read_trace(text: str, name: str, after_s: float = 600.0) -> tuple[Trace | None, tuple[Mistake, ...]]:
    """Read a trace, which goes on for `after_s` seconds after the last line.

    Mistakes name their lines, from 1. Reading stops after `MOST_MISTAKES` mistakes.
    """
    changes: list[Change] = []
    mistakes: list[Mistake] = []
    known = _KnownObjects()
    # not splitlines, which also splits at characters that JSON may contain
    for number, line in enumerate(text.removeprefix("\ufeff").split("\n"), 1):
        if not line.strip():
            continue
        if len(mistakes) >= MOST_MISTAKES:
            mistakes[-1] = replace(mistakes[-1], hint="correct these lines first, because the rest was not read")
            break
        where = f"line {number}"
        try:
            data = json.loads(line)
        except json.JSONDecodeError as problem:
            why = f"{problem.msg} (character {problem.pos + 1})"
            mistakes.append(Mistake(where, format_value(line), "one JSON object", why))
            continue
        except (ValueError, RecursionError) as problem:
            mistakes.append(Mistake(where, format_value(line), "one JSON object", str(problem)))
            continue
        change, wrong = parse_section(data, Change, where)
        mistakes += wrong
        if change is None:
            known.add_unreadable(data)
            continue
        found = list(_change_mistakes(change, where, changes[-1].time if changes else 0.0, known))
        mistakes += found
        if not found:
            changes.append(change)
    if not changes and not mistakes:
        mistakes.append(Mistake(name, "no line", "at least one change"))
    if mistakes:
        return None, tuple(mistakes)
    return Trace(name, changes[-1].time + after_s, tuple(changes)), ()


@dataclass
class _KnownObjects:
    """Existing objects at a line, such as `node/n1`, and whether a pod is a VM."""

    machines: dict[str, bool] = field(default_factory=dict)

    def add_unreadable(self, data: object) -> None:
        """Record the object of a wrong line, so that later lines about it are no mistakes."""
        if isinstance(data, Mapping) and data.get("event") in ("node-added", "pod-added"):
            kind = str(data["event"]).partition("-")[0]
            self.machines.setdefault(f"{kind}/{data.get('uid')}", "bounds" in data)


def _change_mistakes(change: Change, where: str, before: float, known: _KnownObjects) -> Iterator[Mistake]:
    """Yield mistakes beyond the type, and update `known`."""
    if change.time < before:
        yield Mistake(
            f"{where}.time", format_value(change.time), f"at least {before:.15g}, the time of the line before"
        )
    if change.time > LONGEST_S:
        allowed = f"at most {LONGEST_S}, in seconds since the start of the trace, not since 1970"
        yield Mistake(
            f"{where}.time", format_value(change.time), allowed, "subtract the time of the first line from every time"
        )
    yield from _unexpected_field_mistakes(change, where)
    for name in ("allocatable", "resources"):
        vector = getattr(change, name)
        if vector is not None:
            yield from _vector_mistakes(vector, f"{where}.{name}")
    if change.bounds is not None:
        yield from _bounds_mistakes(change.bounds, f"{where}.bounds")
    kind, _, what = change.event.partition("-")
    key = f"{kind}/{change.uid}"
    if what == "added":
        if key in known.machines:
            yield Mistake(f"{where}.uid", format_value(change.uid), f"a {kind} that does not exist yet")
        if CREATED_UID_MARK in change.uid:
            yield Mistake(
                f"{where}.uid",
                format_value(change.uid),
                f"a name without {CREATED_UID_MARK}, which the simulation uses",
            )
        needed = "allocatable" if kind == "node" else "resources"
        if getattr(change, needed) is None:
            yield Mistake(f"{where}.{needed}", "nothing", f"cpu and memory, in the first line of each {kind}")
        known.machines[key] = change.bounds is not None
    elif key not in known.machines:
        yield Mistake(f"{where}.uid", format_value(change.uid), f"a {kind} that was added before")
    elif what == "deleted":
        del known.machines[key]
    elif change.bounds is not None and not known.machines[key]:
        allowed = "none, because a pod that was added without bounds is no VM"
        yield Mistake(f"{where}.bounds", format_value(msgspec.to_builtins(change.bounds)), allowed)
    if change.node and f"node/{change.node}" not in known.machines:
        yield Mistake(f"{where}.node", format_value(change.node), "a node that was added before")


def _unexpected_field_mistakes(change: Change, where: str) -> Iterator[Mistake]:
    """Yield mistakes for fields that the event cannot change and that differ from their defaults."""
    for each in msgspec.structs.fields(Change):
        value = getattr(change, each.name)
        if each.name in _COMMON_FIELDS or each.name in _ALLOWED_FIELDS[change.event] or value == _default_of(each):
            continue
        said = [name for name in msgspec.structs.fields(Change) if name.name in _ALLOWED_FIELDS[change.event]]
        names = ", ".join(name.encode_name for name in said)
        allowed = f"no value, because a line of {change.event} has only " + (names or "time, event and uid")
        yield Mistake(f"{where}.{each.encode_name}", format_value(msgspec.to_builtins(value)), allowed)


def _default_of(each: msgspec.structs.FieldInfo) -> object:
    return each.default_factory() if each.default is msgspec.NODEFAULT else each.default


def _bounds_mistakes(bounds: Bounds, where: str) -> Iterator[Mistake]:
    """Yield mistakes in bounds (C5): no minimum is above its maximum."""
    found = [*_vector_mistakes(bounds.min, f"{where}.min"), *_vector_mistakes(bounds.max, f"{where}.max")]
    yield from found
    if found:
        return
    for name, least, most in zip(RESOURCES, bounds.min.amounts, bounds.max.amounts, strict=True):
        if least > most:
            allowed = f"at most max.{name}, {format_value(getattr(bounds.max, name))}"
            yield Mistake(f"{where}.min.{name}", format_value(getattr(bounds.min, name)), allowed)


def _vector_mistakes(vector: Vector, where: str) -> Iterator[Mistake]:
    for name in RESOURCES:
        text = getattr(vector, name)
        try:
            if parse_quantity(text).milli_value < 0:
                yield Mistake(f"{where}.{name}", format_value(text), "0 or more")
        except BadQuantity:
            yield Mistake(f"{where}.{name}", format_value(text), 'a quantity such as "250m" or "4Gi"')

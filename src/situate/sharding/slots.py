"""The elastic table: 4096 slots of the hash and the partition that owns each, as it stands in a ConfigMap.

A slot changes its owner in two versions. In the first it is *frozen*: nobody assigns its objects, open work goes on and
drains. In the second it has the new owner. A supervisor acts on a slot only under the newest version that it has
confirmed. Which slots to move is left to `situate.sharding.resizing`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Annotated, Final, TypeVar

import msgspec

from situate.objects.settings import Mistake, parse_section, shown
from situate.sharding.hashing import SPACE
from situate.sharding.partitions import HashRange, Keyspace, joined

SLOTS: Final = 4096
_SLOT_SIZE: Final = SPACE // SLOTS
_LONGEST_TEXT: Final = 1 << 20  # a ConfigMap holds no more
_T = TypeVar("_T")
_Partition = Annotated[int, msgspec.Meta(ge=0, le=SLOTS - 1)]


class BadTable(ValueError):
    """A change that the table does not allow; the message says which, and the next step."""


@dataclass(frozen=True, slots=True)
class Slot:
    """Who has a slot."""

    partition: int
    to: int | None = None
    """Frozen, and who gets it in the next version; None: not frozen."""


@dataclass(frozen=True, slots=True)
class SlotTable:
    """Every slot once."""

    version: int
    slots: tuple[Slot, ...]
    """By number, `SLOTS` of them."""

    @property
    def partitions(self) -> tuple[int, ...]:
        """All that own a slot or will, ascending."""
        owners = {slot.partition for slot in self.slots}
        return tuple(sorted(owners | {slot.to for slot in self.slots if slot.to is not None}))

    @property
    def frozen(self) -> tuple[int, ...]:
        """Numbers of the slots that are about to change owners."""
        return tuple(number for number, slot in enumerate(self.slots) if slot.to is not None)

    def at(self, hashed: int) -> Slot:
        return self.slots[slot_of(hashed)]

    def keyspace(self, partition: int) -> Keyspace:
        """What the partition is responsible for: its slots, also those that are frozen."""
        return _keyspace(number for number, slot in enumerate(self.slots) if slot.partition == partition)

    def assignable(self, partition: int) -> Keyspace:
        """Where the partition may assign objects: its slots that are not frozen."""
        return _keyspace(number for number, slot in enumerate(self.slots) if slot == Slot(partition))

    def owners(self) -> tuple[int, ...]:
        return tuple(slot.partition for slot in self.slots)

    def to_text(self) -> str:
        """As `parse_table` reads it: equal neighbours are one range."""
        ranges = []
        for start, end, slot in _runs(self.slots):
            entry = {"start": start, "end": end, "partition": slot.partition}
            ranges.append(entry if slot.to is None else {**entry, "to": slot.to})
        return json.dumps({"version": self.version, "slots": SLOTS, "ranges": ranges}, separators=(",", ":"))


def slot_of(hashed: int) -> int:
    return hashed >> 52


def even_table(partitions: int) -> SlotTable:
    """Version 1, with as many slots for each partition as can be."""
    bounds = [index * SLOTS // partitions for index in range(partitions + 1)]
    return SlotTable(
        1, tuple(Slot(index) for index, (start, end) in enumerate(pairwise(bounds)) for _ in range(start, end))
    )


def frozen(table: SlotTable, owners: Sequence[int]) -> SlotTable:
    """The next version, in which the slots that are to have another owner are frozen.

    Raises `BadTable` while another change is under way. Equal owners give the same table.
    """
    if table.frozen:
        raise BadTable(
            f"version {table.version} of the table has {len(table.frozen)} frozen slots: hand them over or thaw them "
            "before another change"
        )
    slots = tuple(
        Slot(slot.partition, None if slot.partition == owner else owner)
        for slot, owner in zip(table.slots, owners, strict=True)
    )
    return table if slots == table.slots else SlotTable(table.version + 1, slots)


def handed_over(table: SlotTable) -> SlotTable:
    """The next version, in which the frozen slots have their new owners; see `hand_over_waits_for`."""
    slots = tuple(slot if slot.to is None else Slot(slot.to) for slot in table.slots)
    return table if slots == table.slots else SlotTable(table.version + 1, slots)


def thawed(table: SlotTable) -> SlotTable:
    """The next version, in which the frozen slots stay with their owners after all."""
    slots = tuple(Slot(slot.partition) for slot in table.slots)
    return table if slots == table.slots else SlotTable(table.version + 1, slots)


def hand_over_waits_for(table: SlotTable, confirmed: Mapping[int, int], open_objects: Mapping[int, int]) -> list[str]:
    """What has to happen before the frozen slots may change owners; nothing: they may.

    `confirmed`: the newest version that each partition's supervisor has confirmed; `open_objects`: by slot, how many
    are still assigned.
    """
    waits = [
        f"partition {partition} has confirmed version {confirmed.get(partition, 0)} of {table.version}"
        for partition in sorted({table.slots[number].partition for number in table.frozen})
        if confirmed.get(partition, 0) < table.version
    ]
    left = sum(open_objects.get(number, 0) for number in table.frozen)
    return [*waits, f"{left} objects of frozen slots are still assigned"] if left else waits


def transition_mistakes(old: SlotTable, new: SlotTable) -> tuple[Mistake, ...]:
    """What is wrong with following `old` by `new`: a version that is not the next, an owner that comes unannounced."""
    if new == old:
        return ()
    found = []
    if new.version <= old.version:
        found.append(Mistake("version", str(new.version), f"more than {old.version}, the version before"))
    if new.version > old.version + 1:
        return tuple(found)  # versions between were missed; what they announced cannot be known
    changes = [
        None if before.partition == after.partition or before.to == after.partition else (before, after)
        for before, after in zip(old.slots, new.slots, strict=True)
    ]
    for start, end, change in _runs(changes):
        if change is not None:
            before, after = change
            allowed = f"{before.partition}, or first a version that freezes them with to: {after.partition}"
            found.append(Mistake(f"slots {start} to {end - 1}", f"partition {after.partition}", allowed))
    return tuple(found)


class _Range(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    start: Annotated[int, msgspec.Meta(ge=0, le=SLOTS - 1)]
    end: Annotated[int, msgspec.Meta(ge=1, le=SLOTS)]
    """Exclusive."""
    partition: _Partition
    to: _Partition | None = None


class _Document(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    version: Annotated[int, msgspec.Meta(ge=1, le=2**53)]
    slots: Annotated[int, msgspec.Meta(ge=SLOTS, le=SLOTS)]
    ranges: Annotated[list[_Range], msgspec.Meta(min_length=1, max_length=SLOTS)]


def parse_table(text: str) -> tuple[SlotTable | None, tuple[Mistake, ...]]:
    """The table that a ConfigMap holds, or None and every mistake in it, each with its path; never raises."""
    if len(text) > _LONGEST_TEXT:
        return None, (Mistake("", f"{len(text)} characters", f"at most {_LONGEST_TEXT}"),)
    try:
        data = msgspec.json.decode(text)
    except (ValueError, RecursionError) as error:  # msgspec's errors are ValueErrors, as those of encoding are
        return None, (Mistake("", shown(text), f"a table as JSON ({error})"),)
    document, mistakes = parse_section(data, _Document)
    if document is None:
        return None, mistakes
    mistakes = tuple(_cover_mistakes(document.ranges))
    if mistakes:
        return None, mistakes
    slots: list[Slot | None] = [None] * SLOTS
    for each in document.ranges:
        slots[each.start : each.end] = [Slot(each.partition, each.to)] * (each.end - each.start)
    return SlotTable(document.version, tuple(slot for slot in slots if slot is not None)), ()


def _cover_mistakes(ranges: Sequence[_Range]) -> Iterator[Mistake]:
    """Every slot must be there once."""
    for number, each in enumerate(ranges):
        if each.start >= each.end:
            yield Mistake(f"ranges[{number}].end", str(each.end), f"more than start, {each.start}")
        if each.to == each.partition:
            yield Mistake(f"ranges[{number}].to", str(each.to), "another partition than the one that has the range")
    order = sorted(range(len(ranges)), key=lambda number: (ranges[number].start, number))
    covered = 0
    for number in order:
        each = ranges[number]
        if each.start < covered:
            hint = "slots below are in another range"
            yield Mistake(f"ranges[{number}].start", str(each.start), f"at least {covered}", hint)
        elif each.start > covered:
            missing = f"no range with the slots {covered} to {each.start - 1}"
            yield Mistake(f"ranges[{number}].start", str(each.start), f"{covered}, or another range before", missing)
        covered = max(covered, each.end)
    if covered < SLOTS:
        last = order[-1] if order else 0
        yield Mistake(f"ranges[{last}].end", str(covered), f"{SLOTS}, or another range after it")


def _runs(values: Sequence[_T]) -> Iterator[tuple[int, int, _T]]:
    """Equal neighbours as start, end and value."""
    start = 0
    for value, group in groupby(values):
        end = start + sum(1 for _ in group)
        yield start, end, value
        start = end


def _keyspace(numbers: Iterable[int]) -> Keyspace:
    return Keyspace(joined(HashRange(number * _SLOT_SIZE, (number + 1) * _SLOT_SIZE) for number in numbers))

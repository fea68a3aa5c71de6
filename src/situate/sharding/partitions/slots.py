"""The elastic table: 4096 slots of the hash and the partition that owns each, as stored in a ConfigMap.

A slot changes its owner in two versions. In the first version the slot is *frozen*: no supervisor assigns its objects,
and open work continues and drains. In the second version the slot has the new owner. A supervisor acts on a slot only
under the newest version that it has confirmed. `situate.sharding.partitions.repartition` chooses the slots to move.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, groupby, pairwise
from typing import Annotated, Final

import msgspec

from situate.objects.settings.section import Mistake, format_value, parse_section
from situate.sharding.partitions.hashing import SPACE
from situate.sharding.partitions.partitions import HashRange, Keyspace, join_ranges

SLOTS: Final = 4096
_SLOT_SIZE: Final = SPACE // SLOTS
_LONGEST_TEXT: Final = 1 << 20  # limit of a ConfigMap
_Partition = Annotated[int, msgspec.Meta(ge=0, le=SLOTS - 1)]


class BadTable(ValueError):
    """A change that the table does not allow; the message names it, and the next step."""


@dataclass(frozen=True, slots=True)
class SlotRange:
    """Adjacent slots with the same owner."""

    start: int
    end: int
    """Exclusive."""
    partition: int
    to: int | None = None
    """The owner in the next version, if the slots are frozen; None: not frozen."""

    def __len__(self) -> int:
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class SlotTable:
    """Version and ranges of the table; the ranges cover every slot once."""

    version: int
    ranges: tuple[SlotRange, ...]
    """Ascending, and as few as possible: see `table_of`."""

    @property
    def partitions(self) -> tuple[int, ...]:
        """All partitions that own a slot now or in the next version, ascending."""
        owners = {each.partition for each in self.ranges}
        return tuple(sorted(owners | {each.to for each in self.ranges if each.to is not None}))

    @property
    def frozen_slots(self) -> tuple[SlotRange, ...]:
        """The slots that are about to change owners."""
        return tuple(each for each in self.ranges if each.to is not None)

    def range_of(self, hashed: int) -> SlotRange:
        """Return the range of slots that contains this hash."""
        return self.ranges[bisect_right(self.ranges, slot_of(hashed), key=lambda each: each.start) - 1]

    def keyspace(self, partition: int) -> Keyspace:
        """Return the slots of a partition, including the frozen ones."""
        return _keyspace(each for each in self.ranges if each.partition == partition)

    def foreseen_keyspace(self, partition: int) -> Keyspace:
        """Return the slots that a partition owns now, or will own after the frozen slots are handed over."""
        return _keyspace(each for each in self.ranges if partition in (each.partition, each.to))

    def assignable_keyspace(self, partition: int) -> Keyspace:
        """Return the slots in which a partition may assign objects: its slots that are not frozen."""
        return _keyspace(each for each in self.ranges if each.partition == partition and each.to is None)

    def owners(self) -> tuple[int, ...]:
        """Return the owner of each slot."""
        return tuple(chain.from_iterable([each.partition] * len(each) for each in self.ranges))

    def to_text(self) -> str:
        """Return the table in the form that `parse_table` reads."""
        ranges = [
            {"start": each.start, "end": each.end, "partition": each.partition}
            | ({} if each.to is None else {"to": each.to})
            for each in self.ranges
        ]
        return json.dumps({"version": self.version, "slots": SLOTS, "ranges": ranges}, separators=(",", ":"))


def slot_of(hashed: int) -> int:
    return hashed >> 52


def table_of(version: int, owners: Sequence[int], after: Sequence[int] | None = None) -> SlotTable:
    """Make a table from the present owner of each slot and, to freeze slots, from their owners in the next version."""
    ranges = []
    start = 0
    for (owner, then), group in groupby(zip(owners, owners if after is None else after, strict=True)):
        end = start + sum(1 for _ in group)
        ranges.append(SlotRange(start, end, owner, None if then == owner else then))
        start = end
    return SlotTable(version, tuple(ranges))


def even_table(partitions: int) -> SlotTable:
    """Return version 1 of a table, with the slots divided as evenly as possible."""
    bounds = [index * SLOTS // partitions for index in range(partitions + 1)]
    return SlotTable(1, tuple(SlotRange(start, end, index) for index, (start, end) in enumerate(pairwise(bounds))))


def freeze_slots(table: SlotTable, owners: Sequence[int]) -> SlotTable:
    """Return the next version, which freezes the slots that change owners.

    Raises `BadTable` if another change is not finished. Equal owners return the same table.
    """
    if table.frozen_slots:
        raise BadTable(
            f"version {table.version} of the table has {sum(map(len, table.frozen_slots))} frozen slots: hand them "
            "over or "
            "thaw them before another change"
        )
    found = table_of(table.version + 1, table.owners(), owners)
    return found if found.frozen_slots else table


def hand_over_slots(table: SlotTable) -> SlotTable:
    """Return the next version, in which the frozen slots have their new owners; see `hand_over_obstacles`."""
    if not table.frozen_slots:
        return table
    after = [each.partition if each.to is None else each.to for each in table.ranges for _ in range(len(each))]
    return table_of(table.version + 1, after)


def thaw_slots(table: SlotTable) -> SlotTable:
    """Return the next version, in which the frozen slots stay with their present owners."""
    return table_of(table.version + 1, table.owners()) if table.frozen_slots else table


def hand_over_obstacles(table: SlotTable, confirmed: Mapping[int, int], open_objects: Mapping[int, int]) -> list[str]:
    """Return the conditions that still prevent the hand-over of the frozen slots; empty: it may happen.

    `confirmed`: the newest confirmed version of each partition's supervisor. `open_objects`: number of assigned objects
    per slot.
    """
    waits = [
        f"partition {partition} has confirmed version {confirmed.get(partition, 0)}, not version {table.version}"
        for partition in sorted({each.partition for each in table.frozen_slots})
        if confirmed.get(partition, 0) < table.version
    ]
    left = sum(open_objects.get(slot, 0) for each in table.frozen_slots for slot in range(each.start, each.end))
    return [*waits, f"{left} objects of frozen slots are still assigned"] if left else waits


def transition_mistakes(old: SlotTable, new: SlotTable) -> tuple[Mistake, ...]:
    """Return the mistakes of a change from `old` to `new`: a version that is not newer, an owner without a freeze."""
    if new == old:
        return ()
    if new.version <= old.version:
        return (Mistake("version", str(new.version), f"more than {old.version}, the previous version"),)
    if new.version > old.version + 1:
        return ()  # intermediate versions were missed; their frozen slots are unknown
    announced = [each.partition if each.to is None else each.to for each in old.ranges for _ in range(len(each))]
    found = []
    start = 0
    for (before, then, after), group in groupby(zip(old.owners(), announced, new.owners(), strict=True)):
        end = start + sum(1 for _ in group)
        if after not in (before, then):
            allowed = f"partition {before}; to move the slots, first write a version that freezes them with to: {after}"
            found.append(Mistake(f"slots {start} to {end - 1}", f"partition {after}", allowed))
        start = end
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
    """Parse the table of a ConfigMap. Return it, or None and every mistake with its path. Never raises."""
    if len(text) > _LONGEST_TEXT:
        return None, (Mistake("", f"{len(text)} characters", f"at most {_LONGEST_TEXT}"),)
    try:
        data = msgspec.json.decode(text)
    except (ValueError, RecursionError) as error:  # msgspec's errors and encoding errors are ValueErrors
        return None, (Mistake("", format_value(text), f"a table as JSON ({error})"),)
    document, mistakes = parse_section(data, _Document)
    if document is None:
        return None, mistakes
    mistakes = tuple(_cover_mistakes(document.ranges))
    if mistakes:
        return None, mistakes
    slots = [each for each in sorted(document.ranges, key=lambda each: each.start) for _ in range(each.start, each.end)]
    owners = [each.partition for each in slots]
    after = [each.partition if each.to is None else each.to for each in slots]
    return table_of(document.version, owners, after), ()


def _cover_mistakes(ranges: Sequence[_Range]) -> Iterator[Mistake]:
    """Yield a mistake for every slot that is missing or covered twice."""
    for number, each in enumerate(ranges):
        if each.start >= each.end:
            yield Mistake(f"ranges[{number}].end", str(each.end), f"more than start ({each.start})")
        if each.to == each.partition:
            yield Mistake(f"ranges[{number}].to", str(each.to), "a partition other than the owner of the range")
    order = sorted(range(len(ranges)), key=lambda number: (ranges[number].start, number))
    covered = 0
    for number in order:
        each = ranges[number]
        if each.start < covered:
            hint = "lower slots already belong to another range"
            yield Mistake(f"ranges[{number}].start", str(each.start), f"at least {covered}", hint)
        elif each.start > covered:
            missing = f"no range contains the slots {covered} to {each.start - 1}"
            yield Mistake(
                f"ranges[{number}].start",
                str(each.start),
                f"{covered}, or an additional range before this one",
                missing,
            )
        covered = max(covered, each.end)
    if covered < SLOTS:
        last = order[-1] if order else 0
        yield Mistake(f"ranges[{last}].end", str(covered), f"{SLOTS}, or an additional range after this one")


def _keyspace(ranges: Iterable[SlotRange]) -> Keyspace:
    return Keyspace(join_ranges(HashRange(each.start * _SLOT_SIZE, each.end * _SLOT_SIZE) for each in ranges))

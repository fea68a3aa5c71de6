"""The part of all objects that a supervisor owns: ranges of a 64-bit hash, in this module N equal ones.

By UID, the hash is Kubernetes' own (KEP-5866), so that a server with sharded lists and watches does the filtering. By
namespace or name, the hash is mixed, because such keys differ in their last characters. The module
`situate.sharding.partitions.slots` has ranges that change owners.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Final, Protocol

from situate.objects.settings.section import format_value
from situate.sharding.partitions.hashing import SPACE, fnv1a64, mix64

MOST_PARTITIONS: Final = 4096
"""Maximum number of static partitions."""
_STATIC: Final = re.compile(r"([0-9]{1,4})/([0-9]{1,4})", re.ASCII)


class BadPartition(ValueError):
    """An invalid partition; the message names the value, the allowed values and the next step."""


class PartitionBy(StrEnum):
    """The field of an object that is hashed."""

    UID = "uid"
    NAMESPACE = "namespace"
    NAME = "name"


class ObjectIdentity(Protocol):
    """The fields of an object that partitions test: views of objects, and facts for strategies."""

    @property
    def uid(self) -> str: ...
    @property
    def namespace(self) -> str: ...
    @property
    def name(self) -> str: ...


@dataclass(frozen=True, slots=True, order=True)
class HashRange:
    """The hashes from `start`, inclusive, to `end`, exclusive; the last range ends at 2^64."""

    start: int
    end: int

    def __contains__(self, hashed: int) -> bool:
        return self.start <= hashed < self.end

    @property
    def start_hex(self) -> str:
        return f"{self.start:#018x}"

    @property
    def end_hex(self) -> str:
        """16 digits; 2^64 has 17."""
        return f"{self.end:#018x}"

    @property
    def selector(self) -> str:
        """The range as `shardSelector` of a list or watch."""
        return f"shardRange(object.metadata.uid, '{self.start_hex}', '{self.end_hex}')"


@dataclass(frozen=True, slots=True)
class Keyspace:
    """The objects whose hash is in one of the ranges."""

    ranges: tuple[HashRange, ...]
    """Ascending, without overlap, neighbours joined: see `join_ranges`."""
    by: PartitionBy = PartitionBy.UID

    def holds(self, obj: ObjectIdentity) -> bool:
        return self.holds_hash(hash_of(obj, self.by))

    def holds_hash(self, hashed: int) -> bool:
        place = bisect_right(self.ranges, hashed, key=lambda each: each.start)
        return place > 0 and hashed < self.ranges[place - 1].end

    @property
    def covers_everything(self) -> bool:
        return self.ranges == (HashRange(0, SPACE),)

    @property
    def shard_selector(self) -> str | None:
        """Selector for lists and watches; None if the server does not know the hash, or if it would exclude nothing."""
        if self.by is not PartitionBy.UID or self.covers_everything or not self.ranges:
            return None
        return " || ".join(each.selector for each in self.ranges)


EVERYTHING: Final = Keyspace((HashRange(0, SPACE),))


def join_ranges(ranges: Iterable[HashRange]) -> tuple[HashRange, ...]:
    """Return the ranges in ascending order, without empty ones, and with neighbours joined."""
    found: list[HashRange] = []
    for each in sorted(ranges):
        if each.start >= each.end:
            continue
        if found and found[-1].end == each.start:
            found[-1] = HashRange(found[-1].start, each.end)
        else:
            found.append(each)
    return tuple(found)


def hash_of(obj: ObjectIdentity, by: PartitionBy) -> int:
    match by:
        case PartitionBy.UID:
            return fnv1a64(obj.uid)
        case PartitionBy.NAMESPACE:
            return mix64(fnv1a64(obj.namespace))
        case PartitionBy.NAME:
            return mix64(fnv1a64(obj.name))


def partition_of(hashed: int, count: int) -> int:
    """Return which of `count` equal ranges contains the hash, from 0."""
    return (hashed * count) >> 64


def static_ranges(count: int) -> tuple[HashRange, ...]:
    """Return `count` ranges that cover every hash once; their sizes differ by at most one value."""
    bounds = [-(-index * SPACE // count) for index in range(count + 1)]
    return tuple(HashRange(start, end) for start, end in pairwise(bounds))


def static_partition(index: int, count: int, by: PartitionBy = PartitionBy.UID) -> Keyspace:
    """Return the partition with this index, from 0. Raises `BadPartition`."""
    if not (1 <= count <= MOST_PARTITIONS and 0 <= index < count):
        raise BadPartition(
            f"partition is {format_value(f'{index}/{count}')}, allowed: INDEX/COUNT with a count from 1 to "
            f"{MOST_PARTITIONS} and an "
            "index from 0 to one less than the count"
        )
    return Keyspace((static_ranges(count)[index],), by)


def parse_static(text: str, by: PartitionBy = PartitionBy.UID) -> Keyspace:
    """Parse a value such as `--partition 0/4`. Raises `BadPartition`."""
    match = _STATIC.fullmatch(text)
    if match is None:
        raise BadPartition(f"partition is {format_value(text)}, allowed: INDEX/COUNT such as 0/4, the first of four")
    return static_partition(int(match[1]), int(match[2]), by)

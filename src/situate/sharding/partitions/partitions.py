"""Which part of all objects a supervisor has: ranges of a 64-bit hash, here N equal ones.

By UID the hash is Kubernetes' own (KEP-5866), so that a server that can shard its lists and watches does the work; by
namespace or name it is mixed, since such keys differ in their last letters. Ranges that change owners are left to
`situate.sharding.partitions.slots`.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Any, Final, Protocol

from situate.objects.settings.section import shown
from situate.sharding.partitions.hashing import SPACE, fnv1a64, mixed64

MOST: Final = 4096
"""Static partitions that may be asked for."""
_STATIC: Final = re.compile(r"([0-9]{1,4})/([0-9]{1,4})", re.ASCII)


class BadPartition(ValueError):
    """No partition; the message names what was found, what is allowed and the next step."""


class PartitionBy(StrEnum):
    """What of an object is hashed."""

    UID = "uid"
    NAMESPACE = "namespace"
    NAME = "name"


class Identified(Protocol):
    """What membership is tested on: views of objects, facts for strategies."""

    @property
    def uid(self) -> str: ...
    @property
    def namespace(self) -> str: ...
    @property
    def name(self) -> str: ...


@dataclass(frozen=True, slots=True, order=True)
class HashRange:
    """From `start`, inclusive, to `end`, exclusive; the last one ends at 2^64."""

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
        """As `shardSelector` of a list or watch takes it."""
        return f"shardRange(object.metadata.uid, '{self.start_hex}', '{self.end_hex}')"


@dataclass(frozen=True, slots=True)
class Keyspace:
    """The objects whose hash lies in one of the ranges."""

    ranges: tuple[HashRange, ...]
    """Ascending, without overlap, neighbours joined: see `joined`."""
    by: PartitionBy = PartitionBy.UID

    def holds(self, obj: Identified) -> bool:
        return self.holds_hash(hash_of(obj, self.by))

    def holds_hash(self, hashed: int) -> bool:
        place = bisect_right(self.ranges, hashed, key=lambda each: each.start)
        return place > 0 and hashed < self.ranges[place - 1].end

    @property
    def whole(self) -> bool:
        return self.ranges == (HashRange(0, SPACE),)

    @property
    def shard_selector(self) -> str | None:
        """For lists and watches; None where the server cannot know our hash, or nothing would be left out."""
        if self.by is not PartitionBy.UID or self.whole or not self.ranges:
            return None
        return " || ".join(each.selector for each in self.ranges)

    def is_echoed_by(self, list_metadata: Mapping[str, Any]) -> bool:
        """Whether the server that answered has applied our selector; if not, every object must be tested here.

        A server without the feature ignores the parameter, and its answer holds everything.
        """
        info = list_metadata.get("shardInfo")
        return isinstance(info, Mapping) and self.shard_selector == info.get("selector") is not None


EVERYTHING: Final = Keyspace((HashRange(0, SPACE),))


def joined(ranges: Iterable[HashRange]) -> tuple[HashRange, ...]:
    """Ascending, empty ones left out, neighbours made one."""
    found: list[HashRange] = []
    for each in sorted(ranges):
        if each.start >= each.end:
            continue
        if found and found[-1].end == each.start:
            found[-1] = HashRange(found[-1].start, each.end)
        else:
            found.append(each)
    return tuple(found)


def hash_of(obj: Identified, by: PartitionBy) -> int:
    match by:
        case PartitionBy.UID:
            return fnv1a64(obj.uid)
        case PartitionBy.NAMESPACE:
            return mixed64(fnv1a64(obj.namespace))
        case PartitionBy.NAME:
            return mixed64(fnv1a64(obj.name))


def partition_of(hashed: int, count: int) -> int:
    """Which of `count` equal ranges, from 0."""
    return (hashed * count) >> 64


def static_ranges(count: int) -> tuple[HashRange, ...]:
    """`count` ranges that cover everything once; their sizes differ by at most one value."""
    bounds = [-(-index * SPACE // count) for index in range(count + 1)]
    return tuple(HashRange(start, end) for start, end in pairwise(bounds))


def static_partition(index: int, count: int, by: PartitionBy = PartitionBy.UID) -> Keyspace:
    """The one with this index, from 0. Raises `BadPartition`."""
    if not (1 <= count <= MOST and 0 <= index < count):
        raise BadPartition(
            f"partition {shown(f'{index}/{count}')}: allowed is INDEX/COUNT with a count from 1 to {MOST} and an index "
            "from 0 to one less than the count"
        )
    return Keyspace((static_ranges(count)[index],), by)


def parse_static(text: str, by: PartitionBy = PartitionBy.UID) -> Keyspace:
    """What `--partition 0/4` means. Raises `BadPartition`."""
    match = _STATIC.fullmatch(text)
    if match is None:
        raise BadPartition(f"partition {shown(text)}: allowed is INDEX/COUNT such as 0/4, the first of four")
    return static_partition(int(match[1]), int(match[2]), by)

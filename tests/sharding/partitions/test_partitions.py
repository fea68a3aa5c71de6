"""Static partitions: every hash in one of them, as the server's selector would have it."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from situate.sharding.partitions.hash_arrays import fnv1a64_many
from situate.sharding.partitions.hashing import SPACE
from situate.sharding.partitions.partitions import (
    EVERYTHING,
    BadPartition,
    HashRange,
    Keyspace,
    PartitionBy,
    join_ranges,
    parse_static,
    partition_of,
    static_partition,
    static_ranges,
)
from tests.sharding.partitions.many_hashes import hashes_of, partitions_of

HASHES = st.integers(0, SPACE - 1)


@dataclass(frozen=True)
class Named:
    uid: str = ""
    namespace: str = ""
    name: str = ""


@given(HASHES, st.integers(1, 100))
@pytest.mark.rule("sharding:K10")
def test_every_hash_is_in_the_range_of_its_partition_and_in_no_other(hashed: int, count: int) -> None:
    holders = [index for index, each in enumerate(static_ranges(count)) if hashed in each]
    assert holders == [partition_of(hashed, count)]
    assert static_partition(holders[0], count).holds_hash(hashed)


@pytest.mark.parametrize("count", [1, 2, 3, 7, 64, 4096])
def test_ranges_cover_everything_once_and_boundaries_belong_to_the_right(count: int) -> None:
    ranges = static_ranges(count)
    assert (ranges[0].start, ranges[-1].end) == (0, SPACE)
    assert join_ranges(ranges) == (HashRange(0, SPACE),)
    for index, each in enumerate(ranges):
        assert partition_of(each.start, count) == partition_of(each.end - 1, count) == index


@given(st.lists(HASHES, max_size=20), st.sampled_from([1, 2, 3, 5, 1000, 4096]))
def test_many_hashes_are_in_the_partitions_of_each(hashes: list[int], count: int) -> None:
    array = fnv1a64_many([""] * len(hashes))
    array[:] = hashes
    assert partitions_of(array, count).tolist() == [partition_of(each, count) for each in hashes]


def test_the_selector_is_what_the_server_takes() -> None:
    half = static_partition(1, 2)
    assert half.shard_selector == "shardRange(object.metadata.uid, '0x8000000000000000', '0x10000000000000000')"
    assert EVERYTHING.shard_selector is None
    assert static_partition(0, 2, PartitionBy.NAMESPACE).shard_selector is None  # the server does not mix
    two = Keyspace((HashRange(0, 16), HashRange(32, 48)))
    first, second = (str(two.shard_selector)).split(" || ")
    assert first.endswith("'0x0000000000000000', '0x0000000000000010')")
    assert second.endswith("'0x0000000000000020', '0x0000000000000030')")


@pytest.mark.parametrize("by", [PartitionBy.NAMESPACE, PartitionBy.NAME])
@pytest.mark.rule("sharding:K10")
def test_names_that_differ_at_their_ends_spread_evenly(by: PartitionBy) -> None:
    keys = [f"team-{number:03}" for number in range(1, 101)]
    raw = partitions_of(fnv1a64_many(keys), 4).tolist()
    assert [raw.count(index) for index in range(4)] == [0, 0, 1, 99]
    mixed = partitions_of(hashes_of(keys, by), 4).tolist()
    assert max(mixed.count(index) for index in range(4)) / 25 <= 1.6
    for key, index in zip(keys, mixed, strict=True):
        assert static_partition(index, 4, by).holds(Named(**{by.value: key}))


def test_membership_looks_at_what_the_partition_is_by() -> None:
    obj = Named(uid="475a45d6-4fb0-4bca-b363-b687100e2630", namespace="shop", name="web")
    for by in PartitionBy:
        holders = [index for index in range(5) if static_partition(index, 5, by).holds(obj)]
        assert holders == [partitions_of(hashes_of([str(getattr(obj, by.value))], by), 5)[0]]


@pytest.mark.parametrize("text", ["", "1", "1/", "2/2", "-1/2", "0/0", "0/4097", "0/99999", "0x1/2", "0/2 ", "٠/2"])
def test_what_is_no_partition_is_refused_with_what_is_allowed(text: str) -> None:
    with pytest.raises(BadPartition, match=rf"{re.escape(text)}.*allowed: INDEX/COUNT"):
        parse_static(text)


def test_a_partition_is_read_from_its_text() -> None:
    assert parse_static("3/4") == static_partition(3, 4)
    assert parse_static("0/1").covers_everything

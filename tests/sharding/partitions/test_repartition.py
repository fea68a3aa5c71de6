"""Who gets which slots: as few as can be move, and only to or from partitions that come or go."""

from __future__ import annotations

import random
import uuid
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from situate.sharding.partitions.partitions import PartitionBy
from situate.sharding.partitions.repartition import (
    merge_partitions,
    resize_owners,
    split_partition,
)
from situate.sharding.partitions.slots import SLOTS, BadTable, even_table
from tests.sharding.partitions.many_hashes import hashes_of


@pytest.mark.parametrize("count", [1, 2, 3, 4, 16])
@pytest.mark.rule("sharding:K10")
def test_one_more_partition_gets_its_share_and_nothing_else_moves(count: int) -> None:
    chance = random.Random(count)
    uids = [str(uuid.UUID(int=chance.getrandbits(128), version=4)) for _ in range(20_000)]
    slots = (hashes_of(uids, PartitionBy.UID) >> 52).tolist()
    load = Counter(slots)
    before = even_table(count).owners()
    after = resize_owners(before, range(count + 1), [load[slot] for slot in range(SLOTS)])
    moved = sum(before[slot] != after[slot] for slot in slots)
    assert moved <= 1.05 / (count + 1) * len(uids) + max(load.values())
    assert all(now in (was, count) for was, now in zip(before, after, strict=True))


@settings(max_examples=30)
@given(st.lists(st.integers(0, 6), min_size=1, max_size=7, unique=True), st.integers(1, 5))
def test_partitions_come_and_go(wanted: list[int], count: int) -> None:
    before = even_table(count).owners()
    after = resize_owners(before, wanted)
    stay = set(wanted) & set(before)
    assert set(after) == set(wanted)
    for was, now in zip(before, after, strict=True):
        assert was == now or was not in stay or now not in stay
    sizes = Counter(after)
    if not stay or stay == set(before):
        assert max(sizes.values()) - min(sizes.values()) <= max(1, -(-SLOTS // count) - SLOTS // len(wanted))


@pytest.mark.rule("sharding:K10")
def test_a_split_moves_exactly_half_into_the_new_one_and_a_merge_touches_nothing_else() -> None:
    before = even_table(4).owners()
    after = split_partition(before, 2, 9)
    assert Counter(after) == {0: 1024, 1: 1024, 2: 512, 9: 512, 3: 1024}
    assert all(was == now or (was, now) == (2, 9) for was, now in zip(before, after, strict=True))
    back = merge_partitions(after, 9, 2)
    assert back == before
    assert Counter(split_partition([0] * 5 + [1] * (SLOTS - 5), 0, 2))[2] == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda: split_partition(even_table(2).owners(), 7, 8), "has 0 slots"),
        (lambda: split_partition(even_table(2).owners(), 0, 1), "already has slots"),
        (lambda: merge_partitions(even_table(2).owners(), 0, 0), "cannot be merged"),
        (lambda: merge_partitions(even_table(2).owners(), 0, 5), "allowed: two different partitions of 0, 1"),
        (lambda: resize_owners(even_table(2).owners(), []), "number of partitions is 0"),
    ],
)
def test_what_cannot_be_is_refused_by_name(change: object, message: str) -> None:
    assert callable(change)
    with pytest.raises(BadTable, match=message):
        change()

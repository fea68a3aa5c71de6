"""The elastic table: reading whatever stands in the ConfigMap, and owners that change in two versions."""

from __future__ import annotations

import json
from itertools import cycle, islice
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from situate.sharding.partitions.hashing import SPACE
from situate.sharding.partitions.repartition import resize_owners, split_partition
from situate.sharding.partitions.slots import (
    SLOTS,
    BadTable,
    SlotRange,
    even_table,
    freeze_slots,
    hand_over_obstacles,
    hand_over_slots,
    parse_table,
    slot_of,
    table_of,
    thaw_slots,
    transition_mistakes,
)

GOOD: dict[str, Any] = {
    "version": 7,
    "slots": 4096,
    "ranges": [{"start": 0, "end": 2048, "partition": 0}, {"start": 2048, "end": 4096, "partition": 1}],
}


def with_range(number: int, **fields: Any) -> str:
    ranges = [{**each} for each in GOOD["ranges"]]
    ranges[number].update(fields)
    return json.dumps({**GOOD, "ranges": ranges})


@pytest.mark.rule("sharding:K10")
def test_a_table_is_read_as_the_reference_writes_it() -> None:
    table, mistakes = parse_table(json.dumps(GOOD))
    assert not mistakes
    assert table is not None
    assert table.version == 7
    assert table.partitions == (0, 1)
    assert table.range_of(0) == SlotRange(0, 2048, 0)
    assert table.range_of(SPACE - 1) == SlotRange(2048, 4096, 1)
    assert table.keyspace(1).shard_selector == (
        "shardRange(object.metadata.uid, '0x8000000000000000', '0x10000000000000000')"
    )


@pytest.mark.parametrize(
    ("text", "path"),
    [
        pytest.param("", "the document", id="empty"),
        pytest.param("{", "the document", id="no JSON"),
        pytest.param("[]", "the document", id="a list"),
        pytest.param("null", "the document", id="null"),
        pytest.param("[" * 100_000, "the document", id="too deep"),
        pytest.param(" " * (1 << 21), "the document", id="too long"),
        pytest.param('"\\ud800"', "the document", id="half a character"),
        pytest.param(json.dumps({**GOOD, "version": 0}), "version", id="version 0"),
        pytest.param(json.dumps({**GOOD, "version": True}), "version", id="a boolean for a number"),
        pytest.param(json.dumps({**GOOD, "version": 10**30}), "version", id="a huge version"),
        pytest.param(json.dumps({**GOOD, "slots": 1024}), "slots", id="another number of slots"),
        pytest.param(json.dumps({**GOOD, "ranges": []}), "ranges", id="no ranges"),
        pytest.param(json.dumps({**GOOD, "ranges": {}}), "ranges", id="ranges of a wrong type"),
        pytest.param(json.dumps({**GOOD, "colour": 1}), "colour", id="an unknown key"),
        pytest.param(with_range(0, end="2048"), "ranges[0].end", id="text for a number"),
        pytest.param(with_range(0, start=-1), "ranges[0].start", id="negative"),
        pytest.param(with_range(1, end=4097), "ranges[1].end", id="beyond the last slot"),
        pytest.param(with_range(1, partition=-1), "ranges[1].partition", id="a negative partition"),
        pytest.param(with_range(1, start=2047), "ranges[1].start", id="an overlap"),
        pytest.param(with_range(1, start=2049), "ranges[1].start", id="a gap"),
        pytest.param(with_range(1, end=4095), "ranges[1].end", id="the last slot is missing"),
        pytest.param(with_range(0, start=2048), "ranges[0].end", id="an empty range"),
        pytest.param(with_range(0, to=0), "ranges[0].to", id="frozen for its owner"),
        pytest.param(with_range(0, partitoin=3), "ranges[0].partitoin", id="a slip"),
    ],
)
def test_a_hostile_table_is_refused_with_the_path_of_the_mistake(text: str, path: str) -> None:
    table, mistakes = parse_table(text)
    assert table is None
    assert path in [each.path or "the document" for each in mistakes]
    assert all(str(each) for each in mistakes)


@given(st.text(max_size=200) | st.recursive(st.none() | st.integers() | st.text(max_size=5), lambda of: (
    st.lists(of, max_size=3) | st.dictionaries(st.sampled_from(["version", "slots", "ranges", "start"]), of)
)).map(json.dumps))  # fmt: skip
def test_no_text_whatever_raises(text: str) -> None:
    table, mistakes = parse_table(text)
    assert (table is None) == bool(mistakes)


def repeated(runs: list[tuple[int, int]]) -> tuple[int, ...]:
    """Runs of owners, over and over until every slot has one."""
    return tuple(islice(cycle([owner for size, owner in runs for _ in range(size)]), SLOTS))


OWNERS = st.lists(st.tuples(st.integers(1, SLOTS), st.integers(0, 5)), min_size=1, max_size=8).map(repeated)


@settings(max_examples=30)
@given(OWNERS, OWNERS)
@pytest.mark.rule("sharding:K10")
def test_tables_survive_being_written_and_change_owners_in_two_versions(
    before: tuple[int, ...], after: tuple[int, ...]
) -> None:
    table = table_of(3, before)
    first = freeze_slots(table, after)
    second = hand_over_slots(first)
    for each in (table, first, second):
        assert parse_table(each.to_text()) == (each, ())
    assert first.owners() == before  # open work goes on where it is
    assert second.owners() == after
    moving = [number for number in range(SLOTS) if before[number] != after[number]]
    assert [slot for each in first.frozen_slots for slot in range(each.start, each.end)] == moving
    assert second.version == (5 if moving else 3)
    assert not transition_mistakes(table, first)
    assert not transition_mistakes(first, second)
    assert not transition_mistakes(first, thaw_slots(first))
    assert thaw_slots(first).owners() == before
    if moving:
        assert transition_mistakes(table, table_of(4, after))  # unannounced


@settings(max_examples=30)
@given(OWNERS, OWNERS, st.integers(0, SPACE - 1))
def test_a_frozen_slot_is_assigned_by_nobody_and_every_other_by_its_owner(
    before: tuple[int, ...], after: tuple[int, ...], hashed: int
) -> None:
    table = freeze_slots(table_of(1, before), after)
    is_frozen = before[slot_of(hashed)] != after[slot_of(hashed)]
    responsible = [each for each in range(6) if table.keyspace(each).holds_hash(hashed)]
    assigning = [each for each in range(6) if table.assignable_keyspace(each).holds_hash(hashed)]
    assert responsible == [before[slot_of(hashed)]]
    assert assigning == ([] if is_frozen else responsible)


def test_a_hand_over_waits_for_confirmations_and_for_open_work() -> None:
    table = freeze_slots(even_table(2), split_partition(even_table(2).owners(), 0, 2))
    assert hand_over_obstacles(table, {0: 1, 1: 2}, {1500: 3, 4000: 9}) == [
        "partition 0 has confirmed version 1, not version 2",
        "3 objects of frozen slots are still assigned",
    ]
    assert hand_over_obstacles(table, {0: 2}, {4000: 9}) == []


def test_one_change_at_a_time() -> None:
    table = freeze_slots(even_table(2), resize_owners(even_table(2).owners(), range(3)))
    with pytest.raises(BadTable, match="hand them over or thaw them"):
        freeze_slots(table, even_table(1).owners())


def test_an_older_version_and_an_unannounced_owner_are_named() -> None:
    table = even_table(2)
    moved = table_of(2, [1] * 10 + list(table.owners()[10:]))
    assert [str(each) for each in transition_mistakes(table, moved)] == [
        "slots 0 to 9: found partition 1, allowed: partition 0; to move the slots, first write a version "
        "that freezes them with to: 1"
    ]
    assert transition_mistakes(moved, table)[0].path == "version"
    assert not transition_mistakes(table, table_of(9, moved.owners()))  # versions between were missed

"""Whose an object is while the table changes under it."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

import pytest

from situate.sharding.model.decision_inputs import Ownership
from situate.sharding.partitions.ownership import static_ownership, table_ownership
from situate.sharding.partitions.partitions import PartitionBy, hash_of, static_partition
from situate.sharding.partitions.repartition import split_partition
from situate.sharding.partitions.slots import even_table, freeze_slots, hand_over_slots

OURS, FROZEN, FOREIGN = Ownership.OURS, Ownership.FROZEN, Ownership.FOREIGN


@dataclass(frozen=True)
class Named:
    uid: str
    namespace: str = ""
    name: str = ""


OBJECTS = [
    Named(str(uuid.uuid5(uuid.NAMESPACE_OID, str(number))), f"team-{number:03}", f"web-{number}")
    for number in range(200)
]


@pytest.mark.parametrize("by", PartitionBy)
@pytest.mark.rule("sharding:K10")
def test_each_object_is_one_partitions_alone(by: PartitionBy) -> None:
    owners = [static_ownership(static_partition(index, 3, by)) for index in range(3)]
    for obj in OBJECTS:
        assert sorted(owner(obj).value for owner in owners) == ["foreign", "foreign", "ours"]


@pytest.mark.rule("sharding:K10")
def test_at_no_moment_do_two_supervisors_assign_an_object_and_in_the_end_the_new_one_does() -> None:
    """Whatever either of the two has confirmed, and whichever version it has read already."""
    first = even_table(1)
    second = freeze_slots(first, split_partition(first.owners(), 0, 1))
    third = hand_over_slots(second)
    versions = (first, second, third)
    moved = [obj for obj in OBJECTS if third.range_of(hash_of(obj, PartitionBy.UID)).partition == 1]
    assert 0 < len(moved) < len(OBJECTS)
    # a hand-over waits until the old owner has confirmed the version that freezes, so it has read no older one then
    for confirmed, newest in ((1, 1), (1, 2), (2, 2), (2, 3), (3, 3)):
        old = table_ownership(versions[confirmed - 1], versions[newest - 1], 0)
        new = table_ownership(third if newest == 3 else first, versions[newest - 1], 1)
        for obj in moved:
            assert old(obj) is (OURS if newest == 1 else FROZEN if newest == 2 else FOREIGN)
            assert new(obj) is (OURS if newest == 3 else FOREIGN)
        for obj in OBJECTS:
            assert obj in moved or (old(obj), new(obj)) == (OURS, FOREIGN)


def test_what_the_newest_version_gives_is_ours_only_once_it_is_confirmed() -> None:
    first = even_table(1)
    second = freeze_slots(first, [1] * len(first.owners()))
    third = hand_over_slots(second)
    assert table_ownership(second, third, 1)(OBJECTS[0]) is FOREIGN
    assert table_ownership(third, third, 1)(OBJECTS[0]) is OURS

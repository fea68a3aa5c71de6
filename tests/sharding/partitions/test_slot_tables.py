"""What a supervisor makes of the ConfigMap in which the elastic table stands."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from situate.objects.kinds.config_maps import ConfigMap
from situate.sharding.model.decision_inputs import Ownership
from situate.sharding.partitions.slot_tables import ENTRY, PartitionTables
from situate.sharding.partitions.slots import SlotTable, even_table, freeze_slots, hand_over_slots, table_of

pytestmark = pytest.mark.rule("sharding:K10")
EVEN = even_table(2)
FROZEN = freeze_slots(EVEN, (0,) * 1024 + (1,) * 3072)
HANDED = hand_over_slots(FROZEN)


@dataclass
class Obj:
    uid: str = "a"
    namespace: str = ""
    name: str = ""


def config_map(table: SlotTable | str) -> ConfigMap:
    return ConfigMap(data={ENTRY: table if isinstance(table, str) else table.to_text()})


def seen(*tables: SlotTable | str) -> PartitionTables:
    found = PartitionTables(0)
    for each in tables:
        found = found.with_read(config_map(each))
    return found


def test_nothing_is_ours_before_a_table_is_confirmed() -> None:
    objects = [Obj(str(number)) for number in range(50)]
    before = seen(EVEN)
    assert {before.ownership_test()(each) for each in objects} == {Ownership.FOREIGN}
    after = before.with_confirmed(EVEN).ownership_test()
    assert [after(each) is Ownership.OURS for each in objects] == [EVEN.keyspace(0).holds(each) for each in objects]


def test_what_is_frozen_is_so_at_once_and_what_is_given_when_it_is_confirmed() -> None:
    ours = next(
        each
        for each in map(Obj, map(str, range(999)))
        if FROZEN.keyspace(0).holds(each) and not FROZEN.assignable_keyspace(0).holds(each)
    )
    found = seen(EVEN).with_confirmed(EVEN).with_read(config_map(FROZEN))
    assert found.ownership_test()(ours) is Ownership.FROZEN
    theirs = PartitionTables(1).with_read(config_map(FROZEN)).with_confirmed(FROZEN).with_read(config_map(HANDED))
    assert theirs.ownership_test()(ours) is Ownership.FOREIGN
    assert theirs.keyspace().holds(ours), "it is known of already"
    assert theirs.with_confirmed(HANDED).ownership_test()(ours) is Ownership.OURS


@pytest.mark.parametrize("bad", ["", "{", '{"version": 2, "slots": 4096, "ranges": []}', EVEN.to_text()[:-1]])
def test_what_cannot_be_read_leaves_the_last_good_one_in_force(bad: str) -> None:
    found = seen(EVEN, bad)
    assert found.newest == EVEN
    assert "version 1 remains in use" in found.problem
    assert not found.with_read(config_map(FROZEN)).problem


def test_neither_an_older_version_nor_an_unannounced_owner_is_followed() -> None:
    unannounced = table_of(2, (0,) * 1024 + (1,) * 3072)
    for bad in (table_of(2, EVEN.owners()), unannounced):
        found = seen(FROZEN if bad is not unannounced else EVEN, bad)
        assert found.newest in (FROZEN, EVEN)
        assert "remains in use" in found.problem


def test_without_a_table_that_is_said() -> None:
    assert "the ConfigMap does not exist" in PartitionTables(0).with_read(None).problem
    assert f"no entry {ENTRY!r}" in PartitionTables(0).with_read(ConfigMap()).problem
    assert "no object is assigned" in PartitionTables(0).with_read(None).problem

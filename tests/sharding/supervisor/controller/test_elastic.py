"""Supervisors of two partitions whose slots change owners while work goes on."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

from situate.objects.decoding.codec import decode
from situate.objects.resources import LEASES
from situate.sharding.partitions.hashing import fnv1a64
from situate.sharding.partitions.slot_tables import ENTRY
from situate.sharding.partitions.slots import (
    SlotTable,
    even_table,
    freeze_slots,
    hand_over_obstacles,
    hand_over_slots,
    slot_of,
)
from situate.sharding.supervisor.report import confirmed_versions
from situate.testing.sharding.world.executor_world import NAMESPACE
from situate.testing.sharding.world.supervisor_world import LEASES as LEASES_PATH
from situate.testing.sharding.world.supervisor_world import SupervisorProcess, SupervisorWorld
from situate.testing.virtual_time.network import NO_FAULTS, NetworkFaults

MAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
EVEN = even_table(2)


class Elastic:
    def __init__(self, town: SupervisorWorld) -> None:
        self.town = town
        town.call("POST", MAPS, self._content(EVEN.to_text()))
        self.leaders = [self.leader(index) for index in range(2)]
        self.members = [
            town.create_executor(f"e{index}", partition=str(index), pool=f"p{index}", concurrency=50)
            for index in range(2)
        ]

    def leader(self, index: int, name: str = "") -> SupervisorProcess:
        scope: dict[str, Any] = {"partition": str(index), "pool": f"p{index}", "partition_table": "table"}
        return self.town.start_supervisor(name or f"s{index}", **scope)

    def put(self, text: str) -> None:
        self.town.call("PUT", f"{MAPS}/table", self._content(text))

    def confirmed(self) -> dict[int, int]:
        leases = {}
        for index, leader in enumerate(self.leaders):
            name = leader.supervisor.scope.lease.name
            if self.town.api.store.get("leases.coordination.k8s.io", NAMESPACE, name) is not None:
                content = self.town.call("GET", f"{LEASES_PATH}/{name}")
                leases[index] = decode(LEASES, json.dumps(content).encode())
        return confirmed_versions(leases)

    def waits_for(self, table: SlotTable) -> list[str]:
        assigned: dict[int, int] = {}
        for view in self.town.views():
            if view.holder is not None:
                slot = slot_of(fnv1a64(view.uid))
                assigned[slot] = assigned.get(slot, 0) + 1
        return hand_over_obstacles(table, self.confirmed(), assigned)

    def wrong(self, table: SlotTable) -> list[str]:
        """Objects that somebody of another partition holds, or nobody."""
        return [
            view.name
            for view in self.town.views()
            if view.executor != f"e{table.range_of(fnv1a64(view.uid)).partition}"
        ]

    def _content(self, text: str) -> dict[str, Any]:
        return {"metadata": {"name": "table"}, "data": {ENTRY: text}}


def kept(leader: SupervisorProcess) -> set[str]:
    """Names of the objects of which the supervisor keeps more than that they are there."""
    return {each.metadata.name for each in leader.supervisor.store.list() if each.content}


def foreseen(town: SupervisorWorld, table: SlotTable, partition: int) -> set[str]:
    """Those that are the partition's, or will be when what is frozen is handed over."""
    slots = {view.name: table.range_of(fnv1a64(view.uid)) for view in town.views()}
    return {name for name, at in slots.items() if partition in (at.partition, at.to)}


@pytest.fixture
def elastic(town: SupervisorWorld) -> Elastic:
    return Elastic(town)


@pytest.mark.rule("sharding:K10", "sharding:S5")
def test_slots_change_owners_in_two_versions_and_nothing_else_moves(elastic: Elastic) -> None:
    town = elastic.town
    town.tolerated_invariants.add(
        "S10"
    )  # terms of two Leases are compared; that none goes back on an object, `forbidden` shows
    assert town.run(20, lambda: elastic.confirmed() == {0: 1, 1: 1})
    elastic.leaders[0].stop()
    elastic.leaders[0] = elastic.leader(0, "s0-later")  # of a later term than the other partition's
    for number in range(24):
        town.create(f"r-{number}")
    assert town.run(20, lambda: not elastic.wrong(EVEN))
    assert elastic.confirmed() == {0: 1, 1: 1}
    before = {view.name: view.epoch for view in town.views()}
    freezing = freeze_slots(EVEN, (0,) * 1024 + (1,) * 3072)
    after = hand_over_slots(freezing)
    moved = {*elastic.wrong(after)}
    assert moved

    assert [kept(leader) for leader in elastic.leaders] == [foreseen(town, EVEN, index) for index in range(2)]
    elastic.put(freezing.to_text())
    town.create("frozen-or-not")
    assert town.run(20, lambda: not elastic.waits_for(freezing))
    town.run(10)
    for view in town.views():
        at = freezing.range_of(fnv1a64(view.uid))
        assert (view.executor == "") == (at.to is not None), "nobody assigns what is frozen, everybody the rest"
    assert [kept(leader) for leader in elastic.leaders] == [foreseen(town, freezing, index) for index in range(2)]
    elastic.put(after.to_text())
    assert town.run(20, lambda: not elastic.wrong(after))
    assert [kept(leader) for leader in elastic.leaders] == [foreseen(town, after, index) for index in range(2)]
    epochs = {view.name: view.epoch for view in town.views() if view.name in before}
    assert epochs == {name: epoch + (name in moved) for name, epoch in before.items()}


@pytest.mark.rule("sharding:K10")
def test_a_bad_table_leaves_the_last_good_one_in_force_and_is_told(elastic: Elastic) -> None:
    town = elastic.town
    assert town.run(20, lambda: elastic.confirmed() == {0: 1, 1: 1})
    elastic.put('{"version": 2, "slots": 4096, "ranges": [{"start": 0, "end": 17, "partition": 0}]}')
    town.create("r")
    assert town.run(10, lambda: "r" in town.first_assigned_at)
    assert not elastic.wrong(EVEN)
    events = town.call("GET", f"/api/v1/namespaces/{NAMESPACE}/events")["items"]
    (told,) = {each["message"] for each in events if each["reason"] == "BadPartitionTable"}
    assert "version 1 remains in use" in told


@pytest.mark.rule("sharding:K10", "sharding:S10")
def test_whoever_leads_next_confirms_anew(elastic: Elastic) -> None:
    town = elastic.town
    assert town.run(20, lambda: elastic.confirmed() == {0: 1, 1: 1})
    elastic.leaders[0].crash()
    elastic.leader(0, "s0-b")
    assert town.run(40, lambda: 0 not in elastic.confirmed())
    assert town.run(10, lambda: elastic.confirmed() == {0: 1, 1: 1})


@pytest.mark.rule("sharding:K10", "sharding:B11")
def test_before_there_is_a_table_nothing_is_assigned_and_nobody_is_ready(town: SupervisorWorld) -> None:
    town.create_executor("e0", partition="0")
    leader = town.start_supervisor(partition="0", partition_table="table")
    town.create("r")
    town.run(20)
    assert "r" not in town.first_assigned_at
    assert "the ConfigMap does not exist" in str(leader.supervisor.not_ready())
    town.call("POST", MAPS, {"metadata": {"name": "table"}, "data": {ENTRY: even_table(1).to_text()}})
    assert town.run(10, lambda: "r" in town.first_assigned_at)
    assert leader.supervisor.not_ready() is None


@pytest.mark.rule("sharding:K10", "sharding:S3", "sharding:S5", "sharding:S10")
@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.verify) for seed in range(2, 6))])
def test_slots_go_to_and_fro_while_leaders_die_and_the_network_is_bad(elastic: Elastic, seed: int) -> None:
    """Whoever changes the table does so when nothing is waited for; each partition has a supervisor in reserve."""
    town, rng, lives = elastic.town, Random(seed), 0
    town.tolerated_invariants.add(
        "S10"
    )  # terms of two Leases are compared; that none goes back on an object, `forbidden` shows
    town.s4_slack_s = 1e9  # events are late: what a supervisor knows is old
    for index in range(2):
        elastic.leader(index, f"s{index}-spare")
    table = EVEN
    changes = 0
    for number in range(16):
        town.create(f"r-{number}")
    for second in range(240):
        if second % 20 == 3:
            town.network.faults = NetworkFaults(
                latency_s=(0.0005, 0.3), lose_answer=0.1, lose_event=0.2, event_delay_s=rng.choice([0.0, 3.0])
            )
        elif second % 20 == 15:
            town.network.faults = NO_FAULTS
        if second % 30 == 10:
            leading = [each for each in town.leaders if each.is_leader]
            if leading:
                victim = rng.choice(leading)
                victim.crash()
                lives += 1
                elastic.leader(int(victim.supervisor.scope.partition), f"again-{lives}")
        if second % 5 == 0 and not (table.frozen_slots and elastic.waits_for(table)):
            table = (
                hand_over_slots(table)
                if table.frozen_slots
                else freeze_slots(table, split_at(rng.randrange(512, 3584)))
            )
            elastic.put(table.to_text())
            changes += 1
        town.run(1.0)
    town.network.faults = NO_FAULTS
    assert town.run(60, lambda: not (table.frozen_slots and elastic.waits_for(table)))
    table = hand_over_slots(table)
    elastic.put(table.to_text())
    assert town.run(60, lambda: not elastic.wrong(table))
    assert changes > 6


def split_at(slot: int) -> tuple[int, ...]:
    return (0,) * slot + (1,) * (4096 - slot)

"""What is told of decisions, once each: by an Event and a line of the log (B41)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from situate.vm.config.settings import Deadlines
from situate.vm.model.actions import Action, Evict, Notify, StartMove
from situate.vm.model.events import TimerFired, WriteResult
from situate.vm.model.policy import Rules
from tests.vm.ledger.grants.test_pod_resize import pending
from tests.vm.objects import container, node, pod
from tests.vm.town import Town, both, only
from tests.vm.yard import Yard, running


def told(actions: Iterable[Action]) -> list[tuple[str, str, str]]:
    return [(each.about.name, each.reason, each.message) for each in only(actions, Notify)]


def reasons(actions: Iterable[Action]) -> list[str]:
    return [reason for _, reason, _ in told(actions)]


def short_of_three(rules: Rules | None = None) -> Town:
    town = Town(rules, n1=10, n2=10)
    town.vm("A", "n1", 4)
    town.vm("B", "n1", 3, migratable=True)
    town.vm("P", "n1", 3)
    town.start()
    return town


@pytest.mark.rule("vm:B41")
def test_a_denial_is_told_once_for_as_long_as_the_wish_stands() -> None:
    town = short_of_three()
    denied = ("A", "WaitsForRoom", "The request is short by 3m cpu and 3 memory: node n1 has too little free capacity")

    assert told(town.ask("A", 7)) == [denied]
    assert told(town.ask("A", 7)) == []
    assert told(town.ask("A", 4)) == []
    assert told(town.ask("A", 7)) == [denied]
    assert [message for _, _, message in told(town.ask("A", 8))] == [
        "The request is short by 4m cpu and 4 memory: node n1 has too little free capacity"
    ]
    assert told(town.ask("A", 5)) == [], "of what was denied it asks for a part"


@pytest.mark.rule("vm:B41")
def test_what_concerns_the_pod_that_a_machine_runs_in_is_told_of_the_machine() -> None:
    town = short_of_three()
    machine = town.pod("A").machine
    assert machine is not None

    asked = town.ask("A", 7) + town.wait(5.0)

    assert {each.reason: each.about for each in only(asked, Notify) if each.about.name == "A"} == {
        "WaitsForRoom": machine.ref,
        "RoomIsMade": machine.ref,
    }


@pytest.mark.rule("vm:B41")
def test_a_part_is_a_denial_of_the_rest_and_a_grant_is_none() -> None:
    town = Town(n1=10)
    town.vm("A", "n1", 4)
    town.start()

    assert told(town.ask("A", 7)) == []
    assert [message for _, _, message in told(town.ask("A", 12))] == [
        "The request is short by 2m cpu and 2 memory: node n1 has too little free capacity"
    ]


@pytest.mark.rule("vm:B41", "vm:B35")
def test_a_resize_for_which_there_is_room_is_no_denial_before_the_kubelet_has_looked() -> None:
    """Every resize that was granted was told of as one that the kubelet finds no room for."""

    def web(cpu: str, generation: int, observed: int, *conditions: Any) -> None:
        status = running({"cpu": "1", "memory": "1Gi"}, *conditions) | {"observedGeneration": observed}
        requests, metadata = container(cpu=cpu, memory="1Gi"), {"generation": generation}
        yard.see(pod("web", requests, nodeName="n1", metadata=metadata, status=status))

    yard = Yard(node("n1", "8", "16Gi"))
    web("1", 1, 1)
    web("4", 2, 1)
    assert told(yard.done) == []
    web("4", 2, 2, pending("Deferred", 2))
    put_off = ("web", "WaitsForRoom", "The request is short by 3 cpu: the kubelet of node n1 defers the resize")
    assert told(yard.done) == [put_off]
    web("4", 2, 2, pending("Deferred", 2))
    assert told(yard.done) == []

    web("20", 3, 2)
    assert [message for _, _, message in told(yard.done)] == [
        "The request is short by 19 cpu: node n1 has too little free capacity"
    ], "that is known before"
    web("20", 3, 3, pending("Deferred", 3))
    assert told(yard.done) == []


@pytest.mark.rule("vm:B41", "vm:D13")
def test_who_is_being_moved_is_told_that() -> None:
    town = short_of_three()
    town.live(town.world.start_manual_migration("B", town.now))
    town.live(town.world.freeze(next(iter(town.world.migrations))))

    assert [message for _, _, message in told(town.ask("B", 4))] == [
        "The request is short by 1m cpu and 1 memory: the VM is being migrated"
    ]


@pytest.mark.rule("vm:B41", "vm:B4")
def test_who_may_not_have_what_is_free_is_told_that_others_may() -> None:
    town = short_of_three()
    town.ask("A", 7)
    move = town.made_room("A")
    town.moved(move)
    town.live(town.world.start_manual_migration("A", town.now))
    town.live(town.world.freeze(next(name for name in town.world.migrations if name.startswith("by-hand"))))
    town.gone("B")

    assert [message for _, _, message in told(town.ask("P", 4))] == [
        "The request is short by 1m cpu and 1 memory: the free capacity of node n1 is reserved for default/A"
    ]


@pytest.mark.rule("vm:B41", "vm:B1")
def test_a_move_is_told_to_who_moves_and_to_whom_it_makes_room_for() -> None:
    town = short_of_three(Rules(deadlines=Deadlines(unbound_s=100.0)))
    town.ask("A", 7)

    town.now += 5.0
    assert told(town.tell(TimerFired())) == [
        ("B", "MoveBegins", "The VM migrates from node n1 to node n2 to free capacity for default/A"),
        (
            "A",
            "RoomIsMade",
            "VM default/B migrates from node n1 to node n2 to free capacity for this request: 3m cpu and 3 memory",
        ),
    ]
    town.now += 30.0
    again = town.tell(TimerFired())
    assert only(again, StartMove), "it was not heard of, so it is asked for again"
    assert told(again) == []


@pytest.mark.rule("vm:B41", "vm:B20")
def test_a_claim_that_shrinks_and_one_that_ends_are_told() -> None:
    town = short_of_three()
    town.ask("A", 7)
    town.made_room("A")

    smaller = told(town.tell(town.world.add_node("n1", both(11))))
    assert smaller == [("A", "ClaimShrinks", "The claim on capacity of node n1 shrank to 2m cpu and 2 memory")]
    assert told(town.tell(town.world.add_node("n1", both(13)))) == [
        ("A", "ClaimClosed", "The claim on capacity of node n1 from the migration of default/B is closed: withdrawn"),
        ("B", "MoveCancelled", "The migration to node n2 is cancelled: the capacity is not needed any more"),
    ]


@pytest.mark.rule("vm:B41")
def test_a_move_for_its_nodes_sake_makes_room_for_nobody() -> None:
    town = Town(n2=10)
    town.tell(town.world.add_node("n1", both(10), both(5)))
    town.vm("B", "n1", 3, migratable=True)
    town.vm("P", "n1", 3)
    town.start()

    assert told(town.wait(5.0)) == [("B", "MoveBegins", "The VM migrates from node n1 to node n2")]


@pytest.mark.rule("vm:B41")
def test_with_compat_nothing_more_is_told_than_the_reference_tells() -> None:
    town = short_of_three(Rules(compat=True))

    assert told(town.ask("A", 7)) == []


@pytest.mark.rule("vm:B19", "vm:B41")
def test_of_a_pod_that_had_to_go_both_are_told_when_that_is_done() -> None:
    town = Town(Rules(evict=True), n1=10)
    town.vm("A", "n1", 4)
    town.plain("web", "n1", 6)
    town.world.pods["web"].priority = -1
    town.tell(town.world.pod_event("web"))
    town.start()
    town.ask("A", 7)
    town.now += 5.0
    (asked,) = only(town.tell(TimerFired()), Evict)
    assert reasons(town.done) == []
    assert reasons(town.tell(WriteResult(asked, "later", "its budget keeps it"))) == []
    assert reasons(town.tell(WriteResult(asked, "ok", "it is gone, or goes"))) == []
    assert told(town.tell(WriteResult(asked, "ok"))) == [
        (
            "web",
            "Evicted",
            "The Pod was evicted from node n1: default/A needs its capacity, and no migration frees enough",
        ),
        ("A", "RoomIsMade", "Pod default/web was evicted from node n1 to free capacity for this request"),
    ]

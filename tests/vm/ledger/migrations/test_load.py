"""How busy machines are, as their agents say: who makes room goes by that (B17)."""

from __future__ import annotations

import pytest

from situate.vm.model.policy import Rules
from tests.vm.town import Town


def crowded(rules: Rules | None = None) -> Town:
    """A wants more than is left beside B and C, which are alike; B is the older one."""
    town = Town(rules, n1=12, n2=12)
    town.vm("A", "n1", 4)
    town.vm("B", "n1", 4, migratable=True)
    town.vm("C", "n1", 4, migratable=True)
    town.start()
    return town


def load1(town: Town, uid: str) -> float:
    machine = town.pod(uid).machine
    assert machine is not None
    return machine.load.load1


@pytest.mark.rule("vm:B17", "vm:C12")
@pytest.mark.parametrize(("busy", "moves"), [(None, "B"), (0.0, "B"), (8.0, "C")])
def test_who_is_busy_stays_and_another_one_makes_room(busy: float | None, moves: str) -> None:
    town = crowded()
    town.ask("B", 4, 4, load1=busy)
    town.ask("A", 7, 4)
    assert town.made_room("A").machine.name == moves


@pytest.mark.rule("vm:B17", "vm:F2")
def test_a_load_is_known_until_another_one_is_told() -> None:
    town = crowded()
    town.ask("B", 4, 4, load1=8.0)
    town.tell(town.world.pod_event("B"))
    assert load1(town, "B") == 8.0, "its pod says nothing of it"
    town.ask("B", 4, 4)
    assert load1(town, "B") == 8.0, "nor did its agent this time"
    town.ask("B", 4, 4, load1=0.0)
    assert load1(town, "B") == 0.0


@pytest.mark.rule("vm:B17")
def test_a_machine_takes_its_load_along() -> None:
    town = crowded()
    town.ask("B", 4, 4, load1=1.0)
    town.ask("C", 4, 4, load1=8.0)
    town.ask("A", 7, 4)
    move = town.made_room("A")
    town.moved(move)
    target = town.world.migrations[move.name].target
    assert (move.machine.name, load1(town, target)) == ("B", 1.0)

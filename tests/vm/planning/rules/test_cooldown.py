from __future__ import annotations

from dataclasses import replace

import pytest

from situate.vm.model.pods_and_nodes import Machine
from situate.vm.model.state import MigrationFailures
from situate.vm.planning.rules.cooldown import (
    avoidance_end,
    cooldown_end,
    failures_after_another,
    is_cooling_down,
    moves_in_a_day,
)
from tests.vm.planning.shapes import NOW, RULES, node, state, vm

HOUR = 3600.0


def machine(*moved: float) -> Machine:
    found = vm("a", 1, moved_at=tuple(NOW + each for each in moved)).machine
    assert found is not None
    return found


@pytest.mark.rule("vm:B25")
@pytest.mark.parametrize(
    ("moved", "after"),
    [
        pytest.param((0.0,), 600.0, id="ten minutes after one move"),
        pytest.param((-HOUR, 0.0), 1200.0, id="twice that after another one in the same day"),
        pytest.param((-2 * HOUR, -HOUR, 0.0), 2400.0, id="and twice that after a third"),
        pytest.param((-25 * HOUR, 0.0), 600.0, id="one of the day before does not count"),
        pytest.param(tuple(-HOUR * each for each in range(12, -1, -1)), 6 * HOUR, id="at most six hours"),
    ],
)
def test_each_move_of_a_day_doubles_the_cool_down(moved: tuple[float, ...], after: float) -> None:
    found = machine(*moved)
    assert cooldown_end(found, RULES.calm) == NOW + after
    assert is_cooling_down(found, NOW + after - 0.001, RULES.calm)
    assert not is_cooling_down(found, NOW + after, RULES.calm)


@pytest.mark.rule("vm:B25")
def test_a_thousand_moves_are_no_number_too_large() -> None:
    found = machine(*(-each for each in range(2000, -1, -1)))
    assert cooldown_end(found, RULES.calm) == NOW + 6 * HOUR


def test_who_never_moved_does_not_cool_down() -> None:
    assert not is_cooling_down(machine(), NOW, RULES.calm)


@pytest.mark.rule("vm:B17")
def test_moves_of_24_hours_are_counted() -> None:
    assert moves_in_a_day(machine(-24 * HOUR, -24 * HOUR + 1, -1.0), NOW) == 2


@pytest.mark.rule("vm:B25")
def test_failures_of_a_machine_and_a_target_keep_them_apart_for_longer_and_longer() -> None:
    waits, failures = [], None
    for _ in range(8):
        failures = failures_after_another(failures, NOW, RULES.calm)
        waits.append(failures.until - NOW)
    assert waits == [60, 120, 240, 480, 960, 1920, 3600, 3600]
    assert failures_after_another(MigrationFailures(5000, NOW), NOW, RULES.calm).until == NOW + 3600


@pytest.mark.rule("vm:B25")
def test_another_target_is_not_avoided() -> None:
    seen = replace(state(node("n1", 4, vm("a", 1))), failures={("vm-a", "n2"): MigrationFailures(1, NOW + 60)})
    assert avoidance_end(seen, machine(), "n2") == NOW + 60
    assert avoidance_end(seen, machine(), "n3") < NOW

"""Every order of events in small worlds: all invariants hold in every state, and no guard can be left out (B12).

Larger worlds: `make soak-shard`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from situate.testing.sharding import __main__ as command_line
from situate.testing.sharding.exploration.search import InvariantBroken, SafetyGuard, explore
from situate.testing.sharding.exploration.worlds import QUICK, Explorable

WORLDS = {world.name: world for world in QUICK}
LONGER = {"hand-over: messages under way", "hand-over: one pause", "hand-over: another leader"}
"""Seconds each: all their states belong to `make verify`. That a guard is missing is found in them much sooner."""
ENOUGH = {"hand-over: messages under way": 30_000, "archive: by age": 15_000}
"""States below which a world has shrunk."""


@pytest.mark.rule("sharding:B12", "sharding:S1-S11", "sharding:L2", "sharding:L3", "sharding:L4")
@pytest.mark.parametrize(
    "world",
    [pytest.param(world, id=world.name, marks=pytest.mark.verify if world.name in LONGER else ()) for world in QUICK],
)
def test_every_order_of_events(world: Explorable) -> None:
    found = world.explore(frozenset())
    assert (found.breach, found.path) == ("", ())
    assert found.states > ENOUGH.get(world.name, 500)
    assert world.unfinished_work(found) == ""


@pytest.mark.rule("sharding:B12")
@pytest.mark.parametrize(
    ("guard", "world", "invariant"),
    [
        pytest.param(SafetyGuard.EPOCH, "hand-over: messages under way", "S2"),
        pytest.param(SafetyGuard.ACK, "hand-over: messages under way", "S5"),
        pytest.param(SafetyGuard.MONOTONIC, "hand-over: one pause", "S5"),
        pytest.param(SafetyGuard.INCARNATION, "hand-over: the same name again", "S1"),
        pytest.param(SafetyGuard.READ_BACK, "archive: by age", "S7"),
        pytest.param(SafetyGuard.FINALIZER, "archive: by age", "S7"),
        pytest.param(SafetyGuard.UID, "archive: by age", "S9"),
    ],
    ids=lambda value: value.value if isinstance(value, SafetyGuard) else None,
)
def test_a_guard_that_is_left_out_is_noticed(guard: SafetyGuard, world: str, invariant: str) -> None:
    assert WORLDS[world].explore(frozenset({guard})).breach.startswith(invariant)


@pytest.mark.rule("sharding:B12")
def test_a_search_finds_all_states_once_and_the_shortest_way_to_a_breach() -> None:
    def moves(number: int) -> Iterator[tuple[str, int]]:
        yield "half", number // 2
        yield "less", number - 1 if number else 0

    def fragile(number: int) -> Iterator[tuple[str, int]]:
        if number == 3:
            raise InvariantBroken("S0: it is three")
        yield from moves(number)

    whole = explore(12, moves)
    assert (whole.states, whole.moves, whole.ends) == (13, 26, ())
    broken = explore(12, fragile)
    assert (broken.breach, broken.path) == ("S0: it is three", ("half", "half"))
    assert explore(12, moves, is_end=lambda number: number <= 6).ends == (6, 5, 4, 3)
    with pytest.raises(MemoryError, match="more than 5 states"):
        explore(12, moves, most=5)


def test_the_command_names_what_stays_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    world = WORLDS["hand-over: the policy alone"]
    monkeypatch.setattr(command_line, "QUICK", (world,))
    whole = CliRunner().invoke(command_line.app, ["explore"])
    assert (whole.exit_code, whole.output.endswith("no breach\n")) == (0, True)
    monkeypatch.setattr(command_line, "QUICK", (replace(world, open_problem=lambda _: "L3: it stays"),))
    undone = CliRunner().invoke(command_line.app, ["explore"])
    assert (undone.exit_code, undone.output.endswith("L3: it stays\n")) == (1, True)

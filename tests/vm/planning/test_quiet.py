"""A day of constant requests, in which every plan is carried out at once and goes well (B27)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from random import Random

import pytest

from situate.vm.model.node_accounting import with_pod
from situate.vm.model.pods_and_nodes import Node, Pod
from situate.vm.model.state import LedgerState
from situate.vm.planning.node_relief import plan_relief
from situate.vm.planning.plan import Plan
from situate.vm.planning.plan_for_pod import plan
from situate.vm.planning.rules.cooldown import cooldown_end
from tests.vm.planning.playing import granted, played
from tests.vm.planning.shapes import NOW, RULES, node, state, vm

DAY = [*range(0, 3600, 120), *range(3600, 24 * 3600, 1800)]
"""Seconds from the start at which everybody is looked at."""


@dataclass
class Day:
    state: LedgerState
    moved: list[tuple[float, str]] = field(default_factory=list)

    def look(self, now: float) -> None:
        for uid in sorted(self.state.where):
            self._serve(uid)
            self._carry_out(plan(self.state, uid, now, RULES), now)
            self._serve(uid)
        for name in sorted(self.state.nodes):
            self._carry_out(plan_relief(self.state, name, now, RULES), now)

    def _serve(self, uid: str) -> None:
        self._book(granted(self.state, uid))

    def _carry_out(self, made: Plan, now: float) -> None:
        self.state = played(self.state, made)
        for each in made.moves:
            pod = self.state.pod(each.source.uid)
            assert pod is not None
            assert pod.machine is not None
            assert now >= cooldown_end(pod.machine, RULES.calm), f"{pod.uid} moves twice within its cool-down"
            self._book(replace(pod, machine=replace(pod.machine, moved_at=(*pod.machine.moved_at, now))))
            self.moved.append((now, pod.uid))

    def _book(self, pod: Pod) -> None:
        booked = with_pod(self.state.nodes[self.state.where[pod.uid]], pod)
        self.state = replace(self.state, nodes={**self.state.nodes, booked.name: booked})


def crowded(rng: Random) -> LedgerState:
    """Nodes of several sizes, on which most machines want to be larger than they are, and not all can."""
    return state(*(_node(rng, number) for number in range(rng.randint(3, 4))))


def _node(rng: Random, number: int) -> Node:
    size = rng.choice((16, 16, 24))
    return node(f"n{number}", size, *_machines(rng, number, size), watermark=rng.choice((0.8, 0.9)))


def _machines(rng: Random, number: int, size: int) -> Iterator[Pod]:
    left = rng.randint(size // 3, size)
    while left > 0:
        held = min(left, rng.randint(1, 5))
        left -= held
        wants = held + rng.choice((0, 0, 1, 3))
        yield vm(f"p{number}-{left}", held, wants, migratable=rng.random() < 0.8, created=rng.randint(0, 9))


@pytest.mark.rule("vm:B27", "vm:I7", "vm:B25", "vm:I13")
@pytest.mark.parametrize("seed", range(12))
def test_constant_requests_lead_to_finitely_many_moves_and_none_after_that(seed: int) -> None:
    day = Day(crowded(Random(seed)))
    for at in DAY:
        day.look(NOW + at)
    late = [uid for at, uid in day.moved if at > NOW + 3600]
    assert late == []
    assert len(day.moved) <= 3 * len(day.state.where)


def test_days_are_not_all_alike_and_not_all_idle() -> None:
    moves = []
    for seed in range(12):
        day = Day(crowded(Random(seed)))
        day.look(NOW)
        moves.append(len(day.moved))
    assert max(moves) >= 3
    assert len(set(moves)) >= 3

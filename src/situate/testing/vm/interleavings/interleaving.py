"""Random histories of `situate.vm.ledger.step` on a few nodes, with events in any order, repeated, late or lost.

After every step everything is checked. At the end the world settles.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Final, assert_never

from situate.sim.vm.world import VirtualMachine
from situate.testing.vm.interleavings.agents import InterleavingAgents
from situate.testing.vm.interleavings.events import InterleavingStep, StepKind
from situate.testing.vm.interleavings.interleaving_world import UNIT, InterleavingAgent, equal_amounts
from situate.testing.vm.interleavings.ledger_run import LedgerRun
from situate.testing.vm.interleavings.moves import MigrationSteps
from situate.testing.vm.interleavings.other_actors import OtherActorSteps
from situate.testing.vm.interleavings.settling_phase import SettlingPhase
from situate.vm.model.events import ResourcesRequested

CHAINED: Final = 8
"""One in this many seeds begins with a chain of two migrations. By chance, only one in 150 has such a chain."""


class Interleaving:
    def __init__(self, seed: int) -> None:
        self.run = LedgerRun(seed)
        self._agents = InterleavingAgents(self.run)
        self._moves = MigrationSteps(self.run, self._agents)
        self._others = OtherActorSteps(self.run, self._agents)
        self._settling_phase = SettlingPhase(self.run, self._moves, self._others)

    def play(self, steps: Iterable[InterleavingStep]) -> None:
        """Play the steps. Each step draws from its own seed, so that one can be removed without changing the others.

        Raises `Violation`.
        """
        self._begin()
        for number, happening in enumerate(steps):
            self.run.at_step = number
            self.run.rng = random.Random(happening.luck)
            self._perform_step(happening.what)
        self.run.rng = random.Random(f"settle {self.run.seed}")
        self._settling_phase.settle()

    def _begin(self) -> None:
        if self.run.seed % CHAINED == 0:
            self._begin_with_a_chain()
            return
        rng = self.run.rng
        for number in range(rng.randint(3, 5)):
            total = rng.randint(8, 16)
            self.run.world.add_node(
                f"n{number}", equal_amounts(total), equal_amounts(int(total * rng.choice((0.7, 0.8, 1.0))))
            )
        free = {name: node.total.cpu for name, node in self.run.world.nodes.items()}
        for number in range(rng.randint(4, 9)):
            size, node = rng.randint(1, 4), rng.choice(list(free))
            if free[node] < size:
                continue
            free[node] -= size
            held, name = equal_amounts(size), f"v{number}"
            machine = VirtualMachine(name, held, held, held, UNIT, rng.random() < 0.75, number, rng.choice((0, 0, 1)))
            machine.overcommit = rng.choice((1000, 1000, 1500))
            self.run.agents[name] = InterleavingAgent(
                name, rng.random() < 0.5, held, equal_amounts(rng.choice((1, 1, 2)))
            )
            self.run.world.add_machine(machine, node)
        self.run.start()

    def _begin_with_a_chain(self) -> None:
        """Begin with a chain (B19): `a` is short of 3, and only `b` can free capacity.

        `b` fits only on n1, once `f` has left it for n2.
        """
        for name in ("n0", "n1", "n2"):
            self.run.world.add_node(name, equal_amounts(10), equal_amounts(10))
        for name, size, node in (("a", 4, "n0"), ("b", 6, "n0"), ("f", 3, "n1"), ("g", 3, "n1"), ("h", 7, "n2")):
            held = equal_amounts(size)
            self.run.agents[name] = InterleavingAgent(name, self.run.rng.random() < 0.5, held, UNIT)
            machine = VirtualMachine(name, held, held, held, UNIT, name in ("b", "f"), len(self.run.agents))
            self.run.world.add_machine(machine, node)
        self.run.start()
        self._agents.write_request(
            self.run.agents["a"], ResourcesRequested("a", UNIT, equal_amounts(7), equal_amounts(4))
        )
        self.run.deliver_all_events()
        self.run.now += self.run.rules.demand_after_s
        self.run.tick_while_due()

    def _perform_step(self, what: StepKind) -> None:
        self.run.happened[what.value] += 1
        match what:
            case StepKind.TOLD:
                self.run.deliver_event()
            case StepKind.WRITE:
                self.run.send_next_write()
            case StepKind.HEAR:
                self.run.deliver_outcome()
            case StepKind.ASK:
                self._agents.send_request()
            case StepKind.ANSWER:
                self._agents.deliver_answer()
            case StepKind.USE:
                self._agents.use_permit()
            case StepKind.TIME:
                self.run.pass_time()
            case StepKind.MIGRATE:
                self._moves.advance_random_migration()
            case StepKind.BIND_TARGET:
                self._moves.bind_target()
            case StepKind.PLACE:
                self._others.place_pod()
            case StepKind.RESTART:
                self.run.restart()
            case StepKind.ASK_AGAIN:
                self._agents.repeat_request()
            case StepKind.BOUND_BY_OTHERS:
                self._others.bind_behind_our_back()
            case StepKind.DELETE_A_POD:
                self._others.delete_something()
            case StepKind.DELETE_A_MIGRATION:
                self._moves.delete_a_migration()
            case StepKind.MIGRATE_BY_HAND:
                self._moves.migrate_by_hand()
            case StepKind.FAIL_A_MIGRATION:
                self._moves.fail_a_migration()
            case StepKind.RESIZE_A_NODE:
                self._others.resize_a_node()
            case StepKind.LOSE_A_NODE:
                self._others.lose_a_node()
            case StepKind.CORDON_A_NODE:
                self._others.cordon_a_node()
            case StepKind.REFUSE_A_TARGET:
                self._moves.refuse_a_target()
            case StepKind.BIND_A_TARGET_AT_HOME:
                self._moves.bind_a_target_at_home()
            case StepKind.EVICT_A_MACHINE:
                self._others.evict_a_machine()
            case StepKind.WRITE_LATE:
                self.run.land_late_write()
            case _:
                assert_never(what)

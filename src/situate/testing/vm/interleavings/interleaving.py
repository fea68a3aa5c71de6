"""Random histories of `situate.vm.ledger.step` on a few nodes, with events in any order, repeated, late or lost.

After every step everything is checked. At the end the world settles.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Final, assert_never

from situate.sim.vm.world import VirtualMachine
from situate.testing.vm.interleavings.agents import Agents
from situate.testing.vm.interleavings.events import Happening, What
from situate.testing.vm.interleavings.interleaving_world import UNIT, Agent, both
from situate.testing.vm.interleavings.ledger_run import Course
from situate.testing.vm.interleavings.moves import Moves
from situate.testing.vm.interleavings.other_actors import Others
from situate.testing.vm.interleavings.settling_phase import Rest
from situate.vm.model.events import Asked

CHAINED: Final = 8
"""One in this many seeds begins with a chain of two migrations. By chance, only one in 150 has such a chain."""


class Interleaving:
    def __init__(self, seed: int) -> None:
        self.course = Course(seed)
        self._agents = Agents(self.course)
        self._moves = Moves(self.course, self._agents)
        self._others = Others(self.course, self._agents)
        self._rest = Rest(self.course, self._moves, self._others)

    def play(self, steps: Iterable[Happening]) -> None:
        """Play the steps. Each step draws from its own seed, so that one can be removed without changing the others.

        Raises `Violation`.
        """
        self._begin()
        for number, happening in enumerate(steps):
            self.course.at_step = number
            self.course.rng = random.Random(happening.luck)
            self._happen(happening.what)
        self.course.rng = random.Random(f"settle {self.course.seed}")
        self._rest.settle()

    def _begin(self) -> None:
        if self.course.seed % CHAINED == 0:
            self._begin_with_a_chain()
            return
        rng = self.course.rng
        for number in range(rng.randint(3, 5)):
            total = rng.randint(8, 16)
            self.course.world.add_node(f"n{number}", both(total), both(int(total * rng.choice((0.7, 0.8, 1.0)))))
        free = {name: node.total.cpu for name, node in self.course.world.nodes.items()}
        for number in range(rng.randint(4, 9)):
            size, node = rng.randint(1, 4), rng.choice(list(free))
            if free[node] < size:
                continue
            free[node] -= size
            held, name = both(size), f"v{number}"
            machine = VirtualMachine(name, held, held, held, UNIT, rng.random() < 0.75, number, rng.choice((0, 0, 1)))
            machine.overcommit = rng.choice((1000, 1000, 1500))
            self.course.agents[name] = Agent(name, rng.random() < 0.5, held, both(rng.choice((1, 1, 2))))
            self.course.world.add_machine(machine, node)
        self.course.start()

    def _begin_with_a_chain(self) -> None:
        """Begin with a chain (B19): `a` is short of 3, and only `b` can free capacity.

        `b` fits only on n1, once `f` has left it for n2.
        """
        for name in ("n0", "n1", "n2"):
            self.course.world.add_node(name, both(10), both(10))
        for name, size, node in (("a", 4, "n0"), ("b", 6, "n0"), ("f", 3, "n1"), ("g", 3, "n1"), ("h", 7, "n2")):
            held = both(size)
            self.course.agents[name] = Agent(name, self.course.rng.random() < 0.5, held, UNIT)
            machine = VirtualMachine(name, held, held, held, UNIT, name in ("b", "f"), len(self.course.agents))
            self.course.world.add_machine(machine, node)
        self.course.start()
        self._agents.request(self.course.agents["a"], Asked("a", UNIT, both(7), both(4)))
        self.course.drain_told()
        self.course.now += self.course.rules.demand_after_s
        self.course.beat()

    def _happen(self, what: What) -> None:
        self.course.happened[what.value] += 1
        match what:
            case What.TOLD:
                self.course.tell()
            case What.WRITE:
                self.course.write()
            case What.HEAR:
                self.course.hear()
            case What.ASK:
                self._agents.ask()
            case What.ANSWER:
                self._agents.answer()
            case What.USE:
                self._agents.use()
            case What.TIME:
                self.course.pass_time()
            case What.MIGRATE:
                self._moves.migrate()
            case What.BIND_TARGET:
                self._moves.bind_target()
            case What.PLACE:
                self._others.place()
            case What.RESTART:
                self.course.restart()
            case What.ASK_AGAIN:
                self._agents.ask_again()
            case What.BOUND_BY_OTHERS:
                self._others.bind_behind_our_back()
            case What.DELETE_A_POD:
                self._others.delete_something()
            case What.DELETE_A_MIGRATION:
                self._moves.delete_a_migration()
            case What.MIGRATE_BY_HAND:
                self._moves.migrate_by_hand()
            case What.FAIL_A_MIGRATION:
                self._moves.fail_a_migration()
            case What.RESIZE_A_NODE:
                self._others.resize_a_node()
            case What.LOSE_A_NODE:
                self._others.lose_a_node()
            case What.CORDON_A_NODE:
                self._others.cordon_a_node()
            case What.REFUSE_A_TARGET:
                self._moves.refuse_a_target()
            case What.BIND_A_TARGET_AT_HOME:
                self._moves.bind_a_target_at_home()
            case What.EVICT_A_MACHINE:
                self._others.evict_a_machine()
            case What.WRITE_LATE:
                self.course.write_late()
            case _:
                assert_never(what)

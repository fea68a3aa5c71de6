"""Agents in an interleaving: they ask, repeat, receive or miss answers, and use their permits."""

from __future__ import annotations

from situate.testing.vm.interleavings.interleaving_world import Agent, both
from situate.testing.vm.interleavings.ledger_run import Course, Violation
from situate.vm.model.events import Asked
from situate.vm.model.pods_and_nodes import Phase
from situate.vm.model.resource_amounts import Amounts
from situate.vm.protocol.permit import answer, settled


class Agents:
    def __init__(self, course: Course) -> None:
        self._course = course

    def agent(self) -> Agent | None:
        here = [agent for agent in self._course.agents.values() if agent.machine in self._course.world.machines]
        return self._course.rng.choice(here) if here else None

    def ask(self) -> None:
        agent = self.agent()
        if agent is None or agent.waits_for is not None:
            return
        vm = self._course.world.machines[agent.machine]
        if vm.phase is Phase.FROZEN or not self._course.state.started:
            return
        wanted = both(self._course.rng.randint(1, 8))
        if self._course.rng.random() < 0.2:
            wanted = Amounts.of(wanted.cpu, self._course.rng.randint(1, 8))
        if wanted.least(vm.use) != vm.use:
            vm.use = vm.use.least(wanted)
            self._course.seen([self._course.world.seen(vm.runs_in)])
        last = agent.permit
        if agent.lowers:
            agent.permit = agent.permit.least(wanted)
            agent.sequence += 1
        self.request(agent, Asked(vm.runs_in, agent.unit, wanted, last, agent.lowers, agent.sequence or None))

    def request(self, agent: Agent, asked: Asked) -> None:
        self._course.versions[agent.machine] += 1
        self._course.seen(self._course.world.request(agent.machine, asked.unit, asked.requested))
        agent.waits_for = asked
        self._course.step(asked)

    def ask_again(self) -> None:
        """Repeat a request, as if the first one had not arrived."""
        agent = self.agent()
        if agent is not None and agent.waits_for is not None:
            self._course.step(agent.waits_for)

    def answer(self) -> None:
        agent = self.agent()
        if agent is None or agent.waits_for is None:
            return
        asked, agent.waits_for = agent.waits_for, None
        vm = self._course.world.machines[agent.machine]
        if asked.uid != vm.runs_in or (self._course.troubled and self._course.rng.random() < 0.15):
            return
        told = answer(self._course.state, asked, self._course.rules)
        if told is None or told.migrate:
            return
        if not settled(self._course.state, asked.uid) and told.permit.exceeds(agent.permit):
            agent.waits_for = asked
            return
        if told.permit.exceeds(asked.requested):
            raise Violation(f"seed {self._course.seed}: I11: {told} to {asked}")
        if vm.use.within(told.permit):
            agent.permit = told.permit

    def use(self) -> None:
        agent = self.agent()
        if agent is None:
            return
        vm = self._course.world.machines[agent.machine]
        if vm.phase is not Phase.FROZEN and vm.use != agent.permit:
            vm.use = vm.use.most(agent.permit)
            self._course.seen([self._course.world.seen(vm.runs_in)])

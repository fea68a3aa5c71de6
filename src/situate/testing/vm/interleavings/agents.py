"""Agents in an interleaving: they ask, repeat, receive or miss answers, and use their permits."""

from __future__ import annotations

from situate.testing.vm.interleavings.interleaving_world import InterleavingAgent, equal_amounts
from situate.testing.vm.interleavings.ledger_run import LedgerRun, Violation
from situate.vm.model.events import ResourcesRequested
from situate.vm.model.pods_and_nodes import Phase
from situate.vm.model.resource_amounts import Amounts
from situate.vm.protocol.permit import decide_permit, is_settled


class InterleavingAgents:
    def __init__(self, course: LedgerRun) -> None:
        self._run = course

    def random_agent(self) -> InterleavingAgent | None:
        here = [agent for agent in self._run.agents.values() if agent.machine in self._run.world.machines]
        return self._run.rng.choice(here) if here else None

    def send_request(self) -> None:
        agent = self.random_agent()
        if agent is None or agent.waits_for is not None:
            return
        vm = self._run.world.machines[agent.machine]
        if vm.phase is Phase.FROZEN or not self._run.state.started:
            return
        wanted = equal_amounts(self._run.rng.randint(1, 8))
        if self._run.rng.random() < 0.2:
            wanted = Amounts.from_values(wanted.cpu, self._run.rng.randint(1, 8))
        if wanted.minimum(vm.use) != vm.use:
            vm.use = vm.use.minimum(wanted)
            self._run.queue_events([self._run.world.pod_event(vm.runs_in)])
        last = agent.permit
        if agent.lowers:
            agent.permit = agent.permit.minimum(wanted)
            agent.sequence += 1
        self.write_request(
            agent, ResourcesRequested(vm.runs_in, agent.unit, wanted, last, agent.lowers, agent.sequence or None)
        )

    def write_request(self, agent: InterleavingAgent, asked: ResourcesRequested) -> None:
        self._run.versions[agent.machine] += 1
        self._run.queue_events(self._run.world.request(agent.machine, asked.unit, asked.requested))
        agent.waits_for = asked
        self._run.step(asked)

    def repeat_request(self) -> None:
        """Repeat a request, as if the first one had not arrived."""
        agent = self.random_agent()
        if agent is not None and agent.waits_for is not None:
            self._run.step(agent.waits_for)

    def deliver_answer(self) -> None:
        agent = self.random_agent()
        if agent is None or agent.waits_for is None:
            return
        asked, agent.waits_for = agent.waits_for, None
        vm = self._run.world.machines[agent.machine]
        if asked.uid != vm.runs_in or (self._run.has_faults and self._run.rng.random() < 0.15):
            return
        told = decide_permit(self._run.state, asked, self._run.rules)
        if told is None or told.migrate:
            return
        if not is_settled(self._run.state, asked.uid) and told.permit.exceeds(agent.permit):
            agent.waits_for = asked
            return
        if told.permit.exceeds(asked.requested):
            raise Violation(f"seed {self._run.seed}: I11: {told} to {asked}")
        if vm.use.fits_within(told.permit):
            agent.permit = told.permit

    def use_permit(self) -> None:
        agent = self.random_agent()
        if agent is None:
            return
        vm = self._run.world.machines[agent.machine]
        if vm.phase is not Phase.FROZEN and vm.use != agent.permit:
            vm.use = vm.use.maximum(agent.permit)
            self._run.queue_events([self._run.world.pod_event(vm.runs_in)])

"""Agents of a simulation: they request amounts for their VMs, use their permits, and ask again (C35-C39).

Ours and upstream's differ by D24: ours lower their own permit when they send a decrease.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from situate.sim.timeline import ScheduledCall, Timeline
from situate.sim.vm.account import VMAccount
from situate.sim.vm.scheduler import SchedulerProcess
from situate.sim.vm.world import VMWorld
from situate.vm.model.events import ResourcesRequested
from situate.vm.model.pods_and_nodes import Phase
from situate.vm.model.policy import GIB, Rules
from situate.vm.model.resource_amounts import Amounts
from situate.vm.protocol.permit import decide_permit, is_settled

UNIT: Final = Amounts.from_values(250, GIB)
TICK_S: Final = 15.0
"""Seconds between two requests without changes."""
AFTER_DENIAL_S: Final = 2.0
ANSWER_S: Final = 1.0
"""How long an answer waits for a grant (C16)."""
USE_S: Final = 0.1
"""Seconds from a permit until the VM has that size."""
_FROZEN_S: Final = 1.0


@dataclass
class Agent:
    machine: str
    wanted: Amounts
    permit: Amounts
    waits_for: ResourcesRequested | None = None
    """The request whose answer it waits for."""
    since: float = 0.0
    """When that request was sent."""
    sequence: int = 0
    next: ScheduledCall | None = None
    """When it asks next."""


class Agents:
    def __init__(
        self,
        timeline: Timeline,
        world: VMWorld,
        scheduling: SchedulerProcess,
        account: VMAccount,
        rules: Rules,
        tick_s: float = TICK_S,
    ) -> None:
        self._timeline, self._world, self._scheduler, self._account = timeline, world, scheduling, account
        self._rules, self._tick_s = rules, tick_s
        self._agents: dict[str, Agent] = {}
        self._waiting: dict[str, Agent] = {}
        scheduling.changed.append(self._check_answers)

    def set_wanted(self, machine: str, amount: Amounts) -> None:
        """Let a VM want this amount from now on."""
        held = self._world.machines[machine].use
        agent = self._agents.setdefault(machine, Agent(machine, amount, held))
        now, former, agent.wanted = self._timeline.now, agent.wanted, amount
        self._account.record_request(machine, now, more=amount.exceeds(former))
        if amount.fits_within(held):
            self._account.record_grant(machine, now)
        self._schedule_request(agent, 0.0)

    def wanted_amount(self, machine: str) -> Amounts | None:
        """Return the wanted amount of a VM. None: it has no agent."""
        agent = self._agents.get(machine)
        return None if agent is None else agent.wanted

    def remove(self, machine: str) -> None:
        agent = self._agents.pop(machine, None)
        self._waiting.pop(machine, None)
        if agent is not None and agent.next is not None:
            agent.next.cancel()

    def all_agents(self) -> Iterable[Agent]:
        return self._agents.values()

    def _schedule_request(self, agent: Agent, seconds: float) -> None:
        if agent.next is not None:
            agent.next.cancel()
        agent.next = self._timeline.call_after(seconds, lambda: self._send_request(agent))

    def _send_request(self, agent: Agent) -> None:
        agent.next = None
        vm = self._world.machines.get(agent.machine)
        known = None if vm is None else self._scheduler.state.pod(vm.runs_in)
        # a pod that is reserved but not bound yet is known as well
        if (
            vm is None
            or known is None
            or not self._world.pods[vm.runs_in].node
            or vm.phase is Phase.FROZEN
            or agent.waits_for is not None
        ):
            self._schedule_request(agent, _FROZEN_S)
            return
        last = agent.permit
        if vm.use.exceeds(agent.wanted):
            vm.use = vm.use.minimum(agent.wanted)
            self._scheduler.deliver_events([self._world.pod_event(vm.runs_in)])
        if self._rules.compat:
            vm.approved = last
        else:
            agent.permit = last.minimum(agent.wanted)
            agent.sequence += 1
        self._scheduler.deliver_events(self._world.request(agent.machine, UNIT, agent.wanted))
        asked = ResourcesRequested(
            vm.runs_in, UNIT, agent.wanted, last, not self._rules.compat, None if self._rules.compat else agent.sequence
        )
        agent.waits_for, agent.since = asked, self._timeline.now
        self._waiting[agent.machine] = agent
        self._timeline.call_after(ANSWER_S, self._check_answers)
        self._scheduler.apply_event(asked)

    def _check_answers(self) -> None:
        for agent in list(self._waiting.values()):
            asked, vm = agent.waits_for, self._world.machines.get(agent.machine)
            if asked is None or vm is None or vm.runs_in != asked.uid:
                self._finish_request(agent, _FROZEN_S)
                continue
            permit = self._find_answer(agent, asked)
            if permit is not None:
                self._handle_answer(agent, asked, permit)

    def _find_answer(self, agent: Agent, asked: ResourcesRequested) -> Amounts | None:
        """Return the answer to a request, or None if there is none yet (C16, `situate.vm.protocol.permit_response`)."""
        over = self._timeline.now >= agent.since + ANSWER_S
        last = asked.last_permit
        assert last is not None, "agents of situate always send it"
        if self._rules.compat:
            if asked.requested.fits_within(last):
                return asked.requested
            approved = self._world.machines[agent.machine].approved
            return approved if over or approved.exceeds(last) else None
        told = decide_permit(self._scheduler.state, asked, self._rules)
        if told is None:
            return agent.permit if over else None
        if told.migrate or asked.requested.fits_within(last):
            return told.permit
        if not is_settled(self._scheduler.state, asked.uid):
            return told.permit.minimum(last) if over else None
        return told.permit if over or told.permit.exceeds(last) else None

    def _handle_answer(self, agent: Agent, asked: ResourcesRequested, permit: Amounts) -> None:
        vm = self._world.machines[agent.machine]
        if not vm.use.fits_within(permit):
            self._finish_request(agent, AFTER_DENIAL_S)
            return
        agent.permit = permit
        self._timeline.call_after(USE_S, lambda: self._resize_machine(agent))
        denied = asked.requested.exceeds(permit)
        self._account.result.denied += denied
        self._finish_request(agent, AFTER_DENIAL_S if denied else self._tick_s)

    def _finish_request(self, agent: Agent, again_s: float) -> None:
        agent.waits_for = None
        self._waiting.pop(agent.machine, None)
        changed = agent.machine in self._world.machines and agent.next is not None
        if not changed:
            self._schedule_request(agent, again_s)

    def _resize_machine(self, agent: Agent) -> None:
        """Resize the VM to its permit, once it no longer migrates."""
        vm = self._world.machines.get(agent.machine)
        if vm is None or self._agents.get(agent.machine) is not agent:
            return
        pod = self._scheduler.state.pod(vm.runs_in)
        if vm.phase is Phase.FROZEN or pod is None or pod.frozen:
            self._timeline.call_after(_FROZEN_S, lambda: self._resize_machine(agent))
            return
        if agent.permit.exceeds(vm.use):
            vm.use = vm.use.maximum(agent.permit)
            self._scheduler.deliver_events([self._world.pod_event(vm.runs_in)])
        if agent.wanted.fits_within(vm.use):
            self._account.record_grant(agent.machine, self._timeline.now)

"""Agents of a simulation: they request amounts for their VMs, use their permits, and ask again (C35-C39).

Ours and upstream's differ by D24: ours lower their own permit when they send a decrease.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from situate.sim.timeline import Due, Timeline
from situate.sim.vm.account import Account
from situate.sim.vm.scheduler import Scheduling
from situate.sim.vm.world import World
from situate.vm.model.events import Asked
from situate.vm.model.pods_and_nodes import Phase
from situate.vm.model.policy import GIB, Rules
from situate.vm.model.resource_amounts import Amounts
from situate.vm.protocol.permit import answer, settled

UNIT: Final = Amounts.of(250, GIB)
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
    waits_for: Asked | None = None
    """The request whose answer it waits for."""
    since: float = 0.0
    """When that request was sent."""
    sequence: int = 0
    next: Due | None = None
    """When it asks next."""


class Agents:
    def __init__(
        self,
        timeline: Timeline,
        world: World,
        scheduling: Scheduling,
        account: Account,
        rules: Rules,
        tick_s: float = TICK_S,
    ) -> None:
        self._timeline, self._world, self._scheduling, self._account = timeline, world, scheduling, account
        self._rules, self._tick_s = rules, tick_s
        self._agents: dict[str, Agent] = {}
        self._waiting: dict[str, Agent] = {}
        scheduling.changed.append(self._look)

    def wants(self, machine: str, amount: Amounts) -> None:
        """Let a VM want this amount from now on."""
        held = self._world.machines[machine].use
        agent = self._agents.setdefault(machine, Agent(machine, amount, held))
        now, former, agent.wanted = self._timeline.now, agent.wanted, amount
        self._account.wished(machine, now, more=amount.exceeds(former))
        if amount.within(held):
            self._account.granted(machine, now)
        self._next(agent, 0.0)

    def wanted(self, machine: str) -> Amounts | None:
        """Return the wanted amount of a VM. None: it has no agent."""
        agent = self._agents.get(machine)
        return None if agent is None else agent.wanted

    def gone(self, machine: str) -> None:
        agent = self._agents.pop(machine, None)
        self._waiting.pop(machine, None)
        if agent is not None and agent.next is not None:
            agent.next.cancel()

    def all(self) -> Iterable[Agent]:
        return self._agents.values()

    def _next(self, agent: Agent, seconds: float) -> None:
        if agent.next is not None:
            agent.next.cancel()
        agent.next = self._timeline.after(seconds, lambda: self._ask(agent))

    def _ask(self, agent: Agent) -> None:
        agent.next = None
        vm = self._world.machines.get(agent.machine)
        known = None if vm is None else self._scheduling.state.pod(vm.runs_in)
        # a pod that is reserved but not bound yet is known as well
        if (
            vm is None
            or known is None
            or not self._world.pods[vm.runs_in].node
            or vm.phase is Phase.FROZEN
            or agent.waits_for is not None
        ):
            self._next(agent, _FROZEN_S)
            return
        last = agent.permit
        if vm.use.exceeds(agent.wanted):
            vm.use = vm.use.least(agent.wanted)
            self._scheduling.tell([self._world.seen(vm.runs_in)])
        if self._rules.compat:
            vm.approved = last
        else:
            agent.permit = last.least(agent.wanted)
            agent.sequence += 1
        self._scheduling.tell(self._world.request(agent.machine, UNIT, agent.wanted))
        asked = Asked(
            vm.runs_in, UNIT, agent.wanted, last, not self._rules.compat, None if self._rules.compat else agent.sequence
        )
        agent.waits_for, agent.since = asked, self._timeline.now
        self._waiting[agent.machine] = agent
        self._timeline.after(ANSWER_S, self._look)
        self._scheduling.step(asked)

    def _look(self) -> None:
        for agent in list(self._waiting.values()):
            asked, vm = agent.waits_for, self._world.machines.get(agent.machine)
            if asked is None or vm is None or vm.runs_in != asked.uid:
                self._over(agent, _FROZEN_S)
                continue
            permit = self._answer(agent, asked)
            if permit is not None:
                self._answered(agent, asked, permit)

    def _answer(self, agent: Agent, asked: Asked) -> Amounts | None:
        """Return the answer to a request, or None if there is none yet (C16, `situate.vm.protocol.permit_response`)."""
        over = self._timeline.now >= agent.since + ANSWER_S
        last = asked.last_permit
        assert last is not None, "agents of situate always send it"
        if self._rules.compat:
            if asked.requested.within(last):
                return asked.requested
            approved = self._world.machines[agent.machine].approved
            return approved if over or approved.exceeds(last) else None
        told = answer(self._scheduling.state, asked, self._rules)
        if told is None:
            return agent.permit if over else None
        if told.migrate or asked.requested.within(last):
            return told.permit
        if not settled(self._scheduling.state, asked.uid):
            return told.permit.least(last) if over else None
        return told.permit if over or told.permit.exceeds(last) else None

    def _answered(self, agent: Agent, asked: Asked, permit: Amounts) -> None:
        vm = self._world.machines[agent.machine]
        if not vm.use.within(permit):
            self._over(agent, AFTER_DENIAL_S)
            return
        agent.permit = permit
        self._timeline.after(USE_S, lambda: self._use(agent))
        denied = asked.requested.exceeds(permit)
        self._account.denied += denied
        self._over(agent, AFTER_DENIAL_S if denied else self._tick_s)

    def _over(self, agent: Agent, again_s: float) -> None:
        agent.waits_for = None
        self._waiting.pop(agent.machine, None)
        changed = agent.machine in self._world.machines and agent.next is not None
        if not changed:
            self._next(agent, again_s)

    def _use(self, agent: Agent) -> None:
        """Resize the VM to its permit, once it no longer migrates."""
        vm = self._world.machines.get(agent.machine)
        if vm is None or self._agents.get(agent.machine) is not agent:
            return
        pod = self._scheduling.state.pod(vm.runs_in)
        if vm.phase is Phase.FROZEN or pod is None or pod.frozen:
            self._timeline.after(_FROZEN_S, lambda: self._use(agent))
            return
        if agent.permit.exceeds(vm.use):
            vm.use = vm.use.most(agent.permit)
            self._scheduling.tell([self._world.seen(vm.runs_in)])
        if agent.wanted.within(vm.use):
            self._account.granted(agent.machine, self._timeline.now)

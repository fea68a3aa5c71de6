"""Agents of a history's VMs: they send requests to the permit port, and use the granted amounts.

Each agent is honest and plain. It asks every few seconds and never uses more than its permit. It lowers the VM before
it asks for less, and gives up on an answer after two seconds (C2, C35, C39). The watchdog relies on the permit that the
agent holds.
"""

from __future__ import annotations

import json
from asyncio import Task
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from random import Random
from typing import Any, Final

from situate.objects.messages import Response
from situate.testing.vm.world.history_world import Obj, VmHistoryWorld
from situate.testing.vm.world.processes import MACHINE_TABLE, MACHINES, NAMESPACE, UNIT
from situate.vm.agent.protocol.permits import VERSION
from situate.vm.api.parse_errors import NO_PLACE, Part
from situate.vm.api.quantities import GIB, amounts_value, parse_amounts
from situate.vm.api.well_known import ENABLED_LABEL
from situate.vm.model.resource_amounts import Amounts

TICK_S: Final = 5.0
GIVE_UP_S: Final = 2.0
FAILURE_STATUSES: Final = frozenset({404, 500, 503})
"""Status codes that a valid request may get instead of a permit (C14, B44)."""
MISTAKE_STATUSES: Final = {"zero unit": (400,), "no JSON": (400,), "other pod": (400, 404)}
RUNNING_PHASES: Final = frozenset({"Running", "Scaling"})


@dataclass(slots=True)
class Agent:
    """The agent of one VM, on whatever node."""

    name: str
    uid: str
    """UID of the VM."""
    lowers: bool
    wanted: Amounts
    permit: Amounts
    """The permit that it believes to hold."""
    permitted: bool = False
    """Whether an answer gave this permit. If not, it is the amount that the VM uses."""
    pod: str = ""
    sequence: int = 0
    waits_for: int = 0
    """Number of the request without an answer. 0: none."""
    reason: str = ""
    """Reason in the last answer."""
    answered_at: float = float("-inf")


class Agents:
    """All agents of one history."""

    def __init__(self, place: VmHistoryWorld, breach: Callable[[str], None]) -> None:
        self._world = place
        self._happened = place.happened
        self._breach = breach
        self._rng = Random(f"agents {place.rng.random()}")
        self._number = 0
        self.by_name: dict[str, Agent] = {}
        self.tick_s = TICK_S
        self.lost_answer_share = 0.0
        """Share of answers that are lost."""

    def add_agent(self, name: str, *, lowers: bool) -> None:
        """Start the agent of a new VM. It first wants the amount that the VM has."""
        machine = self._world.machine(name)
        use = spec_usage(machine)
        agent = self.by_name[name] = Agent(name, machine["metadata"]["uid"], lowers, use, use)
        self._world.timeline.call_after(self._rng.uniform(0.5, self.tick_s), partial(self._tick, agent))

    def set_wanted(self, name: str, wanted: Amounts) -> None:
        agent = self.by_name.get(name)
        if agent is not None:
            agent.wanted = wanted
            self.send_request(agent)

    def _tick(self, agent: Agent) -> None:
        if self.by_name.get(agent.name) is agent:
            self.send_request(agent)
            self._world.timeline.call_after(self.tick_s, partial(self._tick, agent))

    def send_request(self, agent: Agent, **lie: Any) -> None:
        """Send a request if the agent may act now and waits for no answer. `lie` overrides members of the request."""
        machine = self._machine_if_active(agent)
        if machine is None or agent.waits_for:
            return
        pod, use = machine["status"]["podName"], spec_usage(machine)
        if agent.pod != pod:  # this is the agent of another node, which knows only the objects
            agent.pod, agent.permitted = pod, False
        if not use.fits_within(agent.wanted):
            use = use.minimum(agent.wanted)
            self._resize(agent, use)
        if not agent.permitted:
            agent.permit = use
        held = agent.permit
        if agent.lowers:
            agent.permit = held.minimum(agent.wanted)
            agent.sequence += 1
        self._send(agent, agent.wanted, {**self._request_body(agent, held), **lie})

    def repeat_request(self, agent: Agent) -> None:
        """Send the request again, as if the first one had not arrived."""
        self.send_request(agent)
        self._post(self._request_body(agent, agent.permit), self._check_ignored_answer)

    def reorder_requests(self, agent: Agent) -> None:
        """Let an older numbered request arrive after a newer one."""
        if not agent.lowers:
            self.repeat_request(agent)
            return
        older = self._request_body(agent, agent.permit)
        self.send_request(agent)
        self._world.timeline.call_after(0.05, lambda: self._post(older, self._check_ignored_answer))

    def send_bad_request(self, agent: Agent, how: str, pod: str) -> None:
        """Send a request that must be refused."""
        request: Any = self._request_body(agent, agent.permit)
        if how == "zero unit":
            request["computeUnit"] = {"vCPUs": 0, "mem": "1Gi"}
        elif how == "other pod":
            request["pod"]["name"] = pod
        self._post(b"{" if how == "no JSON" else request, partial(self._check_refusal, MISTAKE_STATUSES[how]))

    def send_burst(self, requests: int) -> None:
        """Send this many requests at once, from all agents in turn."""
        agents = [agent for agent in self.by_name.values() if self._machine_if_active(agent) is not None and agent.pod]
        for number in range(requests if agents else 0):
            agent = agents[number % len(agents)]
            self._post(self._request_body(agent, agent.permit), self._check_ignored_answer)

    def _machine_if_active(self, agent: Agent) -> Obj | None:
        """Return the VM if its agent may act on it now (C35, D13)."""
        machine = self._world.object(MACHINE_TABLE, NAMESPACE, agent.name)
        if machine is None or machine["metadata"]["uid"] != agent.uid:
            self.by_name.pop(agent.name, None)
            return None
        enabled = (machine["metadata"].get("labels") or {}).get(ENABLED_LABEL) == "true"
        status = machine.get("status") or {}
        runs = (
            status.get("phase") in RUNNING_PHASES
            and status.get("podName")
            and "deletionTimestamp" not in machine["metadata"]
        )
        return machine if enabled and runs else None

    def _request_body(self, agent: Agent, held: Amounts) -> dict[str, Any]:
        request: dict[str, Any] = {
            "protoVersion": VERSION,
            "pod": {"namespace": NAMESPACE, "name": agent.pod},
            "computeUnit": amounts_value(UNIT),
            "resources": amounts_value(agent.wanted),
            "lastPermit": amounts_value(held),
            "metrics": {"loadAvg1M": 0.5},
        }
        if agent.lowers:
            request |= {"lowersAtOnce": True, "run": agent.name, "sequence": agent.sequence}
        return request

    def _send(self, agent: Agent, asked: Amounts, request: dict[str, Any]) -> None:
        self._number += 1
        number = agent.waits_for = self._number
        self._world.timeline.call_after(GIVE_UP_S, partial(self._give_up, agent, number))
        self._post(request, partial(self._handle_answer, agent, number, agent.pod, asked))

    def _post(self, body: dict[str, Any] | bytes, hear: Callable[[Response], None]) -> None:
        """Send a request to the leader. Without a leader, no answer comes."""
        member = self._world.leader()
        if member is None:
            return
        data = body if isinstance(body, bytes) else json.dumps(body, separators=(",", ":")).encode()

        def done(task: Task[Response]) -> None:
            if task.cancelled():
                return
            if (problem := task.exception()) is not None:
                self._breach(f"C14: a request is answered with an exception: {problem!r}")
            elif self.lost_answer_share and self._rng.random() < self.lost_answer_share:
                self._happened["answer not heard"] += 1
            else:
                self._world.timeline.call_after(self._rng.uniform(0.001, 0.02), partial(hear, task.result()))

        self._world.send_permit_request(member, data).add_done_callback(done)

    def _give_up(self, agent: Agent, number: int) -> None:
        if agent.waits_for == number:
            agent.waits_for = 0

    def _check_ignored_answer(self, answer: Response) -> None:
        if answer.status not in FAILURE_STATUSES and answer.status != 200:
            self._breach(f"C14: a valid request is answered {answer.status}: {answer.body.decode()}")

    def _check_refusal(self, allowed: tuple[int, ...], answer: Response) -> None:
        if answer.status not in (*allowed, 503):
            self._breach(f"C14: an invalid request is answered {answer.status}, allowed: {allowed}")

    def _handle_answer(self, agent: Agent, number: int, pod: str, asked: Amounts, answer: Response) -> None:
        if agent.waits_for != number:
            return
        agent.waits_for = 0
        if answer.status != 200:
            self._check_ignored_answer(answer)
            return
        told = json.loads(answer.body)
        permit = parse_amounts(Part(NO_PLACE, told["permit"]))
        if permit.exceeds(asked):
            self._breach(f"I11: {agent.name} asked for {asked.values} and may use {permit.values}")
        machine = self._machine_if_active(agent)
        if machine is None or agent.pod != pod or machine["status"]["podName"] != pod or "migrate" in told:
            return
        agent.reason, agent.answered_at = str(told.get("reason", "")), self._world.now
        self._happened["granted" if asked.fits_within(permit) else "denied"] += 1
        use = spec_usage(machine)
        if not use.fits_within(permit) or agent.wanted != asked:
            return  # the agent acts as after a failed request (C18), or wants another amount by now
        agent.permit, agent.permitted = permit, True
        if permit.exceeds(use) and self._rng.random() < 0.9:
            self._world.timeline.call_after(0.02, partial(self._grow, agent, pod))

    def _grow(self, agent: Agent, pod: str) -> None:
        machine = self._machine_if_active(agent)
        if machine is not None and agent.pod == pod == machine["status"]["podName"]:
            use = spec_usage(machine)
            goal = use.maximum(agent.permit.minimum(agent.wanted))
            if goal != use:
                self._resize(agent, goal)

    def _resize(self, agent: Agent, goal: Amounts) -> None:
        guest = {"cpus": {"use": f"{goal.cpu}m"}, "memorySlots": {"use": goal.memory // GIB}}
        body = {"spec": {"guest": guest}}
        answer = self._world.call("PATCH", f"{MACHINES}/{agent.name}", body, patch=True)
        assert answer["kind"] == "VirtualMachine", answer


def spec_usage(machine: Obj) -> Amounts:
    """Return the guest's use by the spec. Slots are of 1 GiB."""
    guest = machine["spec"]["guest"]
    return Amounts.from_values(milli(guest["cpus"]["use"]), guest["memorySlots"]["use"] * GIB)


@lru_cache(maxsize=4096)
def milli(value: int | str) -> int:
    """Return CPUs in thousandths."""
    text = str(value)
    return int(text[:-1]) if text.endswith("m") else round(1000 * float(text))

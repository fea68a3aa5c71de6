"""A trace played on virtual time: the shipped decisions, emulated migrations, agents, and the resulting cost.

    outcome = VMSimulation(steady(Random(1)), Rules()).play()

Equal traces and rules give equal outcomes, because nothing is random. When a node is lost, its VMs restart elsewhere
once their pods are evicted, by the tolerations of NeonVM's runners (C33). If the node returns before, they stay.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final, assert_never

from situate.sim.timeline import Timeline
from situate.sim.vm.account import RunOutcome, VMAccount
from situate.sim.vm.agents import TICK_S, UNIT, Agents
from situate.sim.vm.migration import START_S, MigrationController
from situate.sim.vm.scheduler import PendingPod, SchedulerProcess
from situate.sim.vm.trace import CREATED_UID_MARK, Change, Trace
from situate.sim.vm.world import VirtualMachine, VMWorld, WorldPod
from situate.vm.emulator.settings import Settings
from situate.vm.model.events import Event, NodeObserved
from situate.vm.model.pods_and_nodes import Load, Phase
from situate.vm.model.policy import Rules
from situate.vm.model.resource_amounts import Amounts

LOST_S: Final = 30.0
"""How long runner pods tolerate an unreachable node (C33)."""


class VMSimulation:
    def __init__(
        self,
        trace: Trace,
        rules: Rules,
        *,
        tick_s: float = TICK_S,
        pace: Settings = Settings(),  # noqa: B008  # frozen
        tell: Callable[[float], object] = lambda _: None,
    ) -> None:
        """`tick_s` is the time between two requests of an agent whose request is granted.

        `tell` is called with the elapsed seconds.
        """
        self._trace, self._rules, self._told = trace, rules, tell
        self._timeline, self._world, self._account = Timeline(), VMWorld(sign=CREATED_UID_MARK), VMAccount()
        self._scheduler = SchedulerProcess(self._timeline, self._world, rules, self._account, self._fits)
        self._agents = Agents(self._timeline, self._world, self._scheduler, self._account, rules, tick_s)
        self._migrations = MigrationController(self._timeline, self._world, self._scheduler, self._account, rules, pace)
        self._down_nodes: set[str] = set()
        """VMs that wait for a node, or start there."""
        self._lost: set[str] = set()
        """Lost nodes, where nothing runs."""

    def play(self) -> RunOutcome:
        first = [change for change in self._trace.changes if change.time == 0]
        for change in first:
            self._apply_change(change)
        self._scheduler.start()
        for change in self._trace.changes[len(first) :]:
            self._timeline.call_at(change.time, lambda change=change: self._apply_change(change))  # type: ignore[misc]  # bound early
        end = self._trace.duration_s
        while True:
            due = self._timeline.next_due()
            self._pass_time(min(end, end if due is None else due))
            if not self._timeline.advance(end):
                break
        self._account.result.bytes_moved = self._migrations.bytes_moved
        return self._account.close(end)

    def _pass_time(self, until: float) -> None:
        """Account for the time until the next event, in which nothing changes."""
        seconds = until - self._timeline.now
        if seconds <= 0:
            return
        frozen = short = 0
        for machine in self._world.machines.values():
            frozen += machine.phase is Phase.FROZEN
            short += machine.name in self._down_nodes or self._is_lost(machine) or self._is_short(machine)
        over = sum(node.over_budget for node in self._scheduler.state.nodes.values())
        self._account.pass_time(seconds, frozen, short, over)
        self._told(until)

    def _is_lost(self, machine: VirtualMachine) -> bool:
        return bool(self._lost) and self._world.pods[machine.runs_in].node in self._lost

    def _is_short(self, machine: VirtualMachine) -> bool:
        wanted = self._agents.wanted_amount(machine.name)
        # most have exactly the wanted amount, and all are checked between any two events
        return wanted is not None and wanted.values != machine.use.values and wanted.exceeds(machine.use)

    # changes of the trace

    def _apply_change(self, change: Change) -> None:
        match change.event:
            case "node-added" | "node-changed":
                self._change_node(change)
            case "node-deleted":
                self._lose_node(change.uid)
            case "pod-added":
                self._add_machine(change)
            case "pod-changed":
                self._change_request(change)
            case "pod-deleted":
                self._delete_pod(change.uid)
            case _:
                assert_never(change.event)

    def _change_node(self, change: Change) -> None:
        self._lost.discard(change.uid)
        known = self._world.nodes.get(change.uid)
        total = known.total if change.allocatable is None and known is not None else None
        if total is None:
            assert change.allocatable is not None, "the first line of a node has allocatable"
            total = change.allocatable.amounts
        watermark = Amounts(tuple(int(each * self._rules.watermark) for each in total))
        self._world.add_node(change.uid, total, watermark)
        labels = change.labels or (known.labels if known is not None else {})
        node = self._world.nodes[change.uid] = replace(self._world.nodes[change.uid], labels=labels)
        self._notify_scheduler([NodeObserved(node)])

    def _lose_node(self, name: str) -> None:
        self._lost.add(name)
        self._scheduler.deliver_events([self._world.drop_node(name)])
        for uid in [pod.uid for pod in self._world.pods.values() if pod.node == name]:
            self._timeline.call_after(LOST_S, lambda uid=uid: self._evict_pod(uid))  # type: ignore[misc]  # bound early

    def _evict_pod(self, uid: str) -> None:
        """Evict a pod, unless its node is back in time."""
        pod = self._world.pods.get(uid)
        if pod is None or pod.node not in self._lost:
            return
        machine = self._world.machines.get(pod.machine)
        runs_here = machine is not None and machine.runs_in == uid
        self._scheduler.deliver_events(self._world.delete_pod(uid, self._timeline.now))
        if machine is not None and runs_here:
            again = f"{machine.name}{CREATED_UID_MARK}again-{self._timeline.now:g}"
            machine.runs_in, machine.phase = again, Phase.RUNNING
            self._wait_for_a_node(machine)

    def _add_machine(self, change: Change) -> None:
        assert change.resources is not None, "the first line of a pod has resources"
        amount, bounds, uid = change.resources.amounts, change.bounds, change.uid
        if bounds is None:
            self._add_plain_pod(change, amount)
            return
        machine = VirtualMachine(
            uid,
            amount,
            amount,
            amount,
            UNIT,
            change.migratable,
            self._timeline.now,
            change.priority,
            bounds.max.amounts,
            runs_in=uid,
            minimum=bounds.min.amounts,
            load=Load(memory_used=change.used_memory, dirty_rate=change.dirty_rate),
            affinity=change.affinity,
        )
        if change.node:
            self._notify_scheduler([self._world.add_machine(machine, change.node)])
        else:
            self._wait_for_a_node(machine)
        self._agents.set_wanted(uid, amount)

    def _add_plain_pod(self, change: Change, amount: Amounts) -> None:
        pod = WorldPod(change.uid, node=change.node, amount=amount, priority=change.priority)
        self._world.pods[change.uid] = pod
        if change.node:
            self._notify_scheduler([self._world.pod_event(change.uid)])
        else:
            self._scheduler.place(change.uid, PendingPod(change.affinity))

    def _wait_for_a_node(self, machine: VirtualMachine) -> None:
        self._world.add_waiting(machine)
        self._down_nodes.add(machine.name)

        def runs() -> None:
            self._down_nodes.discard(machine.name)

        bound = partial(self._timeline.call_after, START_S, runs)
        self._scheduler.place(machine.runs_in, PendingPod(machine.affinity, bound=bound))

    def _change_request(self, change: Change) -> None:
        """Change the wanted amount of a VM within its bounds, or resize a plain pod."""
        machine = self._world.machines.get(change.uid)
        if machine is not None and change.bounds is not None:
            machine.minimum, machine.maximum = change.bounds.min.amounts, change.bounds.max.amounts
            self._notify_scheduler(
                [self._world.pod_event(machine.runs_in)] if self._world.pods[machine.runs_in].node else []
            )
        if machine is not None:
            former = self._agents.wanted_amount(machine.name)
            amount = former if change.resources is None else change.resources.amounts
            if amount is not None:
                amount = amount.maximum(machine.minimum or amount).minimum(machine.maximum or amount)
                if change.resources is not None or amount != former:
                    self._agents.set_wanted(machine.name, amount)
            return
        if change.resources is None:
            return
        pod = self._world.pods.get(change.uid)
        if pod is not None:
            pod.amount = change.resources.amounts
            self._notify_scheduler([self._world.pod_event(pod.uid)] if pod.node else [])

    def _delete_pod(self, name: str) -> None:
        machine = self._world.machines.get(name)
        uid = name if machine is None else machine.runs_in
        self._agents.remove(name)
        self._down_nodes.discard(name)
        self._notify_scheduler(self._world.delete_pod(uid, self._timeline.now))

    def _notify_scheduler(self, events: list[Event]) -> None:
        """Notify the scheduler if it has started. Its first list covers all earlier events."""
        if self._scheduler.state.started:
            self._scheduler.deliver_events(events)

    def _fits(self, uid: str, name: str) -> bool:
        pod, node = self._world.pods.get(uid), self._scheduler.state.nodes.get(name)
        machine = None if pod is None else self._world.machines.get(pod.machine)
        return node is not None and machine is not None and machine.affinity.items() <= node.labels.items()

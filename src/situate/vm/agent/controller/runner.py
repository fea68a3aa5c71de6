"""Runner of one VM: turns actions of the core into requests, and outcomes into state.

It begins one action at a time and calls the core again before the next one. So every action fits the state in which it
begins. Failures of others are outcomes. An exception here is an internal error, and ends the run of this VM.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol, assert_never

import structlog

from situate.vm.agent.controller.load_sources import LoadSource
from situate.vm.agent.controller.machine_writer import WriteFailure, WrittenMachine
from situate.vm.agent.controller.metrics import AgentMetrics
from situate.vm.agent.controller.monitor import Monitor, MonitorFailed, MonitorLost
from situate.vm.agent.decide import outcomes
from situate.vm.agent.decide.core import Actions, PluginAction, SizeChange, next_actions
from situate.vm.agent.decide.goal import SystemMetrics
from situate.vm.agent.decide.health import Health, is_worth_logging
from situate.vm.agent.model.revisions import RevisionAt, Revisions
from situate.vm.agent.model.settings import AgentSettings
from situate.vm.agent.model.state import AgentState, Config, MonitorRequest
from situate.vm.agent.protocol.machines import MachineSnapshot, parse_machine
from situate.vm.agent.protocol.permits import BadAnswer, PermitResponse, request_body
from situate.vm.agent.protocol.samples import NoMetrics
from situate.vm.api.quantities import amounts_text
from situate.vm.model.pods_and_nodes import Ref
from situate.vm.model.resource_amounts import Amounts

HEALTH_CHECK_INTERVAL_S: Final = 2.0
"""Longest time between two health checks."""


class PermitRequester(Protocol):
    """Client of the scheduler."""

    async def ask(self, body: bytes) -> PermitResponse | BadAnswer: ...


class MachineWriter(Protocol):
    """Client of the API server."""

    async def write(self, machine: MachineSnapshot, change: SizeChange) -> WrittenMachine | WriteFailure: ...

    async def look(self, machine: MachineSnapshot) -> Any: ...


MakeMonitor = Callable[[str, Callable[[], SystemMetrics | None], Callable[[], None]], Monitor]
"""Makes a monitor from the guest's address, a function for its known load, and a callback for its messages."""


@dataclass(frozen=True, slots=True)
class RunnerDependencies:
    """Parts that all VMs of a process share."""

    settings: AgentSettings
    permits: PermitRequester
    writer: MachineWriter
    loads: LoadSource
    monitor: MakeMonitor
    metrics: AgentMetrics
    now_ms: Callable[[], int]
    """Milliseconds since the epoch, never decreasing."""


class Runner:
    """Runner of one VM, as long as its Pod and address stay the same."""

    def __init__(self, machine: MachineSnapshot, tools: RunnerDependencies, config: Config, name: str) -> None:
        """`name` must be unique to this run: it numbers its requests under that name."""
        self.machine = machine
        self._name, self._request_count = name, 0
        self._tools = tools
        first = replace(machine.guest, current_revision=None)
        self.state = AgentState(config, first, revisions=Revisions(machine.newest_revision + 1))
        self._reported_revision: RevisionAt | None = machine.guest.current_revision
        self._health = Health(tools.now_ms())
        self._complaints: tuple[str, ...] = ()
        self._warnings: tuple[str, ...] = ()
        self._failures: dict[str, int] = {}
        self._changed = asyncio.Event()
        self._rereading = False
        self._monitor = tools.monitor(machine.ip, lambda: self.state.system, self._record_monitor_contact)
        self._tasks: asyncio.TaskGroup | None = None
        self._log = structlog.get_logger().bind(machine=str(machine.ref), pod=machine.pod)

    def update(self, machine: MachineSnapshot, *, fresh: bool = False) -> None:
        """Take over a change of the VM. `fresh`: it was read after a write of unknown outcome."""
        if machine.guest.generation < self.state.vm.generation:
            return
        current = machine.guest.current_revision
        news = current if current != self._reported_revision else None
        self._reported_revision = current
        self.machine = machine
        seen = outcomes.apply_machine(self.state, replace(machine.guest, current_revision=news), fresh=fresh)
        self._tools.metrics.observe_latency("scaling", seen.since_request)
        self._tools.metrics.observe_latency("write", seen.since_write)
        self._set_state(seen.state)

    async def run(self) -> None:
        """Run until cancelled."""
        self._log.info("VM handling started")
        try:
            async with asyncio.TaskGroup() as group:
                self._tasks = group
                group.create_task(self._read_system())
                group.create_task(self._read_cache())
                group.create_task(self._run_monitor())
                await self._run_decisions()
        finally:
            self._tools.metrics.forget(str(self.machine.ref))

    async def _run_decisions(self) -> None:
        while True:
            self._changed.clear()
            planned = next_actions(self.state, self._tools.now_ms())
            self.state = planned.state
            if self._start_action(planned.actions):
                continue
            self._warn(planned.warnings)
            self._update_health()
            wait_ms = planned.actions.wait_ms
            wait_s = (
                HEALTH_CHECK_INTERVAL_S if wait_ms is None else min(HEALTH_CHECK_INTERVAL_S, max(0.001, wait_ms / 1000))
            )
            try:
                async with asyncio.timeout(wait_s):
                    await self._changed.wait()
            except TimeoutError:
                continue

    def _start_action(self, actions: Actions) -> bool:
        """Begin one of the actions. Return whether there was one."""
        if (plugin := actions.plugin) is not None:
            self.state = outcomes.start_plugin_request(self.state, self._tools.now_ms(), plugin.target)
            self._spawn(self._request_permit(self.state.number, plugin))
        elif (change := actions.vm) is not None:
            self.state = outcomes.start_vm_write(self.state, change.target)
            self._spawn(self._write_size(self.state.number, change))
        elif (up := actions.monitor_up) is not None:
            self.state = outcomes.start_monitor_request(self.state, MonitorRequest.UPSCALE, up.target)
            self._spawn(self._notify_monitor(self.state.number, up))
        elif (down := actions.monitor_down) is not None:
            self.state = outcomes.start_monitor_request(self.state, MonitorRequest.DOWNSCALE, down.target)
            self._spawn(self._request_downscale(self.state.number, down))
        else:
            return False
        return True

    async def _request_permit(self, number: int, action: PluginAction) -> None:
        tools = self._tools
        pod = Ref(self.machine.ref.namespace, self.machine.pod)
        compat = tools.settings.compat
        self._request_count += 1
        body = request_body(
            pod,
            self.state.config.unit,
            action,
            lowers_at_once=not compat,
            sequence=None if compat else self._request_count,
            run=self._name,
        )
        answer = await tools.permits.ask(body)
        if isinstance(answer, BadAnswer):
            self._record_failure("scheduler", answer.why)
            self._set_state(outcomes.record_plugin_failure(self.state, number, tools.now_ms()))
            return
        answered = outcomes.apply_permit(
            self.state,
            number,
            tools.now_ms(),
            answer.amount,
            action.target_revision,
            retry_after_ms=answer.retry_after_ms,
            migrates=answer.migrates,
        )
        if answered.objection:
            self._record_failure("scheduler", answered.objection)
        else:
            self._record_success(
                "scheduler", "ok" if action.target.fits_within(answer.amount) else _shortfall_outcome(action, answer)
            )
            tools.metrics.observe_latency("scheduler", answered.latency)
            requested, permit = amounts_text(action.target), amounts_text(answer.amount)
            self._log.debug("answer from the scheduler", requested=requested, permit=permit, reason=answer.reason)
        self._set_state(answered.state)

    async def _write_size(self, number: int, change: SizeChange) -> None:
        tools = self._tools
        written = await tools.writer.write(self.machine, change)
        match written:
            case WrittenMachine(machine):
                found = parse_machine(machine, self.state.config.scaling).value
                generation = 0 if found is None else found.guest.generation
                self._record_success("vm", "ok")
                self._log.info("resized", before=amounts_text(change.current), after=amounts_text(change.target))
                self._set_state(outcomes.finish_vm_write(self.state, number, generation))
                if found is not None:
                    self.update(found)
            case WriteFailure(why, unclear):
                self._record_failure("vm", why)
                unclear = unclear and not tools.settings.compat
                self._set_state(outcomes.record_vm_failure(self.state, number, tools.now_ms(), unclear=unclear))
                if not tools.settings.compat and not self._rereading:
                    self._rereading = True
                    self._spawn(self._reread_machine())
            case _ as never:
                assert_never(never)

    async def _reread_machine(self) -> None:
        """Read the VM until its state is known after a failed write."""
        while True:
            found = await self._tools.writer.look(self.machine)
            machine = None if found is None else parse_machine(found, self.state.config.scaling).value
            if machine is not None:
                break
            await asyncio.sleep(self._tools.settings.neonvm.retry_failed_request_seconds)
        self._rereading = False
        if machine.ref == self.machine.ref:
            self.update(machine, fresh=True)

    async def _notify_monitor(self, number: int, change: SizeChange) -> None:
        now_ms = self._tools.now_ms
        try:
            await self._monitor.upscale(change.target)
        except MonitorFailed as failed:
            self._record_failure("monitorUp", str(failed))
            self._set_state(outcomes.record_monitor_failure(self.state, number, now_ms()))
        else:
            self._record_success("monitorUp", "ok")
            self._set_state(outcomes.apply_monitor_consent(self.state, number, now_ms(), change.target_revision).state)

    async def _request_downscale(self, number: int, change: SizeChange) -> None:
        now_ms = self._tools.now_ms
        try:
            result = await self._monitor.downscale(change.target)
        except MonitorFailed as failed:
            self._record_failure("monitorDown", str(failed))
            self._set_state(outcomes.record_monitor_failure(self.state, number, now_ms()))
            return
        if result.ok:
            answered = outcomes.apply_monitor_consent(self.state, number, now_ms(), change.target_revision)
        else:
            answered = outcomes.apply_downscale_denial(self.state, number, now_ms(), change.target_revision)
            self._log.info("downscale denied by the guest", after=amounts_text(change.target), note=result.status)
        self._record_success("monitorDown", "ok" if result.ok else "denied")
        self._tools.metrics.observe_latency("monitor", answered.latency)
        self._set_state(answered.state)

    async def _run_monitor(self) -> None:
        """Keep a connection to the monitor, as far as the guest allows."""
        loop = asyncio.get_running_loop()
        while True:
            began_at = loop.time()
            try:
                await self._monitor.run(self._on_monitor_connected, self._on_upscale_request)
            except MonitorLost as lost:
                self._set_state(outcomes.end_monitor_connection(self.state))
                self._count_failure("connection", str(lost))
            at_least_s = self._tools.settings.monitor.connection_retry_min_wait_seconds
            await asyncio.sleep(max(0.0, began_at + at_least_s - loop.time()))

    def _on_monitor_connected(self) -> None:
        self._failures.pop("connection", None)
        self._record_monitor_contact()
        self._set_state(outcomes.start_monitor_connection(self.state))

    def _on_upscale_request(self) -> None:
        """Record an upscale request of the guest, which means memory."""
        self._set_state(outcomes.record_upscale_request(self.state, self._tools.now_ms(), cpu=False, memory=True))

    async def _read_system(self) -> None:
        tools = self._tools
        while True:
            found = await tools.loads.system(self.machine)
            if isinstance(found, NoMetrics):
                self._count_failure("system metrics", found.why)
            else:
                self._failures.pop("system metrics", None)
                self._set_state(outcomes.with_system_metrics(self.state, found))
            tools.metrics.count_scrape("system", "failed" if isinstance(found, NoMetrics) else "ok")
            await asyncio.sleep(tools.settings.metrics.system.seconds_between_requests)

    async def _read_cache(self) -> None:
        tools = self._tools
        while True:
            if self.state.scaling.enable_lfc_metrics:
                found = await tools.loads.cache(self.machine)
                if isinstance(found, NoMetrics):
                    self._count_failure("cache metrics", found.why)
                elif self.state.scaling.enable_lfc_metrics:
                    self._failures.pop("cache metrics", None)
                    self._set_state(outcomes.with_cache_metrics(self.state, found))
                tools.metrics.count_scrape("cache", "failed" if isinstance(found, NoMetrics) else "ok")
            await asyncio.sleep(tools.settings.metrics.lfc.seconds_between_requests)

    def _set_state(self, state: AgentState) -> None:
        self.state = state
        self._changed.set()

    def _record_monitor_contact(self) -> None:
        self._health = self._health.with_monitor_contact(self._tools.now_ms())

    def _record_success(self, kind: str, outcome: str) -> None:
        self._tools.metrics.count_request(kind, outcome)
        if kind.startswith("monitor"):
            self._record_monitor_contact()
        failures = self._failures.pop(kind, 0)
        if failures:
            self._log.info("request succeeded after failures", kind=kind, failures=failures)

    def _record_failure(self, kind: str, why: str) -> None:
        tools = self._tools
        tools.metrics.count_request(kind, "failed")
        asked = "monitor" if kind.startswith("monitor") else kind
        self._health = self._health.with_failure(asked, tools.now_ms(), tools.settings.limits)
        self._count_failure(kind, why)

    def _count_failure(self, kind: str, why: str) -> None:
        failures = self._failures[kind] = self._failures.get(kind, 0) + 1
        if is_worth_logging(failures):
            self._log.warning("request failed", kind=kind, failures=failures, error=why)

    def _warn(self, warnings: tuple[str, ...]) -> None:
        """Log new warnings, without those of the last call."""
        for warning in warnings:
            if warning not in self._warnings:
                self._log.info("desired size not reached yet", reason=warning)
        self._warnings = warnings

    def _update_health(self) -> None:
        tools = self._tools
        complaints = self._health.complaints(tools.now_ms(), tools.settings.limits)
        if complaints == self._complaints:
            return
        if complaints:
            self._log.warning("VM unhealthy", complaints=list(complaints))
        else:
            self._log.info("VM healthy again")
        self._complaints = complaints
        tools.metrics.set_health(str(self.machine.ref), complaints)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        assert self._tasks is not None, "the runner is not running"
        self._tasks.create_task(work)


def _shortfall_outcome(action: PluginAction, answer: PermitResponse) -> str:
    """Return whether a part was granted or nothing."""
    had = Amounts.zero() if action.last_permit is None else action.last_permit
    return "partial" if answer.amount.exceeds(had) else "denied"

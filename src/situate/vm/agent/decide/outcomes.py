"""Next states of an agent after the start and end of actions, and after news from others.

An outcome carries the number of its request. If that request is not ongoing any more, the outcome has no effect.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from situate.vm.agent.decide.goal import CacheMetrics, SystemMetrics
from situate.vm.agent.model.revisions import Latency, RevisionAt, newest_revision
from situate.vm.agent.model.state import (
    AgentState,
    DownscaleDenied,
    Guest,
    MonitorRequest,
    MonitorState,
    OngoingMonitorRequest,
    OngoingRequest,
    PluginRequest,
    UpscaleWanted,
)
from situate.vm.agent.protocol.permits import objection
from situate.vm.model.resource_amounts import Amounts

MIN_RETRY_MS: Final = 100
"""Least time until the next request, even if the scheduler asks for an earlier one."""


@dataclass(frozen=True, slots=True)
class AnswerOutcome:
    """State after an answer. `objection` is the reason why the answer was not accepted, empty if it was."""

    state: AgentState
    objection: str = ""
    latency: Latency | None = None


def start_plugin_request(state: AgentState, now_ms: int, resources: Amounts) -> AgentState:
    """Start a request to the scheduler. The agent's permit falls with the request, not with the answer (D24)."""
    number, plugin = state.number + 1, state.plugin
    permit = plugin.permit
    if permit is not None and not state.config.compat:
        permit = permit.minimum(resources)
    started = replace(
        plugin,
        ongoing=OngoingRequest(number, resources),
        last=PluginRequest(now_ms, resources),
        permit=permit,
        knew_approved=state.guest.approved,
        again_at_ms=None,
    )
    return replace(state, number=number, plugin=started)


def apply_permit(
    state: AgentState,
    number: int,
    now_ms: int,
    permit: Amounts,
    target_revision: RevisionAt,
    *,
    retry_after_ms: int | None = None,
    migrates: bool = False,
) -> AnswerOutcome:
    """Apply a permit, or count it as a failure if there is an objection (C18).

    `retry_after_ms`: when the scheduler wants the next request, at the latest at the next tick. `migrates`: the VM is
    about to be migrated. Then it does not change until the next tick, unless its phase shows the migration before.
    """
    asked = state.plugin.ongoing
    if asked is None or asked.number != number or state.plugin.last is None:
        return AnswerOutcome(state)
    in_use = state.possible_use
    if state.vm.ongoing is not None and not state.config.compat:
        in_use = in_use.maximum(state.vm.ongoing.resources)  # the VM may have it soon, so it counts as used
    again_at_ms = still_until_ms = None
    tick_ms = state.plugin.last.at_ms + state.config.plugin_tick_ms
    if not state.config.compat:
        still_until_ms = tick_ms if migrates else None
    if reason := objection(permit, asked.resources, in_use):
        failed = record_plugin_failure(state, number, now_ms)
        return AnswerOutcome(replace(failed, plugin=replace(failed.plugin, still_until_ms=still_until_ms)), reason)
    revision, latency = newest_revision(now_ms, target_revision, state.plugin.revision)
    if not state.config.compat:
        again_at_ms = None if retry_after_ms is None else min(now_ms + max(MIN_RETRY_MS, retry_after_ms), tick_ms)
    answered = replace(
        state.plugin,
        ongoing=None,
        permit=permit,
        revision=revision,
        again_at_ms=again_at_ms,
        still_until_ms=still_until_ms,
    )
    return AnswerOutcome(replace(state, plugin=answered), "", latency)


def record_plugin_failure(state: AgentState, number: int, now_ms: int) -> AgentState:
    asked = state.plugin.ongoing
    if asked is None or asked.number != number:
        return state
    return replace(state, plugin=replace(state.plugin, ongoing=None, failed_at_ms=now_ms))


def start_vm_write(state: AgentState, resources: Amounts) -> AgentState:
    number = state.number + 1
    return replace(state, number=number, vm=replace(state.vm, ongoing=OngoingRequest(number, resources)))


def finish_vm_write(state: AgentState, number: int, generation: int = 0) -> AgentState:
    """Apply a successful write: the spec has the requested size. `generation` is that of the spec now."""
    ongoing = state.vm.ongoing
    if ongoing is None or ongoing.number != number:
        return state
    done = replace(state.vm, ongoing=None, unclear=None, generation=max(generation, state.vm.generation))
    grown = state.guest.grown
    if grown is not None or state.vm.unclear is not None:
        grown = state.possible_use  # the VM may have reached it since its status was read
    return replace(state, guest=replace(state.guest, use=ongoing.resources, grown=grown), vm=done)


def record_vm_failure(state: AgentState, number: int, now_ms: int, *, unclear: bool = False) -> AgentState:
    """Apply a failed write. `unclear`: it may have been stored."""
    ongoing = state.vm.ongoing
    if ongoing is None or ongoing.number != number:
        return state
    perhaps = ongoing.resources if unclear else None
    if perhaps is not None and state.vm.unclear is not None:
        perhaps = perhaps.maximum(state.vm.unclear)
    return replace(state, vm=replace(state.vm, ongoing=None, failed_at_ms=now_ms, unclear=perhaps or state.vm.unclear))


@dataclass(frozen=True, slots=True)
class ReadOutcome:
    """State after reading the VirtualMachine, and the latency of a change that it shows now."""

    state: AgentState
    since_request: Latency | None = None
    since_write: Latency | None = None


def apply_machine(state: AgentState, guest: Guest, *, fresh: bool = False) -> ReadOutcome:
    """Apply the current VirtualMachine, unless it is older than the last one seen or written.

    During a write, the use in the state does not follow the object. `fresh`: it was read after a write of unknown
    outcome, which resolves that outcome.
    """
    if guest.generation < state.vm.generation:
        return ReadOutcome(state)
    use = state.guest.use
    if state.vm.ongoing is None and not state.config.compat and (fresh or state.vm.unclear is None):
        use = guest.use
    news = guest.current_revision
    vm = replace(state.vm, generation=guest.generation, unclear=None if fresh else state.vm.unclear)
    state = replace(state, guest=replace(guest, use=use, current_revision=None), vm=vm)
    if not state.scaling.enable_lfc_metrics:
        state = replace(state, cache=None)  # if it is enabled again, old metrics are too old
    if news is None:
        return ReadOutcome(state)
    known, since_write = newest_revision(news.at_ms, state.vm.target, state.vm.revision)
    revisions, since_wish = state.revisions.observe(news.at_ms, news.revision)
    reached = news.revision.value == state.target_revision.value
    last = None if reached else state.last_desired
    state = replace(state, vm=replace(state.vm, revision=known), revisions=revisions, last_desired=last)
    return ReadOutcome(state, since_wish, since_write)


def with_system_metrics(state: AgentState, metrics: SystemMetrics) -> AgentState:
    return replace(state, system=metrics)


def with_cache_metrics(state: AgentState, metrics: CacheMetrics) -> AgentState:
    return replace(state, cache=metrics)


def start_monitor_connection(state: AgentState) -> AgentState:
    """Start a connection: no state of the last one counts, and the guest has approved its current size."""
    return replace(state, monitor=MonitorState(approved=state.certain_use))


def end_monitor_connection(state: AgentState) -> AgentState:
    return replace(state, monitor=MonitorState())


def record_upscale_request(state: AgentState, now_ms: int, *, cpu: bool, memory: bool) -> AgentState:
    """Record that the guest needs more than it has. Without a connection, ignore it."""
    if state.monitor.approved is None:
        return state
    wanted = UpscaleWanted(now_ms, state.certain_use, cpu, memory)
    return replace(state, monitor=replace(state.monitor, wanted=wanted))


def start_monitor_request(state: AgentState, kind: MonitorRequest, resources: Amounts) -> AgentState:
    number = state.number + 1
    monitor = replace(state.monitor, ongoing=OngoingMonitorRequest(number, kind, resources))
    if kind is MonitorRequest.UPSCALE:
        monitor = replace(monitor, upscale_failed_at_ms=None)
    else:
        monitor = replace(monitor, downscale_failed_at_ms=None)
    return replace(state, number=number, monitor=monitor)


def apply_monitor_consent(state: AgentState, number: int, now_ms: int, target_revision: RevisionAt) -> AnswerOutcome:
    """Apply the end of an upscale notification, or the consent to a downscale."""
    ongoing = state.monitor.ongoing
    if ongoing is None or ongoing.number != number:
        return AnswerOutcome(state)
    monitor = replace(state.monitor, ongoing=None, approved=ongoing.resources)
    if ongoing.kind is MonitorRequest.UPSCALE:
        return AnswerOutcome(replace(state, monitor=monitor))
    revision, latency = newest_revision(now_ms, target_revision, monitor.revision)
    return AnswerOutcome(replace(state, monitor=replace(monitor, revision=revision)), "", latency)


def apply_downscale_denial(state: AgentState, number: int, now_ms: int, target_revision: RevisionAt) -> AnswerOutcome:
    """Apply a denial: the guest cannot use less."""
    ongoing, approved = state.monitor.ongoing, state.monitor.approved
    if ongoing is None or ongoing.number != number or approved is None:
        return AnswerOutcome(state)
    revision, latency = newest_revision(now_ms, target_revision, state.monitor.revision)
    denied = DownscaleDenied(now_ms, approved, ongoing.resources)
    return AnswerOutcome(
        replace(state, monitor=replace(state.monitor, ongoing=None, denied=denied, revision=revision)), "", latency
    )


def record_monitor_failure(state: AgentState, number: int, now_ms: int) -> AgentState:
    ongoing = state.monitor.ongoing
    if ongoing is None or ongoing.number != number:
        return state
    if ongoing.kind is MonitorRequest.UPSCALE:
        return replace(state, monitor=replace(state.monitor, ongoing=None, upscale_failed_at_ms=now_ms))
    return replace(state, monitor=replace(state.monitor, ongoing=None, downscale_failed_at_ms=now_ms))

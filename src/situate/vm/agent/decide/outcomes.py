"""What an agent's state becomes when actions start and end, and when it hears from others.

An outcome carries the number that its request was given; one whose request is not under way any more changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from situate.vm.agent.decide.goal import CacheMetrics, SystemMetrics
from situate.vm.agent.model.revisions import Latency, RevisionAt, propagated
from situate.vm.agent.model.state import (
    Asked,
    DownscaleDenied,
    Guest,
    MonitorOngoing,
    MonitorRequest,
    MonitorState,
    Ongoing,
    State,
    UpscaleWanted,
)
from situate.vm.agent.protocol.permits import objection
from situate.vm.model.resource_amounts import Amounts

SOONEST_MS: Final = 100
"""A scheduler that wants to be asked again sooner is asked again after this."""


@dataclass(frozen=True, slots=True)
class Answered:
    """The state after an answer; `objection` says why the answer was not accepted, empty if it was."""

    state: State
    objection: str = ""
    latency: Latency | None = None


def plugin_started(state: State, now_ms: int, resources: Amounts) -> State:
    """The scheduler is being asked. What we are permitted falls now with what we ask for, not with the answer (D24)."""
    number, plugin = state.number + 1, state.plugin
    permit = plugin.permit
    if permit is not None and not state.config.compat:
        permit = permit.least(resources)
    started = replace(
        plugin,
        ongoing=Ongoing(number, resources),
        last=Asked(now_ms, resources),
        permit=permit,
        knew_approved=state.guest.approved,
        again_at_ms=None,
    )
    return replace(state, number=number, plugin=started)


def plugin_answered(
    state: State,
    number: int,
    now_ms: int,
    permit: Amounts,
    target_revision: RevisionAt,
    *,
    retry_after_ms: int | None = None,
    migrates: bool = False,
) -> Answered:
    """The permit holds from now on, unless there is something against it (C18): then it counts as a failure.

    `retry_after_ms`: when the scheduler wants to be asked for the rest; the next tick is the latest. `migrates`: the
    machine is about to be moved, so nothing about it changes until the next tick, if its phase does not say so before.
    """
    asked = state.plugin.ongoing
    if asked is None or asked.number != number or state.plugin.last is None:
        return Answered(state)
    in_use = state.held
    if state.vm.ongoing is not None and not state.config.compat:
        in_use = in_use.most(state.vm.ongoing.resources)  # on its way to the machine, so as good as used
    again_at_ms = still_until_ms = None
    tick_ms = state.plugin.last.at_ms + state.config.plugin_tick_ms
    if not state.config.compat:
        still_until_ms = tick_ms if migrates else None
    if reason := objection(permit, asked.resources, in_use):
        failed = plugin_failed(state, number, now_ms)
        return Answered(replace(failed, plugin=replace(failed.plugin, still_until_ms=still_until_ms)), reason)
    revision, latency = propagated(now_ms, target_revision, state.plugin.revision)
    if not state.config.compat:
        again_at_ms = None if retry_after_ms is None else min(now_ms + max(SOONEST_MS, retry_after_ms), tick_ms)
    answered = replace(
        state.plugin,
        ongoing=None,
        permit=permit,
        revision=revision,
        again_at_ms=again_at_ms,
        still_until_ms=still_until_ms,
    )
    return Answered(replace(state, plugin=answered), "", latency)


def plugin_failed(state: State, number: int, now_ms: int) -> State:
    asked = state.plugin.ongoing
    if asked is None or asked.number != number:
        return state
    return replace(state, plugin=replace(state.plugin, ongoing=None, failed_at_ms=now_ms))


def vm_started(state: State, resources: Amounts) -> State:
    number = state.number + 1
    return replace(state, number=number, vm=replace(state.vm, ongoing=Ongoing(number, resources)))


def vm_done(state: State, number: int, generation: int = 0) -> State:
    """The spec says now what was asked for; `generation` is its own from now on."""
    ongoing = state.vm.ongoing
    if ongoing is None or ongoing.number != number:
        return state
    done = replace(state.vm, ongoing=None, unclear=None, generation=max(generation, state.vm.generation))
    grown = state.guest.grown
    if grown is not None or state.vm.unclear is not None:
        grown = state.held  # it may have come to that since its status was seen
    return replace(state, guest=replace(state.guest, use=ongoing.resources, grown=grown), vm=done)


def vm_failed(state: State, number: int, now_ms: int, *, unclear: bool = False) -> State:
    """`unclear`: it may have been written all the same."""
    ongoing = state.vm.ongoing
    if ongoing is None or ongoing.number != number:
        return state
    perhaps = ongoing.resources if unclear else None
    if perhaps is not None and state.vm.unclear is not None:
        perhaps = perhaps.most(state.vm.unclear)
    return replace(state, vm=replace(state.vm, ongoing=None, failed_at_ms=now_ms, unclear=perhaps or state.vm.unclear))


@dataclass(frozen=True, slots=True)
class Seen:
    """The state after a look at the VirtualMachine, and how long a change took that it shows now."""

    state: State
    since_wish: Latency | None = None
    since_write: Latency | None = None


def vm_seen(state: State, guest: Guest, *, fresh: bool = False) -> Seen:
    """The VirtualMachine as it is now; one that is older than what was seen or written before changes nothing.

    Its use is our own idea of it while a write is under way. `fresh`: it was read after a write of unknown outcome,
    which is thereby known.
    """
    if guest.generation < state.vm.generation:
        return Seen(state)
    use = state.guest.use
    if state.vm.ongoing is None and not state.config.compat and (fresh or state.vm.unclear is None):
        use = guest.use
    news = guest.current_revision
    vm = replace(state.vm, generation=guest.generation, unclear=None if fresh else state.vm.unclear)
    state = replace(state, guest=replace(guest, use=use, current_revision=None), vm=vm)
    if not state.scaling.enable_lfc_metrics:
        state = replace(state, cache=None)  # if it is enabled again, what was known is too old
    if news is None:
        return Seen(state)
    known, since_write = propagated(news.at_ms, state.vm.target, state.vm.revision)
    revisions, since_wish = state.revisions.observe(news.at_ms, news.revision)
    reached = news.revision.value == state.target_revision.value
    last = None if reached else state.last_desired
    state = replace(state, vm=replace(state.vm, revision=known), revisions=revisions, last_desired=last)
    return Seen(state, since_wish, since_write)


def with_system(state: State, metrics: SystemMetrics) -> State:
    return replace(state, system=metrics)


def with_cache(state: State, metrics: CacheMetrics) -> State:
    return replace(state, cache=metrics)


def monitor_active(state: State) -> State:
    """A connection is there: nothing of the last one counts, and what it has is what it approved."""
    return replace(state, monitor=MonitorState(approved=state.effective))


def monitor_lost(state: State) -> State:
    return replace(state, monitor=MonitorState())


def monitor_wants(state: State, now_ms: int, *, cpu: bool, memory: bool) -> State:
    """The guest needs more than it has. Without a connection it cannot have said so."""
    if state.monitor.approved is None:
        return state
    wanted = UpscaleWanted(now_ms, state.effective, cpu, memory)
    return replace(state, monitor=replace(state.monitor, wanted=wanted))


def monitor_started(state: State, kind: MonitorRequest, resources: Amounts) -> State:
    number = state.number + 1
    monitor = replace(state.monitor, ongoing=MonitorOngoing(number, kind, resources))
    if kind is MonitorRequest.UPSCALE:
        monitor = replace(monitor, upscale_failed_at_ms=None)
    else:
        monitor = replace(monitor, downscale_failed_at_ms=None)
    return replace(state, number=number, monitor=monitor)


def monitor_agreed(state: State, number: int, now_ms: int, target_revision: RevisionAt) -> Answered:
    """It was told of an upscale, or agrees to a downscale."""
    ongoing = state.monitor.ongoing
    if ongoing is None or ongoing.number != number:
        return Answered(state)
    monitor = replace(state.monitor, ongoing=None, approved=ongoing.resources)
    if ongoing.kind is MonitorRequest.UPSCALE:
        return Answered(replace(state, monitor=monitor))
    revision, latency = propagated(now_ms, target_revision, monitor.revision)
    return Answered(replace(state, monitor=replace(monitor, revision=revision)), "", latency)


def monitor_denied(state: State, number: int, now_ms: int, target_revision: RevisionAt) -> Answered:
    """It cannot do with less."""
    ongoing, approved = state.monitor.ongoing, state.monitor.approved
    if ongoing is None or ongoing.number != number or approved is None:
        return Answered(state)
    revision, latency = propagated(now_ms, target_revision, state.monitor.revision)
    denied = DownscaleDenied(now_ms, approved, ongoing.resources)
    return Answered(
        replace(state, monitor=replace(state.monitor, ongoing=None, denied=denied, revision=revision)), "", latency
    )


def monitor_failed(state: State, number: int, now_ms: int) -> State:
    ongoing = state.monitor.ongoing
    if ongoing is None or ongoing.number != number:
        return state
    if ongoing.kind is MonitorRequest.UPSCALE:
        return replace(state, monitor=replace(state.monitor, ongoing=None, upscale_failed_at_ms=now_ms))
    return replace(state, monitor=replace(state.monitor, ongoing=None, downscale_failed_at_ms=now_ms))

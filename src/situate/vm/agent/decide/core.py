"""Next actions of an agent for one VM: from state and time to a set of actions (C39).

    planned = next_actions(state, now_ms)     # planned.state remembers what was planned
    state = plugin_started(planned.state, now_ms, planned.actions.plugin.target)

Increases go to scheduler, VirtualMachine, monitor, in this order; decreases to monitor, VirtualMachine, scheduler (C2).
So the scheduler always knows at least the VM's use, and the VM never has less than the guest agreed to.
`situate.vm.agent.decide.outcomes` applies the outcomes of actions. The shell carries them out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from situate.vm.agent.decide.desired_size import DesiredSize, desired_size
from situate.vm.agent.model.revisions import DOWNSCALE, UPSCALE, Revision, RevisionAt
from situate.vm.agent.model.state import AgentState, MonitorRequest
from situate.vm.model.resource_amounts import Amounts

_PLUGIN: Final = "Wanted to make a request to the scheduler plugin, but "
_VM: Final = "Wanted to make a request to NeonVM API, but "
_UP: Final = "Wanted to send vm-monitor upscale request, but "
_DOWN: Final = "Wanted to send vm-monitor downscale request"


@dataclass(frozen=True, slots=True)
class PluginAction:
    """Ask the scheduler for a permit, or report a decrease to it."""

    last_permit: Amounts | None
    target: Amounts
    load1: float | None
    target_revision: RevisionAt


@dataclass(frozen=True, slots=True)
class SizeChange:
    """Change of size for the VirtualMachine or the monitor."""

    current: Amounts
    target: Amounts
    target_revision: RevisionAt


@dataclass(frozen=True, slots=True)
class Actions:
    """At most one action of each kind; None: none of that kind is due."""

    plugin: PluginAction | None = None
    vm: SizeChange | None = None
    monitor_up: SizeChange | None = None
    monitor_down: SizeChange | None = None
    wait_ms: int | None = None
    """Time until the next check, if nothing happens before."""


@dataclass(frozen=True, slots=True)
class AgentDecision:
    actions: Actions
    state: AgentState
    warnings: tuple[str, ...] = ()
    """Reasons why the VM does not have its desired size yet, in upstream's words."""
    desired: DesiredSize | None = None
    """None: the VM is frozen."""


def next_actions(state: AgentState, now_ms: int) -> AgentDecision:
    """Return the next actions, the same for the same state and time. A VM in or before a migration gets none (D13)."""
    if state.guest.frozen and not state.config.compat:
        return AgentDecision(Actions(), state)
    still_until_ms = state.plugin.still_until_ms
    if still_until_ms is not None and still_until_ms > now_ms:
        return AgentDecision(Actions(wait_ms=still_until_ms - now_ms), state)
    aim = desired_size(state, now_ms)
    state = with_desired_size(state, aim.resources, now_ms)
    warnings = list(aim.warnings)
    plugin, plugin_wait = _plugin_action(state, aim.resources, now_ms, warnings)
    asked = state.plugin.ongoing.resources if state.plugin.ongoing else plugin.target if plugin else None
    vm, vm_wait = _vm_change(state, aim.resources, asked, now_ms, warnings)
    if vm is not None:
        state = replace(state, vm=replace(state.vm, target=vm.target_revision))
    up, up_wait = _upscale_change(state, aim.resources, now_ms, warnings)
    down, down_wait = _downscale_change(state, aim.resources, up is not None, now_ms, warnings)
    idle = down is None and state.monitor.ongoing is None
    denied_wait = aim.denied_for_ms if idle else None
    waits = [plugin_wait, vm_wait, up_wait, down_wait, aim.wanted_for_ms, denied_wait]
    wait_ms = min((each for each in waits if each is not None), default=None)
    return AgentDecision(Actions(plugin, vm, up, down, wait_ms), state, tuple(warnings), aim)


def with_desired_size(state: AgentState, resources: Amounts, now_ms: int) -> AgentState:
    """Take the next revision if the desired size has changed (C40)."""
    last = state.guest.use if state.last_desired is None else state.last_desired
    if resources == last:
        return replace(state, last_desired=resources)
    flags = (UPSCALE if resources.exceeds(last) else 0) | (DOWNSCALE if last.exceeds(resources) else 0)
    revision, revisions = state.revisions.next(now_ms, flags)
    return replace(state, last_desired=resources, target_revision=revision, revisions=revisions)


def _plugin_action(
    state: AgentState, wish: Amounts, now_ms: int, warnings: list[str]
) -> tuple[PluginAction | None, int | None]:
    """Request increases before they happen, and report decreases after they happened."""
    config, plugin, held = state.config, state.plugin, state.possible_use
    in_use = held if state.vm.ongoing is None else held.maximum(state.vm.ongoing.resources)
    wanted = (held if config.compat else in_use).maximum(wish)
    tick_ms = 0 if plugin.last is None else plugin.last.at_ms + config.plugin_tick_ms - now_ms
    denied_ms = _denied_wait_ms(state, now_ms)
    first = plugin.permit is None and plugin.last is not None and not config.compat  # no scheduler has answered yet
    differs = plugin.permit is not None and wanted != plugin.permit
    anew = (differs and denied_ms <= 0) or _is_request_obsolete(state, wanted)
    # a permit that is not used yet would lapse otherwise (B28)
    renews = plugin.permit is not None and denied_ms <= 0 and not config.compat
    target = wanted if anew or renews else in_use
    if plugin.ongoing is not None:
        if plugin.ongoing.resources != target:
            warnings.append(f"{_PLUGIN}there's already an ongoing request for different resources")
        return None, None
    if plugin.failed_at_ms is not None and (left := plugin.failed_at_ms + config.plugin_retry_ms - now_ms) > 0:
        warnings.append(f"{_PLUGIN}previous request failed too recently")
        return None, left
    if tick_ms <= 0 or anew or first:
        permit = plugin.permit
        if permit is not None and not config.compat:
            permit = permit.minimum(target)  # lowered when it is sent (D24)
        load1 = None if state.system is None else state.system.load1
        return PluginAction(permit, target, load1, RevisionAt(state.target_revision, now_ms)), None
    if differs and denied_ms > 0:
        warnings.append(f"{_PLUGIN}previous request for more resources was denied too recently")
    return None, min(tick_ms, denied_ms) if denied_ms > 0 else tick_ms


def _is_request_obsolete(state: AgentState, wanted: Amounts) -> bool:
    """Return whether an unmet request is no longer needed, so that the scheduler can stop freeing capacity."""
    plugin = state.plugin
    if state.config.compat or plugin.ongoing is not None or plugin.last is None or plugin.permit is None:
        return False
    return plugin.last.resources.exceeds(plugin.permit) and wanted.fits_within(plugin.permit)


def _denied_wait_ms(state: AgentState, now_ms: int) -> int:
    """Return the time until the next request for more; 0 or less: now."""
    plugin = state.plugin
    if plugin.ongoing is not None or plugin.last is None or plugin.permit is None:
        return 0
    if plugin.last.resources.fits_within(plugin.permit):
        return 0
    approved = state.guest.approved
    is_news = approved is not None and approved != plugin.knew_approved and approved.exceeds(plugin.permit)
    if is_news and not state.config.compat:
        return 0  # the scheduler has found capacity meanwhile (D16)
    if plugin.again_at_ms is not None:
        return plugin.again_at_ms - now_ms
    return plugin.last.at_ms + state.config.plugin_denied_retry_ms - now_ms


def _vm_change(
    state: AgentState, wish: Amounts, asked: Amounts | None, now_ms: int, warnings: list[str]
) -> tuple[SizeChange | None, int | None]:
    """Change the size within the scheduler's permit, but not below the monitor's approval."""
    use, ongoing = state.guest.use, state.vm.ongoing
    floor = use if state.monitor.approved is None else state.monitor.approved.minimum(use)
    ceiling = use if state.plugin.permit is None else state.plugin.permit.maximum(use)
    target = _rounded_to_slots(state, _clamp(wish, floor, ceiling))
    if target == use:
        return None, None
    conflict = asked is not None and target.exceeds(asked)
    if ongoing is not None or conflict:
        in_the_way = []
        if state.plugin.ongoing is not None:
            in_the_way.append("plugin request ongoing")
        if ongoing is not None and ongoing.resources != target:
            in_the_way.append("NeonVM request (for different resources) ongoing")
        if in_the_way:
            warnings.append(f"{_VM}there's already {' and '.join(in_the_way)}")
        return None, None
    if state.vm.failed_at_ms is not None and (left := state.vm.failed_at_ms + state.config.vm_retry_ms - now_ms) > 0:
        warnings.append(f"{_VM}recent request failed too recently")
        return None, left
    return SizeChange(use, target, RevisionAt(_revision_of_change(state, target), now_ms)), None


def _revision_of_change(state: AgentState, target: Amounts) -> Revision:
    """Return the revision of a change: at most the one that the monitor (less) or the scheduler (more) agreed to."""
    revision, use = state.target_revision, state.guest.use
    if use.exceeds(target) and state.monitor.revision.value > 0:
        revision = revision.older_of(state.monitor.revision)
    if target.exceeds(use) and state.plugin.revision.value > 0:
        revision = revision.older_of(state.plugin.revision)
    return revision


def _rounded_to_slots(state: AgentState, target: Amounts) -> Amounts:
    """Return the size with memory in whole slots, rounded towards the use."""
    slot, use = state.guest.slot, state.guest.use.memory
    whole = target.memory // slot * slot
    if target.memory < use and whole < target.memory:
        whole = min(use, whole + slot)
    return Amounts.from_values(target.cpu, max(use, whole) if target.memory > use else whole)


def _upscale_change(
    state: AgentState, wish: Amounts, now_ms: int, warnings: list[str]
) -> tuple[SizeChange | None, int | None]:
    """Notify the guest of its larger size."""
    approved, ongoing = state.monitor.approved, state.monitor.ongoing
    if approved is None:
        return None, None
    target = approved.maximum(state.certain_use.minimum(wish.maximum(approved)))
    if target == approved:
        return None, None
    if ongoing is not None:
        if ongoing.kind is MonitorRequest.DOWNSCALE:
            warnings.append(f"{_UP}waiting on ongoing downscale request")
        elif ongoing.resources != target:
            warnings.append(f"{_UP}waiting on ongoing upscale request (for different resources)")
        return None, None
    failed_at_ms = state.monitor.upscale_failed_at_ms
    if failed_at_ms is not None and (left := failed_at_ms + state.config.monitor_retry_ms - now_ms) > 0:
        warnings.append(f"{_UP}failed too recently")
        return None, left
    return SizeChange(approved, target, RevisionAt(state.target_revision, now_ms)), None


def _downscale_change(
    state: AgentState, wish: Amounts, upscale_planned: bool, now_ms: int, warnings: list[str]
) -> tuple[SizeChange | None, int | None]:
    """Ask the guest to use less, one unit at a time, and only after upscales."""
    monitor, config = state.monitor, state.config
    approved, ongoing, denied = monitor.approved, monitor.ongoing, monitor.denied
    if approved is None:
        if state.guest.use.exceeds(wish):
            warnings.append(f"{_DOWN}, but there's no active connection")
        return None, None
    target = approved.minimum(wish).maximum((approved - config.unit).positive_part())
    if target == approved:
        return None, None
    if upscale_planned:
        warnings.append(f"{_DOWN}, but waiting on other planned upscale request")
        return None, None
    if ongoing is not None:
        if ongoing.kind is MonitorRequest.UPSCALE:
            warnings.append(f"{_DOWN}, but waiting on other ongoing upscale request")
        elif ongoing.resources != target:
            warnings.append(f"{_DOWN}, but waiting on other ongoing downscale request (for different resources)")
        return None, None
    failed_at_ms = monitor.downscale_failed_at_ms
    if failed_at_ms is not None and (left := failed_at_ms + config.monitor_retry_ms - now_ms) > 0:
        warnings.append(f"{_DOWN} but failed too recently")
        return None, left
    left = 0 if denied is None else denied.at_ms + config.denied_downscale_ms - now_ms
    if denied is not None and left > 0 and target.fits_within(denied.resources):
        return None, left
    return SizeChange(approved, target, RevisionAt(state.target_revision, now_ms)), None


def _clamp(wish: Amounts, floor: Amounts, ceiling: Amounts) -> Amounts:
    return wish.maximum(floor).minimum(ceiling)

"""Desired size of a VM: the goal, with lower limits from requests and denials of the monitor (C38)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from situate.vm.agent.decide.goal import Goal, goal
from situate.vm.agent.model.state import AgentState, DownscaleDenied, UpscaleWanted
from situate.vm.model.resource_amounts import Amounts

ABOVE_MAXIMUM: Final = (
    "Can't decrease desired resources to within VM maximum because of vm-monitor previously denied downscale request"
)


@dataclass(frozen=True, slots=True)
class DesiredSize:
    """A size, and the inputs that changed it."""

    resources: Amounts
    goal: Goal
    warnings: tuple[str, ...]
    wanted_for_ms: int | None = None
    """Time for which the guest's upscale request raises the size; None: no request, or without effect."""
    denied_for_ms: int | None = None
    """Time for which a denied downscale raises the size."""


def desired_size(state: AgentState, now_ms: int) -> DesiredSize:
    """Return the desired size between minimum and maximum. A denied downscale counts even above the maximum."""
    config, guest, monitor = state.config, state.guest, state.monitor
    unit = config.unit
    aim = goal(state.scaling, unit, state.system, state.cache)
    warnings = list(aim.warnings)
    units = aim.units
    wanted_for_ms = denied_for_ms = None

    wanted_left = _remaining_ms(monitor.wanted, config.requested_upscale_ms, now_ms)
    if (
        monitor.wanted is not None
        and wanted_left > 0
        and (needed := _requested_units(monitor.wanted, unit)) > aim.units
    ):
        units, wanted_for_ms = max(units, needed), wanted_left
    denied_left = _remaining_ms(monitor.denied, config.denied_downscale_ms, now_ms)
    denied = monitor.denied if denied_left > 0 else None
    if denied is not None and (needed := _units_above_denied(denied, unit)) > aim.units:
        units, denied_for_ms = max(units, needed), denied_left

    resources = Amounts.from_values(unit.cpu * units, unit.memory * units)
    if not aim.has_all_metrics:
        resources = resources.maximum(guest.use)
    resources = resources.minimum(guest.maximum).maximum(guest.minimum)
    if denied is not None:
        least = _minimum_after_denial(denied, unit)
        if least.exceeds(resources):
            resources, denied_for_ms = resources.maximum(least), denied_left
        if least.exceeds(guest.maximum):
            warnings.append(ABOVE_MAXIMUM)
    return DesiredSize(resources, aim, tuple(warnings), wanted_for_ms, denied_for_ms)


def _remaining_ms(since: UpscaleWanted | DownscaleDenied | None, valid_ms: int, now_ms: int) -> int:
    return 0 if since is None else since.at_ms + valid_ms - now_ms


def _requested_units(wanted: UpscaleWanted, unit: Amounts) -> int:
    """Return the smallest number of units above the base, for each named resource."""
    cpu = 1 + wanted.base.cpu // unit.cpu if wanted.cpu else 0
    memory = 1 + wanted.base.memory // unit.memory if wanted.memory else 0
    return max(cpu, memory)


def _units_above_denied(denied: DownscaleDenied, unit: Amounts) -> int:
    return max(1 + refused // size for refused, size in zip(denied.resources, unit, strict=True))


def _minimum_after_denial(denied: DownscaleDenied, unit: Amounts) -> Amounts:
    """Return one unit more than the refused size, but at most the old size. Neither need be a multiple of the unit."""
    return Amounts(
        tuple(
            min(had, size * (1 + refused // size))
            for had, refused, size in zip(denied.current, denied.resources, unit, strict=True)
        )
    )

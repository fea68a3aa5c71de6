"""Compute when a VM may migrate again, from the record of its past migrations alone."""

from __future__ import annotations

from typing import Final

from situate.vm.config.settings import MigrationLimits
from situate.vm.model.pods_and_nodes import Machine
from situate.vm.model.state import LedgerState, MigrationFailures

DAY_S: Final = 24 * 3600.0
ANY_TARGET: Final = ""
"""In place of a target: the VM itself could not be copied, to any target."""


def moves_in_a_day(machine: Machine, now: float) -> int:
    """Return how often the VM was migrated in the 24 hours before `now`."""
    return sum(1 for at in machine.moved_at if at > now - DAY_S)


def cooldown_end(machine: Machine, calm: MigrationLimits) -> float:
    """Return when its cool-down ends, in seconds of the epoch. Minus infinity: it never migrated.

    The first migration of a day starts a cool-down of `cool_down_s`. Each earlier one in the 24 hours before doubles
    it.
    """
    if not machine.moved_at:
        return float("-inf")
    last = max(machine.moved_at)
    before = moves_in_a_day(machine, last) - 1
    return last + min(calm.cool_down_s * 2.0 ** min(before, 64), calm.longest_cool_down_s)


def is_cooling_down(machine: Machine, now: float, calm: MigrationLimits) -> bool:
    return now < cooldown_end(machine, calm)


def avoidance_end(state: LedgerState, machine: Machine, target: str) -> float:
    """Return until when a failure excludes this target, in seconds of the epoch. Minus infinity: no failure does."""
    failures = state.failures.get((machine.ref.uid, target))
    return float("-inf") if failures is None else failures.until


def failures_after_another(former: MigrationFailures | None, now: float, calm: MigrationLimits) -> MigrationFailures:
    """Return the record after one more failure of a VM and a target."""
    failed = 0 if former is None else former.count
    pause = min(calm.after_failure_s * 2.0 ** min(failed, 64), calm.longest_after_failure_s)
    return MigrationFailures(failed + 1, now + pause)

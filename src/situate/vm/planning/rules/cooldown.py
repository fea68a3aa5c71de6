"""Compute when a VM may migrate again, from the record of its past migrations alone."""

from __future__ import annotations

from typing import Final

from situate.vm.model.pods_and_nodes import Machine
from situate.vm.model.policy import Calm
from situate.vm.model.state import Failures, State

DAY_S: Final = 24 * 3600.0
ANYWHERE: Final = ""
"""In place of a target: the VM itself could not be copied, to any target."""


def moves_in_a_day(machine: Machine, now: float) -> int:
    """Return how often the VM was migrated in the 24 hours before `now`."""
    return sum(1 for at in machine.moved_at if at > now - DAY_S)


def cools_until(machine: Machine, calm: Calm) -> float:
    """Return when its cool-down ends, in seconds of the epoch. Minus infinity: it never migrated.

    The first migration of a day starts a cool-down of `cool_down_s`. Each earlier one in the 24 hours before doubles
    it.
    """
    if not machine.moved_at:
        return float("-inf")
    last = max(machine.moved_at)
    before = moves_in_a_day(machine, last) - 1
    return last + min(calm.cool_down_s * 2.0 ** min(before, 64), calm.most_cool_down_s)


def cools_down(machine: Machine, now: float, calm: Calm) -> bool:
    return now < cools_until(machine, calm)


def avoided_until(state: State, machine: Machine, target: str) -> float:
    """Return until when a failure excludes this target, in seconds of the epoch. Minus infinity: no failure does."""
    failures = state.failures.get((machine.ref.uid, target))
    return float("-inf") if failures is None else failures.until


def after_failure(former: Failures | None, now: float, calm: Calm) -> Failures:
    """Return the record after one more failure of a VM and a target."""
    failed = 0 if former is None else former.count
    pause = min(calm.after_failure_s * 2.0 ** min(failed, 64), calm.most_after_failure_s)
    return Failures(failed + 1, now + pause)

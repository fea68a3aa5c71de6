"""When a machine may move again (B25). Both predicates read what is kept of former moves, and nothing else."""

from __future__ import annotations

from typing import Final

from situate.vm.model.pods_and_nodes import Machine
from situate.vm.model.policy import Calm
from situate.vm.model.state import Failures, State

DAY_S: Final = 24 * 3600.0
ANYWHERE: Final = ""
"""In the place of a target: the machine itself could not be copied, whereto does not matter."""


def moves_in_a_day(machine: Machine, now: float) -> int:
    """How often it was moved in the 24 hours before."""
    return sum(1 for at in machine.moved_at if at > now - DAY_S)


def cools_until(machine: Machine, calm: Calm) -> float:
    """Until when it stays where its last move brought it, seconds of the epoch; minus infinity: never moved.

    The first move of a day is followed by `cool_down_s`; each one more in the 24 hours before doubles it.
    """
    if not machine.moved_at:
        return float("-inf")
    last = max(machine.moved_at)
    before = moves_in_a_day(machine, last) - 1
    return last + min(calm.cool_down_s * 2.0 ** min(before, 64), calm.most_cool_down_s)


def cools_down(machine: Machine, now: float, calm: Calm) -> bool:
    return now < cools_until(machine, calm)


def avoided_until(state: State, machine: Machine, target: str) -> float:
    """Until when a failure keeps it from this target, seconds of the epoch; minus infinity: nothing does."""
    failures = state.failures.get((machine.ref.uid, target))
    return float("-inf") if failures is None else failures.until


def after_failure(former: Failures | None, now: float, calm: Calm) -> Failures:
    """What is kept of one more failure of a machine and a target."""
    failed = 0 if former is None else former.count
    pause = min(calm.after_failure_s * 2.0 ** min(failed, 64), calm.most_after_failure_s)
    return Failures(failed + 1, now + pause)

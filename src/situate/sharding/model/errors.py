"""Define the errors for an object that cannot be placed, or not be decided on.

Strategies raise `Unschedulable`, as in KSched. `situate.sharding.assignment.decide` turns it into a condition.
"""

from __future__ import annotations

from situate.sharding.model.names import Reason


class Unschedulable(Exception):
    """No executor can take the object. Only a member event may change that; an immediate retry does not."""

    default_reason = Reason.NO_HEALTHY_EXECUTORS

    def __init__(self, reason: str = "", cause: BaseException | None = None) -> None:
        """`reason`: the reason for conditions, the class's own if empty. `cause`: the error in the strategy, if any."""
        self.reason: str = reason or self.default_reason
        self.cause = cause
        super().__init__(f"{self.reason}: {cause}" if cause is not None else self.reason)


class NoExecutors(Unschedulable):
    """No executor is known at all."""

    default_reason = Reason.NO_EXECUTORS


class NoHealthyExecutors(Unschedulable):
    """Executors are known, and none is eligible."""


class NoCapacity(NoHealthyExecutors):
    """All executors that could be chosen are full."""

    default_reason = Reason.NO_CAPACITY


class NoMetrics(NoHealthyExecutors):
    """No executor has a usable sample, and no fallback strategy is configured."""


class RuleFailed(Exception):
    """A rule that the user wrote for objects raised an exception; the message names the rule."""

"""Why an object cannot be placed now, or not be decided on. Strategies raise the former, as in KSched;
`situate.sharding.assignment.decide` turns it into a condition.
"""

from __future__ import annotations

from situate.sharding.model.names import Reason


class Unschedulable(Exception):
    """No executor can take the object. A member event may change that; asking again at once does not."""

    default_reason = Reason.NO_HEALTHY_EXECUTORS

    def __init__(self, reason: str = "", cause: BaseException | None = None) -> None:
        """`reason`: a word for conditions, the class's own if empty; `cause`: what a strategy met, if anything."""
        self.reason: str = reason or self.default_reason
        self.cause = cause
        super().__init__(f"{self.reason}: {cause}" if cause is not None else self.reason)


class NoExecutors(Unschedulable):
    """No executor is known at all."""

    default_reason = Reason.NO_EXECUTORS


class NoHealthyExecutors(Unschedulable):
    """Executors are known, and none is eligible."""


class NoCapacity(NoHealthyExecutors):
    """All that could be chosen hold as many objects as they can."""

    default_reason = Reason.NO_CAPACITY


class NoMetrics(NoHealthyExecutors):
    """No executor has a usable sample, and there is no other strategy to fall back on."""


class RuleFailed(Exception):
    """A rule of the user's about objects has raised; the message names it."""

"""Decides which failed calls are retried, and after how long.

Only calls that are safe to repeat: the server has certainly not carried the call out, or the call only reads. A write
whose outcome is unknown is never repeated; the caller reads the state first, as the level-based loops above do.
"""

from __future__ import annotations

from random import Random
from typing import Final

from situate.kube.errors import KubeError, ServiceUnavailable, TooManyRequests, Unreachable
from situate.kube.retry.backoff import Backoff
from situate.objects.messages import Request

DEFAULT_BACKOFF: Final = Backoff(initial_s=0.1, cap_s=10.0)


class Retries:
    """Exponential back-off with jitter, added to the delay that the server requested in Retry-After."""

    def __init__(self, rng: Random, *, attempts: int = 5, backoff: Backoff = DEFAULT_BACKOFF) -> None:
        """`attempts` counts the first call."""
        self._rng = rng
        self._attempts = attempts
        self._backoff = backoff

    def delay_s(self, request: Request, error: KubeError, failed_before: int) -> float | None:
        """Return the seconds until the retry; None if the call must not be retried."""
        if failed_before + 1 >= self._attempts or not _is_repeatable(request, error):
            return None
        return (error.after_s or 0.0) + self._backoff.delay_s(failed_before + 1, self._rng)


def _is_repeatable(request: Request, error: KubeError) -> bool:
    if not error.retriable:
        return False
    if isinstance(error, TooManyRequests):
        # Load is shed before the call is carried out, whatever the verb. A disruption budget allows it only after pods
        # recover.
        return not error.disruption_budget
    if isinstance(error, Unreachable):
        return not error.outcome_unknown or _is_read(request)
    return _is_read(request) and (isinstance(error, ServiceUnavailable) or error.after_s is not None)


def _is_read(request: Request) -> bool:
    return request.method in ("GET", "HEAD") or request.parameter("dryRun") == "All"

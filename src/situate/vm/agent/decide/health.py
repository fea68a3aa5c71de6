"""Health of a VM: unhealthy if its monitor is silent, or too many requests about it failed (C35)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class FailureLimit:
    """Limit of failures: more than `threshold` within `interval_ms` are too many."""

    interval_ms: int
    threshold: int


@dataclass(frozen=True, slots=True)
class HealthLimits:
    silence_ms: int
    """Longest silence of the monitor."""
    grace_ms: int
    """Time after the start in which silence is expected."""
    rates: Mapping[str, FailureLimit]
    """By receiver of the request: `scheduler`, `vm`, `monitor`."""


@dataclass(frozen=True, slots=True)
class Health:
    """Health of one VM. Old failures are dropped."""

    started_ms: int
    last_contact_ms: int | None = None
    failures_ms: Mapping[str, tuple[int, ...]] = field(default_factory=lambda: MappingProxyType({}))

    def with_monitor_contact(self, now_ms: int) -> Health:
        return replace(self, last_contact_ms=now_ms)

    def with_failure(self, kind: str, now_ms: int, limits: HealthLimits) -> Health:
        rate = limits.rates[kind]
        recent = tuple(at for at in (*self.failures_ms.get(kind, ()), now_ms) if at > now_ms - rate.interval_ms)
        return replace(self, failures_ms={**self.failures_ms, kind: recent[-(rate.threshold + 1) :]})

    def complaints(self, now_ms: int, limits: HealthLimits) -> tuple[str, ...]:
        """Return the reasons why it is unhealthy: `monitor silent`, `scheduler failures`, ... Empty: it is healthy."""
        found: list[str] = []
        since_ms = max(self.last_contact_ms or 0, self.started_ms + limits.grace_ms - limits.silence_ms)
        if now_ms - since_ms > limits.silence_ms:
            found.append("monitor silent")
        for kind, rate in limits.rates.items():
            recent = [at for at in self.failures_ms.get(kind, ()) if at > now_ms - rate.interval_ms]
            if len(recent) > rate.threshold:
                found.append(f"{kind} failures")
        return tuple(found)


def is_worth_logging(failures: int, threshold: int = 1) -> bool:
    """Return whether to log this number of failures in a row.

    Logged are `threshold` and every tenth multiple of it (D21).
    """
    return failures == threshold or (failures > 0 and failures % (10 * threshold) == 0)

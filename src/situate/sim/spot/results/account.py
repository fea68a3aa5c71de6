"""What one run comes to: service and cost, integrated over time as they change."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from situate.spot.model.pods_nodes_workloads import Capacity


class Cause(StrEnum):
    """Why a pod ended."""

    LOST = "lost"
    """With its node."""
    DRAINED = "drained"
    """Evicted by others before its node ended."""
    WAVE = "wave"
    """By us, before its node ended or for it."""
    MOVED = "moved"
    """By us, for policy alone."""
    ROLLOUT = "rollout"
    SCALED = "scaled"


RESTARTS = frozenset((Cause.LOST, Cause.DRAINED, Cause.WAVE, Cause.MOVED))
"""What a user did not ask for."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One workload in one run."""

    replicas: int
    """At the end."""
    outage_s: float
    """With no pod that serves."""
    half_s: float
    """With half of its replicas or fewer."""
    pod_s_short: float
    """Seconds, each as often as pods were missing."""
    least_ready: int


@dataclass(frozen=True, slots=True)
class Played:
    """One run."""

    outcomes: dict[str, Outcome]
    """By workload."""
    cost: float
    """Of what all its replicas would have cost on demand; kept room included."""
    endings: dict[Cause, int]
    ready: tuple[int, ...]
    """Pods of all workloads that served, at the times asked for."""
    on_demand: tuple[int, ...]
    """Pods that ran on demand then."""
    least_ready: int
    """Pods of all workloads that served, when they were fewest."""

    @property
    def restarts(self) -> int:
        return sum(count for cause, count in self.endings.items() if cause in RESTARTS)


class _Service:
    """Of one workload while it runs."""

    __slots__ = ("half_s", "least", "outage_s", "replicas", "serving", "short")

    def __init__(self, replicas: int, serving: int) -> None:
        self.replicas, self.serving, self.least = replicas, serving, serving
        self.outage_s = self.half_s = self.short = 0.0

    def pass_time(self, seconds: float) -> None:
        if self.serving < self.replicas:
            self.short += (self.replicas - self.serving) * seconds
            if 2 * self.serving <= self.replicas:
                self.half_s += seconds
                if not self.serving:
                    self.outage_s += seconds


class Account:
    """Told of each change when it happens."""

    def __init__(self, now: float, discount: float) -> None:
        self._began = self._now = now
        self._discount = discount
        self._services: dict[str, _Service] = {}
        self._running: Counter[Capacity] = Counter()
        self._kept = 0
        self._paid = self._full_price = 0.0
        self._replicas = 0
        self._serving = 0
        self._history: list[tuple[float, int, int]] = [(now, 0, 0)]
        """Since when so many pods served, and ran on demand."""
        self._endings: Counter[Cause] = Counter()

    def fork(self, now: float) -> Account:
        """A new account that begins with how things stand."""
        twin = Account(now, self._discount)
        twin._services = {name: _Service(each.replicas, each.serving) for name, each in self._services.items()}
        twin._running = self._running.copy()
        twin._kept = self._kept
        twin._replicas, twin._serving = self._replicas, self._serving
        twin._history = [(now, self._serving, self.on_demand)]
        return twin

    def resize(self, now: float, workload: str, change: int) -> None:
        """It wants so many more pods, or fewer."""
        self._pass_time(now)
        service = self._services.setdefault(workload, _Service(0, 0))
        service.replicas += change
        self._replicas += change

    def serve(self, now: float, workload: str, change: int) -> None:
        """So many more of its pods serve."""
        self._pass_time(now)
        service = self._services[workload]
        service.serving += change
        service.least = min(service.least, service.serving)
        self._serving += change
        self._note(now)

    def run(self, now: float, capacity: Capacity, change: int) -> None:
        """So many more pods run, and are paid for."""
        self._pass_time(now)
        self._running[capacity] += change
        self._note(now)

    def keep(self, now: float, places: int) -> None:
        """So many places on demand are paid for, used or not."""
        self._pass_time(now)
        self._kept = places

    @property
    def on_demand(self) -> int:
        """Pods that run on demand now."""
        return self._running[Capacity.ON_DEMAND]

    def ended(self, cause: Cause) -> None:
        self._endings[cause] += 1

    def _note(self, now: float) -> None:
        self._history.append((now, self._serving, self.on_demand))

    def _pass_time(self, now: float) -> None:
        seconds = now - self._now
        if seconds <= 0:
            return
        self._now = now
        for service in self._services.values():
            service.pass_time(seconds)
        running = self._running
        on_demand = max(running[Capacity.ON_DEMAND], self._kept)
        self._paid += seconds * (on_demand + (1 - self._discount) * running[Capacity.SPOT])
        self._full_price += seconds * self._replicas

    def close(self, now: float, samples: Sequence[float]) -> Played:
        """`samples`: seconds since the beginning, ascending."""
        self._pass_time(now)
        outcomes = {
            name: Outcome(each.replicas, each.outage_s, each.half_s, each.short, each.least)
            for name, each in self._services.items()
        }
        cost = self._paid / self._full_price if self._full_price else 0.0
        times = [when for when, _, _ in self._history]
        found = [self._history[bisect_right(times, self._began + sample) - 1] for sample in samples]
        return Played(
            outcomes,
            cost,
            dict(self._endings),
            tuple(ready for _, ready, _ in found),
            tuple(on_demand for _, _, on_demand in found),
            min(ready for _, ready, _ in self._history),
        )

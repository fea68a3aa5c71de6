"""The result of one run: service and cost, integrated over time."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from situate.spot.model.pods_nodes_workloads import Capacity


class EndCause(StrEnum):
    """The cause of a pod's end."""

    LOST = "lost"
    """The pod ended with its node."""
    DRAINED = "drained"
    """Another tool evicted the pod before its node ended."""
    WAVE = "wave"
    """spot moved the pod because its node ends."""
    MOVED = "moved"
    """spot moved the pod for policy alone."""
    ROLLOUT = "rollout"
    SCALED = "scaled"


RESTARTS = frozenset((EndCause.LOST, EndCause.DRAINED, EndCause.WAVE, EndCause.MOVED))
"""Causes that no user requested."""


@dataclass(frozen=True, slots=True)
class ServiceOutcome:
    """The result for one workload in one run."""

    replicas: int
    """Number of replicas at the end."""
    outage_s: float
    """Seconds without a serving pod."""
    half_s: float
    """Seconds with at most half of the replicas serving."""
    pod_s_short: float
    """Seconds multiplied by the number of missing pods."""
    least_ready: int


@dataclass(frozen=True, slots=True)
class RunResult:
    """The result of one run."""

    outcomes: dict[str, ServiceOutcome]
    """Results by workload."""
    cost: float
    """Cost as a share of the cost of all replicas on demand. It includes reserved headroom."""
    endings: dict[EndCause, int]
    ready: tuple[int, ...]
    """Number of serving pods of all workloads at the sample times."""
    on_demand: tuple[int, ...]
    """Number of pods running on demand at the sample times."""
    least_ready: int
    """Minimum number of serving pods of all workloads."""

    @property
    def together(self) -> ServiceOutcome:
        """Return the sums over the workloads, and the minimum of all their serving pods."""
        found = self.outcomes.values()
        return ServiceOutcome(
            sum(each.replicas for each in found),
            sum(each.outage_s for each in found),
            sum(each.half_s for each in found),
            sum(each.pod_s_short for each in found),
            self.least_ready,
        )

    @property
    def restarts(self) -> int:
        return sum(count for cause, count in self.endings.items() if cause in RESTARTS)


class _Service:
    """Service of one workload during the run."""

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


class SpotAccount:
    """Accounts for each change at its time."""

    def __init__(self, now: float, discount: float) -> None:
        self._began = self._now = now
        self._discount = discount
        self._services: dict[str, _Service] = {}
        self._running: Counter[Capacity] = Counter()
        self._paid_places = 0
        self._paid = self._full_price = 0.0
        self._replicas = 0
        self._serving = 0
        self._history: list[tuple[float, int, int]] = [(now, 0, 0)]
        """Times of changes, with the number of serving pods and of pods on demand since then."""
        self._endings: Counter[EndCause] = Counter()

    def fork(self, now: float) -> SpotAccount:
        """Return a new account that begins with the present state."""
        twin = SpotAccount(now, self._discount)
        twin._services = {name: _Service(each.replicas, each.serving) for name, each in self._services.items()}
        twin._running = self._running.copy()
        twin._paid_places = self._paid_places
        twin._replicas, twin._serving = self._replicas, self._serving
        twin._history = [(now, self._serving, self.on_demand)]
        return twin

    def change_replicas(self, now: float, workload: str, change: int) -> None:
        """Change the number of replicas of a workload."""
        self._pass_time(now)
        service = self._services.setdefault(workload, _Service(0, 0))
        service.replicas += change
        self._replicas += change

    def change_serving(self, now: float, workload: str, change: int) -> None:
        """Change the number of serving pods of a workload."""
        self._pass_time(now)
        service = self._services[workload]
        service.serving += change
        service.least = min(service.least, service.serving)
        self._serving += change
        self._record_change(now)

    def change_running(self, now: float, capacity: Capacity, change: int) -> None:
        """Change the number of running pods, which are paid for."""
        self._pass_time(now)
        self._running[capacity] += change
        self._record_change(now)

    def set_paid_places(self, now: float, places: int) -> None:
        """Set the number of on-demand places that are paid for, used or not."""
        self._pass_time(now)
        self._paid_places = places

    @property
    def on_demand(self) -> int:
        """Return the number of pods that run on demand now."""
        return self._running[Capacity.ON_DEMAND]

    def count_end(self, cause: EndCause) -> None:
        self._endings[cause] += 1

    def _record_change(self, now: float) -> None:
        self._history.append((now, self._serving, self.on_demand))

    def _pass_time(self, now: float) -> None:
        seconds = now - self._now
        if seconds <= 0:
            return
        self._now = now
        for service in self._services.values():
            service.pass_time(seconds)
        running = self._running
        on_demand = max(running[Capacity.ON_DEMAND], self._paid_places)
        self._paid += seconds * (on_demand + (1 - self._discount) * running[Capacity.SPOT])
        self._full_price += seconds * self._replicas

    def close(self, now: float, samples: Sequence[float]) -> RunResult:
        """Close the account. `samples` are seconds since the beginning, ascending."""
        self._pass_time(now)
        outcomes = {
            name: ServiceOutcome(each.replicas, each.outage_s, each.half_s, each.short, each.least)
            for name, each in self._services.items()
        }
        cost = self._paid / self._full_price if self._full_price else 0.0
        times = [when for when, _, _ in self._history]
        found = [self._history[bisect_right(times, self._began + sample) - 1] for sample in samples]
        return RunResult(
            outcomes,
            cost,
            dict(self._endings),
            tuple(ready for _, ready, _ in found),
            tuple(on_demand for _, _, on_demand in found),
            min(ready for _, ready, _ in self._history),
        )

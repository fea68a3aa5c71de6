"""Metrics of an agent. Their names begin with `situate_vm_agent_`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from situate.vm.agent.model.revisions import DOWNSCALE, UPSCALE, Latency

COMPLAINTS: Final = ("monitor silent", "scheduler failures", "vm failures", "monitor failures")
_SECONDS: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
_DIRECTIONS: Final = {0: "none", UPSCALE: "up", DOWNSCALE: "down", UPSCALE | DOWNSCALE: "both"}


class AgentMetrics:
    """Metrics of all VMs of a process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._machines = Gauge("situate_vm_agent_machines", "VMs that the agent handles.", registry=registry)
        self._unhealthy = Gauge(
            "situate_vm_agent_unhealthy", "Unhealthy VMs, by complaint.", ("complaint",), registry=registry
        )
        for complaint in COMPLAINTS:
            self._unhealthy.labels(complaint)
        self._requests = Counter(
            "situate_vm_agent_requests",
            "Requests to the scheduler, the API server and the monitors, by kind and outcome.",
            ("kind", "outcome"),
            registry=registry,
        )
        self._scrapes = Counter(
            "situate_vm_agent_scrapes",
            "Reads of load metrics, by kind and outcome.",
            ("kind", "outcome"),
            registry=registry,
        )
        self._restarts = Counter(
            "situate_vm_agent_restarts", "Restarts of the handling of a VM after an internal error.", registry=registry
        )
        self._latency = Histogram(
            "situate_vm_agent_latency_seconds",
            "Seconds from a change of the desired size to its effect, by step and direction.",
            ("step", "direction"),
            buckets=_SECONDS,
            registry=registry,
        )
        self._complaints: dict[str, frozenset[str]] = {}

    def set_machines(self, number: int) -> None:
        self._machines.set(number)

    def count_restart(self) -> None:
        self._restarts.inc()

    def count_request(self, kind: str, outcome: str) -> None:
        """`kind`: scheduler, vm, monitorUp or monitorDown; `outcome`: ok, partial, denied or failed."""
        self._requests.labels(kind, outcome).inc()

    def count_scrape(self, kind: str, outcome: str) -> None:
        self._scrapes.labels(kind, outcome).inc()

    def observe_latency(self, step: str, latency: Latency | None) -> None:
        """`step`: scheduler, monitor, write or scaling."""
        if latency is not None:
            direction = _DIRECTIONS.get(latency.flags, "none")
            self._latency.labels(step, direction).observe(max(0, latency.ms) / 1000)

    def set_health(self, machine: str, complaints: Iterable[str]) -> None:
        """Set the problems of a VM."""
        self._complaints[machine] = frozenset(complaints)
        self._update_health()

    def forget(self, machine: str) -> None:
        self._complaints.pop(machine, None)
        self._update_health()

    def _update_health(self) -> None:
        for complaint in COMPLAINTS:
            self._unhealthy.labels(complaint).set(sum(complaint in each for each in self._complaints.values()))

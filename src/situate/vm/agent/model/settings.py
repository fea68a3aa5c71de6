"""Configuration of an agent: upstream's fields with the values that it ships, and further fields.

Fields whose name ends in `Seconds` are seconds, whole or fractional. The shell reads the file.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Final, Literal

import msgspec

from situate.objects.settings.section import ALLOWED, Mistake, NamespaceName, format_value
from situate.objects.values.quantity import BadQuantity, Quantity, decode_quantity
from situate.vm.agent.decide.health import FailureLimit, HealthLimits
from situate.vm.agent.decide.scaling import Scaling
from situate.vm.agent.model.state import Config
from situate.vm.model.resource_amounts import Amounts

Seconds = Annotated[float, msgspec.Meta(gt=0, le=86_400)]
Port = Annotated[int, msgspec.Meta(ge=1, le=65_535)]
Count = Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]
Url = Annotated[
    str,
    msgspec.Meta(pattern=r"^https?://[^/\s]+(/\S*)?$", extra={ALLOWED: "http://HOST:PORT/… or https://HOST:PORT/…"}),
]
MAX_JITTER_MS: Final = 100
"""Ticks are shorter by a random part of this, so that many VMs do not ask at the same time."""


class ComputeUnit(msgspec.Struct, frozen=True, kw_only=True):
    """The unit of sizes."""

    vcpus: float | int | str = msgspec.field(default=0.25, name="vCPUs")
    mem: int | str = "1Gi"

    def mistakes(self) -> Iterable[Mistake]:
        for name, value, least in (("vCPUs", self.vcpus, "1m"), ("mem", self.mem, "1")):
            allowed = f'a quantity of at least {least}, such as "250m" or "1Gi"'
            try:
                quantity = decode_quantity(Quantity, value)
            except BadQuantity:
                yield Mistake(name, format_value(value), allowed)
            else:
                if not 0 < quantity.nano_value <= 2**60 * 10**9:
                    yield Mistake(name, format_value(value), allowed)

    @property
    def amounts(self) -> Amounts:
        cpu, memory = (decode_quantity(Quantity, each) for each in (self.vcpus, self.mem))
        return Amounts.from_values(cpu.milli_value, memory.value)


class FailedRequestRate(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """More failures than `threshold` within the interval mean unhealthy."""

    interval_seconds: Seconds = 120.0
    threshold: Count = 2

    @property
    def rate(self) -> FailureLimit:
        return FailureLimit(_ms(self.interval_seconds), self.threshold)


class SchedulerAccess(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Address of the scheduler that grants permits, and the frequency of requests."""

    scheduler_name: Annotated[str, msgspec.Meta(min_length=1, max_length=253)] = "situate-vm"
    """The agent ignores VMs of other schedulers. The scheduler's Pods carry the name as label `name`."""
    namespace: NamespaceName = "kube-system"
    """Namespace of those Pods (C17)."""
    url: Url | None = None
    """Fixed address of the scheduler; null: the agent looks for its Pod."""
    request_port: Port = 10_299
    request_timeout_seconds: Seconds = 2.0
    request_at_least_every_seconds: Seconds = 15.0
    retry_failed_request_seconds: Seconds = 3.0
    retry_denied_upscale_seconds: Seconds = 2.0
    max_failed_request_rate: FailedRequestRate = FailedRequestRate(threshold=5)
    tls: bool = False
    """Whether to use https with the Pod that was found (B44)."""
    ca_file: str | None = None
    """Authorities that must have signed its certificate: a file in PEM, or a folder of such files, named .crt. null:
    those of the system. The agent checks for changes before each request."""
    server_name: str | None = None
    """Name in its certificate; null: the host of the request."""
    token_file: str | None = "/var/run/secrets/kubernetes.io/serviceaccount/token"  # noqa: S105 - a place, no secret
    """File with a service account's token, read for each request. null, or a missing file: no token is sent."""

    def mistakes(self) -> Iterable[Mistake]:
        if self.request_at_least_every_seconds <= self.request_timeout_seconds:
            allowed = f"more than requestTimeoutSeconds ({self.request_timeout_seconds:g})"
            yield Mistake("requestAtLeastEverySeconds", f"{self.request_at_least_every_seconds:g}", allowed)
        if self.ca_file is not None and not self.tls and not (self.url or "").startswith("https:"):
            yield Mistake(
                "caFile", format_value(self.ca_file), "a file only with tls: true or with a url that begins with https:"
            )


class MonitorAccess(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Connection to the monitor in the guest."""

    kind: Literal["websocket", "standIn"] = "websocket"
    """`standIn`: no guest is asked. The memory in use, as far as the load shows it, decides about a downscale."""
    server_port: Port = 10_301
    response_timeout_seconds: Seconds = 5.0
    connection_timeout_seconds: Seconds = 4.0
    connection_retry_min_wait_seconds: Seconds = 5.0
    health_check_seconds: Seconds = 5.0
    unhealthy_after_silence_duration_seconds: Seconds = 20.0
    unhealthy_startup_grace_period_seconds: Seconds = 20.0
    max_health_check_sequential_failures_seconds: Seconds = 30.0
    retry_denied_downscale_seconds: Seconds = 5.0
    requested_upscale_valid_seconds: Seconds = 10.0
    retry_failed_request_seconds: Seconds = 3.0
    max_failed_request_rate: FailedRequestRate = FailedRequestRate()


class VmAccess(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Writes to VirtualMachines."""

    request_timeout_seconds: Seconds = 10.0
    retry_failed_request_seconds: Seconds = 5.0
    max_failed_request_rate: FailedRequestRate = FailedRequestRate()


class SystemMetricsAccess(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    port: Port = 9_100
    request_timeout_seconds: Seconds = 2.0
    seconds_between_requests: Seconds = 5.0


class CacheMetricsAccess(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    port: Port = 9_499
    request_timeout_seconds: Seconds = 5.0
    seconds_between_requests: Seconds = 15.0


class MetricsAccess(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Source of a VM's load."""

    source: Literal["guest", "annotation", "file", "endpoint"] = "guest"
    """`guest`: the VM's own address. `annotation`: `vm.situate.dev/load` of the VirtualMachine. `file`: a mapping with
    keys `namespace/name`. `endpoint`: Prometheus text from one address for all VMs."""
    file: str | None = None
    endpoint: Url | None = None
    """Samples with labels `namespace` and `name` belong to that VM.

    `{namespace}` and `{name}` in the address are replaced.
    """
    system: SystemMetricsAccess = SystemMetricsAccess()
    lfc: CacheMetricsAccess = CacheMetricsAccess()

    def mistakes(self) -> Iterable[Mistake]:
        for name, value in (("file", self.file), ("endpoint", self.endpoint)):
            if self.source == name and not value:
                yield Mistake(name, "", f"a value, because source is {name}")
            elif self.source != name and value is not None:
                yield Mistake(
                    name, format_value(value), f"no value, because source is {self.source}", f"set source: {name}"
                )


class AgentSettings(Scaling, frozen=True, rename="camel", kw_only=True):
    """All settings of an agent. The fields of `Scaling` are at the top level, as in upstream's defaults."""

    compute_unit: ComputeUnit = ComputeUnit()
    scheduler: SchedulerAccess = SchedulerAccess()
    monitor: MonitorAccess = MonitorAccess()
    neonvm: VmAccess = VmAccess()
    metrics: MetricsAccess = MetricsAccess()
    compat: bool = False
    """Exact behaviour of upstream's agent, for its own scheduler."""

    @property
    def scaling(self) -> Scaling:
        return Scaling(**{name: getattr(self, name) for name in Scaling.__struct_fields__})

    def config(self, jitter_ms: int) -> Config:
        """Return the configuration for one VM. `jitter_ms` is constant, from 0 to `MAX_JITTER_MS`."""
        return Config(
            unit=self.compute_unit.amounts,
            scaling=self.scaling,
            plugin_tick_ms=_ms(self.scheduler.request_at_least_every_seconds) - jitter_ms,
            plugin_retry_ms=_ms(self.scheduler.retry_failed_request_seconds),
            plugin_denied_retry_ms=_ms(self.scheduler.retry_denied_upscale_seconds),
            vm_retry_ms=_ms(self.neonvm.retry_failed_request_seconds),
            monitor_retry_ms=_ms(self.monitor.retry_failed_request_seconds),
            denied_downscale_ms=_ms(self.monitor.retry_denied_downscale_seconds),
            requested_upscale_ms=_ms(self.monitor.requested_upscale_valid_seconds),
            compat=self.compat,
        )

    @property
    def limits(self) -> HealthLimits:
        return HealthLimits(
            silence_ms=_ms(self.monitor.unhealthy_after_silence_duration_seconds),
            grace_ms=_ms(self.monitor.unhealthy_startup_grace_period_seconds),
            rates={
                "scheduler": self.scheduler.max_failed_request_rate.rate,
                "vm": self.neonvm.max_failed_request_rate.rate,
                "monitor": self.monitor.max_failed_request_rate.rate,
            },
        )


def _ms(seconds: float) -> int:
    return round(seconds * 1000)

"""The keys of the configuration that every product shares; each product adds the type of its own section.

Pure data: `situate.runtime.configuration.file` reads the files.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal

import msgspec

from situate.objects.settings.section import ALLOWED, Mistake, NamespaceName, PositiveDuration

JITTER_FACTOR = 1.2
"""A retry comes at most this factor later than its period (client-go's leader election)."""

Address = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]*):([0-9]{1,5})$",
        extra={ALLOWED: 'host:port, such as "127.0.0.1:8080", "[::1]:8080" or ":8080" for every address'},
    ),
]
HealthAddress = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^none$|^(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]*):([0-9]{1,5})$",
        extra={ALLOWED: 'host:port, such as "127.0.0.1:8080", "[::1]:8080" or ":8080" for every address, or none'},
    ),
]


class LeaderElection(msgspec.Struct, frozen=True, rename="camel"):
    """Leader election: one replica writes, the others wait; the three durations are client-go's."""

    namespace: NamespaceName | None = None
    """Namespace of the Leases; None is the namespace in which this process runs."""
    identity: Annotated[str, msgspec.Meta(min_length=1, max_length=253)] | None = None
    """Identity of this process; None is the host's name and a random part."""
    lease_duration: PositiveDuration = 15.0
    renew_deadline: PositiveDuration = 10.0
    retry_period: PositiveDuration = 2.0

    def mistakes(self) -> Iterable[Mistake]:
        if self.lease_duration < 1.0 or self.lease_duration != int(self.lease_duration):
            yield Mistake("leaseDuration", f"{self.lease_duration:g}s", "whole seconds, at least 1s")
        if self.renew_deadline >= self.lease_duration:
            allowed = f"less than leaseDuration ({self.lease_duration:g}s)"
            yield Mistake("renewDeadline", f"{self.renew_deadline:g}s", allowed)
        if self.retry_period * JITTER_FACTOR >= self.renew_deadline:
            allowed = f"less than renewDeadline / {JITTER_FACTOR} ({self.renew_deadline / JITTER_FACTOR:g}s)"
            yield Mistake("retryPeriod", f"{self.retry_period:g}s", allowed)


LogLevel = Literal["debug", "info", "warning", "error"]
LogFormat = Literal["auto", "json", "console"]


class Log(msgspec.Struct, frozen=True, rename="camel"):
    """The level and format of logs on standard error."""

    level: LogLevel = "info"
    format: LogFormat = "auto"
    """`auto` is console on a terminal, JSON elsewhere."""


class HealthSettings(msgspec.Struct, frozen=True, rename="camel"):
    """The address of /healthz, /readyz and /metrics."""

    address: HealthAddress | None = ":8080"
    """`none` turns the server off, as null does."""

    @property
    def listens(self) -> str | None:
        """The address to listen on; None without a server."""
        return None if self.address == "none" else self.address

    def mistakes(self) -> Iterable[Mistake]:
        port = int(self.listens.rpartition(":")[2]) if self.listens else 0
        if port > 65535:
            yield Mistake("address", f'"{self.address}"', "a port of at most 65535")


class Client(msgspec.Struct, frozen=True, rename="camel"):
    """The rate of requests to the API server."""

    qps: Annotated[float, msgspec.Meta(gt=0)] = 200.0
    """Average requests per second."""
    burst: Annotated[int, msgspec.Meta(ge=1)] = 400
    """Requests at once after a pause."""


class RuntimeSettings(msgspec.Struct, frozen=True, rename="camel"):
    """The shared keys of the file."""

    leader_election: LeaderElection = LeaderElection()
    log: Log = Log()
    health: HealthSettings = HealthSettings()
    client: Client = Client()
    workers: Annotated[int, msgspec.Meta(ge=1, le=1024)] = 16
    """Objects that each controller reconciles at a time."""
    shutdown_timeout: PositiveDuration = 25.0
    """How long a stop may take to finish work in flight; below Kubernetes' grace period of 30 s."""

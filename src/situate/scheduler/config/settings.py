"""The `scheduler:` section of the configuration file.

Profiles stand in the section itself or in a file of kind KubeSchedulerConfiguration; what they come to is
`situate.scheduler.config.setup`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Final

import msgspec

from situate.framework.plugin_api.configuration import (
    Extender,
    KubeSchedulerConfiguration,
    Percentage,
    SchedulerProfile,
)
from situate.objects.settings.section import ALLOWED, Mistake, ObjectName, shown

SCHEDULER_NAME: Final = "situate"
"""Of the built-in profile."""

FileName = Annotated[
    str, msgspec.Meta(pattern=r"^[A-Za-z0-9][-._A-Za-z0-9]*$", extra={ALLOWED: "the name of a file beside this one"})
]

_BUILT_IN: Final = (SchedulerProfile(scheduler_name=SCHEDULER_NAME),)
_IN_THE_FILE: Final = (
    "profiles",
    "percentage_of_nodes_to_score",
    "pod_initial_backoff_seconds",
    "pod_max_backoff_seconds",
    "extenders",
    "client",
)
"""What `configuration` says in place of the section."""


class ClientRate(msgspec.Struct, frozen=True, rename="camel"):
    """How fast bindings and conditions may leave; Events and the lease have rates of their own."""

    qps: Annotated[float, msgspec.Meta(gt=0)] = 500.0
    burst: Annotated[int, msgspec.Meta(ge=1)] = 1000


class SchedulerSettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The section. Without anything in it: all nodes are scored, for pods with `schedulerName: situate`."""

    profiles: tuple[SchedulerProfile, ...] = _BUILT_IN
    """As in KubeSchedulerConfiguration v1."""
    configuration: FileName | None = None
    """A file of kind KubeSchedulerConfiguration, beside this one; null: the profiles stand here."""
    percentage_of_nodes_to_score: Percentage = 100
    """Every node; 0 is adaptive, as upstream."""
    pod_initial_backoff_seconds: Annotated[int, msgspec.Meta(ge=1)] = 1
    pod_max_backoff_seconds: Annotated[int, msgspec.Meta(ge=1)] = 10
    extenders: tuple[Extender, ...] = ()
    lease_name: ObjectName = "scheduler"
    """The Lease whose holder binds."""
    shadow: bool = False
    """Decides beside another scheduler of the same name, and writes nothing."""
    shadow_events: bool = False
    """With `shadow`: an Event on each pod for which it would have chosen differently."""
    calls_in_flight: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 32
    """Bindings and conditions that are under way at a time."""
    client: ClientRate = ClientRate()

    def mistakes(self) -> Iterable[Mistake]:
        if self.configuration is None:
            yield from self.kube().mistakes()
            return
        for field in msgspec.structs.fields(self):
            if field.name in _IN_THE_FILE and getattr(self, field.name) != field.default:
                allowed = "nothing, where configuration names a file"
                yield Mistake(field.encode_name, shown(msgspec.to_builtins(getattr(self, field.name))), allowed)

    def kube(self) -> KubeSchedulerConfiguration:
        """The same in KubeSchedulerConfiguration's terms."""
        return KubeSchedulerConfiguration(
            percentage_of_nodes_to_score=self.percentage_of_nodes_to_score,
            pod_initial_backoff_seconds=self.pod_initial_backoff_seconds,
            pod_max_backoff_seconds=self.pod_max_backoff_seconds,
            profiles=self.profiles,
            extenders=self.extenders,
        )

"""The `scheduler:` section of the configuration file.

The section contains the profiles, or names a file of kind KubeSchedulerConfiguration that does.
`situate.scheduler.config.setup` resolves both.
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
from situate.objects.settings.section import ALLOWED, Mistake, ObjectName, format_value, matching_fields

SCHEDULER_NAME: Final = "situate"
"""Name of the built-in profile's scheduler."""

FileName = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^[A-Za-z0-9][-._A-Za-z0-9]*$", extra={ALLOWED: "the name of a file in the folder of this one"}
    ),
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
"""Keys that the file named by `configuration` replaces."""


class ClientRate(msgspec.Struct, frozen=True, rename="camel"):
    """The rate of bindings and conditions; Events and the Lease have their own rates."""

    qps: Annotated[float, msgspec.Meta(gt=0)] = 500.0
    burst: Annotated[int, msgspec.Meta(ge=1)] = 1000


class SchedulerSettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Settings of the scheduler. By default it scores all nodes, for pods with `schedulerName: situate`."""

    profiles: tuple[SchedulerProfile, ...] = _BUILT_IN
    """As in KubeSchedulerConfiguration v1."""
    configuration: FileName | None = None
    """A file of kind KubeSchedulerConfiguration, in the folder of this one; null: `profiles` applies."""
    percentage_of_nodes_to_score: Percentage = 100
    """100 is every node; 0 is adaptive, as upstream."""
    pod_initial_backoff_seconds: Annotated[int, msgspec.Meta(ge=1)] = 1
    pod_max_backoff_seconds: Annotated[int, msgspec.Meta(ge=1)] = 10
    extenders: tuple[Extender, ...] = ()
    lease_name: ObjectName = "scheduler"
    """The Lease whose holder binds."""
    shadow: bool = False
    """Decide next to another scheduler of the same name, and write nothing."""
    shadow_events: bool = False
    """With `shadow`: write an Event on each pod for which the shadow would have chosen differently."""
    calls_in_flight: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 32
    """Bindings and conditions sent at a time."""
    client: ClientRate = ClientRate()

    def mistakes(self) -> Iterable[Mistake]:
        if self.configuration is None:
            yield from self.kube().mistakes()
            return
        for field in msgspec.structs.fields(self):
            if field.name in _IN_THE_FILE and getattr(self, field.name) != field.default:
                found = format_value(msgspec.to_builtins(getattr(self, field.name)))
                allowed = "no value, because configuration names a file"
                yield Mistake(field.encode_name, found, allowed, "move the setting to that file")

    def kube(self) -> KubeSchedulerConfiguration:
        """Return the settings as a KubeSchedulerConfiguration."""
        return KubeSchedulerConfiguration(**matching_fields(self, KubeSchedulerConfiguration))

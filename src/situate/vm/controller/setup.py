"""What vm is made of, without mistakes: rules, and how the scheduler is set up that it runs on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from situate.framework.profile.profiles import Registry, profiles_of
from situate.framework.queue.scheduling_queue import QueueSettings
from situate.plugins.registry import registry
from situate.runtime.reconcile.outcomes import BrokenInvariant
from situate.scheduler.config.settings import ClientRate
from situate.scheduler.config.setup import Election, Setup
from situate.vm.api.well_known import LEASE
from situate.vm.backends.systems import NEONVM, System, system_of
from situate.vm.config.settings import EvictionSettings, VmSettings
from situate.vm.model.policy import Rules
from situate.vm.placement.plugin import VirtualMachines
from situate.vm.placement.profile import configuration, with_ledger


@dataclass(frozen=True, slots=True)
class VmSetup:
    """Of one process."""

    rules: Rules = Rules()  # noqa: RUF009  # frozen
    system: System[Any] = NEONVM
    """What its machines are."""
    lease_name: str = LEASE
    workers: int = 16
    """Writes that are under way at a time."""
    rate: ClientRate = ClientRate(1000.0, 1000)  # noqa: RUF009  # frozen
    calls_in_flight: int = 32
    """Bindings and conditions that are under way at a time, beside the writes."""
    call_timeout_s: float = 1.0
    """Of one write: whether it was carried out is not known then."""
    startup_s: float = 15.0
    """By then everything that was listed must have been taken in (C30)."""
    evictions: EvictionSettings | None = None
    """How evictions of machines' pods become moves; None: they are none of our business."""
    issues: bool = False
    """Whether the permit port shows the installation's own certificate."""
    node_metric_labels: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Labels of metrics of nodes, and which labels of nodes they show (C31)."""
    namespace: str = ""
    """Where the process runs."""
    pod: str = ""
    """Its own; empty outside a cluster."""


def vm_setup(settings: VmSettings) -> VmSetup:
    """What the section comes to."""
    return VmSetup(
        settings.rules(),
        system_of(settings),
        settings.lease_name,
        settings.workers,
        call_timeout_s=settings.call_timeout,
        startup_s=settings.startup,
        evictions=settings.moves_evicted,
        issues=settings.issues,
        node_metric_labels=settings.node_metric_labels,
    )


def scheduler_setup(setup: VmSetup, plugin: VirtualMachines, plugins: Registry | None = None) -> Setup:
    """The scheduler with the ledger's plugin in its one profile. `plugins`: None is those that are shipped."""
    known = registry(())[0] if plugins is None else plugins
    wire = configuration(setup.rules.scheduler_name, targets_first=setup.rules.targets_first)
    profiles, mistakes = profiles_of(wire, with_ledger(known, plugin, setup.system))
    if mistakes:
        raise BrokenInvariant("the profile of vm is wrong: " + "; ".join(map(str, mistakes)))
    return Setup(
        profiles=profiles,
        queue=QueueSettings(),
        extenders=(),
        election=Election(setup.lease_name),
        rate=setup.rate,
        calls_in_flight=setup.calls_in_flight,
        shadow=False,
        shadow_events=False,
    )

"""Validated setup of vm: its rules and its scheduler."""

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
from situate.vm.backends.systems import NEONVM, System, select_system
from situate.vm.config.settings import EvictionSettings, VmSettings
from situate.vm.model.policy import Rules
from situate.vm.placement.plugin import VirtualMachines
from situate.vm.placement.profile import configuration, registry_with_ledger


@dataclass(frozen=True, slots=True)
class VmSetup:
    """Setup of one process."""

    rules: Rules = Rules()  # noqa: RUF009  # frozen
    system: System[Any] = NEONVM
    """The system of its VMs."""
    lease_name: str = LEASE
    workers: int = 16
    """Number of concurrent writes."""
    rate: ClientRate = ClientRate(1000.0, 1000)  # noqa: RUF009  # frozen
    calls_in_flight: int = 32
    """Number of concurrent bindings and condition writes, in addition to the writes."""
    call_timeout_s: float = 1.0
    """Time limit of one write. After it, the outcome is unknown."""
    startup_s: float = 15.0
    """Time limit for processing the initial lists (C30)."""
    evictions: EvictionSettings | None = None
    """Settings for evictions of VMs' Pods; None: vm does not handle evictions."""
    issues_certificate: bool = False
    """Whether the permit port uses the installation's own certificate."""
    node_metric_labels: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Labels on metrics of nodes, and the labels of nodes that give the values (C31)."""
    namespace: str = ""
    """Namespace of the process."""
    pod: str = ""
    """Pod of the process; empty outside a cluster."""


def vm_setup(settings: VmSettings) -> VmSetup:
    """Return the setup for the `vm:` section."""
    return VmSetup(
        Rules.of(settings),
        select_system(settings),
        settings.lease_name,
        settings.workers,
        call_timeout_s=settings.call_timeout_s,
        startup_s=settings.startup_s,
        evictions=settings.eviction_settings,
        issues_certificate=settings.issues_certificate,
        node_metric_labels=settings.node_metric_labels,
    )


def scheduler_setup(setup: VmSetup, plugin: VirtualMachines, plugins: Registry | None = None) -> Setup:
    """Return the scheduler with the ledger's plugin in its only profile. `plugins`: None means the shipped ones."""
    known = registry(())[0] if plugins is None else plugins
    wire = configuration(setup.rules.scheduler_name, targets_first=setup.rules.targets_first)
    profiles, mistakes = profiles_of(wire, registry_with_ledger(known, plugin, setup.system))
    if mistakes:
        raise BrokenInvariant("the profile of vm is invalid: " + "; ".join(map(str, mistakes)))
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

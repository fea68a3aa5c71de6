"""Collect the permissions of all products of a configuration, and the files that the configuration names."""

from __future__ import annotations

from pathlib import Path

from situate.cli.input.configuration import (
    scheduler_settings,
    sharding_entries,
    spot_settings,
    vm_settings,
    vpod_entries,
)
from situate.cli.terminal.failures import WrongInput
from situate.kube.election.lease_record import LeaseName
from situate.objects.reviews.authorization import Permission
from situate.runtime.configuration.file import Configuration
from situate.sharding.permissions import supervisor_permissions
from situate.sharding.supervisor.controller.config.section import ShardSettings
from situate.spot.config.settings import SpotSettings
from situate.spot.permissions import permissions as spot_permissions
from situate.vm.backends.systems import select_system
from situate.vm.model.policy import Rules
from situate.vm.permissions import permissions as vm_permissions
from situate.vpod.permissions import permissions as vpod_permissions


def needed_rights(configuration: Configuration, file: Path, namespace: str) -> tuple[Permission, ...]:
    """Return the permissions that a configuration needs, without duplicates.

    `file` is the path of the configuration, if it is a file. `namespace` is the namespace in which the process runs.
    """
    leases = configuration.runtime.leader_election.namespace or namespace
    found: dict[Permission, None] = {}
    entries = vpod_entries(configuration)
    if entries:
        found.update(dict.fromkeys(vpod_permissions(entries, leases)))
    settings = scheduler_settings(configuration)
    if settings is not None:
        # plugins import numpy: skip this import if there is no scheduler section
        from situate.cli.run.scheduler_setup import require_setup
        from situate.scheduler.permissions import permissions as scheduler_permissions

        setup = require_setup(settings, file)
        # a shadow scheduler needs no Lease: its writes do not conflict with those of a second one
        lease = None if setup.shadow or setup.election is None else setup.election.lease(leases)
        found.update(dict.fromkeys(scheduler_permissions(lease, shadow=setup.shadow, allots=setup.allots_devices)))
    spot = spot_settings(configuration)
    if spot is not None:
        found.update(dict.fromkeys(_spot_rights(spot, namespace, leases)))
    vm = vm_settings(configuration)
    if vm is not None:
        evictions_in = None if vm.eviction_settings is None else namespace
        certificates_in = namespace if vm.keeps_certificates else None
        of_vm = LeaseName(leases, vm.lease_name)
        found.update(
            dict.fromkeys(vm_permissions(of_vm, Rules.of(vm), select_system(vm), evictions_in, certificates_in))
        )
    for entry in sharding_entries(configuration):
        found.update(dict.fromkeys(rights_of_supervisor(entry, leases)))
    return tuple(found)


def rights_of_supervisor(settings: ShardSettings, leases: str) -> tuple[Permission, ...]:
    """Return the permissions of a supervisor. `leases` is the namespace of its Lease, if the entry names none."""
    group, _, plural = settings.group_version_plural
    lease = settings.leader_elect_namespace or leases, settings.lease_name
    return supervisor_permissions(
        group,
        plural,
        lease,
        namespace=settings.namespace,
        executor_namespace=settings.executor_namespace,
        archives=settings.archives,
        table=settings.partition_table or "",
    )


def _spot_rights(settings: SpotSettings, namespace: str, leases: str) -> tuple[Permission, ...]:
    return spot_permissions(
        namespace, leases, settings.prices.config_map, settings.owner_kinds, normalise=settings.label_nodes
    )


def referenced_files(configuration: Configuration, file: Path) -> dict[str, str]:
    """Return the text of each file that the configuration names, by name. Raises `WrongInput` if one cannot be read."""
    scheduler, spot, vm = scheduler_settings(configuration), spot_settings(configuration), vm_settings(configuration)
    named = (
        scheduler.configuration if scheduler is not None else None,
        spot.prices.file if spot is not None else None,
        vm.configuration if vm is not None else None,
    )
    return {name: _read_text(file.parent / name) for name in named if name is not None}


def _read_text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise WrongInput(f"{file}: cannot be read: {problem}") from None

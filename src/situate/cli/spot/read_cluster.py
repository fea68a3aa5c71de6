"""Read the state that spot would see, once. Nothing is ever written.

Objects pass through the same stores, cache and capacity model as in the controller, so that they have the same meaning
here. State that only the leader has (reservations, cool-downs, notices without a time) is not in the cluster.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from situate.cli.input.configuration import configuration_without_file, load_configuration, spot_settings
from situate.cli.read_cluster.installation_options import InstallationOptions
from situate.cli.spot.installation_settings import UnreadableSettings, installed_settings
from situate.cli.terminal.failures import NotAllowed, WrongInput
from situate.cli.terminal.progress import progress
from situate.kube.client import Client
from situate.kube.errors import Forbidden, KubeError, NotFound
from situate.kube.watch.reflector import Reflector
from situate.objects.kinds.leases import Lease
from situate.objects.kinds.pods import Pod
from situate.objects.resources import CONFIGMAPS, LEASES
from situate.objects.settings.section import Mistake
from situate.runtime.process.logs import configure_logging
from situate.spot.capacity.scheduler_capacity import SchedulerCapacity
from situate.spot.config.settings import SpotSettings
from situate.spot.controller.observe.cache import FactsCache
from situate.spot.controller.observe.constraints_watch import ConstraintInformers
from situate.spot.controller.observe.free_capacity import CapacitySource
from situate.spot.controller.observe.informers import Informers
from situate.spot.controller.observe.prices import PriceReader
from situate.spot.model.object_names import INTERRUPTIONS_ANNOTATION, NAME, POLICIES
from situate.spot.model.pods_nodes_workloads import Owner
from situate.spot.nodes.interruptions import InterruptionHistory
from situate.spot.nodes.interruptions import from_text as history_of
from situate.spot.nodes.pool_stability import restore_pools
from situate.spot.rebalance.decide import ClusterView, State
from situate.spot.workloads.on_demand_policy import Policy
from situate.spot.workloads.policy_record import KEY, from_text

_REQUIRED_RESOURCES: Final = frozenset(("pods", "nodes", "deployments.apps", "replicasets.apps", "statefulsets.apps"))
"""Resources without which no workload can be counted."""


@dataclass(frozen=True, slots=True)
class SpotClusterState:
    """State of the cluster at one moment."""

    settings: SpotSettings
    view: ClusterView
    """For a single decision, because the decision reserves the places that it uses."""
    scheduler_capacity: SchedulerCapacity
    """For all other purposes."""
    state: State
    now: float
    pods: dict[str, Pod]
    """By uid."""
    lease: Lease | None
    """Lease of the installation; None if it does not exist or may not be read."""
    history: InterruptionHistory
    price_mistakes: Sequence[Mistake]
    remarks: tuple[str, ...]
    """Sentences about unreadable input and its consequences."""

    @property
    def owners(self) -> list[Owner]:
        """Workloads by namespace, name and kind."""
        return sorted(self.view.cluster.owners.values(), key=lambda each: (each.namespace, each.name, each.kind))


class SpotOptions(InstallationOptions):
    """Options of a command."""

    __slots__ = ()

    def check(self) -> None:
        """Check the settings before the cluster is read. Raises `WrongInput` and `BadConfiguration`."""
        _settings_of_file(self.file, self.assignments)

    def observe(self) -> SpotClusterState:
        """Return the current state, read with the settings of the file and of `--set`.

        Without a file, use the settings of the installation, or the defaults if there is none. Raises `KubeError`,
        `WrongInput`, `BadConfiguration` or `NotAllowed`.
        """
        settings = _settings_of_file(self.file, self.assignments)
        configure_logging("warning")  # unreadable objects are reported on standard error
        with progress(self.progress_text):
            return asyncio.run(_observe(settings, self))


def _settings_of_file(file: Path | None, given: tuple[str, ...]) -> SpotSettings:
    settings = spot_settings(configuration_without_file(given) if file is None else load_configuration(file, given))
    if settings is None and file is not None:
        raise WrongInput(f"{file}: no spot section; add `spot: {{}}` with the settings that differ from the defaults")
    return settings or SpotSettings()


async def _observe(settings: SpotSettings, asked: SpotOptions) -> SpotClusterState:
    client = asked.source.client()
    remarks = _Remarks()
    try:
        if asked.file is None:
            settings = await _settings_of_installation(client, asked, remarks) or settings
        return await _read_state(settings, asked, client, remarks)
    finally:
        await client.close()


async def _settings_of_installation(client: Client, asked: SpotOptions, remarks: _Remarks) -> SpotSettings | None:
    try:
        return await installed_settings(client, asked.installation, asked.assignments)
    except UnreadableSettings as problem:
        remarks.sentences.append(
            f"the settings of the installation cannot be read, so the defaults are shown: {problem}"
        )
        return None


async def _read_state(
    settings: SpotSettings, asked: SpotOptions, client: Client, remarks: _Remarks
) -> SpotClusterState:
    rng = random.Random()
    watched = Informers.create(client, rng, settings.owner_kinds)
    cache = FactsCache(watched, settings.table, settings.rules(), wall=time.time)
    around = ConstraintInformers(client, cache.cluster, rng, time.monotonic)
    rooms = CapacitySource(watched, client, rng, settings.table)
    cache.recall_policies(await _read_valid_policies(client, asked.installation, remarks))
    named = {f"{kind.plural}.{kind.group}" for kind in settings.kinds}
    for reflector in (*watched.reflectors(), *around.reflectors(), *rooms.storage):
        await _fill_store(client, reflector, remarks, named)
    remarks.raise_if_forbidden()
    await around.read_lease_holders()
    folder = Path() if asked.file is None else asked.file.parent
    pricing = PriceReader(client, lambda: settings.prices, folder, lambda _: None)
    await pricing.read_once()
    lease = await _read_lease(client, asked, remarks)
    cluster = cache.cluster
    situation = ClusterView(
        cluster,
        rooms.capacity_for_decision(cluster.nodes),
        settings.rules(),
        settings.limits(),
        around.current_constraints(),
        pricing.prices,
    )
    written = lease.metadata.annotations.get(INTERRUPTIONS_ANNOTATION, "") if lease is not None else ""
    history = history_of(written)
    return SpotClusterState(
        settings,
        situation,
        rooms.capacity_for_decision(cluster.nodes).unclaimed_capacity(),
        State(dict(cache.memories), restore_pools(history, cluster.nodes, settings.limits())),
        time.time(),
        {pod.metadata.uid: pod for pod in watched.pods.store.list()},
        lease,
        history,
        pricing.mistakes,
        tuple(remarks.sentences),
    )


class _Remarks:
    def __init__(self) -> None:
        self.sentences: list[str] = []
        self.missing_permissions: list[str] = []

    def raise_if_forbidden(self) -> None:
        if self.missing_permissions:
            raise NotAllowed("\n".join(self.missing_permissions))


async def _fill_store(client: Client, reflector: Reflector[Any], remarks: _Remarks, named: Collection[str]) -> None:
    """Fill the store as a first list would.

    A missing resource counts as empty. It is reported only if it is among the `named` ones, which the setting
    `ownerKinds` lists.
    """
    scope = reflector.scope
    resource = scope.resource.group_resource
    try:
        page = await client.list_all(
            scope.resource, scope.namespace, label_selector=scope.label_selector, field_selector=scope.field_selector
        )
    except Forbidden as problem:
        needed = resource in _REQUIRED_RESOURCES
        said = f"no permission to list {resource}{', so nothing can be counted' if needed else ''}: {problem}"
        (remarks.missing_permissions if needed else remarks.sentences).append(said)
        return
    except NotFound:
        if resource in named:
            remarks.sentences.append(
                f"the cluster does not serve {resource}, so they count as none; install their definition, or remove "
                f"the kind from spot.ownerKinds"
            )
        return
    for malformed in page.malformed:
        remarks.sentences.append(f"left out: {malformed}")
    for each in page.items:
        reflector.store.put(each)


async def _read_valid_policies(client: Client, installation: str, remarks: _Remarks) -> dict[str, Policy]:
    """Return the last valid policies, which the leader uses for unreadable values."""
    try:
        found = await client.get(CONFIGMAPS, POLICIES, installation)
    except NotFound:
        return {}
    except KubeError as problem:
        remarks.sentences.append(
            f"the last valid policies cannot be read, so a workload with an unreadable value is shown without one: "
            f"{problem}"
        )
        return {}
    return from_text(found.data.get(KEY, ""))


async def _read_lease(client: Client, asked: SpotOptions, remarks: _Remarks) -> Lease | None:
    namespace = asked.installation
    try:
        return await client.get(LEASES, NAME, namespace)
    except NotFound:
        absent = f"spot is not installed in namespace {namespace}: Lease {NAME} does not exist"
        if asked.source.objects:
            absent = f"the files have no Lease {namespace}/{NAME}, so the leader and its records are not known"
        remarks.sentences.append(f"{absent}; --installation-namespace selects another namespace")
    except KubeError as problem:
        remarks.sentences.append(f"the leader is not known: {problem}")
    return None

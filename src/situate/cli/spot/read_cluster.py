"""Read the state that spot would see, once. Nothing is ever written.

Objects pass through the same stores, cache and capacity model as in the controller, so that they have the same meaning
here. State that only the leader has (reservations, cool-downs, notices without a time) is not in the cluster.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from situate.cli.input.configuration import product_settings
from situate.cli.read_cluster.cluster_source import open_client, run_read
from situate.cli.read_cluster.stores import ReadRemarks, fill_store, read_lease
from situate.cli.spot.installation_settings import UnreadableSettings, installed_settings
from situate.cli.terminal.options import ClusterOptions
from situate.kube.client import Client
from situate.kube.errors import KubeError, NotFound
from situate.objects.kinds.leases import Lease
from situate.objects.kinds.pods import Pod
from situate.objects.resources import CONFIGMAPS
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
_ABSENT_KIND: Final = ", so they count as none; install their definition, or remove the kind from spot.ownerKinds"


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


def read_settings(where: ClusterOptions) -> SpotSettings:
    """Return the settings of the file and of `--set`. Raises `WrongInput` and `BadConfiguration`."""
    return product_settings(where.file, where.assignments, "spot", SpotSettings)


def observe(settings: SpotSettings, where: ClusterOptions) -> SpotClusterState:
    """Return the current state, read with these settings.

    Without a file, use the settings of the installation, if there is one. Raises `KubeError`, `WrongInput`,
    `BadConfiguration` or `NotAllowed`.
    """
    configure_logging("warning")  # unreadable objects are reported on standard error
    return run_read(where, _observe(settings, where))


async def _observe(settings: SpotSettings, where: ClusterOptions) -> SpotClusterState:
    remarks = ReadRemarks()
    async with open_client(where) as client:
        if where.file is None:
            settings = await _settings_of_installation(client, where, remarks) or settings
        return await _read_state(settings, where, client, remarks)


async def _settings_of_installation(client: Client, where: ClusterOptions, remarks: ReadRemarks) -> SpotSettings | None:
    try:
        return await installed_settings(client, where.installation, where.assignments or ())
    except UnreadableSettings as problem:
        remarks.sentences.append(
            f"the settings of the installation cannot be read, so the defaults are shown: {problem}"
        )
        return None


async def _read_state(
    settings: SpotSettings, where: ClusterOptions, client: Client, remarks: ReadRemarks
) -> SpotClusterState:
    rng = random.Random()
    watched = Informers.create(client, rng, settings.owner_kinds)
    cache = FactsCache(watched, settings.table, settings.rules(), wall=time.time)
    around = ConstraintInformers(client, cache.cluster, rng, time.monotonic)
    rooms = CapacitySource(watched, client, rng, settings.table)
    cache.recall_policies(await _read_valid_policies(client, where.installation, remarks))
    named = {f"{kind.plural}.{kind.group}" for kind in settings.kinds}
    for reflector in (*watched.reflectors(), *around.reflectors(), *rooms.storage):
        absent = _ABSENT_KIND if reflector.scope.resource.group_resource in named else ""
        await fill_store(client, reflector, remarks, _REQUIRED_RESOURCES, absent)
    remarks.raise_if_forbidden()
    await around.read_lease_holders()
    folder = Path() if where.file is None else where.file.parent
    pricing = PriceReader(client, lambda: settings.prices, folder, lambda _: None)
    await pricing.read_once()
    absent = f"spot is not installed in namespace {where.installation}: Lease {NAME} does not exist"
    unknown = "the leader and its records are not known"
    lease = await read_lease(client, where, NAME, remarks, absent=absent, unknown=unknown)
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


async def _read_valid_policies(client: Client, installation: str, remarks: ReadRemarks) -> dict[str, Policy]:
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

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

from situate.cli.input.configuration import load, spot_settings, without_file
from situate.cli.read_cluster.installation_options import AskedOfInstallation
from situate.cli.spot.installation_settings import Unknown, installed_settings
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
from situate.spot.capacity.scheduler_capacity import FilteredRoom
from situate.spot.config.settings import SpotSettings
from situate.spot.controller.observe.cache import Cache
from situate.spot.controller.observe.constraints_watch import Around
from situate.spot.controller.observe.free_capacity import Rooms
from situate.spot.controller.observe.informers import Watched
from situate.spot.controller.observe.prices import Pricing
from situate.spot.model.object_names import INTERRUPTIONS, NAME, POLICIES
from situate.spot.model.pods_nodes_workloads import Owner
from situate.spot.nodes.interruptions import History
from situate.spot.nodes.interruptions import from_text as history_of
from situate.spot.nodes.pool_stability import recalled
from situate.spot.rebalance.decide import Situation, State
from situate.spot.workloads.on_demand_policy import Policy
from situate.spot.workloads.policy_record import KEY, from_text

_NEEDED: Final = frozenset(("pods", "nodes", "deployments.apps", "replicasets.apps", "statefulsets.apps"))
"""Resources without which no workload can be counted."""


@dataclass(frozen=True, slots=True)
class Observed:
    """State of the cluster at one moment."""

    settings: SpotSettings
    situation: Situation
    """For a single decision, because the decision reserves the places that it uses."""
    places: FilteredRoom
    """For all other purposes."""
    state: State
    now: float
    pods: dict[str, Pod]
    """By uid."""
    lease: Lease | None
    """Lease of the installation; None if it does not exist or may not be read."""
    history: History
    price_mistakes: Sequence[Mistake]
    remarks: tuple[str, ...]
    """Sentences about unreadable input and its consequences."""

    @property
    def owners(self) -> list[Owner]:
        """Workloads by namespace, name and kind."""
        return sorted(self.situation.cluster.owners.values(), key=lambda each: (each.namespace, each.name, each.kind))


class Asked(AskedOfInstallation):
    """Options of a command."""

    __slots__ = ()

    def check(self) -> None:
        """Check the settings before the cluster is read. Raises `WrongInput` and `BadConfiguration`."""
        _of_file(self.file, self.assignments)

    def observed(self) -> Observed:
        """Return the current state, read with the settings of the file and of `--set`.

        Without a file, use the settings of the installation, or the defaults if there is none. Raises `KubeError`,
        `WrongInput`, `BadConfiguration` or `NotAllowed`.
        """
        settings = _of_file(self.file, self.assignments)
        configure_logging("warning")  # unreadable objects are reported on standard error
        with progress(self.reading):
            return asyncio.run(_observe(settings, self))


def _of_file(file: Path | None, given: tuple[str, ...]) -> SpotSettings:
    settings = spot_settings(without_file(given) if file is None else load(file, given))
    if settings is None and file is not None:
        raise WrongInput(f"{file}: no spot section; add `spot: {{}}` with the settings that differ from the defaults")
    return settings or SpotSettings()


async def _observe(settings: SpotSettings, asked: Asked) -> Observed:
    client = asked.where.client()
    remarks = _Remarks()
    try:
        if asked.file is None:
            settings = await _of_installation(client, asked, remarks) or settings
        return await _observed(settings, asked, client, remarks)
    finally:
        await client.close()


async def _of_installation(client: Client, asked: Asked, remarks: _Remarks) -> SpotSettings | None:
    try:
        return await installed_settings(client, asked.installation, asked.assignments)
    except Unknown as problem:
        remarks.said.append(f"the settings of the installation cannot be read, so the defaults are shown: {problem}")
        return None


async def _observed(settings: SpotSettings, asked: Asked, client: Client, remarks: _Remarks) -> Observed:
    rng = random.Random()
    watched = Watched.of(client, rng, settings.owner_kinds)
    cache = Cache(watched, settings.table, settings.rules(), wall=time.time)
    around = Around(client, cache.cluster, rng, time.monotonic)
    rooms = Rooms(watched, client, rng, settings.table)
    cache.recall(await _valid_policies(client, asked.installation, remarks))
    named = {f"{kind.plural}.{kind.group}" for kind in settings.kinds}
    for reflector in (*watched.reflectors(), *around.reflectors(), *rooms.storage):
        await _fill(client, reflector, remarks, named)
    remarks.require()
    await around.look()
    folder = Path() if asked.file is None else asked.file.parent
    pricing = Pricing(client, lambda: settings.prices, folder, lambda _: None)
    await pricing.look()
    lease = await _lease(client, asked, remarks)
    cluster = cache.cluster
    situation = Situation(
        cluster,
        rooms.room(cluster.nodes),
        settings.rules(),
        settings.limits(),
        around.surroundings(),
        pricing.prices,
    )
    written = lease.metadata.annotations.get(INTERRUPTIONS, "") if lease is not None else ""
    history = history_of(written)
    return Observed(
        settings,
        situation,
        rooms.room(cluster.nodes).unclaimed(),
        State(dict(cache.memories), recalled(history, cluster.nodes, settings.limits())),
        time.time(),
        {pod.metadata.uid: pod for pod in watched.pods.store.list()},
        lease,
        history,
        pricing.mistakes,
        tuple(remarks.said),
    )


class _Remarks:
    def __init__(self) -> None:
        self.said: list[str] = []
        self.fatal: list[str] = []

    def require(self) -> None:
        if self.fatal:
            raise NotAllowed("\n".join(self.fatal))


async def _fill(client: Client, reflector: Reflector[Any], remarks: _Remarks, named: Collection[str]) -> None:
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
        needed = resource in _NEEDED
        said = f"no permission to list {resource}{', so nothing can be counted' if needed else ''}: {problem}"
        (remarks.fatal if needed else remarks.said).append(said)
        return
    except NotFound:
        if resource in named:
            remarks.said.append(
                f"the cluster does not serve {resource}, so they count as none; install their definition, or remove "
                f"the kind from spot.ownerKinds"
            )
        return
    for malformed in page.malformed:
        remarks.said.append(f"left out: {malformed}")
    for each in page.items:
        reflector.store.put(each)


async def _valid_policies(client: Client, installation: str, remarks: _Remarks) -> dict[str, Policy]:
    """Return the last valid policies, which the leader uses for unreadable values."""
    try:
        found = await client.get(CONFIGMAPS, POLICIES, installation)
    except NotFound:
        return {}
    except KubeError as problem:
        remarks.said.append(
            f"the last valid policies cannot be read, so a workload with an unreadable value is shown without one: "
            f"{problem}"
        )
        return {}
    return from_text(found.data.get(KEY, ""))


async def _lease(client: Client, asked: Asked, remarks: _Remarks) -> Lease | None:
    namespace = asked.installation
    try:
        return await client.get(LEASES, NAME, namespace)
    except NotFound:
        absent = f"spot is not installed in namespace {namespace}: Lease {NAME} does not exist"
        if asked.where.objects:
            absent = f"the files have no Lease {namespace}/{NAME}, so the leader and its records are not known"
        remarks.said.append(f"{absent}; --installation-namespace selects another namespace")
    except KubeError as problem:
        remarks.said.append(f"the leader is not known: {problem}")
    return None

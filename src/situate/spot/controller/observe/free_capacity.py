"""Free capacity of the live cluster: the framework's snapshot of nodes and pods, updated with the watches.

The filters are kube-scheduler's defaults, including those for volumes: a pod stays where its volume can be (S7). The
number of volumes per node is not checked. A pod that cannot be read counts with the resources that it uses on its node.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Sequence
from typing import Any, Final

import msgspec
import structlog

from situate.framework.plugin_api.catalog_keeper import CatalogKeeper
from situate.framework.plugin_api.configuration import (
    DisabledPlugin,
    KubeSchedulerConfiguration,
    Plugins,
    PluginSet,
    SchedulerProfile,
)
from situate.framework.pod.pods import BadPod
from situate.framework.profile.profile import ALL_NODES, Profile
from situate.framework.profile.profiles import profiles_of
from situate.framework.snapshot.cache import Cache as FrameworkCache
from situate.kube.client import Client
from situate.kube.watch.reflector import Reflector
from situate.kube.watch.store import Store
from situate.objects.kinds.nodes import Node
from situate.objects.kinds.pods import Affinity, Pod
from situate.objects.resources import (
    NAMESPACES,
    PERSISTENTVOLUMECLAIMS,
    PERSISTENTVOLUMES,
    STORAGECLASSES,
    ResourceType,
)
from situate.plugins.registry import registry
from situate.spot.capacity.claimed_capacity import ClaimedCapacity
from situate.spot.capacity.free_capacity import PlanningCapacity
from situate.spot.capacity.headroom import BALLOON
from situate.spot.capacity.scheduler_capacity import SchedulerCapacity
from situate.spot.controller.observe.informers import Informers
from situate.spot.model.counts import Nodes
from situate.spot.model.pods_nodes_workloads import PodFacts
from situate.spot.nodes.known_signals import on_demand_requirement, pool_tolerations
from situate.spot.nodes.node_signals import Signal
from situate.spot.workloads.owners import pod_facts

_DISABLED_PLUGINS: Final = ("VolumeRestrictions", "NodeVolumeLimits")
"""Disabled plugins: the first lets a pod exclude its own node, the second depends on more objects than all others."""
_STORAGE: Final[tuple[ResourceType[Any], ...]] = (PERSISTENTVOLUMECLAIMS, PERSISTENTVOLUMES, STORAGECLASSES)


def filtering_profile() -> Profile:
    """Return kube-scheduler's default filters without some volume filters."""
    shipped, _ = registry(())
    without = tuple(DisabledPlugin(name) for name in _DISABLED_PLUGINS if name in shipped.types)
    profile = SchedulerProfile(plugins=Plugins(multi_point=PluginSet(disabled=without)))
    (made,), mistakes = profiles_of(
        KubeSchedulerConfiguration(percentage_of_nodes_to_score=ALL_NODES, profiles=(profile,)), shipped
    )
    assert not mistakes
    return made


class CapacitySource:
    """Source of free capacity; `capacity_for_decision` is valid for the moment of the call."""

    def __init__(self, watched: Informers, client: Client, rng: random.Random, table: Sequence[Signal]) -> None:
        self.table = table
        self.storage: tuple[Reflector[Any], ...] = tuple(
            Reflector(client, resource, Store(resource.group_resource), rng=rng) for resource in _STORAGE
        )
        """Additional watches for volumes."""
        self._cache = FrameworkCache()
        self._catalogs = CatalogKeeper()
        self._profile = filtering_profile()
        self._pods: dict[str, Pod] = {}
        self._waiting: dict[str, PodFacts] = {}  # pods that wait for a node
        self._to_place: dict[str, Pod] = {}  # those of `_pods` that are new or changed since the snapshot
        self._log = structlog.get_logger()
        watched.namespaces.store.on_change(self._catalog_change_handler(NAMESPACES))
        for resource, reflector in zip(_STORAGE, self.storage, strict=True):
            reflector.store.on_change(self._catalog_change_handler(resource))
        watched.nodes.store.on_change(self._on_node_change)
        watched.pods.store.on_change(self._on_pod_change)

    def capacity_for_decision(self, nodes: Nodes) -> ClaimedCapacity:
        """Return the free capacity for one decision. `nodes`: their facts in that decision."""
        return ClaimedCapacity(lambda: self._scheduler_capacity(nodes), nodes, self._waiting.values)

    def capacity_for_plan(self, nodes: Nodes) -> Generator[None, None, PlanningCapacity]:
        """Return the free capacity for a plan, in steps, with the waiting pods already placed."""
        room = self.capacity_for_decision(nodes)
        yield from room.prepare_in_steps()
        return room.unclaimed_capacity()

    def add_pods_in_steps(self) -> Generator[None, None, None]:
        """Add new and changed pods to the snapshot, one at each step.

        Not done while pods are listed: a new leader can answer sooner, and a standby does not need the snapshot. The
        first question adds the remaining pods.
        """
        if self._to_place:
            self._cache.snapshot()  # adds new nodes now; otherwise the next snapshot would place all their pods at once
        for uid in tuple(self._to_place):
            pod = self._to_place.pop(uid, None)
            if pod is None:
                continue
            try:
                self._place_pod(pod)
            except (ValueError, OverflowError) as problem:
                self._cache.remove_pod(uid)
                self._log.warning("unreadable pod not counted on its node", pod=pod.metadata.name, error=str(problem))
            yield

    def _scheduler_capacity(self, nodes: Nodes) -> SchedulerCapacity:
        for _ in self.add_pods_in_steps():
            pass
        if self._catalogs.stale:
            self._cache.set_catalog(self._catalogs.catalog())
        ours, tolerations = on_demand_requirement(self.table), pool_tolerations(self.table)
        return SchedulerCapacity(self._cache, self._profile, nodes, self._pods.get, ours, tolerations)

    def _catalog_change_handler(self, resource: ResourceType[Any]) -> Callable[[Any, Any], None]:
        def changed(old: Any, new: Any) -> None:
            self._catalogs.change(resource, old, new)

        return changed

    def _on_node_change(self, old: Node | None, new: Node | None) -> None:
        if new is None:
            assert old is not None
            self._cache.remove_node(old.metadata.name)
            return
        try:
            self._cache.set_node(new)
        except (ValueError, OverflowError) as problem:
            self._cache.remove_node(new.metadata.name)
            self._log.warning(
                "unreadable node not counted as free capacity", node=new.metadata.name, error=str(problem)
            )

    def _on_pod_change(self, old: Pod | None, new: Pod | None) -> None:
        if old is not None and (new is None or old.metadata.uid != new.metadata.uid):
            self._forget_pod(old)
        if new is None or BALLOON in new.metadata.labels:  # a balloon gives way, so it counts as free
            return
        if new.status.phase in ("Succeeded", "Failed"):
            self._forget_pod(new)
            return
        self._pods[new.metadata.uid] = new
        if new.spec.node_name:
            self._waiting.pop(new.metadata.uid, None)
            self._to_place[new.metadata.uid] = new
            return
        facts = pod_facts(new)
        if facts.live and not facts.gated:
            self._waiting[facts.uid] = facts
        else:
            self._waiting.pop(facts.uid, None)

    def _forget_pod(self, pod: Pod) -> None:
        self._pods.pop(pod.metadata.uid, None)
        self._waiting.pop(pod.metadata.uid, None)
        self._to_place.pop(pod.metadata.uid, None)
        self._cache.remove_pod(pod.metadata.uid)

    def _place_pod(self, pod: Pod) -> None:
        try:
            info = self._cache.reader.read(pod)
        except BadPod:
            spec = msgspec.structs.replace(pod.spec, affinity=Affinity(), topology_spread_constraints=())
            info = self._cache.reader.read(msgspec.structs.replace(pod, spec=spec))
        self._cache.set_pod(info, pod.spec.node_name)

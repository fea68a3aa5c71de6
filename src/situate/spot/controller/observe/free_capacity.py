"""Keeps the framework's picture of nodes and pods current, so that whether a pod fits is a matter of one look (3.7).

The filters are kube-scheduler's by default, those of volumes among them: a pod stays where its volume can be (S7). How
many volumes a node takes is not looked at. A pod that cannot be read counts with what it takes of its node.
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
from situate.spot.capacity.claimed_capacity import ClaimedRoom
from situate.spot.capacity.free_capacity import Places
from situate.spot.capacity.headroom import BALLOON
from situate.spot.capacity.scheduler_capacity import FilteredRoom
from situate.spot.controller.observe.informers import Watched
from situate.spot.model.counts import Nodes
from situate.spot.model.pods_nodes_workloads import PodFacts
from situate.spot.nodes.known_signals import on_demand_requirement, pool_tolerations
from situate.spot.nodes.node_signals import Signal
from situate.spot.workloads.owners import pod_facts

_NOT_ASKED: Final = ("VolumeRestrictions", "NodeVolumeLimits")
"""The first has a pod stand in its own way, the second goes by more objects than all the rest."""
_STORAGE: Final[tuple[ResourceType[Any], ...]] = (PERSISTENTVOLUMECLAIMS, PERSISTENTVOLUMES, STORAGECLASSES)


def filtering_profile() -> Profile:
    """kube-scheduler's default filters, but for some of volumes."""
    shipped, _ = registry(())
    without = tuple(DisabledPlugin(name) for name in _NOT_ASKED if name in shipped.types)
    profile = SchedulerProfile(plugins=Plugins(multi_point=PluginSet(disabled=without)))
    (made,), mistakes = profiles_of(
        KubeSchedulerConfiguration(percentage_of_nodes_to_score=ALL_NODES, profiles=(profile,)), shipped
    )
    assert not mistakes
    return made


class Rooms:
    """`room` is as of the moment at which it is asked for."""

    def __init__(self, watched: Watched, client: Client, rng: random.Random, table: Sequence[Signal]) -> None:
        self.table = table
        self.storage: tuple[Reflector[Any], ...] = tuple(
            Reflector(client, resource, Store(resource.group_resource), rng=rng) for resource in _STORAGE
        )
        """What else is watched to know it."""
        self._cache = FrameworkCache()
        self._catalogs = CatalogKeeper()
        self._profile = filtering_profile()
        self._pods: dict[str, Pod] = {}
        self._waiting: dict[str, PodFacts] = {}  # for a node
        self._to_place: dict[str, Pod] = {}  # of `_pods`: those that the picture does not have as they are now
        self._log = structlog.get_logger()
        watched.namespaces.store.on_change(self._stored(NAMESPACES))
        for resource, reflector in zip(_STORAGE, self.storage, strict=True):
            reflector.store.on_change(self._stored(resource))
        watched.nodes.store.on_change(self._node)
        watched.pods.store.on_change(self._pod)

    def room(self, nodes: Nodes) -> ClaimedRoom:
        """For one decision. `nodes`: what they are, as the decision has it."""
        return ClaimedRoom(lambda: self._filtered(nodes), nodes, self._waiting.values)

    def places(self, nodes: Nodes) -> Generator[None, None, Places]:
        """For a plan, in steps: with the pods that wait in their places."""
        room = self.room(nodes)
        yield from room.beginning()
        return room.unclaimed()

    def placing(self) -> Generator[None, None, None]:
        """Puts the pods that have come or changed into the picture, one at each step.

        It is not done while pods are listed: whoever is to answer is ready sooner, and a standby has no use for it.
        What is left is done at the first question.
        """
        if self._to_place:
            self._cache.snapshot()  # with new nodes in it, whose pods would be placed all at once by the next one
        for uid in tuple(self._to_place):
            pod = self._to_place.pop(uid, None)
            if pod is None:
                continue
            try:
                self._place(pod)
            except (ValueError, OverflowError) as problem:
                self._cache.remove_pod(uid)
                self._log.warning("a pod takes nothing of its node", pod=pod.metadata.name, error=str(problem))
            yield

    def _filtered(self, nodes: Nodes) -> FilteredRoom:
        for _ in self.placing():
            pass
        if self._catalogs.stale:
            self._cache.set_catalog(self._catalogs.catalog())
        ours, tolerations = on_demand_requirement(self.table), pool_tolerations(self.table)
        return FilteredRoom(self._cache, self._profile, nodes, self._pods.get, ours, tolerations)

    def _stored(self, resource: ResourceType[Any]) -> Callable[[Any, Any], None]:
        def changed(old: Any, new: Any) -> None:
            self._catalogs.change(resource, old, new)

        return changed

    def _node(self, old: Node | None, new: Node | None) -> None:
        if new is None:
            assert old is not None
            self._cache.remove_node(old.metadata.name)
            return
        try:
            self._cache.set_node(new)
        except (ValueError, OverflowError) as problem:
            self._cache.remove_node(new.metadata.name)
            self._log.warning("a node is no room for anything", node=new.metadata.name, error=str(problem))

    def _pod(self, old: Pod | None, new: Pod | None) -> None:
        if old is not None and (new is None or old.metadata.uid != new.metadata.uid):
            self._forget(old)
        if new is None or BALLOON in new.metadata.labels:  # it gives way to whatever comes: it is room
            return
        if new.status.phase in ("Succeeded", "Failed"):
            self._forget(new)
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

    def _forget(self, pod: Pod) -> None:
        self._pods.pop(pod.metadata.uid, None)
        self._waiting.pop(pod.metadata.uid, None)
        self._to_place.pop(pod.metadata.uid, None)
        self._cache.remove_pod(pod.metadata.uid)

    def _place(self, pod: Pod) -> None:
        try:
            info = self._cache.reader.read(pod)
        except BadPod:
            spec = msgspec.structs.replace(pod.spec, affinity=Affinity(), topology_spread_constraints=())
            info = self._cache.reader.read(msgspec.structs.replace(pod, spec=spec))
        self._cache.set_pod(info, pod.spec.node_name)

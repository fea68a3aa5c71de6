"""Feeds an engine from the stores, which watches or a reader of a dump fill.

One object that cannot be used is refused by name; the others are still used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from situate.framework.engine.engine import Engine
from situate.framework.plugin_api.catalog_keeper import CatalogKeeper
from situate.framework.plugin_api.events import ClusterEvent
from situate.framework.pod.pods import BadPod
from situate.framework.volumes.catalog import Catalog
from situate.objects.kinds.meta import KubernetesObject
from situate.objects.kinds.nodes import Node
from situate.objects.kinds.pods import Affinity, Pod
from situate.objects.resources import ResourceType
from situate.objects.selection.label_selectors import BadSelector
from situate.scheduler.controller.informers import Stores


class ProblemReporter(Protocol):
    """Receives reports of objects that cannot be used."""

    def bad_object(self, each: Pod | Node, problem: str) -> None:
        """Report an object; may be called repeatedly."""
        ...

    def bad_selector(self, resource: ResourceType[Any], each: KubernetesObject, problem: str) -> None: ...

    def good_object(self, resource: str, uid: str) -> None:
        """Report that an object can be used, or is gone."""
        ...


class EngineFeed:
    """The feed of one process. Without an engine it only updates the catalog."""

    def __init__(self, stores: Stores, reporter: ProblemReporter, clock: Callable[[], float]) -> None:
        self._stores = stores
        self._reporter = reporter
        self._clock = clock
        self._engine: Engine | None = None
        self._stir: Callable[[], None] = lambda: None
        self._catalogs = CatalogKeeper()
        self._engine_catalog: Catalog | None = None
        """The engine's catalog; None before it has one."""
        self._events: list[ClusterEvent] = []
        """Events of catalog changes that the engine's queue has not received."""
        stores.nodes.on_change(self._on_node_change)
        stores.pods.on_change(self._on_pod_change)
        for resource, store in stores.others.items():
            store.on_change(self._handler(resource))

    def begin(self, engine: Engine, stir: Callable[[], None]) -> None:
        """Feed all known objects to the engine, and every later change; `stir` is called after each."""
        self._engine, self._stir = engine, stir
        self._engine_catalog, self._events = None, []
        for node in self._stores.nodes.list():
            self._on_node_change(None, node)
        self.hand_over_catalog()
        pods = self._stores.pods.list()
        for pod in pods:
            if pod.spec.node_name:
                self._on_pod_change(None, pod)
        for pod in pods:
            if not pod.spec.node_name:
                self._on_pod_change(None, pod)

    def end(self) -> None:
        """Stop feeding the engine."""
        self._engine = None

    def hand_over_catalog(self) -> None:
        """Pass collected catalog changes to the engine; call this before a decision."""
        if self._engine is None:
            return
        catalog = self._catalogs.catalog()
        if catalog is not self._engine_catalog:
            events, self._events = self._events, []
            self._engine_catalog = catalog
            self._engine.set_catalog(catalog, events, self._clock())

    def feed_pod(self, namespace: str, name: str, uid: str) -> None:
        """Feed a pod that waits again: the engine ignores changes of a pod that is being bound."""
        pod = self._stores.pods.get(name, namespace)
        if pod is not None and pod.metadata.uid == uid:
            self._set_pod(pod)

    def _on_node_change(self, old: Node | None, new: Node | None) -> None:
        engine = self._engine
        if engine is None:
            return
        now = self._clock()
        if new is None:
            assert old is not None
            engine.remove_node(old.metadata.name, now)
            self._reporter.good_object("nodes", old.metadata.uid)
        else:
            try:
                engine.set_node(new, now)
            except (ValueError, OverflowError) as problem:
                engine.remove_node(new.metadata.name, now)
                self._reporter.bad_object(new, f"node {new.metadata.name}: {problem}")
            else:
                self._reporter.good_object("nodes", new.metadata.uid)
        self._stir()

    def _on_pod_change(self, old: Pod | None, new: Pod | None) -> None:
        engine = self._engine
        if engine is None:
            return
        if old is not None and (new is None or old.metadata.uid != new.metadata.uid):
            engine.remove_pod(old.metadata.uid, self._clock())
            self._reporter.good_object("pods", old.metadata.uid)
        if new is not None and (new.spec.node_name or new.spec.scheduler_name in engine.profiles):
            self._set_pod(new)
        self._stir()

    def _set_pod(self, pod: Pod) -> None:
        engine, now = self._engine, self._clock()
        assert engine is not None
        try:
            engine.set_pod(pod, now)
        except BadPod as problem:
            if pod.spec.node_name:
                engine.set_pod(_without_relations(pod), now)  # its requests still count
            else:
                engine.remove_pod(pod.metadata.uid, now)
            self._reporter.bad_object(pod, str(problem))
        else:
            self._reporter.good_object("pods", pod.metadata.uid)

    def _handler(self, resource: ResourceType[Any]) -> Callable[[Any, Any], None]:
        def changed(old: KubernetesObject | None, new: KubernetesObject | None) -> None:
            try:
                events = self._catalogs.change(resource, old, new)
            except BadSelector as problem:
                assert new is not None
                self._catalogs.change(resource, new, None)
                self._reporter.bad_selector(resource, new, str(problem))
                return
            if events and self._engine is not None:
                self._events += events
                self._stir()

        return changed


def _without_relations(pod: Pod) -> Pod:
    """Return the pod without its affinity and topology spread constraints."""
    spec = msgspec.structs.replace(pod.spec, affinity=Affinity(), topology_spread_constraints=())
    return msgspec.structs.replace(pod, spec=spec)

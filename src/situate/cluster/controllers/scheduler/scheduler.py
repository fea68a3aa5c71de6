"""Simulate kube-scheduler, so that pods of `default-scheduler` get a node in a cluster without one.

This is the framework's engine with kube-scheduler's default plugins. It scores all nodes and reads the changes of the
store. Its decisions and messages are those of `situate.scheduler`. Volumes are not bound here, so claims never block a
pod. Ties go to the first node.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from situate.cluster.controllers.machinery.actions import Action, Bind, ReconcileResult, Refusal
from situate.cluster.controllers.machinery.changes import Change
from situate.cluster.controllers.machinery.controllers import Controller, ControllerContext
from situate.cluster.controllers.machinery.tables import NODES, PODS, REPLICA_SETS, STATEFUL_SETS, Key
from situate.cluster.controllers.node.pods import PodFacts
from situate.cluster.controllers.scheduler.writes import (
    binding,
    preemption_patches,
    unschedulable_patches,
    victim_deletions,
)
from situate.cluster.storage.stored_object import InternTable, StoredObject
from situate.framework.engine.decisions import Asked, Failed, Placed, PlacedRun, Refused, Waiting
from situate.framework.engine.engine import Engine
from situate.framework.engine.messages import refusal
from situate.framework.plugin_api.actions import Evict
from situate.framework.plugin_api.catalog_keeper import CatalogKeeper
from situate.framework.plugin_api.configuration import (
    DEFAULT_SCHEDULER,
    DisabledPlugin,
    KubeSchedulerConfiguration,
    Plugins,
    PluginSet,
    SchedulerProfile,
)
from situate.framework.pod.pods import BadPod
from situate.framework.profile.profile import ALL_NODES, Profile
from situate.framework.profile.profiles import profiles_of
from situate.objects.decoding.codec import Malformed, decode
from situate.objects.kinds.pods import Pod
from situate.objects.resources import (
    NAMESPACES,
    PODDISRUPTIONBUDGETS,
    REPLICASETS,
    REPLICATIONCONTROLLERS,
    SERVICES,
    STATEFULSETS,
    ResourceType,
)
from situate.objects.resources import NODES as NODE_TYPE
from situate.objects.resources import PODS as POD_TYPE
from situate.objects.selection.label_selectors import BadSelector
from situate.plugins.registry import registry

_ONLY_KEY: Final[Key] = ("", "")
"""The only key: the engine has its own queue."""
_DECISIONS_PER_RECONCILE: Final = 50
"""Number of decisions per reconcile.

Their writes go out together, so that a refused write does not delay the others.
"""
_OTHER_RESOURCES: Final[Mapping[str, ResourceType[Any]]] = {
    resource.group_resource: resource
    for resource in (NAMESPACES, PODDISRUPTIONBUDGETS, REPLICASETS, REPLICATIONCONTROLLERS, SERVICES, STATEFULSETS)
}
_VOLUME_PLUGINS: Final = ("VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone")


def default_profile() -> Profile:
    """Return kube-scheduler's default profile without the plugins that wait for volumes."""
    shipped, _ = registry(())
    without = tuple(DisabledPlugin(name) for name in _VOLUME_PLUGINS if name in shipped.types)
    profile = SchedulerProfile(plugins=Plugins(multi_point=PluginSet(disabled=without)))
    (made,), mistakes = profiles_of(
        KubeSchedulerConfiguration(percentage_of_nodes_to_score=ALL_NODES, profiles=(profile,)), shipped
    )
    assert not mistakes
    return made


class SchedulerController(Controller):
    """Controller for unscheduled pods. One key represents all of them."""

    name = "scheduler"
    user = "system:kube-scheduler"
    manager = DEFAULT_SCHEDULER
    watches = frozenset({NODES, PODS, *_OTHER_RESOURCES})

    def __init__(self, cluster: ControllerContext) -> None:
        self._cluster = cluster
        self._engine = Engine([default_profile()])
        self._catalogs = CatalogKeeper()
        self._now = 0.0
        self._binding: dict[str, Placed] = {}
        """By uid: bindings that were sent and have not been observed as a change yet."""
        self._preempting: list[Refused] = []
        """Preemptions with victims that are being deleted."""
        self._shared_parts = InternTable()
        """Decoded spec and status, shared by equal text."""
        self._unreadable: dict[Key, str] = {}
        """Pods that cannot be decoded, and the reason, to record once."""

    def observe(self, change: Change, now: float) -> Iterator[Key]:
        self._now = now
        if change.resource == NODES:
            self._observe_node(change, now)
        elif change.resource == PODS:
            self._observe_pod(change, now)
        elif change.resource in _OTHER_RESOURCES:
            self._observe_other(change)
            return
        else:
            return
        if self._unreadable or any(True for _ in self._engine.queue):
            yield _ONLY_KEY

    def reconcile(self, key: Key, now: float) -> ReconcileResult:  # noqa: ARG002  # the protocol's
        self._now = now
        engine = self._engine
        for refused in self._preempting:
            engine.evictions_sent(refused, now)
        self._preempting.clear()
        if self._catalogs.stale:
            engine.set_catalog(self._catalogs.catalog(), (), now)
        engine.tick(now)
        first: list[Action] = []
        last: list[Action] = []
        for (namespace, name), problem in self._unreadable.items():
            pod = self._cluster.get(PODS, namespace, name)
            first += () if pod is None else unschedulable_patches(pod, "SchedulerError", problem, None, now)
        self._unreadable.clear()
        while len(first) < _DECISIONS_PER_RECONCILE:
            decisions = engine.schedule_run(now, _DECISIONS_PER_RECONCILE - len(first))
            if not decisions:
                break
            for decision in decisions:
                for each in decision if isinstance(decision, PlacedRun) else (decision,):
                    actions, deletions = self._writes(each, now)
                    first += actions
                    last += deletions
        return ReconcileResult((tuple(first),) if first else (), engine.queue.next_tick(now), tuple(last))

    def handle_refusal(self, key: Key, refusal: Refusal) -> None:  # noqa: ARG002  # the protocol's
        """Release the capacity of a pod that could not be bound; the engine retries it later."""
        if isinstance(refusal.action, Bind):
            placed = self._binding.pop(refusal.action.uid, None)
            if placed is not None:
                self._engine.binding_failed(placed, self._now)

    def _observe_node(self, change: Change, now: float) -> None:
        if change.new is None:
            self._engine.remove_node(change.last.name, now)
            return
        try:
            self._engine.set_node(decode(NODE_TYPE, change.new.raw), now)
        except Malformed:  # a node with unknown capacity takes no pods
            self._engine.remove_node(change.last.name, now)

    def _observe_pod(self, change: Change, now: float) -> None:
        pod = change.pod
        self._unreadable.pop(change.key, None)
        before = change.pod_before
        if before is not None and (pod is None or pod.uid != before.uid):
            self._binding.pop(before.uid, None)
            self._engine.remove_pod(before.uid, now)
        if pod is None or change.new is None or (before is not None and _only_health_changed(before, pod)):
            return
        if pod.node:
            self._binding.pop(pod.uid, None)
        try:
            self._engine.set_pod(self._decode_pod(change.new), now)
        except (Malformed, BadPod) as problem:
            self._engine.remove_pod(pod.uid, now)
            if not pod.node and change.object["spec"].get("schedulerName") == DEFAULT_SCHEDULER:
                self._unreadable[change.key] = str(problem)

    def _decode_pod(self, stored: StoredObject) -> Pod:
        """Decode a pod. It shares text with the store, and spec and status with pods of equal text.

        A hundred thousand pods may be waiting. Raises `Malformed`.
        """
        pod = decode(POD_TYPE, stored.raw)
        metadata = msgspec.structs.replace(pod.metadata, name=stored.name, uid=stored.uid)
        spec, status = self._shared_parts.share(stored.tail, (pod.spec, pod.status))
        return Pod(metadata, spec, status)

    def _observe_other(self, change: Change) -> None:
        """Take in other objects that plugins read, such as the owners by which pods are spread."""
        if change.resource in (REPLICA_SETS, STATEFUL_SETS) and change.old is not None and change.new is not None:
            return  # their selectors never change
        resource = _OTHER_RESOURCES[change.resource]
        try:
            newest = decode(resource, change.last.raw)
            old, new = (newest, None) if change.new is None else (None, newest)
            self._catalogs.change(resource, old, new)
        except (Malformed, BadSelector):  # the API server refuses such objects; the previous selection stays
            return

    def _writes(
        self, decision: Placed | Waiting | Refused | Failed | Asked, now: float
    ) -> tuple[list[Action], list[Action]]:
        """Return the writes for a decision: those that may go out with others, and those that come after them."""
        info = decision.pod.info
        match decision:
            case Placed(node=node):
                self._binding[info.uid] = decision
                return [binding(info, node)], []
            case Failed(error=error):
                pod = self._cluster.get(PODS, *info.key)
                return ([] if pod is None else [*unschedulable_patches(pod, "SchedulerError", error, "", now)]), []
            case Refused():
                pod = self._cluster.get(PODS, *info.key)
                if any(isinstance(action, Evict) for action in decision.actions):
                    self._preempting.append(decision)
                message = refusal(decision)
                told = (
                    () if pod is None else unschedulable_patches(pod, "Unschedulable", message, decision.nominate, now)
                )
                return [*told, *preemption_patches(self._cluster, decision, now)], [*victim_deletions(decision)]
            case Waiting() | Asked():
                raise AssertionError(f"{info}: no plugin of the default profile holds pods, and there are no extenders")


def _only_health_changed(before: PodFacts, pod: PodFacts) -> bool:
    """Return whether only the health of a placed pod changed, which affects no decision.

    For a pod at generation 1, the status says nothing about resources beyond the spec.
    """
    return (
        pod.generation == 1
        and bool(pod.node)
        and (before.uid, before.node, before.phase, before.terminating, before.generation, before.labels)
        == (pod.uid, pod.node, pod.phase, pod.terminating, pod.generation, pod.labels)
    )

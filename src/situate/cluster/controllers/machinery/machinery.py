"""Run the controllers: take in changes, reconcile keys in turn, write. The same input gives the same writes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias, assert_never

from situate.cluster.controllers.cluster_objects.endpoint_slices import EndpointSliceController
from situate.cluster.controllers.cluster_objects.garbage_collector import GarbageCollector
from situate.cluster.controllers.cluster_objects.namespaces import NamespaceController, ServiceAccountController
from situate.cluster.controllers.machinery.actions import (
    Action,
    ActionWriter,
    Bind,
    Create,
    Delete,
    EventTemplate,
    Finalize,
    Patch,
    RecordEvent,
    Refusal,
    Rng,
    WriteAnswer,
)
from situate.cluster.controllers.machinery.changes import Change
from situate.cluster.controllers.machinery.controllers import Controller, ControllerContext
from situate.cluster.controllers.machinery.queue import Item, WorkQueue
from situate.cluster.controllers.machinery.recorder import Recorder
from situate.cluster.controllers.machinery.settings import MachinerySettings
from situate.cluster.controllers.machinery.tables import EVENTS, PODS
from situate.cluster.controllers.node.heartbeat import HeartbeatController
from situate.cluster.controllers.node.kubelet import KubeletController
from situate.cluster.controllers.node.kubelets import KubeletStates
from situate.cluster.controllers.node.node_lifecycle import NodeLifecycleController
from situate.cluster.controllers.node.pod_gc import PodGCController
from situate.cluster.controllers.node.taint_eviction import TaintEvictionController
from situate.cluster.controllers.workloads.deployment import DeploymentController
from situate.cluster.controllers.workloads.disruption import DisruptionController
from situate.cluster.controllers.workloads.replicaset import ReplicaSetController
from situate.cluster.controllers.workloads.statefulset import StatefulSetController
from situate.cluster.storage.resources import Catalog
from situate.cluster.storage.store import Event, Store

ControllerFactory: TypeAlias = Callable[[ControllerContext], Controller]
"""Builds a controller for clusters that need it. The composer of the cluster passes it in."""

_MAX_CONCURRENT_WRITES = 50
"""Largest number of writes in progress together. Upstream's clients have a rate limit instead."""


@dataclass(slots=True)
class _Run:
    """The batches of one outcome while they run."""

    item: Item
    batches: Iterator[tuple[Action, ...]]
    final_actions: tuple[Action, ...]
    waiting: int = 0
    refused: bool = False


class Machinery:
    """All controllers of one API.

    The caller passes every change to `observe` in the order of the store, and calls `step` at `next_due`. A write of a
    step is observed within the same step, so no controller decides on a stale view of its own writes.
    """

    def __init__(
        self,
        api: ActionWriter,
        store: Store,
        catalog: Catalog,
        settings: MachinerySettings,
        rng: Rng,
        *,
        further: Sequence[ControllerFactory] = (),
    ) -> None:
        """Create the controllers. `further` controllers observe changes after all others."""
        self._api = api
        self._settings = settings
        self.cluster = ControllerContext(store, catalog, settings, rng)
        self.kubelets = KubeletStates()
        every = {entry.name: entry for entry in (*self._build_controllers(), *(make(self.cluster) for make in further))}
        unknown = settings.disabled.difference(every)
        if unknown:
            raise ValueError(f"disabled: no controller {sorted(unknown)}; there are {', '.join(every)}")
        self._controllers = {name: entry for name, entry in every.items() if name not in settings.disabled}
        self._observers: dict[str, tuple[Controller, ...]] = {}  # controllers that observe changes, by resource
        self._queue = WorkQueue()
        self._changes: deque[Change] = deque()
        self._recorder = Recorder()
        self._tickets = 0
        self._pending: dict[int, tuple[_Run | None, Action]] = {}
        self._runs: deque[_Run] = deque()
        self._busy: set[Item] = set()
        self._to_requeue: set[Item] = set()
        self._now = 0.0

    def _build_controllers(self) -> Iterator[Controller]:
        """Yield every controller, in the order in which they observe a change."""
        # only the scheduler uses arrays: servers without controllers, and all other users, skip this import
        from situate.cluster.controllers.scheduler.scheduler import SchedulerController

        cluster = self.cluster
        yield StatefulSetController(cluster)
        yield DeploymentController(cluster)
        yield ReplicaSetController(cluster)
        yield SchedulerController(cluster)
        yield KubeletController(cluster, self.kubelets)
        yield HeartbeatController(cluster, self.kubelets)
        yield NodeLifecycleController(cluster, self.kubelets)
        yield TaintEvictionController(cluster)
        yield PodGCController(cluster)
        yield GarbageCollector(cluster)
        yield NamespaceController(cluster)
        yield ServiceAccountController(cluster)
        yield DisruptionController(cluster)
        yield EndpointSliceController(cluster)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the controllers that run."""
        return tuple(self._controllers)

    def observe(self, event: Event) -> None:
        """Queue a change of the store for the next `step`."""
        # No controller reads Events, but a namespace waits until its last Event is deleted.
        if event.resource != EVENTS or event.new is None:
            self._changes.append(Change(event.resource, event.old, event.new))

    def stop_kubelet(self, node: str) -> None:
        """Stop a node's kubelet: no heartbeat, no report, and no pod ends there."""
        self.kubelets.stop(node)

    def start_kubelet(self, node: str) -> None:
        """Start a stopped kubelet. It catches up with the changes in between."""
        self.kubelets.start(node)
        self._wake(node)

    def slow_kubelet(self, node: str, seconds: float) -> None:
        """Delay every action on a node by this many seconds; 0 for the usual pace."""
        self.kubelets.slow_down(node, seconds)
        self._wake(node)

    def next_due(self) -> float | None:
        """Return the time of the next work: minus infinity for now, None for none before a change."""
        return float("-inf") if self._changes or self._runs else self._queue.next_due()

    def step(self, now: float) -> None:
        """Do all due work, up to `reconciles_per_step`; the rest is due at once."""
        self._now = max(self._now, now)
        left = self._settings.reconciles_per_step
        while left > 0:
            if self._changes:
                self._deliver_changes()
            if self._runs:
                left -= self._proceed(self._runs.popleft())
                continue
            left -= 1
            item = self._queue.pop(self._now)
            if item is None:
                return
            if item in self._busy:
                self._to_requeue.add(item)
                continue
            name, key = item
            outcome = self._controllers[name].reconcile(key, self._now)
            if outcome.requeue_at is not None:
                assert outcome.requeue_at > self._now, f"{name} {key}: to be looked at again at once, for ever"
                self._queue.add_at(item, outcome.requeue_at)
            self._busy.add(item)
            self._runs.append(_Run(item, _split_batches(outcome.batches), outcome.final_actions))
        self._deliver_changes()

    def settle(self, ticket: int, answer: WriteAnswer) -> None:
        """Take the late answer to a write for which `Writer.perform` returned None."""
        run, action = self._pending.pop(ticket)
        if run is None:
            return
        run.waiting -= 1
        self._handle_answer(run, action, answer)
        if run.waiting == 0:
            self._runs.append(run)

    def _wake(self, node: str) -> None:
        if HeartbeatController.name in self._controllers:
            self._queue.add((HeartbeatController.name, ("", node)))
        if KubeletController.name in self._controllers:
            for pod in self.cluster.pods.pods_on_node(node):
                self._queue.add((KubeletController.name, pod.key))

    def _deliver_changes(self) -> None:
        while self._changes:
            change = self._changes.popleft()
            if change.resource == PODS:
                self.cluster.pods.apply(change)
            self.kubelets.observe(change)
            for controller in self._observers_of(change.resource):
                for key in controller.observe(change, self._now):
                    self._queue.add((controller.name, key))

    def _observers_of(self, resource: str) -> tuple[Controller, ...]:
        told = self._observers.get(resource)
        if told is None:
            every = self._controllers.values()
            told = tuple(each for each in every if each.watches is None or resource in each.watches)
            self._observers[resource] = told
        return told

    def _proceed(self, run: _Run) -> int:
        """Run the next batch of a run, or end it. Return the number of writes."""
        batch = None if run.refused else next(run.batches, None)
        if batch is None:
            batch, run.final_actions, run.batches = run.final_actions, (), iter(())
        if not batch:
            self._finish(run)
            return 0
        run.waiting = len(batch)
        for action in batch:
            answer = self._perform(run, action)
            if answer is not None:
                run.waiting -= 1
                self._handle_answer(run, action, answer)
        if run.waiting == 0:
            self._runs.append(run)
        return len(batch)

    def _finish(self, run: _Run) -> None:
        self._busy.discard(run.item)
        if run.refused:
            self._queue.add_rate_limited(run.item, self._now)
        else:
            self._queue.forget(run.item)
        if run.item in self._to_requeue:
            self._to_requeue.discard(run.item)
            self._queue.add(run.item)

    def _perform(self, run: _Run, action: Action) -> WriteAnswer | None:
        controller = self._controllers[run.item[0]]
        if isinstance(action, RecordEvent):
            return WriteAnswer(200)
        self._tickets += 1
        answer = self._api.perform(action, controller.user, controller.manager, self._tickets)
        if answer is None:
            self._pending[self._tickets] = (run, action)
        return answer

    def _handle_answer(self, run: _Run, action: Action, answer: WriteAnswer) -> None:
        name, key = run.item
        controller = self._controllers[name]
        if answer.ok:
            self._record(action.done, controller, name=answer.name)
        elif not _is_moot(action, answer):
            run.refused = True
            if not isinstance(action, RecordEvent) and answer.status != 409:
                self._record(action.failed, controller, answer.message)
            controller.handle_refusal(key, Refusal(action, answer))

    def _record(self, note: EventTemplate | None, controller: Controller, error: str = "", name: str = "") -> None:
        if note is None or not self._settings.events:
            return
        event = self._recorder.event_write(note, controller.manager, self._now, error, name)
        if event is None:
            return
        self._tickets += 1
        answer = self._api.perform(event, controller.user, controller.manager, self._tickets)
        if answer is None:
            self._pending[self._tickets] = (None, event)
        elif not answer.ok and isinstance(event, Patch):
            self._recorder.forget(event.name)


def _split_batches(batches: Iterable[tuple[Action, ...]]) -> Iterator[tuple[Action, ...]]:
    """Split batches so that a step can end between them."""
    for batch in batches:
        for start in range(0, len(batch), _MAX_CONCURRENT_WRITES):
            yield batch[start : start + _MAX_CONCURRENT_WRITES]


def _is_moot(action: Action, answer: WriteAnswer) -> bool:
    """Return whether the refusal means that nothing is left to do."""
    match action:
        case Create():
            return "NamespaceTerminating" in answer.causes
        case Patch() | Finalize() | Delete() | Bind():
            return answer.status == 404
        case RecordEvent():
            return False
        case _:
            assert_never(action)

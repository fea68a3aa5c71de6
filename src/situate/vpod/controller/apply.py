"""Place vpods: update the state from watch events, decide, and start the writes.

There is no await between deciding and committing, so one schedule runs at a time. The writes of different vpods
overlap. The `State` in memory exists only while this process leads. `sources` finds and reads the objects, and `writer`
writes the decisions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container
from datetime import datetime
from functools import partial

from situate.kube.client import Client
from situate.kube.events import reference
from situate.kube.watch.resource_versions import is_older
from situate.objects.kinds.nodes import Node
from situate.objects.kinds.pods import Pod
from situate.objects.kinds.unstructured import Unstructured
from situate.objects.kinds.workloads import StatefulSet
from situate.objects.resources import STATEFULSETS
from situate.runtime.leadership.actuator import Actuator
from situate.runtime.reconcile.outcomes import DONE, Result
from situate.runtime.reconcile.workqueue import WorkQueue
from situate.vpod.controller.informers import Informers, SourceInformer, has_workers
from situate.vpod.controller.notify import Notifier
from situate.vpod.controller.shortage_queue import LONGEST_WAIT_S, ShortageQueue
from situate.vpod.controller.sources import SourceObject, Sources
from situate.vpod.controller.unclaimed_objects import UnclaimedObjects
from situate.vpod.controller.writer import StatusWriter
from situate.vpod.model.options import Options
from situate.vpod.model.pod_facts import node_facts, pod_facts
from situate.vpod.model.vpod import Key
from situate.vpod.placement import rebalance
from situate.vpod.placement.decide import Decision, commit, retry_order, vpods_lacking_spare_copies
from situate.vpod.placement.shortage import missing_statefulset_message
from situate.vpod.placement.spare_copies import spare_copy_givers
from situate.vpod.scaling.drain import Eviction, next_retry_time, schedule_during_drain
from situate.vpod.state.ordered_ready import find_blocking_pod
from situate.vpod.state.state import State

SHORTAGE_RETRY_S = 5.0
"""Seconds between two retries of vpods with a shortage if no event arrives (Knative's requeue)."""
SOONEST_RETRY_S = 0.1
"""Seconds; the shortest delay before a retry, so that a vpod that waits for a deadline causes no busy loop."""

DecisionAudit = Callable[[State, Decision], None]
"""Receives each decision before it changes the state. An audit must not block and must not change the state."""


def no_audit(_: State, __: Decision) -> None:
    """Do nothing; the default audit."""


class PlacementReconciler:
    """The placing half of one StatefulSet's scheduler. Every method runs on the loop."""

    def __init__(
        self,
        watched: Informers,
        client: Client,
        queue: WorkQueue[Key],
        reporter: Notifier,
        *,
        actuator: Actuator,
        wall: Callable[[], datetime],
        wake_autoscaler: Callable[[], None],
        drained: Callable[[float], None],
        audit: DecisionAudit = no_audit,
        served: Container[str] | None = None,
    ) -> None:
        """Store the collaborators and subscribe to all watched stores.

        `drained` is called with the earliest time to remove the Pods that a drain has emptied.

        `served` holds the kinds that any scheduler serves. A ConsumerGroup of any other kind gets a condition that says
        so. If `served` is None, no such condition is written.
        """
        self.state: State | None = None
        """None while this process does not lead."""
        self.queue = queue
        self.sources = Sources(watched.sources)
        self._informers = watched
        self._notifier = reporter
        self._actuator = actuator
        self._shortage_queue = ShortageQueue(queue)
        self._writer = StatusWriter(watched, client, actuator, wall)
        self._unclaimed_objects = UnclaimedObjects(self.sources, self._writer, reporter, served)
        self._wake_autoscaler = wake_autoscaler
        self._on_drained = drained
        self._audit = audit
        reporter.set_state_source(lambda: self.state)
        self.statefulset_event = asyncio.Event()
        """Set whenever the watch shows the StatefulSet. A caller that waits for this event clears the event first."""
        self._expected_replicas: int | None = None
        self._replicas_version = ""
        self._last_retry_inputs: tuple[object, ...] = ()  # the inputs of the last retry of vpods with a shortage
        self._deadline: asyncio.TimerHandle | None = None
        watched.pods.store.on_change(self._on_pod_change)
        watched.nodes.store.on_change(self._on_node_change)
        watched.statefulset.store.on_change(self._on_statefulset_change)
        for source in watched.sources:
            source.reflector.store.on_change(partial(self._on_vpod_change, source))
        if watched.workers is not None:
            watched.workers.store.on_change(self._on_worker_change)

    def promote(self, options: Options) -> None:
        """Begin to lead with the objects in the stores, and reserve the placements of the statuses.

        A second promotion has the same result as the first. Rule D1.
        """
        self._expected_replicas = None
        statefulset = self.statefulset()
        self._replicas_version = statefulset.metadata.resource_version if statefulset is not None else ""
        self.replace_state(self.rebuild_state(options, self._now()))

    def demote(self) -> None:
        """Stop deciding and forget the state. `may_write` refuses the writes in progress."""
        self.state = None
        self._writer.reset()
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def replace_state(self, rebuilt: State) -> None:
        """Replace a state that was wrong, and queue every vpod again."""
        self.state = rebuilt
        for key in rebuilt.vpods:
            self.queue.add(key)
        for found in self.sources.objects():
            if self._unclaimed_objects.unclaimed_reason(found):
                self.queue.add(found.key)
        self._set_timer()

    def reconfigure(self, options: Options) -> None:
        """Apply new settings now.

        Only placements that the new settings forbid move. Rule B15.
        """
        if self.state is not None:
            self.state.reconfigure(options, self._now())
            self._queue_affected_vpods()
            self.retry_shortages()

    def rebuild_state(self, options: Options, now: float) -> State:
        """Build the state from the stores, and take the facts that no listing shows from the present state."""
        present = self.state
        return State.rebuild(
            options,
            self._known_replicas(),
            [pod_facts(pod) for pod in self._informers.pods.store.list()],
            self.sources.vpods(),
            now,
            [node_facts(node) for node in self._informers.nodes.store.list()],
            None if present is None else present.reservations(),
            present,
        )

    def statefulset(self) -> StatefulSet | None:
        """Return the watched StatefulSet, or None while it does not exist."""
        return next(iter(self._informers.statefulset.store.list()), None)

    def _known_replicas(self) -> int:
        """Return the newest known `spec.replicas`, whether read, written or watched; 0 without a StatefulSet."""
        statefulset = self.statefulset()
        if statefulset is None:
            return 0
        if self.state is not None and is_older(statefulset.metadata.resource_version, self._replicas_version):
            return self.state.replicas
        return statefulset.spec.replicas

    def expect_replicas(self, replicas: int | None) -> None:
        """Note that a write of this scale is in progress, so that its watch event is expected.

        None: this process did not write the scale.
        """
        self._expected_replicas = replicas

    def observe_replicas(self, replicas: int, version: str) -> None:
        """Record `spec.replicas` as of this resourceVersion of the StatefulSet, whether read, written or watched.

        A watch event that is older than the known version changes nothing (D2, D21).
        """
        state = self.state
        if state is None or is_older(version, self._replicas_version):
            return
        self._replicas_version = version
        before = state.replicas
        if state.observe_replicas(replicas, self._now(), ours=replicas == self._expected_replicas):
            statefulset = self.statefulset()
            if statefulset is not None:
                self._notifier.notify_replicas_reset(reference(STATEFULSETS, statefulset), before, replicas)
            self._wake_autoscaler()
        if state.replicas != before:
            self._queue_affected_vpods()
            self.retry_shortages()

    def retry_shortages(self) -> None:
        """Queue every vpod with a shortage, by priority and age, then the vpods that lack spare copies."""
        if self.state is not None:
            self._writer.message_update_pending = False
            self._last_retry_inputs = self._shortage_inputs(self.state)
            order = retry_order(self.state)
            self._shortage_queue.start_round(order)
            for key in (*order, *vpods_lacking_spare_copies(self.state)):
                self.queue.add(key)

    def retry_changed_shortages(self) -> None:
        """Retry as `retry_shortages` does, unless no input has changed since the last retry and no report is due."""
        state = self.state
        if state is not None and (
            state.drain
            or self._writer.message_update_pending
            or self._last_retry_inputs != self._shortage_inputs(state)
        ):
            self.retry_shortages()

    def _shortage_inputs(self, state: State) -> tuple[object, ...]:
        """Return the inputs of a shortage and of its message. A drain also depends on the time and is checked apart."""
        return id(state), state.version, self.statefulset() is None, self._notifier.blocked

    async def rebalance(self) -> None:
        """Even out uneven vpods, up to the move limit of one interval. Do nothing during a drain or a rollout.

        Between two vpods, other tasks of the loop run: plugins may take milliseconds for each vpod. Rule B7.
        """
        state = self.state
        if state is None or not self._may_rebalance(state):
            return
        allowed = rebalance.moves_allowed(state)
        for key in rebalance.rebalance_candidates(state):
            await asyncio.sleep(0)
            if allowed <= 0 or self.state is not state or not self._may_rebalance(state):
                return
            if (
                self._writer.is_write_in_progress(key)
                or self._writer.is_result_unknown(key)
                or not rebalance.is_settled(state, key)
            ):
                continue  # a write in progress may still succeed: its places stay reserved until the result is known
            decision = rebalance.rebalance_vpod(state, key, self._now(), allowed)
            if decision is not None:
                self._audit(state, decision)
                commit(state, decision)
                allowed -= sum(decision.moves.values())
                self._notifier.count_moves(decision.moves)
                self.queue.add(key)  # the next schedule changes no placement, so it only writes the status

    def _may_rebalance(self, state: State) -> bool:
        return rebalance.is_due(state, None, self._now(), rollout=self._is_rolling_out())

    def _is_rolling_out(self) -> bool:
        statefulset = self.statefulset()
        if statefulset is None:
            return True
        status = statefulset.status
        behind = status.observed_generation < statefulset.metadata.generation
        return behind or status.current_revision != status.update_revision

    def queue_vpods_from(self, ordinals_from: int) -> None:
        """Queue every vpod with vreplicas on ordinals from `ordinals_from` on."""
        if self.state is not None:
            for key, entry in self.state.vpods.items():
                if any(ordinal >= ordinals_from for ordinal in (entry.reserved or entry.status)):
                    self.queue.add(key)

    async def reconcile(self, key: Key) -> Result:
        """Schedule one vpod once, and write its status and its workers. Safe to repeat."""
        if self._writer.is_write_in_progress(key):
            # the evictor is removing a placement: a decision before its answer would restore that placement
            return Result(requeue_after=SOONEST_RETRY_S)
        if self._writer.is_result_unknown(key):
            await self._writer.read_after_failure(key, self.sources.find(key))
        state = self.state
        if state is None:
            return DONE
        found = self.sources.find(key)
        if found is None:
            state.remove_vpod(key, self._now())
            self._notifier.forget(key)
            return await self._unclaimed_objects.report(key, self._now())
        vpod = self.sources.read(found)
        assert vpod is not None
        start = self._now()
        began = self._notifier.stopwatch()
        state.observe_vpod(vpod, start)
        if self._shortage_queue.must_wait(state, key):
            return Result(requeue_after=LONGEST_WAIT_S)
        decision = schedule_during_drain(state, vpod, start, self._is_ready)
        self._audit(state, decision)
        open_before = _open_pod_count(state) if any(change < 0 for change in decision.delta.values()) else None
        commit(state, decision)
        self._shortage_queue.mark_decided(key)
        if open_before is not None and _open_pod_count(state) > open_before:
            self.retry_shortages()
        if decision.wakes_autoscaler:
            self._wake_autoscaler()
            for giver in spare_copy_givers(state):
                self.queue.add(giver)
        self._notifier.notify_decision(found.reference, decision, self._notifier.stopwatch() - began)
        if (
            await self._writer.write_status(found, decision, self._shortage_message(decision), self._now())
            and decision.changed
        ):
            self._notifier.notify_placements(found.reference, vpod.placements, decision, state.options.min_replicas)
        self._notifier.observe_write_latency(1000.0 * (self._now() - start))
        if has_workers(found.source.settings):
            await self._writer.write_workers(found, decision)
        return self._requeue_for_drain(key)

    def report_blocking(self) -> None:
        """Report the Pod that prevents an OrderedReady StatefulSet from creating more Pods, if there is one."""
        state, statefulset = self.state, self.statefulset()
        if state is not None and statefulset is not None:
            ordered = statefulset.spec.pod_management_policy != "Parallel"
            found = find_blocking_pod(state) if ordered else None
            self._notifier.notify_blocking_pod(
                reference(STATEFULSETS, statefulset), found, self._now(), state.options.pod_grace
            )

    def _requeue_for_drain(self, key: Key) -> Result:
        """Requeue a vpod that still has to leave drained Pods. After the last one has left, notify the autoscaler."""
        state = self.state
        if state is None or state.drain is None:
            return DONE
        if not state.is_used_from(state.drain.target):
            self._on_drained((state.drain_moved_at or self._now()) + state.options.drain.settle)
            return DONE
        again = next_retry_time(state, key)
        return Result(requeue_after=max(SOONEST_RETRY_S, again - self._now())) if again is not None else DONE

    def _is_ready(self, _: Key, pod: str) -> bool:
        known = self._informers.pods.store.get(pod, self._informers.pods.scope.namespace or "")
        return known is not None and known.ready

    async def evict(self, eviction: Eviction) -> bool:
        """Evict through the consumer side, and return whether the placement is gone. A missing vpod is not an error."""
        found = self.sources.find(eviction.key)
        vpod = self.sources.read(found) if found is not None else None
        if found is None or not await self._writer.evict(found, eviction):
            return found is None
        if vpod is not None and any(each.pod_name == eviction.placement.pod_name for each in vpod.placements):
            self._notifier.notify_eviction(found.reference, vpod.placements, vpod.vreplicas, eviction)
        return True

    def _shortage_message(self, decision: Decision) -> str:
        """Return the message for the condition; empty without a shortage."""
        if decision.shortage is None:
            return ""
        if self.statefulset() is None and self.state is not None:
            return missing_statefulset_message(self.state.options.statefulset)
        blocked = self._notifier.blocked
        return f"{decision.shortage}; {blocked}" if blocked else str(decision.shortage)

    def _on_vpod_change(self, source: SourceInformer, old: Unstructured | None, new: Unstructured | None) -> None:
        state = self.state
        gone, come = (None if each is None else SourceObject(source, each) for each in (old, new))
        if state is None:
            if come is None and gone is not None:
                self.sources.forget(gone.key)
            return
        open_before = _open_pod_count(state)
        before = self.sources.read(gone) if gone is not None else None
        after = self.sources.read(come) if come is not None else None
        if come is not None and after is not None:
            entry = state.observe_vpod(after, self._now())
            written_by_others = before is not None and before.placements != after.placements != entry.result
            if written_by_others and not self._writer.is_write_in_progress(after.key):
                ours = entry.result
                state.reserve(after.key, state.places_of(after.placements)[0])
                if self._actuator.may_write():  # a stale leader that wakes up sees the writes of the present leader
                    self._notifier.notify_drift(come.reference, ours)
            self.queue.add(after.key)
        elif come is not None and self._unclaimed_objects.unclaimed_reason(come):
            self.queue.add(come.key)
        elif come is None and gone is not None:
            self._unclaimed_objects.forget(gone.key)
            self.sources.forget(gone.key)
        if after is None and before is not None:
            state.remove_vpod(before.key, self._now())
            self._writer.forget(before.key)
            self._notifier.forget(before.key)
            self.retry_shortages()
        self._queue_affected_vpods(open_before)

    def _on_pod_change(self, old: Pod | None, new: Pod | None) -> None:
        state = self.state
        if state is None:
            return
        open_before = _open_pod_count(state)
        if new is not None:
            state.observe_pod(pod_facts(new), self._now())
        elif old is not None:
            state.remove_pod(old.metadata.name, self._now())
        self._queue_affected_vpods(open_before)

    def _on_node_change(self, old: Node | None, new: Node | None) -> None:
        state = self.state
        if state is None:
            return
        open_before = _open_pod_count(state)
        if new is not None:
            state.observe_node(node_facts(new), self._now())
        elif old is not None:
            state.remove_node(old.metadata.name, self._now())
        self._queue_affected_vpods(open_before)

    def _on_statefulset_change(self, old: StatefulSet | None, new: StatefulSet | None) -> None:
        if new is not None:
            self.statefulset_event.set()
        if old is None or new is None:
            self._replicas_version = ""  # a new object of the same name has its own resourceVersions
            self._wake_autoscaler()
        if new is not None:
            self.observe_replicas(new.spec.replicas, new.metadata.resource_version)
        else:
            self.observe_replicas(0, "")

    def _on_worker_change(self, old: Unstructured | None, new: Unstructured | None) -> None:
        shown = new or old
        owner = shown.metadata.controller if shown is not None else None
        if self.state is None or shown is None or owner is None or owner.kind != "ConsumerGroup":
            return
        key = Key(shown.metadata.namespace, owner.name)
        if self.sources.find(key) is not None:
            self.queue.add(key)

    def _queue_affected_vpods(self, open_before: int | None = None) -> None:
        """Queue the vpods that a change concerns: those on Pods that now reject, and those that wait for capacity."""
        state = self.state
        if state is None:
            return
        # Skip empty Pods: a Pod that is annotated for good must not make every event scan all vpods.
        ousted = {o for o in state.ousted if state.slots[o].adding or state.slots[o].committed}
        if ousted:
            for key, entry in state.vpods.items():
                held = entry.reserved if entry.reserved is not None else entry.status
                if not ousted.isdisjoint(held):
                    self.queue.add(key)
        if open_before is not None and _open_pod_count(state) > open_before:
            self.retry_shortages()
        self._set_timer()

    def _set_timer(self) -> None:
        """Set a timer for the next time at which the class of a Pod changes without an event."""
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        state = self.state
        due = state.next_deadline() if state is not None else None
        if due is not None:
            self._deadline = asyncio.get_running_loop().call_at(due, self._on_deadline)

    def _on_deadline(self) -> None:
        self._deadline = None
        if self.state is not None:
            self.state.advance(self._now())
            self._queue_affected_vpods()

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()


def _open_pod_count(state: State) -> int:
    return sum(len(ordinals) for ordinals in state.open.values())

"""The scheduler without I/O: it takes events and returns decisions.

`Engine` combines cache, queue and plugins. Its host passes in events and the time, requests decisions, carries them out
and reports the outcome. The live scheduler, the simulator, queries on branches and the benchmarks use the same engine.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, TypeAlias

import numpy as np

from situate.framework.class_cache.switches import Shortcuts
from situate.framework.cycle.cycle import NO_NODES, PluginFailed, allot_units
from situate.framework.cycle.feasibility_query import FeasibilityResult, query_feasibility
from situate.framework.cycle.handle import Handle, PluginRequests, with_handles
from situate.framework.cycle.node_sampling import index_of_best, random_index_of_best
from situate.framework.cycle.reserve import reserve, unreserve
from situate.framework.engine.batch_scheduling import BatchScheduler, EngineState
from situate.framework.engine.choose_node import Choice, NodeChooser, TieBreaker
from situate.framework.engine.decisions import (
    Asked,
    Binding,
    Decision,
    Failed,
    Placed,
    PlacedRun,
    Refused,
    Waiting,
    active_pre_bind_plugins,
)
from situate.framework.engine.extender_cycle import ExtenderCycle, Unplaced
from situate.framework.engine.waiting_pods import Permits, PermitWait, run_permit_plugins
from situate.framework.plugin_api.actions import Action, Evict, Nominate
from situate.framework.plugin_api.changes import events_of, node_change, pod_change
from situate.framework.plugin_api.configuration import Extender
from situate.framework.plugin_api.events import Change, ClusterEvent, Subject
from situate.framework.plugin_api.plugin import Diagnosis, PostFiltered
from situate.framework.pod.pods import PodInfo
from situate.framework.preemption.extenders import (
    ExtenderReply,
    Steps,
    extenders_in_order,
    is_called_in_cycles,
    manages_pod,
)
from situate.framework.preemption.nominations import Nominations
from situate.framework.preemption.post_filter import run_post_filter
from situate.framework.profile.profile import Profile
from situate.framework.queue.queued_pod import QueueState, WaitingPod
from situate.framework.queue.scheduling_queue import QueueSettings, SchedulingQueue
from situate.framework.results.status import Code, Status
from situate.framework.snapshot.cache import Cache
from situate.framework.snapshot.snapshot import Snapshot
from situate.framework.volumes.catalog import Catalog
from situate.objects.kinds.nodes import Node
from situate.objects.kinds.pods import Pod

PREEMPTION: Final = "DefaultPreemption"
"""The plugin name for which a Pod waits until its evictions have been sent (upstream's asynchronous preemption)."""


class Engine:
    """The state of one scheduler; mutable. Times are seconds of the host's clock."""

    def __init__(
        self,
        profiles: Sequence[Profile],
        queue: QueueSettings = QueueSettings(),  # noqa: B008  # frozen
        shortcuts: Shortcuts = Shortcuts(),  # noqa: B008  # frozen
        seed: int | None = None,
        extenders: Sequence[Extender] = (),
    ) -> None:
        """Create an engine without Nodes and Pods.

        With a `seed`, a random draw decides among equally good nodes; None takes the first of them. `extenders` are in
        configured order.
        """
        self._arguments = (profiles, queue, shortcuts, seed)
        self._plugin_requests = PluginRequests()
        self._decisions_to_return: deque[Decision] = deque()
        """Decisions that result from plugins' requests. They are returned before any other decision."""
        self.profiles = {profile.scheduler_name: with_handles(profile, self._make_handle) for profile in profiles}
        self.cache = Cache(
            {key for profile in profiles for plugin in profile.annotations for key in plugin.annotations},
            {key for profile in profiles for plugin in profile.allot for key in plugin.allotments},
        )
        self.queue = SchedulingQueue(self.profiles, queue)
        self.nominations = Nominations()
        self.permits = Permits()
        self.extended = any(each.filter_verb or each.prioritize_verb for each in extenders)
        """Whether extenders filter or score nodes."""
        self._choosers = {
            name: NodeChooser(profile, shortcuts, extended=self.extended) for name, profile in self.profiles.items()
        }
        self._random = None if seed is None else np.random.default_rng(seed)
        self._tie: TieBreaker = (
            index_of_best if self._random is None else partial(random_index_of_best, random=self._random)
        )
        self._extenders = extenders_in_order(extenders)
        self._batch_scheduler = self._make_batch_scheduler(shortcuts)
        self._open_cycle: _OpenCycle | None = None

    def _make_batch_scheduler(self, shortcuts: Shortcuts) -> BatchScheduler:
        return BatchScheduler(
            EngineState(self.cache, self.queue, self.nominations, self._plugin_requests),
            self.profiles,
            self._choosers,
            self._tie,
            self._extenders,
            runs=shortcuts.classes and shortcuts.batches and self._random is None,
            stretches=shortcuts.classes and shortcuts.stretches,
        )

    def branch(
        self, alter: Callable[[Profile], Profile] = lambda profile: profile, extenders: Sequence[Extender] = ()
    ) -> Engine:
        """Return another engine with the same cluster state and nominations but an empty queue, for trials.

        It does not affect this engine. `alter` changes its profiles. `extenders` are the extenders that it calls.
        """
        profiles, queue, shortcuts, seed = self._arguments
        twin = Engine([alter(profile) for profile in profiles], queue, shortcuts, seed, extenders)
        twin.cache = self.cache.branch()
        twin.nominations = self.nominations.branch()
        twin._batch_scheduler = twin._make_batch_scheduler(shortcuts)
        for name, chooser in twin._choosers.items():
            chooser.next_start = self._choosers[name].next_start
        if self._random is not None and twin._random is not None:
            twin._random.bit_generator.state = self._random.bit_generator.state
        return twin

    @property
    def extenders(self) -> tuple[Extender, ...]:
        """In the order of the calls."""
        return self._extenders

    def next_start(self, scheduler_name: str) -> int:
        """Return the node at which the profile's next sampling round starts."""
        return self._choosers[scheduler_name].next_start

    def _make_handle(self, plugin: str) -> Handle:
        def what_if(pod: PodInfo, snapshot: Snapshot) -> FeasibilityResult:
            return query_feasibility(self.profiles[pod.pod.spec.scheduler_name], pod, snapshot)

        return Handle(plugin, self._plugin_requests, lambda: self.snapshot, what_if)

    # Events

    def set_node(self, node: Node, now: float) -> None:
        """Add or update a Node."""
        old = self.cache.node(node.metadata.name)
        self.cache.set_node(node)
        self._notify_queue(events_of(Subject.NODE, node_change(old, node), old, node), now)

    def remove_node(self, name: str, now: float) -> None:
        """Remove a Node. The Pods on it count nowhere."""
        old = self.cache.node(name)
        if old is not None:
            self.cache.remove_node(name)
            self._notify_queue((ClusterEvent(Subject.NODE, Change.DELETE, old),), now)

    def set_pod(self, pod: Pod, now: float) -> None:
        """Add or update a Pod. `BadPod` if a field is invalid; the engine is then unchanged."""
        info = self.cache.reader.read(pod)
        if pod.finished:
            self.remove_pod(info.uid, now)
        elif pod.spec.node_name:
            self._set_placed(info, pod.spec.node_name, now)
        elif pod.spec.scheduler_name in self.profiles and self.cache.pod(info.uid) is None:
            self._set_waiting(info, now)

    def remove_pod(self, uid: str, now: float) -> None:
        """Remove a Pod that was deleted or has ended; no effect on an unknown Pod."""
        self.queue.delete(uid)
        withdrawn = self.nominations.remove(uid)
        if withdrawn is not None:
            self._report_freed_capacity(withdrawn, now)
        if self.permits.remove_pod(uid) is not None or self.cache.pod(uid) is not None:
            self._release(uid, now)
            known = self.cache.remove_pod(uid)
            if known is not None:
                self._notify_queue((ClusterEvent(Subject.ASSIGNED_POD, Change.DELETE, known.info),), now)

    def set_catalog(self, catalog: Catalog, events: Sequence[ClusterEvent], now: float) -> None:
        """Replace the other objects; `events` describe the changes."""
        self.cache.set_catalog(catalog)
        self._notify_queue(events, now)

    def _set_placed(self, info: PodInfo, node: str, now: float) -> None:
        self.queue.delete(info.uid)
        self.nominations.remove(info.uid)
        self.permits.remove_pod(info.uid)
        self.cache.release_if_shown(info.uid)
        known = self.cache.set_pod(info, node)
        if known is None or known.assumed:
            self._notify_queue((ClusterEvent(Subject.ASSIGNED_POD, Change.ADD, None, info),), now)
        else:
            self._notify_queue(events_of(Subject.ASSIGNED_POD, pod_change(known.info, info), known.info, info), now)

    def _set_waiting(self, info: PodInfo, now: float) -> None:
        known = self.queue.get(info.uid)
        if known is None:
            self.nominations.nominate(info, info.nominated)
            self.queue.add(info, now)
        else:
            old = known.info
            before = self.nominations.node_of(info.uid)
            # a nomination that neither object names was made here and is not written yet
            promised = info.nominated or ("" if old.nominated else before)
            self.nominations.nominate(info, promised)
            if (old.nominated or before) not in ("", promised):
                self._report_freed_capacity(old, now)
            self.queue.update(info, events_of(Subject.POD, pod_change(old, info), old, info), now)

    def _report_freed_capacity(self, info: PodInfo, now: float) -> None:
        """Report the Pod's nominated capacity as free, like a deletion, to Pods of at most its priority."""
        event = ClusterEvent(Subject.ASSIGNED_POD, Change.DELETE, info)
        self.queue.on_event(event, now, at_most=info.priority)

    def _notify_queue(self, events: Sequence[ClusterEvent], now: float, but: str = "") -> None:
        for event in events:
            self.queue.on_event(event, now, but=but)

    def tick(self, now: float) -> list[Refused]:
        """Advance the time, and return the Pods whose Permit timeout has expired."""
        self.queue.tick(now)
        return [
            self._revert_placement(held.pod, held.node, Status(Code.UNSCHEDULABLE, (reason,), plugin), now)
            for held, plugin, reason in self.permits.pop_expired(now)
        ]

    # Scheduling cycles

    def schedule(self, now: float) -> Decision | Asked | None:
        """Run the scheduling cycle of the next Pod; None if no Pod is ready.

        The result is `Asked` only with extenders. The host must then call `resume` with their replies before any other
        decision.
        """
        self._check_no_open_cycle()
        if self._plugin_requests or self._decisions_to_return:
            self._execute_plugin_requests(now)
            if self._decisions_to_return:
                return self._decisions_to_return.popleft()
        while (waiting := self.queue.pop()) is not None:
            decision = self._run_cycle(waiting, now)
            if decision is not None:
                return decision
        return None

    def resume(self, replies: Sequence[ExtenderReply], now: float) -> Decision | Asked | None:
        """Continue the open cycle with one reply for each question, in their order.

        None if the Pod has been deleted or placed in the meantime.
        """
        if self._open_cycle is None:
            raise RuntimeError("no cycle waits for replies")
        (waiting, steps), self._open_cycle = self._open_cycle, None
        if waiting.place is QueueState.GONE or waiting.info.terminating:
            steps.close()
            self.queue.delete(waiting.info.uid)
            return None
        try:
            return self._continue_cycle(waiting, steps, replies, now)
        except Exception as problem:
            return self._record_failure(waiting, problem, now)

    def _check_no_open_cycle(self) -> None:
        if self._open_cycle is not None:
            raise RuntimeError(f"the cycle of pod {self._open_cycle[0].info} waits for its extenders; resume it first")

    def _run_cycle(self, waiting: WaitingPod, now: float) -> Decision | Asked | None:
        """Decide about the Pod. Return None if it is being deleted, because it then needs no node."""
        if waiting.info.terminating:
            self.queue.delete(waiting.info.uid)
            return None
        try:
            return self._decide(waiting, now)
        except Exception as problem:
            return self._record_failure(waiting, problem, now)

    def _record_failure(self, waiting: WaitingPod, problem: Exception, now: float) -> Failed:
        """Record an error, which ends only this Pod's cycle.

        An exception that is not `PluginFailed` may still come from a plugin: an answer of the wrong type or length.
        """
        self.nominations.remove(waiting.info.uid)
        self.queue.put_back(waiting, now)
        if isinstance(problem, PluginFailed):
            return Failed(waiting, str(problem), problem.plugin)
        return Failed(waiting, f"{type(problem).__name__}: {problem}", cause=problem)

    def schedule_run(self, now: float, most: int) -> list[Decision | PlacedRun | Asked]:
        """Run the scheduling cycles of the next Pods, at most `most`; empty if no Pod is ready.

        Consecutive equal Pods may be placed at once, on the same nodes as by `schedule`. An `Asked` is always last.
        """
        self._check_no_open_cycle()
        if self._plugin_requests or self._decisions_to_return:
            self._execute_plugin_requests(now)
            if self._decisions_to_return:
                return [self._decisions_to_return.popleft()]
        first = self.queue.pop()
        if first is None:
            return []
        if most < 2 or (self._extenders and self._extenders_of(first.info)):
            decision = self._run_cycle(first, now)
            return [] if decision is None else [decision]
        return self._batch_scheduler.decide_batch(first, most, lambda waiting: self._run_cycle(waiting, now))

    def _extenders_of(self, info: PodInfo) -> tuple[Extender, ...]:
        return tuple(extender for extender in self._extenders if manages_pod(extender, info))

    def _decide(self, waiting: WaitingPod, now: float) -> Decision | Asked:
        info = waiting.info
        snapshot = self.cache.snapshot()
        if not snapshot.count:
            return self._refuse(waiting, Diagnosis(snapshot, status=NO_NODES), None, now)
        extenders = tuple(filter(is_called_in_cycles, self._extenders_of(info))) if self._extenders else ()
        if extenders:
            name = info.pod.spec.scheduler_name
            asking = ExtenderCycle(self.profiles[name], self._choosers[name], extenders, self.nominations, self._tie)
            return self._continue_cycle(waiting, asking.schedule(info, snapshot.branch()), None, now)
        index = snapshot.nodes.index
        promised = self.nominations.node_of(info.uid)
        found = self._choosers[info.pod.spec.scheduler_name].choose(
            info,
            snapshot,
            self.nominations.competing_pods(info, index) if self.nominations else {},
            index.get(promised) if promised else None,
            self._tie,
        )
        if isinstance(found, Choice):
            return self._place(waiting, snapshot.nodes.names[found.index], found, now)
        diagnosis = found.diagnosis()
        profile = self.profiles[info.pod.spec.scheduler_name]
        result = run_post_filter(profile, found, info, diagnosis, self.nominations)
        return self._refuse(waiting, diagnosis, result, now)

    def _continue_cycle(
        self,
        waiting: WaitingPod,
        steps: Steps[tuple[str, Choice] | Unplaced],
        replies: Sequence[ExtenderReply] | None,
        now: float,
    ) -> Decision | Asked:
        """Run to the next questions or to the end. Nodes of the snapshot may have been removed in the meantime."""
        try:
            questions = next(steps) if replies is None else steps.send(replies)
        except StopIteration as end:
            found: tuple[str, Choice] | Unplaced = end.value
        else:
            self._open_cycle = waiting, steps
            return Asked(waiting, questions)
        if isinstance(found, Unplaced):
            return self._refuse(waiting, found.diagnosis, found.result, now)
        node, choice = found
        if self.cache.node(node) is None:
            self.nominations.remove(waiting.info.uid)
            self.queue.put_back(waiting, now)
            return Failed(waiting, f"node {node} was deleted while the extenders evaluated it")
        return self._place(waiting, node, choice, now)

    def _place(self, waiting: WaitingPod, node: str, choice: Choice, now: float) -> Decision:
        """Allot, assume, Reserve and Permit."""
        profile = self.profiles[waiting.info.pod.spec.scheduler_name]
        info = self._allot_units(profile, waiting.info, node) if profile.allot else waiting.info
        self.cache.assume(info, node)
        self.nominations.remove(info.uid)
        until: dict[str, float] = {}
        working: frozenset[str] = frozenset()
        try:
            reserved = reserve(profile, info, node, self.cache.snapshot())
            rejection = None if reserved.status.ok else reserved.status
            if reserved.storage:
                self.cache.reserve_storage(info.uid, reserved.storage)
            if rejection is None:
                rejection, until = run_permit_plugins(profile, waiting.info, node, now)
            if until:
                working = active_pre_bind_plugins(profile, info, node, self.cache.snapshot())
        except Exception:
            self._undo(info, node, now)
            raise
        if rejection is not None:
            return self._revert_placement(waiting, node, rejection, now)
        if until:
            self.permits.hold(PermitWait(waiting, node, until, working))
            return Waiting(waiting, node, choice, until)
        self.queue.record_placement(info.uid)
        return Placed(waiting, node, choice)

    def _allot_units(self, profile: Profile, info: PodInfo, node: str) -> PodInfo:
        snapshot = self.cache.snapshot()
        return allot_units(profile, info, snapshot.select_nodes(np.array([snapshot.nodes.index[node]], dtype=np.intp)))

    def _refuse(self, waiting: WaitingPod, diagnosis: Diagnosis, result: PostFiltered | None, now: float) -> Refused:
        info = waiting.info
        refused = Refused(waiting, diagnosis, result)
        if refused.nominate is not None:
            self.nominations.nominate(info, refused.nominate)
        if result is not None:
            for action in result.actions:
                if isinstance(action, Nominate) and action.uid != info.uid:
                    self.nominations.remove(action.uid)
            if any(isinstance(action, Evict) for action in result.actions):
                self.queue.hold(info.uid, PREEMPTION, "waiting for the preemption for this pod to be finished")
        self.queue.put_back(waiting, now, diagnosis.rejectors)
        return refused

    def evictions_sent(self, refused: Refused, now: float) -> None:
        """Record that the Pod's evictions are under way or have finally failed. Events may then requeue the Pod."""
        self.queue.release(refused.pod.info.uid, now)

    def _revert_placement(self, waiting: WaitingPod, node: str, rejection: Status, now: float) -> Refused:
        """Revert a placement that a plugin rejected. The resulting events go to other Pods only."""
        pending = rejection.code is Code.PENDING
        names = frozenset((rejection.plugin,))
        self.queue.put_back(waiting, now, frozenset() if pending else names, names if pending else frozenset())
        self._undo(waiting.info, node, now, but=waiting.info.uid)
        return Refused(waiting, Diagnosis(self.cache.snapshot(), status=rejection))

    # Binding cycles

    def allow(self, uid: str, plugin: str) -> Placed | None:
        """Record that a plugin allows a waiting Pod. Return the placement once all plugins have."""
        held = self.permits.allow(uid, plugin)
        if held is None:
            return None
        self.queue.record_placement(uid)
        return Placed(held.pod, held.node, None, held.working)

    def reject(self, uid: str, plugin: str, reason: str, now: float) -> Refused | None:
        """Reject a waiting Pod; None if it is not waiting."""
        held = self.permits.remove_pod(uid)
        if held is None:
            return None
        return self._revert_placement(held.pod, held.node, Status(Code.UNSCHEDULABLE, (reason,), plugin), now)

    def take_requested_actions(self) -> tuple[Action, ...]:
        """Return the actions that plugins have requested, other than placements, since the last call."""
        asked = tuple(self._plugin_requests.actions)
        self._plugin_requests.actions.clear()
        return asked

    def _execute_plugin_requests(self, now: float) -> None:
        """Execute the requests that plugins made through their handles, in the order of the kinds."""
        wishes = self._plugin_requests.take_requests()
        self.queue.activate(wishes.activate, now)
        allowed = [self.allow(uid, plugin) for uid, plugin in wishes.allow]
        rejected = [self.reject(uid, plugin, reason, now) for uid, plugin, reason in wishes.reject]
        self._decisions_to_return += [decision for decision in (*allowed, *rejected) if decision is not None]

    def binding(self, placed: Placed) -> Binding:
        """Return the actions that bind the Pod; `PluginFailed` if a plugin fails."""
        info = placed.pod.info
        profile = self.profiles[info.template.scheduler_name]
        if profile.allot and (known := self.cache.pod(info.uid)) is not None:
            info = known.info  # includes the allocated units
        binders = (each for each in self._extenders if each.bind_verb and manages_pod(each, info))
        binder = next(binders, None) if self._extenders else None
        return Binding.for_pod(profile, info, placed.node, self.cache.snapshot(), binder, placed.working)

    def binding_succeeded(self, placed: Placed) -> None:
        """Record that the API server accepted the binding. The watch reports later changes."""
        self.cache.confirm(placed.pod.info.uid)
        self.queue.remove_bound(placed.pod.info.uid)

    def binding_failed(self, placed: Placed, now: float) -> None:
        """Free the capacity of a Pod that is certainly not bound, and requeue the Pod with backoff."""
        self._undo(placed.pod.info, placed.node, now)
        self.queue.put_back(placed.pod, now)

    def _undo(self, info: PodInfo, node: str, now: float, but: str = "") -> None:
        unreserve(self.profiles[info.pod.spec.scheduler_name], info, node)
        self._release(info.uid, now, but)
        if self.cache.forget(info.uid) is not None:
            self._notify_queue((ClusterEvent(Subject.ASSIGNED_POD, Change.DELETE, info),), now, but)

    def _release(self, uid: str, now: float, but: str = "") -> None:
        """Release the Pod's reserved volumes and notify the queue, because the API server reports no change."""
        for given in self.cache.release(uid).given:
            free = self.cache.catalog.storage.volume(given.volume.metadata.name)
            if free is not None:
                self._notify_queue((ClusterEvent(Subject.VOLUME, Change.UPDATE, given.volume, free),), now, but)

    @property
    def snapshot(self) -> Snapshot:
        """The newest snapshot."""
        return self.cache.snapshot()


_OpenCycle: TypeAlias = tuple[WaitingPod, Steps[tuple[str, Choice] | Unplaced]]
"""An open cycle that waits for replies."""

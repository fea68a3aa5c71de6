"""The scheduler without I/O: events go in, decisions come out.

`Engine` joins cache, queue and plugins. Whoever drives it tells it what happens and what time it is, asks for
decisions, has them performed, and tells it how that went. The live scheduler, the simulator, what-if questions and the
benchmarks drive the same engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from situate.framework.actions import Evict, Nominate
from situate.framework.cache import Cache
from situate.framework.catalog import Catalog
from situate.framework.changes import events_of, node_change, pod_change
from situate.framework.choosing import Choice, Chooser
from situate.framework.cycle import NO_NODES, PluginFailed
from situate.framework.decisions import Binding, Decision, Failed, Placed, PlacedRun, Refused, Waiting
from situate.framework.events import Change, ClusterEvent, Subject
from situate.framework.nominations import Nominations
from situate.framework.permits import Permits
from situate.framework.plugin import Diagnosis, PostFiltered, Scores
from situate.framework.pods import PodInfo
from situate.framework.post_filter import run_post_filter
from situate.framework.profile import Profile
from situate.framework.queue.scheduling import QueueSettings, SchedulingQueue
from situate.framework.queue.waiting import WaitingPod
from situate.framework.reserving import concerns, reserve, unreserve
from situate.framework.snapshot import Snapshot
from situate.framework.status import Code, Status
from situate.framework.visiting import best, best_at_random
from situate.objects.nodes import Node
from situate.objects.pods import Pod

PREEMPTION: Final = "DefaultPreemption"
"""In whose name a pod waits until what makes room for it has been sent (upstream's asynchronous preemption)."""


@dataclass(frozen=True, slots=True)
class Shortcuts:
    """Ways to the same answer in less time; each can be switched off."""

    classes: bool = True
    """Keep what is known per class of equal pods, and ask again only about nodes that changed."""
    batches: bool = True
    """Place a run of equal pods at once; needs `classes`, and ties that go to the first node."""


class Engine:
    """Mutable, of one scheduler. Times are seconds of whatever clock the driver has."""

    def __init__(
        self,
        profiles: Sequence[Profile],
        queue: QueueSettings = QueueSettings(),  # noqa: B008  # frozen
        shortcuts: Shortcuts = Shortcuts(),  # frozen
        seed: int | None = None,
    ) -> None:
        """`seed` draws among equally good nodes; None takes the first of them."""
        self.profiles = {profile.scheduler_name: profile for profile in profiles}
        self.cache = Cache()
        self.queue = SchedulingQueue(self.profiles, queue)
        self.nominations = Nominations()
        self.permits = Permits()
        self._choosers = {name: Chooser(profile, by_class=shortcuts.classes) for name, profile in self.profiles.items()}
        self._random = None if seed is None else np.random.default_rng(seed)
        self._batches = shortcuts.classes and shortcuts.batches and seed is None

    # What happens

    def set_node(self, node: Node, now: float) -> None:
        """A node is new, or has changed."""
        old = self.cache.node(node.metadata.name)
        self.cache.set_node(node)
        self._tell(events_of(Subject.NODE, node_change(old, node), old, node), now)

    def remove_node(self, name: str, now: float) -> None:
        """A node is gone; the pods on it count nowhere."""
        old = self.cache.node(name)
        if old is not None:
            self.cache.remove_node(name)
            self._tell((ClusterEvent(Subject.NODE, Change.DELETE, old),), now)

    def set_pod(self, pod: Pod, now: float) -> None:
        """A pod is new, or has changed; `BadPod` if it cannot be read, and then nothing has changed here."""
        info = self.cache.reader.read(pod)
        if pod.finished:
            self.remove_pod(info.uid, now)
        elif pod.spec.node_name:
            self._set_placed(info, pod.spec.node_name, now)
        elif pod.spec.scheduler_name in self.profiles and self.cache.pod(info.uid) is None:
            self._set_waiting(info, now)

    def remove_pod(self, uid: str, now: float) -> None:
        """A pod is gone, or has ended; harmless if it is not known."""
        self.queue.delete(uid)
        self.nominations.remove(uid)
        if self.permits.end(uid) is not None or self.cache.pod(uid) is not None:
            known = self.cache.remove_pod(uid)
            if known is not None:
                self._tell((ClusterEvent(Subject.ASSIGNED_POD, Change.DELETE, known.info),), now)

    def set_catalog(self, catalog: Catalog, events: Sequence[ClusterEvent], now: float) -> None:
        """Other objects have changed; `events` say in what respects."""
        self.cache.set_catalog(catalog)
        self._tell(events, now)

    def _set_placed(self, info: PodInfo, node: str, now: float) -> None:
        self.queue.delete(info.uid)
        self.nominations.remove(info.uid)
        self.permits.end(info.uid)
        known = self.cache.set_pod(info, node)
        if known is None or known.assumed:
            self._tell((ClusterEvent(Subject.ASSIGNED_POD, Change.ADD, None, info),), now)
        else:
            self._tell(events_of(Subject.ASSIGNED_POD, pod_change(known.info, info), known.info, info), now)

    def _set_waiting(self, info: PodInfo, now: float) -> None:
        self.nominations.nominate(info, info.nominated)
        known = self.queue.get(info.uid)
        if known is None:
            self.queue.add(info, now)
        else:
            old = known.info
            self.queue.update(info, events_of(Subject.POD, pod_change(old, info), old, info), now)

    def _tell(self, events: Sequence[ClusterEvent], now: float) -> None:
        for event in events:
            self.queue.on_event(event, now)

    def tick(self, now: float) -> list[Refused]:
        """Lets time pass; the pods whose permits have run out."""
        self.queue.tick(now)
        return [
            self._give_up(held.pod, held.node, Status(Code.UNSCHEDULABLE, (reason,), plugin), now)
            for held, plugin, reason in self.permits.expired(now)
        ]

    # Scheduling cycles

    def schedule(self, now: float) -> Decision | None:
        """Takes the next pod through its scheduling cycle; None when no pod's turn has come."""
        while (waiting := self.queue.pop()) is not None:
            decision = self._settle(waiting, now)
            if decision is not None:
                return decision
        return None

    def _settle(self, waiting: WaitingPod, now: float) -> Decision | None:
        """None for a pod that is being deleted, which nobody waits for any more."""
        if waiting.info.terminating:
            self.queue.delete(waiting.info.uid)
            return None
        try:
            return self._decide(waiting, now)
        except PluginFailed as failed:
            self.queue.put_back(waiting, now)
            return Failed(waiting, str(failed), failed.plugin)

    def schedule_run(self, now: float, most: int) -> list[Decision | PlacedRun]:
        """Takes the next pods through their scheduling cycles, at most so many; empty when no pod's turn has come.

        Equal pods that follow each other may be placed at once, exactly where `schedule` would have put each.
        """
        first = self.queue.pop()
        if first is None:
            return []
        run = [first]
        if self._batches and most > 1:
            run += self.queue.pop_like(first, most - 1, _equal)
        decisions: list[Decision | PlacedRun] = []
        at = 0
        while at < len(run):
            placed = self._place_run(run[at:]) if at + 1 < len(run) and self._may_run(first) else None
            decision = placed or self._settle(run[at], now)
            if decision is not None:
                decisions.append(decision)
            at += len(placed.pods) if placed is not None else 1
        return decisions

    def _may_run(self, waiting: WaitingPod) -> bool:
        profile = self.profiles[waiting.info.pod.spec.scheduler_name]
        if self.nominations or waiting.info.terminating or profile.permit:
            return False
        return not any(concerns(plugin, waiting.info) for plugin in profile.reserve)

    def _place_run(self, run: list[WaitingPod]) -> PlacedRun | None:
        """None if they have to be placed one by one."""
        snapshot = self.cache.snapshot()
        first = run[0].info
        if not snapshot.count:
            return None
        try:
            nodes = self._choosers[first.pod.spec.scheduler_name].choose_run(first, snapshot, len(run))
        except PluginFailed:
            return None  # the pods' own cycles will say so
        if not len(nodes):
            return None
        pods = run[: len(nodes)]
        self.cache.assume_equal([waiting.info for waiting in pods], nodes)
        self.queue.done_run(pods)
        return PlacedRun(pods, nodes, snapshot.nodes.names)

    def _decide(self, waiting: WaitingPod, now: float) -> Decision:
        info = waiting.info
        snapshot = self.cache.snapshot()
        if not snapshot.count:
            return self._refuse(waiting, Diagnosis(snapshot, status=NO_NODES), None, now)
        index = snapshot.nodes.index
        promised = self.nominations.node_of(info.uid)
        found = self._choosers[info.pod.spec.scheduler_name].choose(
            info,
            snapshot,
            self.nominations.against(info, index) if self.nominations else {},
            index.get(promised) if promised else None,
            self._tie,
        )
        if isinstance(found, Choice):
            return self._place(waiting, snapshot.nodes.names[found.index], found, now)
        diagnosis = found.diagnosis()
        profile = self.profiles[info.pod.spec.scheduler_name]
        result = run_post_filter(profile, found, info, diagnosis, self.nominations)
        return self._refuse(waiting, diagnosis, result, now)

    def _place(self, waiting: WaitingPod, node: str, choice: Choice, now: float) -> Decision:
        """Assume, Reserve, Permit."""
        info = waiting.info
        profile = self.profiles[info.pod.spec.scheduler_name]
        self.cache.assume(info, node)
        self.nominations.remove(info.uid)
        held = None
        try:
            rejection = reserve(profile, info, node)
            if rejection is None:
                rejection, held = self.permits.ask(profile, waiting, node, now)
        except PluginFailed:
            self._undo(info, node, now)
            raise
        if rejection is not None:
            return self._give_up(waiting, node, rejection, now)
        if held is not None:
            return Waiting(waiting, node, choice, held)
        self.queue.done(info.uid)
        return Placed(waiting, node, choice)

    def _tie(self, totals: Scores) -> int:
        return best(totals) if self._random is None else best_at_random(totals, self._random)

    def _refuse(self, waiting: WaitingPod, diagnosis: Diagnosis, result: PostFiltered | None, now: float) -> Refused:
        info = waiting.info
        if result is not None:
            if result.nominate is not None:
                self.nominations.nominate(info, result.nominate)
            for action in result.actions:
                if isinstance(action, Nominate) and action.uid != info.uid:
                    self.nominations.remove(action.uid)
            if any(isinstance(action, Evict) for action in result.actions):
                self.queue.hold(info.uid, PREEMPTION, "waiting for the preemption for this pod to be finished")
        self.queue.put_back(waiting, now, diagnosis.rejectors)
        return Refused(waiting, diagnosis, result)

    def evictions_sent(self, refused: Refused, now: float) -> None:
        """What makes room for the pod is under way, or has failed for good: from now on events may call it again."""
        self.queue.release(refused.pod.info.uid, now)

    def _give_up(self, waiting: WaitingPod, node: str, rejection: Status, now: float) -> Refused:
        """A placement that a plugin did not let stand: nothing of it stays."""
        self._undo(waiting.info, node, now)
        pending = rejection.code is Code.PENDING
        names = frozenset((rejection.plugin,))
        self.queue.put_back(waiting, now, frozenset() if pending else names, names if pending else frozenset())
        return Refused(waiting, Diagnosis(self.cache.snapshot(), status=rejection))

    # Binding cycles

    def allow(self, uid: str, plugin: str) -> Placed | None:
        """A plugin lets a held pod go; the placement once all have."""
        held = self.permits.allow(uid, plugin)
        if held is None:
            return None
        self.queue.done(uid)
        return Placed(held.pod, held.node, None)

    def reject(self, uid: str, plugin: str, reason: str, now: float) -> Refused | None:
        """A held pod is not to be bound; None if it is not held."""
        held = self.permits.end(uid)
        if held is None:
            return None
        return self._give_up(held.pod, held.node, Status(Code.UNSCHEDULABLE, (reason,), plugin), now)

    def binding(self, placed: Placed) -> Binding:
        """What has to be done to bind the pod. `PluginFailed` if a plugin cannot say."""
        return Binding.of(self.profiles[placed.pod.info.pod.spec.scheduler_name], placed.pod.info, placed.node)

    def bound(self, placed: Placed) -> None:
        """The API server has accepted the binding; the watch will tell the rest."""
        self.cache.confirm(placed.pod.info.uid)
        self.queue.bound(placed.pod.info.uid)

    def binding_failed(self, placed: Placed, now: float) -> None:
        """The pod is not bound, for certain: its room is free again, and it is tried again after a while."""
        self._undo(placed.pod.info, placed.node, now)
        self.queue.put_back(placed.pod, now)

    def _undo(self, info: PodInfo, node: str, now: float) -> None:
        unreserve(self.profiles[info.pod.spec.scheduler_name], info, node)
        if self.cache.forget(info.uid) is not None:
            self._tell((ClusterEvent(Subject.ASSIGNED_POD, Change.DELETE, info),), now)

    @property
    def snapshot(self) -> Snapshot:
        """The newest one."""
        return self.cache.snapshot()


def _equal(one: WaitingPod, other: WaitingPod) -> bool:
    """Whether two pods make no difference to any decision, their own or others'."""
    left, right = one.info, other.info
    return (
        left.template is right.template
        and left.labels is right.labels
        and left.spread is right.spread
        and left.priority == right.priority
        and not right.terminating
        and not right.nominated
        and not right.pod.spec.node_name
    )

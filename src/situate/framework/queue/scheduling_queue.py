"""The scheduling queue (upstream backend/queue/scheduling_queue.go, KEP-4247 for hints).

A pod is in one of three places. *Active*: its turn may come. *Backing off*: it was refused and waits some seconds.
*Unschedulable*: nothing has happened yet that could help it; each event asks the plugins that rejected it, and only
those, whether it may. Time is an argument.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from operator import itemgetter
from typing import Final

from situate.framework.plugin_api.events import ANY_CHANGE, Change, ClusterEvent, EventHint, Hint, Subject, label
from situate.framework.pod.pods import PodInfo
from situate.framework.preemption.extenders import EXTENDER
from situate.framework.profile.profile import Profile
from situate.framework.queue.active_pods import ActiveQueue
from situate.framework.queue.backoff import WINDOW_S, Backoff, BackoffQueue
from situate.framework.queue.queued_pod import Place, WaitingPod
from situate.framework.results.status import SUCCESS, Status, unresolvable

FLUSH_UNSCHEDULABLE_S: Final = 30.0
"""How often pods are looked for that have been unschedulable for too long."""

ANYTHING: Final = ClusterEvent(Subject.ANYTHING, ANY_CHANGE)
"""An event that may help every pod."""


class Strategy(IntEnum):
    """What an event means for a pod."""

    SKIP = 0
    AFTER_BACKOFF = 1
    AT_ONCE = 2


@dataclass(frozen=True, slots=True)
class QueueSettings:
    backoff: Backoff = field(default_factory=Backoff)
    unschedulable_at_most_s: float = 300.0
    pop_from_backoff: bool = True


class SchedulingQueue:
    """Mutable, of one scheduler; does nothing by itself: `tick` lets time pass."""

    def __init__(self, profiles: Mapping[str, Profile], settings: QueueSettings = QueueSettings()) -> None:
        """By scheduler name. Pods of other schedulers must not be added."""
        self._profiles = profiles
        self._settings = settings
        self._hints = {name: tuple(_hints(profile)) for name, profile in profiles.items()}
        self._told: dict[tuple[Subject, Change], tuple[str, ...]] = {}
        """By kind of event: the plugins that want to hear of it, and the one without a name."""
        self._pods: dict[str, WaitingPod] = {}
        """Those being bound as well: a pod that finds its node stays where it is."""
        self._being_bound = 0
        self._active = ActiveQueue()
        self._backing_off = BackoffQueue(settings.backoff)
        self._unschedulable: dict[str, WaitingPod] = {}
        self._by_rejector: dict[str, dict[str, WaitingPod]] = {}
        self._in_flight: dict[str, WaitingPod] = {}
        self._events: list[ClusterEvent] = []
        self._events_before = 0
        self._activated: set[str] = set()
        self._held: dict[str, tuple[str, str]] = {}
        """Plugin and reason by uid, of pods that may not become active for now."""
        self._flushed_at = float("-inf")
        self.incoming: dict[tuple[str, str], int] = {}
        """By place and cause: so many pods have come there, as `scheduler_queue_incoming_pods_total` counts them."""

    # Pods come and go

    def add(self, info: PodInfo, now: float) -> None:
        """A pod that waits for a node; known ones are updated."""
        if info.uid in self:
            self.update(info, (), now)
            return
        self.bound(info.uid)  # whatever became of one with this uid, this one has no node
        pod = WaitingPod(info, now, now)
        self._pods[info.uid] = pod
        self._enqueue(pod, "UnschedulablePodAdd")

    def update(self, info: PodInfo, events: Sequence[ClusterEvent], now: float) -> None:
        """The pod has changed; `events` say in what respects that could matter."""
        pod = self.get(info.uid)
        if pod is None:
            self.add(info, now)
            return
        pod.info = info
        match pod.place:
            case Place.IN_FLIGHT:
                self._events.extend(events)
            case Place.UNSCHEDULABLE if events:
                strategy, event = max(((self._strategy(pod, each), each) for each in events), key=itemgetter(0))
                if strategy is not Strategy.SKIP:
                    self._take(pod)
                    self._requeue(pod, strategy, now, label(event))
            case Place.ACTIVE:
                key = self._key(pod)
                if key != pod.key:
                    self._active.remove(pod)
                    self._enqueue(pod, "UnschedulablePodUpdate")
            case _:
                pass

    def delete(self, uid: str) -> None:
        """The pod is gone, or has its node; harmless when it is not here."""
        self._held.pop(uid, None)
        pod = self._pods.pop(uid, None)
        if pod is not None:
            self._being_bound -= pod.place is Place.DONE
            self._take(pod)
            if self._in_flight.pop(uid, None) is not None:
                self._forget_events()
            pod.place = Place.GONE

    # The order of work

    def pop(self) -> WaitingPod | None:
        """The next pod, which is in flight from then on; None when nothing can be done now."""
        pod = self._active.pop()
        if pod is None and self._settings.pop_from_backoff:
            pod = self._backing_off.pop_early()
            if pod is not None:
                self._count(Place.ACTIVE, "PopFromBackoffQ")
        if pod is not None:
            self.take_off(pod)
        return pod

    def pop_like(
        self, first: WaitingPod, most: int, alike: Callable[[WaitingPod, WaitingPod], bool]
    ) -> list[WaitingPod]:
        """The active pods right behind `first`, as long as they are like it, at most so many.

        They are in flight only from `take_off` on; those that are placed at once with the first one never are.
        """
        return self._active.pop_like(first, most, alike)

    def put_first(self, pods: Sequence[WaitingPod]) -> None:
        """Pods from `pop_like` whose cycle has not begun are the next ones again."""
        self._active.put_first(pods)

    def take_off(self, pod: WaitingPod) -> None:
        """The cycle of a pod from `pop_like` begins."""
        pod.place = Place.IN_FLIGHT
        pod.attempts += 1
        pod.backoff_until = None
        pod.rejectors = pod.pending = frozenset()
        pod.seen_events = self._events_before + len(self._events)
        self._in_flight[pod.info.uid] = pod

    def done(self, uid: str) -> None:
        """The pod has found its place: events from now on are no business of its cycle any more."""
        pod = self._in_flight.pop(uid, None)
        if pod is not None:
            pod.place = Place.DONE
            self._being_bound += 1
            self._forget_events()

    def done_run(self, pods: Sequence[WaitingPod]) -> None:
        """`done` for each, whether it was in flight or not."""
        first = self._in_flight.pop(pods[0].info.uid, None)
        done = Place.DONE
        for pod in pods:
            pod.place = done
            pod.attempts += 1
        if first is not None:
            first.attempts -= 1  # it has been counted already
        self._being_bound += len(pods)
        self._forget_events()

    def bound(self, uid: str) -> None:
        """The pod has its node for good."""
        pod = self._pods.get(uid)
        if pod is not None and pod.place is Place.DONE:
            del self._pods[uid]
            self._being_bound -= 1

    def put_back(
        self,
        pod: WaitingPod,
        now: float,
        rejectors: frozenset[str] = frozenset(),
        pending: frozenset[str] = frozenset(),
    ) -> None:
        """A cycle has failed. Without rejectors it was an error, and the pod is tried again without an event.

        What happened while the pod was in flight counts as if it happened now. A pod that was deleted stays so.
        """
        uid = pod.info.uid
        if pod.place is Place.GONE:
            return
        self._in_flight.pop(uid, None)
        self.bound(uid)
        self._pods[uid] = pod
        pod.queued_at = now
        pod.backoff_until = None
        pod.flushed = False
        pod.rejectors, pod.pending = rejectors, pending
        if rejectors or pending:
            pod.rejections += 1
            pod.errors = 0
            strategy = max((self._strategy(pod, event) for event in self._since(pod)), default=Strategy.SKIP)
        else:
            pod.errors += 1
            strategy = Strategy.AFTER_BACKOFF
        if uid in self._activated:
            strategy = Strategy.AT_ONCE
        self._activated.discard(uid)
        self._forget_events()
        self._requeue(pod, strategy, now, "ScheduleAttemptFailure")

    # What happens around them

    def on_event(self, event: ClusterEvent, now: float, *, at_most: int | None = None, but: str = "") -> int:
        """Something has happened; how many pods left the unschedulable ones for it.

        `at_most`: it can help only pods of this priority or a lower one; None is all. `but`: uid of a pod in no flight
        whom it is not to help.
        """
        if self._in_flight:
            self._events.append(event)
        moved = 0
        for pod in self._concerned(event):
            if pod.gate and pod.info.uid in self._held:
                continue  # called already, and nothing but `release` lets it go
            if pod.info.uid == but or (at_most is not None and pod.info.priority > at_most):
                continue
            strategy = self._strategy(pod, event)
            if strategy is not Strategy.SKIP:
                self._take(pod)
                self._requeue(pod, strategy, now, label(event))
                moved += pod.place is not Place.UNSCHEDULABLE
        return moved

    def activate(self, uids: Iterable[str], now: float) -> None:
        """Makes pods active at once; one in flight comes back at once if it fails."""
        for uid in uids:
            pod = self._pods.get(uid)
            if pod is None:
                continue
            if pod.place is Place.IN_FLIGHT:
                self._activated.add(uid)
            elif pod.place in (Place.BACKOFF, Place.UNSCHEDULABLE):
                self._take(pod)
                self._requeue(pod, Strategy.AT_ONCE, now, "ForceActivate")

    def hold(self, uid: str, plugin: str, reason: str) -> None:
        """Keeps a pod from becoming active until `release`, as a gate of the plugin would."""
        self._held[uid] = (plugin, reason)

    def release(self, uid: str, now: float) -> None:
        """The pod may become active again; if something has called it meanwhile, it does."""
        held = self._held.pop(uid, None)
        pod = self._pods.get(uid)
        if held is not None and pod is not None and pod.place is Place.UNSCHEDULABLE and pod.gate == held[0]:
            self._take(pod)
            self._requeue(pod, Strategy.AFTER_BACKOFF, now, "ForceActivate")

    def tick(self, now: float) -> None:
        """Lets those go on whose back-off is over, and now and then those that nothing has moved for too long."""
        for pod in self._backing_off.pop_expired(now):
            self._enqueue(pod, "BackoffComplete")
        if now - self._flushed_at >= FLUSH_UNSCHEDULABLE_S:
            self._flushed_at = now
            for pod in list(self._unschedulable.values()):
                if now - pod.queued_at > self._settings.unschedulable_at_most_s:
                    pod.flushed = True
                    self._take(pod)
                    self._requeue(pod, Strategy.AFTER_BACKOFF, now, "UnschedulableTimeout")

    def next_tick(self, now: float) -> float | None:
        """When `tick` will have something to do; None while nothing waits for time to pass."""
        times = [] if (expiry := self._backing_off.next_expiry()) is None else [max(expiry, now)]
        if self._unschedulable:
            times.append(max(self._flushed_at + FLUSH_UNSCHEDULABLE_S, now + WINDOW_S))
        return min(times, default=None)

    # Views

    def get(self, uid: str) -> WaitingPod | None:
        """None as well once it is being bound."""
        pod = self._pods.get(uid)
        return None if pod is None or pod.place is Place.DONE else pod

    def __contains__(self, uid: str) -> bool:
        return self.get(uid) is not None

    def __iter__(self) -> Iterator[WaitingPod]:
        return (pod for pod in self._pods.values() if pod.place is not Place.DONE)

    @property
    def remembered_events(self) -> int:
        """So many events are kept for pods in flight."""
        return len(self._events)

    def events_in_flight(self) -> dict[str, int]:
        """What is kept for pods in flight, and those pods, as `scheduler_inflight_events` has them."""
        found = Counter(map(label, self._events))
        if self._in_flight:
            found["PodPopped"] = len(self._in_flight)
        return found

    @property
    def being_bound(self) -> int:
        """So many pods have their node, and no answer yet."""
        return self._being_bound

    def counts(self) -> dict[str, int]:
        """As `scheduler_pending_pods` has them."""
        gated = sum(pod.gated for pod in self._unschedulable.values())
        return {
            "active": len(self._active),
            "backoff": len(self._backing_off),
            "unschedulable": len(self._unschedulable) - gated,
            "gated": gated,
        }

    # How they move

    def _enqueue(self, pod: WaitingPod, cause: str) -> None:
        """To the active pods, unless a gate is closed."""
        if self._may_pass(pod):
            pod.key = self._key(pod)
            self._active.push(pod)
            self._count(Place.ACTIVE, cause)
        else:
            self._hold(pod, cause)

    def _requeue(self, pod: WaitingPod, strategy: Strategy, now: float, cause: str) -> None:
        if strategy is Strategy.SKIP:
            self._hold(pod, cause)
        elif strategy is Strategy.AFTER_BACKOFF and self._backing_off.backoff.is_waiting(pod, now):
            # a gate is asked before the back-off as well, since pods may leave that early
            if self._may_pass(pod):
                pod.key = self._key(pod)
                self._backing_off.push(pod)
                self._count(Place.BACKOFF, cause)
            else:
                self._hold(pod, cause)
        else:
            self._enqueue(pod, cause)

    def _hold(self, pod: WaitingPod, cause: str) -> None:
        self._count(Place.UNSCHEDULABLE, cause)
        pod.place = Place.UNSCHEDULABLE
        self._unschedulable[pod.info.uid] = pod
        if pod.gate and pod.info.uid in self._held:
            return  # called already, and nothing but `release` lets it go: no event need find it
        for plugin in pod.rejectors | pod.pending or ("",):
            self._by_rejector.setdefault(plugin, {})[pod.info.uid] = pod

    def _count(self, place: Place, cause: str) -> None:
        key = place.value, cause
        self.incoming[key] = self.incoming.get(key, 0) + 1

    def _take(self, pod: WaitingPod) -> None:
        """Out of wherever it waits."""
        uid = pod.info.uid
        if self._unschedulable.pop(uid, None) is not None:
            for plugin in pod.rejectors | pod.pending or ("",):
                self._by_rejector.get(plugin, {}).pop(uid, None)
        self._active.remove(pod)
        self._backing_off.remove(pod)

    def _may_pass(self, pod: WaitingPod) -> bool:
        """PreEnqueue; whoever held the pod last is asked first."""
        held = self._held.get(pod.info.uid)
        if held is not None:
            self._gate(pod, held[0], unresolvable(held[1]))
            return False
        plugins = self._profiles[pod.info.pod.spec.scheduler_name].pre_enqueue
        if pod.gate:
            plugins = tuple(sorted(plugins, key=lambda plugin: plugin.name != pod.gate))
        for plugin in plugins:
            try:
                status = plugin.pre_enqueue(pod.info)
            except Exception as problem:  # it cannot say that the pod may go on, so that the pod waits
                status = unresolvable(f"{type(problem).__name__}: {problem}")
            if status is not SUCCESS and not status.ok:
                self._gate(pod, plugin.name, status)
                return False
        pod.gate, pod.gate_reasons = "", ()
        return True

    def _gate(self, pod: WaitingPod, plugin: str, status: Status) -> None:
        pod.gate, pod.gate_reasons = plugin, status.reasons
        pod.rejectors, pod.pending = frozenset((plugin,)), frozenset()

    def _key(self, pod: WaitingPod) -> object:
        return self._profiles[pod.info.pod.spec.scheduler_name].queue_sort.sort_key(pod.info, pod.queued_at)

    # What events mean

    def _concerned(self, event: ClusterEvent) -> list[WaitingPod]:
        """The unschedulable pods whose rejectors want to hear of the event."""
        if event.subject is Subject.ANYTHING:
            return [pod for pod in self._unschedulable.values() if not (pod.gate and pod.info.uid in self._held)]
        if not self._unschedulable:
            return []
        kind = event.subject, event.change
        plugins = self._told.get(kind)
        if plugins is None:
            told = (name for hints in self._hints.values() for name, hint in hints if hint.concerns(event))
            # in order: those that come back together keep it
            plugins = self._told[kind] = tuple(dict.fromkeys(("", *told)))
        found: dict[str, WaitingPod] = {}
        for plugin in plugins:
            found.update(self._by_rejector.get(plugin, {}))
        return list(found.values())

    def _strategy(self, pod: WaitingPod, event: ClusterEvent) -> Strategy:
        rejectors = pod.rejectors | pod.pending
        if event.subject is Subject.POD and event.new.uid != pod.info.uid:
            return Strategy.SKIP  # of another pod in flight
        if not rejectors or event.subject is Subject.ANYTHING:
            return Strategy.AFTER_BACKOFF
        strategy = Strategy.SKIP
        for plugin, hint in self._hints[pod.info.pod.spec.scheduler_name]:
            if plugin not in rejectors or not hint.concerns(event) or _says_skip(hint, pod.info, event):
                continue
            if plugin in pod.pending:
                return Strategy.AT_ONCE
            strategy = Strategy.AFTER_BACKOFF
        return strategy

    def _since(self, pod: WaitingPod) -> list[ClusterEvent]:
        return self._events[max(0, pod.seen_events - self._events_before) :]

    def _forget_events(self) -> None:
        """Those that no pod in flight may still need."""
        if not self._in_flight:
            self._events_before += len(self._events)
            self._events.clear()
            return
        needed = min(pod.seen_events for pod in self._in_flight.values()) if self._events else self._events_before
        if needed > self._events_before:
            del self._events[: needed - self._events_before]
            self._events_before = needed


def _hints(profile: Profile) -> Iterator[tuple[str, EventHint]]:
    """Each plugin's events. A plugin that rejects and names none wants to hear of everything."""
    members = (*profile.pre_enqueue, *profile.pre_filter, *profile.filter, *profile.reserve, *profile.permit)
    told = {plugin.name for plugin in profile.enqueue}
    for plugin in profile.enqueue:
        for hint in plugin.events():
            yield plugin.name, hint
    for name in dict.fromkeys(plugin.name for plugin in members):
        if name not in told:
            yield name, EventHint(Subject.ANYTHING, ANY_CHANGE)
    yield EXTENDER, EventHint(Subject.ANYTHING, ANY_CHANGE)


def _says_skip(hint: EventHint, info: PodInfo, event: ClusterEvent) -> bool:
    """An exception in a hint counts as one that helps: a pod tried in vain is better than one forgotten."""
    if hint.hint is None:
        return False
    try:
        return hint.hint(info, event.old, event.new) is Hint.SKIP
    except Exception:
        return False

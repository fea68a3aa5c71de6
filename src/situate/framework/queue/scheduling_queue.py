"""The scheduling queue (upstream backend/queue/scheduling_queue.go, KEP-4247 for hints).

A Pod has one of three states. *Active*: it is ready to be scheduled. *Backing off*: it was rejected and waits some
seconds. *Unschedulable*: no event has helped it yet. Each event runs the hints of the plugins that rejected it, and
only of those. Time is an argument.
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
from situate.framework.queue.queued_pod import QueueState, WaitingPod
from situate.framework.results.status import SUCCESS, Status, unresolvable_status

FLUSH_UNSCHEDULABLE_S: Final = 30.0
"""Interval between searches for Pods that have been unschedulable for too long."""

ANYTHING: Final = ClusterEvent(Subject.ANYTHING, ANY_CHANGE)
"""An event that may help every Pod."""


class Strategy(IntEnum):
    """The effect of an event on a Pod."""

    SKIP = 0
    AFTER_BACKOFF = 1
    AT_ONCE = 2


@dataclass(frozen=True, slots=True)
class QueueSettings:
    backoff: Backoff = field(default_factory=Backoff)
    unschedulable_at_most_s: float = 300.0
    pop_from_backoff: bool = True


class SchedulingQueue:
    """The queue of one scheduler; mutable and passive: `tick` advances its time."""

    def __init__(self, profiles: Mapping[str, Profile], settings: QueueSettings = QueueSettings()) -> None:
        """`profiles` are by scheduler name. Pods of other schedulers must not be added."""
        self._profiles = profiles
        self._settings = settings
        self._hints = {name: tuple(_hints(profile)) for name, profile in profiles.items()}
        self._plugins_to_notify: dict[tuple[Subject, Change], tuple[str, ...]] = {}
        """By kind of event: the plugins to notify, including the entry with an empty name."""
        self._pods: dict[str, WaitingPod] = {}
        """Includes Pods that are being bound: a Pod that finds its node keeps its entry."""
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
        """By uid: plugin and reason, for Pods that must not become active for now."""
        self._flushed_at = float("-inf")
        self.incoming: dict[tuple[str, str], int] = {}
        """By state and cause: the number of Pods that entered it, as in `scheduler_queue_incoming_pods_total`."""

    # Arrival and removal of Pods

    def add(self, info: PodInfo, now: float) -> None:
        """Add a pending Pod; a known Pod is updated."""
        if info.uid in self:
            self.update(info, (), now)
            return
        self.remove_bound(info.uid)  # this Pod has no node, even if an earlier one with this uid had
        pod = WaitingPod(info, now, now)
        self._pods[info.uid] = pod
        self._enqueue(pod, "UnschedulablePodAdd")

    def update(self, info: PodInfo, events: Sequence[ClusterEvent], now: float) -> None:
        """Update the Pod; `events` describe the changes that may affect scheduling."""
        pod = self.get(info.uid)
        if pod is None:
            self.add(info, now)
            return
        pod.info = info
        match pod.place:
            case QueueState.IN_FLIGHT:
                self._events.extend(events)
            case QueueState.UNSCHEDULABLE if events:
                strategy, event = max(((self._strategy(pod, each), each) for each in events), key=itemgetter(0))
                if strategy is not Strategy.SKIP:
                    self._remove_from_state(pod)
                    self._requeue(pod, strategy, now, label(event))
            case QueueState.ACTIVE:
                key = self._sort_key(pod)
                if key != pod.key:
                    self._active.remove(pod)
                    self._enqueue(pod, "UnschedulablePodUpdate")
            case _:
                pass

    def delete(self, uid: str) -> None:
        """Remove a Pod that was deleted or has its node; no effect on an unknown Pod."""
        self._held.pop(uid, None)
        pod = self._pods.pop(uid, None)
        if pod is not None:
            self._being_bound -= pod.place is QueueState.DONE
            self._remove_from_state(pod)
            if self._in_flight.pop(uid, None) is not None:
                self._forget_events()
            pod.place = QueueState.GONE

    # Scheduling order

    def pop(self) -> WaitingPod | None:
        """Remove and return the next Pod, which is then in flight; None if no Pod is ready."""
        pod = self._active.pop()
        if pod is None and self._settings.pop_from_backoff:
            pod = self._backing_off.pop_early()
            if pod is not None:
                self._count(QueueState.ACTIVE, "PopFromBackoffQ")
        if pod is not None:
            self.begin_cycle(pod)
        return pod

    def pop_like(
        self, first: WaitingPod, most: int, alike: Callable[[WaitingPod, WaitingPod], bool]
    ) -> list[WaitingPod]:
        """Remove and return the active Pods directly after `first` while they are `alike`, at most `most`.

        They are in flight only from `begin_cycle` on. Pods that are placed at once with the first one never are.
        """
        return self._active.pop_like(first, most, alike)

    def put_first(self, pods: Sequence[WaitingPod]) -> None:
        """Put back Pods from `pop_like` whose cycle has not begun; they are the next ones."""
        self._active.put_first(pods)

    def begin_cycle(self, pod: WaitingPod) -> None:
        """Begin the cycle of a Pod from `pop_like`."""
        pod.place = QueueState.IN_FLIGHT
        pod.attempts += 1
        pod.backoff_until = None
        pod.rejectors = pod.pending = frozenset()
        pod.seen_events = self._events_before + len(self._events)
        self._in_flight[pod.info.uid] = pod

    def record_placement(self, uid: str) -> None:
        """Record that the Pod has a node. Later events do not affect its cycle."""
        pod = self._in_flight.pop(uid, None)
        if pod is not None:
            pod.place = QueueState.DONE
            self._being_bound += 1
            self._forget_events()

    def record_placements(self, pods: Sequence[WaitingPod]) -> None:
        """Call `record_placement` for each Pod, whether it was in flight or not."""
        first = self._in_flight.pop(pods[0].info.uid, None)
        done = QueueState.DONE
        for pod in pods:
            pod.place = done
            pod.attempts += 1
        if first is not None:
            first.attempts -= 1  # already counted
        self._being_bound += len(pods)
        self._forget_events()

    def remove_bound(self, uid: str) -> None:
        """Remove the Pod, which has its node."""
        pod = self._pods.get(uid)
        if pod is not None and pod.place is QueueState.DONE:
            del self._pods[uid]
            self._being_bound -= 1

    def put_back(
        self,
        pod: WaitingPod,
        now: float,
        rejectors: frozenset[str] = frozenset(),
        pending: frozenset[str] = frozenset(),
    ) -> None:
        """Return a Pod whose cycle failed. Without rejectors the cycle had an error, and the Pod needs no event.

        Events received while the Pod was in flight count as if they were received now. A deleted Pod stays deleted.
        """
        uid = pod.info.uid
        if pod.place is QueueState.GONE:
            return
        self._in_flight.pop(uid, None)
        self.remove_bound(uid)
        self._pods[uid] = pod
        pod.queued_at = now
        pod.backoff_until = None
        pod.flushed = False
        pod.rejectors, pod.pending = rejectors, pending
        if rejectors or pending:
            pod.rejections += 1
            pod.errors = 0
            strategy = max((self._strategy(pod, event) for event in self._events_since_pop(pod)), default=Strategy.SKIP)
        else:
            pod.errors += 1
            strategy = Strategy.AFTER_BACKOFF
        if uid in self._activated:
            strategy = Strategy.AT_ONCE
        self._activated.discard(uid)
        self._forget_events()
        self._requeue(pod, strategy, now, "ScheduleAttemptFailure")

    # Events and time

    def on_event(self, event: ClusterEvent, now: float, *, at_most: int | None = None, but: str = "") -> int:
        """Handle an event, and return the number of Pods that left the unschedulable state.

        `at_most` limits it to Pods of this priority or lower; None means all. `but` is the uid of a Pod, not in flight,
        that the event must not help.
        """
        if self._in_flight:
            self._events.append(event)
        moved = 0
        for pod in self._affected_pods(event):
            if pod.gate and pod.info.uid in self._held:
                continue  # already requeued; only `release` lets it go
            if pod.info.uid == but or (at_most is not None and pod.info.priority > at_most):
                continue
            strategy = self._strategy(pod, event)
            if strategy is not Strategy.SKIP:
                self._remove_from_state(pod)
                self._requeue(pod, strategy, now, label(event))
                moved += pod.place is not QueueState.UNSCHEDULABLE
        return moved

    def activate(self, uids: Iterable[str], now: float) -> None:
        """Make Pods active at once. A Pod in flight returns as active if its cycle fails."""
        for uid in uids:
            pod = self._pods.get(uid)
            if pod is None:
                continue
            if pod.place is QueueState.IN_FLIGHT:
                self._activated.add(uid)
            elif pod.place in (QueueState.BACKOFF, QueueState.UNSCHEDULABLE):
                self._remove_from_state(pod)
                self._requeue(pod, Strategy.AT_ONCE, now, "ForceActivate")

    def hold(self, uid: str, plugin: str, reason: str) -> None:
        """Prevent a Pod from becoming active until `release`, like a gate of the plugin."""
        self._held[uid] = (plugin, reason)

    def release(self, uid: str, now: float) -> None:
        """Allow the Pod to become active again. It does so now if an event has requeued it in the meantime."""
        held = self._held.pop(uid, None)
        pod = self._pods.get(uid)
        if held is not None and pod is not None and pod.place is QueueState.UNSCHEDULABLE and pod.gate == held[0]:
            self._remove_from_state(pod)
            self._requeue(pod, Strategy.AFTER_BACKOFF, now, "ForceActivate")

    def tick(self, now: float) -> None:
        """Requeue Pods whose backoff is over, and from time to time Pods that were unschedulable for too long."""
        for pod in self._backing_off.pop_expired(now):
            self._enqueue(pod, "BackoffComplete")
        if now - self._flushed_at >= FLUSH_UNSCHEDULABLE_S:
            self._flushed_at = now
            for pod in list(self._unschedulable.values()):
                if now - pod.queued_at > self._settings.unschedulable_at_most_s:
                    pod.flushed = True
                    self._remove_from_state(pod)
                    self._requeue(pod, Strategy.AFTER_BACKOFF, now, "UnschedulableTimeout")

    def next_tick(self, now: float) -> float | None:
        """Return the time of the next `tick` with work; None while no Pod waits for time to pass."""
        times = [] if (expiry := self._backing_off.next_expiry()) is None else [max(expiry, now)]
        if self._unschedulable:
            times.append(max(self._flushed_at + FLUSH_UNSCHEDULABLE_S, now + WINDOW_S))
        return min(times, default=None)

    # Views

    def get(self, uid: str) -> WaitingPod | None:
        """Return the Pod; None also while it is being bound."""
        pod = self._pods.get(uid)
        return None if pod is None or pod.place is QueueState.DONE else pod

    def __contains__(self, uid: str) -> bool:
        return self.get(uid) is not None

    def __iter__(self) -> Iterator[WaitingPod]:
        return (pod for pod in self._pods.values() if pod.place is not QueueState.DONE)

    @property
    def remembered_events(self) -> int:
        """The number of events stored for Pods in flight."""
        return len(self._events)

    def events_in_flight(self) -> dict[str, int]:
        """Count the events stored for Pods in flight, and these Pods, as in `scheduler_inflight_events`."""
        found = Counter(map(label, self._events))
        if self._in_flight:
            found["PodPopped"] = len(self._in_flight)
        return found

    @property
    def being_bound(self) -> int:
        """The number of Pods that have a node and whose binding has no result yet."""
        return self._being_bound

    def counts(self) -> dict[str, int]:
        """Return the counts of `scheduler_pending_pods`."""
        gated = sum(pod.gated for pod in self._unschedulable.values())
        return {
            "active": len(self._active),
            "backoff": len(self._backing_off),
            "unschedulable": len(self._unschedulable) - gated,
            "gated": gated,
        }

    # Transitions

    def _enqueue(self, pod: WaitingPod, cause: str) -> None:
        """Make the Pod active, unless a plugin gates it."""
        if self._passes_gates(pod):
            pod.key = self._sort_key(pod)
            self._active.push(pod)
            self._count(QueueState.ACTIVE, cause)
        else:
            self._hold(pod, cause)

    def _requeue(self, pod: WaitingPod, strategy: Strategy, now: float, cause: str) -> None:
        if strategy is Strategy.SKIP:
            self._hold(pod, cause)
        elif strategy is Strategy.AFTER_BACKOFF and self._backing_off.backoff.is_waiting(pod, now):
            # gates are checked before the backoff as well, because Pods may leave it early
            if self._passes_gates(pod):
                pod.key = self._sort_key(pod)
                self._backing_off.push(pod)
                self._count(QueueState.BACKOFF, cause)
            else:
                self._hold(pod, cause)
        else:
            self._enqueue(pod, cause)

    def _hold(self, pod: WaitingPod, cause: str) -> None:
        self._count(QueueState.UNSCHEDULABLE, cause)
        pod.place = QueueState.UNSCHEDULABLE
        self._unschedulable[pod.info.uid] = pod
        if pod.gate and pod.info.uid in self._held:
            return  # already requeued; only `release` lets it go, so no event needs to find it
        for plugin in pod.rejectors | pod.pending or ("",):
            self._by_rejector.setdefault(plugin, {})[pod.info.uid] = pod

    def _count(self, place: QueueState, cause: str) -> None:
        key = place.value, cause
        self.incoming[key] = self.incoming.get(key, 0) + 1

    def _remove_from_state(self, pod: WaitingPod) -> None:
        """Remove the Pod from the structure in which it waits."""
        uid = pod.info.uid
        if self._unschedulable.pop(uid, None) is not None:
            for plugin in pod.rejectors | pod.pending or ("",):
                self._by_rejector.get(plugin, {}).pop(uid, None)
        self._active.remove(pod)
        self._backing_off.remove(pod)

    def _passes_gates(self, pod: WaitingPod) -> bool:
        """Run PreEnqueue; the plugin that gated the Pod last runs first."""
        held = self._held.get(pod.info.uid)
        if held is not None:
            self._gate(pod, held[0], unresolvable_status(held[1]))
            return False
        plugins = self._profiles[pod.info.pod.spec.scheduler_name].pre_enqueue
        if pod.gate:
            plugins = tuple(sorted(plugins, key=lambda plugin: plugin.name != pod.gate))
        for plugin in plugins:
            try:
                status = plugin.pre_enqueue(pod.info)
            except Exception as problem:  # the plugin gave no answer, so the Pod stays gated
                status = unresolvable_status(f"{type(problem).__name__}: {problem}")
            if status is not SUCCESS and not status.ok:
                self._gate(pod, plugin.name, status)
                return False
        pod.gate, pod.gate_reasons = "", ()
        return True

    def _gate(self, pod: WaitingPod, plugin: str, status: Status) -> None:
        pod.gate, pod.gate_reasons = plugin, status.reasons
        pod.rejectors, pod.pending = frozenset((plugin,)), frozenset()

    def _sort_key(self, pod: WaitingPod) -> object:
        return self._profiles[pod.info.pod.spec.scheduler_name].queue_sort.sort_key(pod.info, pod.queued_at)

    # Effects of events

    def _affected_pods(self, event: ClusterEvent) -> list[WaitingPod]:
        """Return the unschedulable Pods whose rejectors registered for the event."""
        if event.subject is Subject.ANYTHING:
            return [pod for pod in self._unschedulable.values() if not (pod.gate and pod.info.uid in self._held)]
        if not self._unschedulable:
            return []
        kind = event.subject, event.change
        plugins = self._plugins_to_notify.get(kind)
        if plugins is None:
            told = (name for hints in self._hints.values() for name, hint in hints if hint.concerns(event))
            # in order: Pods that return together keep their order
            plugins = self._plugins_to_notify[kind] = tuple(dict.fromkeys(("", *told)))
        found: dict[str, WaitingPod] = {}
        for plugin in plugins:
            found.update(self._by_rejector.get(plugin, {}))
        return list(found.values())

    def _strategy(self, pod: WaitingPod, event: ClusterEvent) -> Strategy:
        rejectors = pod.rejectors | pod.pending
        if event.subject is Subject.POD and event.new.uid != pod.info.uid:
            return Strategy.SKIP  # an event about another Pod in flight
        if not rejectors or event.subject is Subject.ANYTHING:
            return Strategy.AFTER_BACKOFF
        strategy = Strategy.SKIP
        for plugin, hint in self._hints[pod.info.pod.spec.scheduler_name]:
            if plugin not in rejectors or not hint.concerns(event) or _hint_skips(hint, pod.info, event):
                continue
            if plugin in pod.pending:
                return Strategy.AT_ONCE
            strategy = Strategy.AFTER_BACKOFF
        return strategy

    def _events_since_pop(self, pod: WaitingPod) -> list[ClusterEvent]:
        return self._events[max(0, pod.seen_events - self._events_before) :]

    def _forget_events(self) -> None:
        """Drop the events that no Pod in flight needs."""
        if not self._in_flight:
            self._events_before += len(self._events)
            self._events.clear()
            return
        needed = min(pod.seen_events for pod in self._in_flight.values()) if self._events else self._events_before
        if needed > self._events_before:
            del self._events[: needed - self._events_before]
            self._events_before = needed


def _hints(profile: Profile) -> Iterator[tuple[str, EventHint]]:
    """Yield each plugin's events. A plugin that rejects Pods but registers no events gets all events."""
    members = (*profile.pre_enqueue, *profile.pre_filter, *profile.filter, *profile.reserve, *profile.permit)
    told = {plugin.name for plugin in profile.enqueue}
    for plugin in profile.enqueue:
        for hint in plugin.events():
            yield plugin.name, hint
    for name in dict.fromkeys(plugin.name for plugin in members):
        if name not in told:
            yield name, EventHint(Subject.ANYTHING, ANY_CHANGE)
    yield EXTENDER, EventHint(Subject.ANYTHING, ANY_CHANGE)


def _hint_skips(hint: EventHint, info: PodInfo, event: ClusterEvent) -> bool:
    """Return whether the hint skips. An exception counts as `QUEUE`: a useless attempt is better than a lost Pod."""
    if hint.hint is None:
        return False
    try:
        return hint.hint(info, event.old, event.new) is Hint.SKIP
    except Exception:
        return False

"""vpod's controller between event and write, on a timeline instead of a network.

It makes the same decisions in the same order, and each write takes effect at once. It always leads. `situate.vpod`
decides, `fleet` changes pods, and `ledger` counts the cost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from situate.sim.timeline import Due, Timeline
from situate.sim.vpod.fleet import Fleet
from situate.vpod.model.options import Options
from situate.vpod.model.vpod import Key, Placements, PlainVPod, pod_name
from situate.vpod.placement import rebalance
from situate.vpod.placement.decide import Decision, commit, retry_order
from situate.vpod.scaling import drain
from situate.vpod.scaling.autoscaler import Memory, apply, beat
from situate.vpod.state.state import State

SHORTAGE_RETRY_S = 5.0
"""Seconds between retries of short vpods without any event, as in the controller."""
EVICTION = "eviction"
"""Cause of moves besides those of `MoveCause`: the evictor removed a placement."""
RESCALE = "rescale"
"""Cause of moves of a policy that places all vreplicas again in order to grow."""


@dataclass(slots=True)
class Deeds:
    """Counts of actions so far."""

    moves: Counter[str] = field(default_factory=Counter)
    """Vreplicas that lost their place, by cause."""
    status_writes: int = 0
    scale_ups: int = 0
    scale_downs: int = 0


class Loop:
    """The scheduler of one StatefulSet. It changes by its methods and by time."""

    def __init__(self, timeline: Timeline, options: Options, fleet: Fleet) -> None:
        self.state = State(options, fleet.replicas, timeline.now)
        self.vpods: dict[Key, PlainVPod] = {}
        """The objects of the sources: wanted vreplicas, and written placements."""
        self.deeds = Deeds()
        self._timeline = timeline
        self._fleet = fleet
        self._memory = Memory()
        self._queue: dict[Key, None] = {}
        self._work: Due | None = None
        self._beat_due: Due | None = None
        self._deadline: Due | None = None
        self._retry: Due | None = None
        self._is_changed = True  # since the last retry; equal inputs give equal answers (S9)
        self._shrink_due = timeline.now + options.refresh_period
        fleet.pod_changed, fleet.node_changed = self.pod_changed, self.node_changed
        for node in fleet.nodes.values():
            self.state.observe_node(node.facts(), timeline.now)
        self._wake()
        if options.rebalance.enabled:
            timeline.after(options.rebalance.interval, self._rebalance)

    def want(self, key: Key, vreplicas: int, weight: int, priority: int) -> None:
        """Set the wanted vreplicas of a source. Create the source if it does not exist."""
        known = self.vpods.get(key, PlainVPod(key, 0, weight=weight, priority=priority))
        self.vpods[key] = replace(known, vreplicas=vreplicas)
        self.state.observe_vpod(self.vpods[key], self._timeline.now)
        self._is_changed = True
        self._add(key)

    def delete(self, key: Key) -> None:
        """Delete a source."""
        if self.vpods.pop(key, None) is not None:
            self.state.vpod_gone(key, self._timeline.now)
            self._is_changed = True
            self._wake()
            self._retry_short()

    def pod_changed(self, ordinal: int) -> None:
        before = _open_pods(self.state)
        facts = self._fleet.facts(ordinal)
        if facts is not None:
            self.state.observe_pod(facts, self._timeline.now)
        else:
            self.state.pod_gone(pod_name(self.state.options.statefulset_name, ordinal), self._timeline.now)
        self._after_change(before)

    def node_changed(self, name: str) -> None:
        before = _open_pods(self.state)
        self.state.observe_node(self._fleet.nodes[name].facts(), self._timeline.now)
        self._after_change(before)

    def reset_replicas(self, replicas: int) -> None:
        """Let another writer change spec.replicas."""
        if self.state.observe_replicas(replicas, self._timeline.now):
            self._wake()
        self._fleet.scale(replicas)
        self._after_change()
        self._retry_short()

    def reconfigure(self, options: Options) -> None:
        self.state.reconfigure(options, self._timeline.now)
        self._after_change()
        self._retry_short()
        self._wake()

    def fail_over(self) -> None:
        """Let another process lead. It knows only the objects (B2)."""
        facts = (self._fleet.facts(ordinal) for ordinal in sorted(self._fleet.pods))
        self.state = State.rebuilt(
            self.state.options,
            self._fleet.replicas,
            [pod for pod in facts if pod is not None],
            self.vpods.values(),
            self._timeline.now,
            [node.facts() for node in self._fleet.nodes.values()],
        )
        self._memory = Memory()
        self._shrink_due = self._timeline.now + self.state.options.refresh_period
        self._queue.clear()
        for key in self.vpods:
            self._add(key)
        self._after_change()
        self._wake()

    def _add(self, key: Key) -> None:
        """Schedule a vpod soon. Several calls before then are one."""
        self._queue[key] = None
        if self._work is None:
            self._work = self._timeline.after(0.0, self._schedule_queued)

    def _schedule_queued(self) -> None:
        self._work = None
        keys, self._queue = list(self._queue), {}
        for key in keys:
            self._schedule(key)

    def _schedule(self, key: Key) -> None:
        vpod = self.vpods.get(key)
        if vpod is None:
            return
        now = self._timeline.now
        self.state.observe_vpod(vpod, now)
        decision = drain.place(self.state, vpod, now, self._is_ready)
        commit(self.state, decision)
        self._write(vpod, decision)
        if decision.wakes_autoscaler:
            self._wake()
            self._retry_later()
        self._look_at_drain(key)

    def _write(self, vpod: PlainVPod, decision: Decision) -> None:
        self._moved({str(cause): vreplicas for cause, vreplicas in decision.moves.items()})
        if decision.changed:
            if not decision.moves:
                self._moved(_replaced(vpod.placements, decision.placements))
            self.vpods[vpod.key] = replace(vpod, placements=decision.placements)
            self.state.observe_vpod(self.vpods[vpod.key], self._timeline.now)
            self._is_changed = True
            self.deeds.status_writes += 1

    def _moved(self, moves: Mapping[str, int]) -> None:
        self.deeds.moves.update({cause: vreplicas for cause, vreplicas in moves.items() if vreplicas})

    def _look_at_drain(self, key: Key) -> None:
        """Schedule a vpod on drained pods again later. When the last one has left, plan the scale-down."""
        state = self.state
        if state.drain is None:
            return
        if not state.holds_from(state.drain.target):
            moved_at = self._timeline.now if state.drain_moved_at is None else state.drain_moved_at
            self._shrink_at(moved_at + state.options.drain.settle)
        elif (again := drain.retry_at(state, key)) is not None:
            self._timeline.at(again, lambda: self._add(key))

    def _is_ready(self, _: Key, pod: str) -> bool:
        ordinal = self.state.ordinal(pod)
        known = self._fleet.pods.get(ordinal) if ordinal is not None else None
        return known is not None and known.running

    def _wake(self) -> None:
        """Plan a round soon that may scale up."""
        self._plan_beat(self._timeline.now)

    def _shrink_at(self, when: float) -> None:
        self._shrink_due = min(self._shrink_due, max(when, self._timeline.now))
        self._plan_beat(self._shrink_due)

    def _plan_beat(self, when: float) -> None:
        if self._beat_due is not None:
            if self._beat_due.when <= when:
                return
            self._beat_due.cancel()
        self._beat_due = self._timeline.at(when, self._beat)

    def _beat(self) -> None:
        self._beat_due = None
        state, now = self.state, self._timeline.now
        may_shrink = now >= self._shrink_due
        if may_shrink:
            self._shrink_due = now + state.options.refresh_period
        decided = beat(state, self._memory, now, may_shrink)
        before = state.drain
        self._memory = apply(state, decided)
        if state.drain is not None and state.drain != before:
            self._replace_all(state.drain.target)
        elif before is not None and state.drain is None:
            self._is_changed = True
            self._retry_short()
        if decided.replicas != state.replicas:
            self._scale(decided.replicas)
        for eviction in decided.evictions:
            self._evict(eviction)
        if decided.wake_at is not None:
            self._shrink_due = max(min(self._shrink_due, decided.wake_at), now)
        self._plan_beat(self._shrink_due)

    def _scale(self, replicas: int) -> None:
        if replicas > self.state.replicas:
            self.deeds.scale_ups += 1
        else:
            self.deeds.scale_downs += 1
        self.state.observe_replicas(replicas, self._timeline.now, ours=True)
        self._fleet.scale(replicas)
        self._after_change()
        self._retry_short()

    def _evict(self, eviction: drain.Eviction) -> None:
        vpod = self.vpods.get(eviction.key)
        if vpod is None:
            return
        left = tuple(each for each in vpod.placements if each.pod_name != eviction.placement.pod_name)
        self.vpods[vpod.key] = replace(vpod, placements=left)
        self.deeds.status_writes += 1
        self._moved({EVICTION: eviction.placement.vreplicas})
        self.state.observe_vpod(self.vpods[vpod.key], self._timeline.now)
        drain.evicted(self.state, eviction)
        self._is_changed = True
        self._add(vpod.key)

    def _rebalance(self) -> None:
        state, now = self.state, self._timeline.now
        self._timeline.after(state.options.rebalance.interval, self._rebalance)
        if not rebalance.is_due(state, None, now, rollout=False):
            return
        allowed = rebalance.moves_allowed(state)
        for key in rebalance.candidates(state):
            if allowed <= 0:
                return
            decision = rebalance.rebalanced(state, key, now, allowed)
            if decision is not None:
                commit(state, decision)
                allowed -= sum(decision.moves.values())
                self._write(self.vpods[key], decision)

    def _replace_all(self, ordinals_from: int) -> None:
        for key, entry in self.state.vpods.items():
            if any(ordinal >= ordinals_from for ordinal in (entry.reserved or entry.status)):
                self._add(key)

    def _retry_short(self) -> None:
        for key in retry_order(self.state):
            self._add(key)

    def _retry_later(self) -> None:
        if self._retry is None:
            self._retry = self._timeline.after(SHORTAGE_RETRY_S, self._retry_now)

    def _retry_now(self) -> None:
        self._retry = None
        if self._is_changed:
            self._is_changed = False
            self._retry_short()
        elif retry_order(self.state):
            self._retry_later()

    def _after_change(self, open_before: int | None = None) -> None:
        """Schedule the vpods that a change affects: those on pods that rejected, and those that wait for capacity."""
        state = self.state
        self._is_changed = True
        if state.ousted:
            for key, entry in state.vpods.items():
                held = entry.reserved if entry.reserved is not None else entry.status
                if not state.ousted.isdisjoint(held):
                    self._add(key)
        if open_before is not None and _open_pods(state) > open_before:
            self._retry_short()
        if self._deadline is not None:
            self._deadline.cancel()
        due = state.next_deadline()
        self._deadline = self._timeline.at(due, self._hold_ended) if due is not None else None

    def _hold_ended(self) -> None:
        self._deadline = None
        self.state.advance(self._timeline.now)
        self._after_change()


def _open_pods(state: State) -> int:
    return sum(len(ordinals) for ordinals in state.open.values())


def _replaced(before: Placements, after: Placements) -> Mapping[str, int]:
    """Return vreplicas that moved without a cause in the decision: the policy placed all of them again."""
    then = {each.pod_name: each.vreplicas for each in after}
    held = {each.pod_name: each.vreplicas for each in before}
    left = sum(max(0, vreplicas - then.get(pod, 0)) for pod, vreplicas in held.items())
    arrived = sum(max(0, vreplicas - held.get(pod, 0)) for pod, vreplicas in then.items())
    return {RESCALE: min(left, arrived)}

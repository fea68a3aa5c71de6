"""vpod's controller between event and write, on a timeline instead of a network.

It makes the same decisions in the same order, and each write takes effect at once. It always leads. `situate.vpod`
decides, `fleet` changes pods, and `ledger` counts the cost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from situate.sim.timeline import ScheduledCall, Timeline
from situate.sim.vpod.fleet import Fleet
from situate.vpod.model.options import Options
from situate.vpod.model.vpod import Key, Placements, PlainVPod, pod_name
from situate.vpod.placement import rebalance
from situate.vpod.placement.decide import Decision, commit, retry_order
from situate.vpod.scaling import drain
from situate.vpod.scaling.autoscaler import AutoscalerMemory, apply_drain, decide_round
from situate.vpod.state.state import State

SHORTAGE_RETRY_S = 5.0
"""Seconds between retries of short vpods without any event, as in the controller."""
EVICTION = "eviction"
"""Cause of moves besides those of `MoveCause`: the evictor removed a placement."""
RESCALE = "rescale"
"""Cause of moves of a policy that places all vreplicas again in order to grow."""


@dataclass(slots=True)
class ActionCounts:
    """Counts of actions so far."""

    moves: Counter[str] = field(default_factory=Counter)
    """Vreplicas that lost their place, by cause."""
    status_writes: int = 0
    scale_ups: int = 0
    scale_downs: int = 0


class SchedulerLoop:
    """The scheduler of one StatefulSet. It changes by its methods and by time."""

    def __init__(self, timeline: Timeline, options: Options, fleet: Fleet) -> None:
        self.state = State(options, fleet.replicas, timeline.now)
        self.vpods: dict[Key, PlainVPod] = {}
        """The objects of the sources: wanted vreplicas, and written placements."""
        self.action_counts = ActionCounts()
        self._timeline = timeline
        self._fleet = fleet
        self._memory = AutoscalerMemory()
        self._queue: dict[Key, None] = {}
        self._work: ScheduledCall | None = None
        self._round_due: ScheduledCall | None = None
        self._deadline: ScheduledCall | None = None
        self._retry: ScheduledCall | None = None
        self._is_changed = True  # since the last retry; equal inputs give equal answers (S9)
        self._shrink_due = timeline.now + options.refresh_period
        fleet.pod_changed, fleet.node_changed = self.pod_changed, self.node_changed
        for node in fleet.nodes.values():
            self.state.observe_node(node.facts(), timeline.now)
        self._wake()
        if options.rebalance.enabled:
            timeline.call_after(options.rebalance.interval, self._rebalance)

    def set_wanted(self, key: Key, vreplicas: int, weight: int, priority: int) -> None:
        """Set the wanted vreplicas of a source. Create the source if it does not exist."""
        known = self.vpods.get(key, PlainVPod(key, 0, weight=weight, priority=priority))
        self.vpods[key] = replace(known, vreplicas=vreplicas)
        self.state.observe_vpod(self.vpods[key], self._timeline.now)
        self._is_changed = True
        self._queue_vpod(key)

    def delete(self, key: Key) -> None:
        """Delete a source."""
        if self.vpods.pop(key, None) is not None:
            self.state.remove_vpod(key, self._timeline.now)
            self._is_changed = True
            self._wake()
            self._retry_shortages()

    def pod_changed(self, ordinal: int) -> None:
        before = _open_pod_count(self.state)
        facts = self._fleet.facts(ordinal)
        if facts is not None:
            self.state.observe_pod(facts, self._timeline.now)
        else:
            self.state.remove_pod(pod_name(self.state.options.statefulset_name, ordinal), self._timeline.now)
        self._queue_affected_vpods(before)

    def node_changed(self, name: str) -> None:
        before = _open_pod_count(self.state)
        self.state.observe_node(self._fleet.nodes[name].facts(), self._timeline.now)
        self._queue_affected_vpods(before)

    def reset_replicas(self, replicas: int) -> None:
        """Let another writer change spec.replicas."""
        if self.state.observe_replicas(replicas, self._timeline.now):
            self._wake()
        self._fleet.scale(replicas)
        self._queue_affected_vpods()
        self._retry_shortages()

    def reconfigure(self, options: Options) -> None:
        self.state.reconfigure(options, self._timeline.now)
        self._queue_affected_vpods()
        self._retry_shortages()
        self._wake()

    def fail_over(self) -> None:
        """Let another process lead. It knows only the objects (B2)."""
        facts = (self._fleet.facts(ordinal) for ordinal in sorted(self._fleet.pods))
        self.state = State.rebuild(
            self.state.options,
            self._fleet.replicas,
            [pod for pod in facts if pod is not None],
            self.vpods.values(),
            self._timeline.now,
            [node.facts() for node in self._fleet.nodes.values()],
        )
        self._memory = AutoscalerMemory()
        self._shrink_due = self._timeline.now + self.state.options.refresh_period
        self._queue.clear()
        for key in self.vpods:
            self._queue_vpod(key)
        self._queue_affected_vpods()
        self._wake()

    def _queue_vpod(self, key: Key) -> None:
        """Schedule a vpod soon. Several calls before then are one."""
        self._queue[key] = None
        if self._work is None:
            self._work = self._timeline.call_after(0.0, self._schedule_queued)

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
        decision = drain.schedule_during_drain(self.state, vpod, now, self._is_ready)
        commit(self.state, decision)
        self._write(vpod, decision)
        if decision.wakes_autoscaler:
            self._wake()
            self._retry_later()
        self._check_drain(key)

    def _write(self, vpod: PlainVPod, decision: Decision) -> None:
        self._count_moves({str(cause): vreplicas for cause, vreplicas in decision.moves.items()})
        if decision.changed:
            if not decision.moves:
                self._count_moves(_moves_without_cause(vpod.placements, decision.placements))
            self.vpods[vpod.key] = replace(vpod, placements=decision.placements)
            self.state.observe_vpod(self.vpods[vpod.key], self._timeline.now)
            self._is_changed = True
            self.action_counts.status_writes += 1

    def _count_moves(self, moves: Mapping[str, int]) -> None:
        self.action_counts.moves.update({cause: vreplicas for cause, vreplicas in moves.items() if vreplicas})

    def _check_drain(self, key: Key) -> None:
        """Schedule a vpod on drained pods again later. When the last one has left, plan the scale-down."""
        state = self.state
        if state.drain is None:
            return
        if not state.is_used_from(state.drain.target):
            moved_at = self._timeline.now if state.drain_moved_at is None else state.drain_moved_at
            self._plan_shrink(moved_at + state.options.drain.settle)
        elif (again := drain.next_retry_time(state, key)) is not None:
            self._timeline.call_at(again, lambda: self._queue_vpod(key))

    def _is_ready(self, _: Key, pod: str) -> bool:
        ordinal = self.state.ordinal(pod)
        known = self._fleet.pods.get(ordinal) if ordinal is not None else None
        return known is not None and known.running

    def _wake(self) -> None:
        """Plan a round soon that may scale up."""
        self._plan_round(self._timeline.now)

    def _plan_shrink(self, when: float) -> None:
        self._shrink_due = min(self._shrink_due, max(when, self._timeline.now))
        self._plan_round(self._shrink_due)

    def _plan_round(self, when: float) -> None:
        if self._round_due is not None:
            if self._round_due.when <= when:
                return
            self._round_due.cancel()
        self._round_due = self._timeline.call_at(when, self._run_round)

    def _run_round(self) -> None:
        self._round_due = None
        state, now = self.state, self._timeline.now
        may_shrink = now >= self._shrink_due
        if may_shrink:
            self._shrink_due = now + state.options.refresh_period
        decided = decide_round(state, self._memory, now, may_shrink)
        before = state.drain
        self._memory = apply_drain(state, decided)
        if state.drain is not None and state.drain != before:
            self._queue_vpods_from(state.drain.target)
        elif before is not None and state.drain is None:
            self._is_changed = True
            self._retry_shortages()
        if decided.replicas != state.replicas:
            self._write_scale(decided.replicas)
        for eviction in decided.evictions:
            self._evict(eviction)
        if decided.wake_at is not None:
            self._shrink_due = max(min(self._shrink_due, decided.wake_at), now)
        self._plan_round(self._shrink_due)

    def _write_scale(self, replicas: int) -> None:
        if replicas > self.state.replicas:
            self.action_counts.scale_ups += 1
        else:
            self.action_counts.scale_downs += 1
        self.state.observe_replicas(replicas, self._timeline.now, ours=True)
        self._fleet.scale(replicas)
        self._queue_affected_vpods()
        self._retry_shortages()

    def _evict(self, eviction: drain.Eviction) -> None:
        vpod = self.vpods.get(eviction.key)
        if vpod is None:
            return
        left = tuple(each for each in vpod.placements if each.pod_name != eviction.placement.pod_name)
        self.vpods[vpod.key] = replace(vpod, placements=left)
        self.action_counts.status_writes += 1
        self._count_moves({EVICTION: eviction.placement.vreplicas})
        self.state.observe_vpod(self.vpods[vpod.key], self._timeline.now)
        drain.record_eviction(self.state, eviction)
        self._is_changed = True
        self._queue_vpod(vpod.key)

    def _rebalance(self) -> None:
        state, now = self.state, self._timeline.now
        self._timeline.call_after(state.options.rebalance.interval, self._rebalance)
        if not rebalance.is_due(state, None, now, rollout=False):
            return
        allowed = rebalance.moves_allowed(state)
        for key in rebalance.rebalance_candidates(state):
            if allowed <= 0:
                return
            decision = rebalance.rebalance_vpod(state, key, now, allowed)
            if decision is not None:
                commit(state, decision)
                allowed -= sum(decision.moves.values())
                self._write(self.vpods[key], decision)

    def _queue_vpods_from(self, ordinals_from: int) -> None:
        for key, entry in self.state.vpods.items():
            if any(ordinal >= ordinals_from for ordinal in (entry.reserved or entry.status)):
                self._queue_vpod(key)

    def _retry_shortages(self) -> None:
        for key in retry_order(self.state):
            self._queue_vpod(key)

    def _retry_later(self) -> None:
        if self._retry is None:
            self._retry = self._timeline.call_after(SHORTAGE_RETRY_S, self._retry_now)

    def _retry_now(self) -> None:
        self._retry = None
        if self._is_changed:
            self._is_changed = False
            self._retry_shortages()
        elif retry_order(self.state):
            self._retry_later()

    def _queue_affected_vpods(self, open_before: int | None = None) -> None:
        """Schedule the vpods that a change affects: those on pods that rejected, and those that wait for capacity."""
        state = self.state
        self._is_changed = True
        if state.ousted:
            for key, entry in state.vpods.items():
                held = entry.reserved if entry.reserved is not None else entry.status
                if not state.ousted.isdisjoint(held):
                    self._queue_vpod(key)
        if open_before is not None and _open_pod_count(state) > open_before:
            self._retry_shortages()
        if self._deadline is not None:
            self._deadline.cancel()
        due = state.next_deadline()
        self._deadline = self._timeline.call_at(due, self._on_hold_end) if due is not None else None

    def _on_hold_end(self) -> None:
        self._deadline = None
        self.state.advance(self._timeline.now)
        self._queue_affected_vpods()


def _open_pod_count(state: State) -> int:
    return sum(len(ordinals) for ordinals in state.open.values())


def _moves_without_cause(before: Placements, after: Placements) -> Mapping[str, int]:
    """Return vreplicas that moved without a cause in the decision: the policy placed all of them again."""
    then = {each.pod_name: each.vreplicas for each in after}
    held = {each.pod_name: each.vreplicas for each in before}
    left = sum(max(0, vreplicas - then.get(pod, 0)) for pod, vreplicas in held.items())
    arrived = sum(max(0, vreplicas - held.get(pod, 0)) for pod, vreplicas in then.items())
    return {RESCALE: min(left, arrived)}

"""The promises of liveness, L1 to L5 and B5, timed while no fault is active, with the bounds of the spec.

The times are those of changes on the server. The leader's memory gives only these facts: the pods that accept, the
vpods that a named rule keeps short, and the time since which a vpod is short.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from situate.testing.vpod.history import VpodHistorySettings
from situate.testing.vpod.invariants.demand import Demand, LastDecision, SourceDemand
from situate.testing.vpod.world.world import ROUND_S, SETTLE_S, STABILIZATION_S, VPodMember, VPodWorld
from situate.vpod.model.pod_classes import PodClass
from situate.vpod.model.records import VPodEntry
from situate.vpod.model.vpod import Key
from situate.vpod.placement.decide import Decision
from situate.vpod.state.state import State

AT_ONCE_S = 0.25
"""An event, a decision and its write take some 15 ms on this network, and two writers of one object some more."""
ACCEPTING_S = 5.0
"""L2: vreplicas are placed within this time after pods accept."""
UNUSED_S = STABILIZATION_S + SETTLE_S + 2 * ROUND_S
"""L4: pods are removed within this time after they have become unused."""
GROWING_S = 3 * ROUND_S
"""B5: no scale-up comes later than the third round."""
STEADY_S = UNUSED_S + 3 * ROUND_S
"""B5: no write comes later than this after the last change of demand."""


class LivenessChecks:
    """Follows the demand at all times, and times the promises from `begin_timing` to `end_timing`."""

    def __init__(self, world: VPodWorld) -> None:
        self._world = world
        self._settings: VpodHistorySettings = world.settings
        self._demands: dict[str, SourceDemand] = {}
        self._replicas = 0
        self._member: VPodMember | None = None
        self._began = 0.0
        self._demand_at = 0.0  # time of the last change of demand
        self._short: dict[str, float] = {}  # since when a vpod has fewer vreplicas than wanted
        self._idle: dict[str, float] = {}  # since when a vpod wants none
        self._last_decisions: dict[str, LastDecision] = {}
        self._demand = Demand(world, self._demands, self._last_decisions)
        self._room_since: dict[str, float] = {}  # since when a pod had capacity for a short vpod
        self._starved: dict[str, float] = {}  # since when another vpod had spare copies while one was short
        self._lacking: float | None = None  # since when there are fewer pods than demand fills
        self._needed: deque[tuple[float, int]] = deque()  # numbers of used pods, by the time of the check
        self._writes = 0

    def begin_timing(self, member: VPodMember) -> None:
        """Begin to time: no fault is active, and this leader knows the whole cluster."""
        self._member, self._began = member, self._world.now
        self._last_decisions.clear()
        self._room_since.clear()
        self._starved.clear()
        self._needed.clear()
        self._lacking = None
        self.update_times()

    def end_timing(self) -> None:
        """End the timing when a fault starts."""
        self._member = None

    @property
    def is_timed(self) -> bool:
        return self._member is not None

    def record_source(self, key: str, asked: SourceDemand | None) -> None:
        """Record a changed ConsumerGroup on the server. None means that it is deleted."""
        now, before = self._world.now, self._demands.get(key)
        if asked is None:
            self._demands.pop(key, None)
        else:
            self._demands[key] = asked
        if (None if before is None else before.wanted) != (None if asked is None else asked.wanted):
            self._demand_at = now
        _track_condition(self._short, key, now, asked is not None and asked.placed < asked.wanted, self._count_kept)
        idle = asked is not None and asked.wanted == 0
        _track_condition(self._idle, key, now, idle, lambda _: None)
        if self.is_timed and idle and before is not None and before.placed and asked is not None and not asked.placed:
            self._world.happened["L3 kept"] += 1

    def _count_kept(self, since: float) -> None:
        if self.is_timed and since >= self._began:
            at_once = self._world.now - since <= AT_ONCE_S
            self._world.happened["L1 kept" if at_once else "L2 kept"] += 1

    def record_scale(self, replicas: int) -> None:
        """Record a changed spec.replicas on the server."""
        if self.is_timed:
            if replicas < self._replicas:
                self._world.happened["L4 kept"] += 1
            else:
                self._needed.append((self._world.now, replicas))  # a need shorter than a step counts too
                if self._grows_in_steps():
                    self._lacking = None
                if self._settings.max_scale_up_step is not None:
                    self._demand_at = self._world.now  # the next step and its placements are due
        self._replicas = replicas

    def check_decision(self, identity: str, state: State, decision: Decision) -> str | None:
        """Check L5 when a process decides. Return the breach, or None."""
        if self._member is None or identity != self._member.identity:
            return None
        key, before = str(decision.key), self._last_decisions.get(str(decision.key))
        limited = decision.shortage.limit if decision.shortage is not None else None
        rule = limited.rule if limited is not None else None
        self._last_decisions[key] = LastDecision(self._world.now, decision.wanted, decision.left, rule)
        entry = state.vpods[decision.key]
        gained = [ordinal for ordinal, change in decision.delta.items() if change > 0]
        if before is None or before.wanted != decision.wanted or entry.short_since is None or not gained:
            return None
        return self._turn_breach(state, entry, gained)

    def _turn_breach(self, state: State, entry: VPodEntry, gained: Iterable[int]) -> str | None:
        """Return a breach if a vpod that waits longer, or has priority, could use one of the places."""
        if self._settings.predicates or self._settings.topology_required:
            return None  # capacity for one vpod may not suit another
        mine = _turn_key(entry)
        waiting = [other for other in state.vpods.values() if other.short_since is not None and other is not entry]
        self._world.happened["L5 kept"] += bool(waiting)
        for other in waiting:
            tried = self._last_decisions.get(str(other.key))
            if other.is_limited_by_rule or other.wanted <= other.reserved_total or _turn_key(other) > mine:
                continue
            if tried is None or tried.rule or tried.wanted != other.wanted:
                continue
            for ordinal in gained:
                if state.slots[ordinal].adding + other.weight <= state.options.capacity:
                    return (
                        f"L5: {entry.key} takes capacity on ordinal {ordinal}, although {other.key} has waited longer"
                    )
        return None

    def check_write(self) -> str | None:
        """Check B5 at a write that is no Lease and no Event: in steady state, a process writes nothing."""
        steady = self._world.now - max(self._began, self._demand_at)
        if self.is_timed and steady > STEADY_S and not self._settings.rebalance:
            return f"B5: vpod writes {steady:.3f} s after the last change of demand"
        return None

    def check_rise(self, before: int, after: int) -> str | None:
        """Check B5 when a process raises the scale: not later than the third round."""
        late = self._world.now - max(self._began, self._demand_at)
        one_by_one = self._settings.max_scale_up_step is not None or self._settings.topology_required
        if self.is_timed and late > GROWING_S and not one_by_one:
            return f"B5: the scale is raised from {before} to {after} {late:.3f} s after the last change of demand"
        return None

    def update_times(self) -> None:
        """Update the times of all conditions that may begin or end with a step."""
        state = self._leader_state()
        if state is None:
            return
        now = self._world.now
        self._needed.append((now, self._demand.used_pods(state, self._replicas)))
        while self._needed[0][0] < now - UNUSED_S:
            self._needed.popleft()
        if self._replicas >= self._demand.filled_pods(state, self._replicas):
            self._lacking = None
        elif self._lacking is None:
            self._lacking = now

    def check(self) -> str | None:
        """Return the first promise that is late, or None."""
        state = self._leader_state()
        if state is None:
            return None
        self.update_times()
        return (
            self._check_idle(state)
            or self._check_short(state)
            or self._check_starved(state)
            or self._check_too_few(state)
            or self._check_too_many()
        )

    def _leader_state(self) -> State | None:
        """Return the leader's state, and end the timing when its term ends."""
        if self._member is not None and not self._member.leads:
            self._member = None
        return self._member.controller.reconciler.state if self._member is not None else None

    def _lateness_s(self, since: float) -> float:
        """Return how long a condition has been true while the promises are timed."""
        return self._world.now - max(since, self._began)

    def _check_idle(self, state: State) -> str | None:
        """Check L3: a vpod that wants none has no placements and no reservation, at once."""
        for key, since in self._idle.items():
            if self._lateness_s(since) <= AT_ONCE_S:
                continue
            entry = state.vpods.get(Key.parse(key))
            if self._demands[key].placed or (entry is not None and entry.reserved):
                held = dict(entry.reserved or {}) if entry is not None else {}
                said = f"{self._demands[key].placed} are placed and {held} reserved"
                return f"L3: {key} has wanted no vreplica for {self._lateness_s(since):.3f} s, and {said}"
        return None

    def _check_short(self, state: State) -> str | None:
        """Check L1: a vpod is placed at once if capacity is free. Check L2: within 5 s after pods have capacity."""
        for key, since in self._short.items():
            late, tried, entry = self._lateness_s(since), self._last_decisions.get(key), state.vpods.get(Key.parse(key))
            if late <= AT_ONCE_S:
                continue
            if entry is None or (tried is None and since >= self._began):
                return f"L1: {key} has wanted more for {late:.3f} s, but no decision was made"
            if entry.reserved_total >= self._demands[key].wanted:
                if self._lateness_s(tried.at if tried is not None else since) > AT_ONCE_S:
                    return f"L1: {key} has had its placements for {late:.3f} s, but not in its status"
                continue
            if (tried is not None and tried.rule) or entry.is_limited_by_rule or not _has_capacity(state, entry):
                self._room_since.pop(key, None)
                continue
            roomy = self._room_since.get(key)
            if roomy is None or (tried is not None and tried.at > roomy):
                self._room_since[key] = self._world.now
            elif self._lateness_s(roomy) > ACCEPTING_S + AT_ONCE_S:
                return f"L2: {key} is short, and for {self._lateness_s(roomy):.3f} s pods have had capacity for it"
        return None

    def _check_starved(self, state: State) -> str | None:
        """Check D6: no vpod is short while another one holds copies that only `minReplicas` requires."""
        spare = [
            entry.key
            for entry in state.vpods.values()
            if entry.listed and not entry.surge and entry.reserved_total > entry.wanted
        ]
        for key in self._short:
            entry = state.vpods.get(Key.parse(key))
            if entry is None or entry.is_limited_by_rule or entry.reserved_total >= entry.wanted or not spare:
                self._starved.pop(key, None)
                continue
            since = self._starved.setdefault(key, self._world.now)
            if self._lateness_s(since) > ACCEPTING_S + AT_ONCE_S:
                return (
                    f"D6: {key} is short for {self._lateness_s(since):.3f} s while there are spare copies of {spare[0]}"
                )
        return None

    def _check_too_few(self, state: State) -> str | None:
        """Check L2: the set grows within one trigger. If it grows in steps, each retry triggers one."""
        bound = AT_ONCE_S + (ACCEPTING_S if self._grows_in_steps() else 0.0)
        if self._lacking is None or self._lateness_s(self._lacking) <= bound:
            return None
        late, filled = self._lateness_s(self._lacking), self._demand.filled_pods(state, self._replicas)
        return f"L2: {filled} pods have been requested for {late:.3f} s, but there are {self._replicas}"

    def _grows_in_steps(self) -> bool:
        """Return whether the set may be too small after it grew.

        A namespace's share of the pods is larger with more pods.
        """
        return self._settings.max_scale_up_step is not None or self._settings.quota is not None

    def _check_too_many(self) -> str | None:
        """Check L4. The times of the checks enclose every change of demand from both sides."""
        if self._world.now - self._began <= UNUSED_S:
            return None
        used = max(pods for _, pods in self._needed)
        if self._replicas <= used:
            return None
        return f"L4: no more than {used} pods have been used for {UNUSED_S:g} s, and there are {self._replicas}"


def _track_condition(times: dict[str, float], key: str, now: float, so: bool, over: Callable[[float], None]) -> None:
    """Record since when a condition is true, and call `over` when it ends."""
    if so:
        times.setdefault(key, now)
    elif (since := times.pop(key, None)) is not None:
        over(since)


def _turn_key(entry: VPodEntry) -> tuple[int, float, Key]:
    """Return the sort key of a vpod under shortage: priority first, then age."""
    return -entry.priority, entry.short_since or 0.0, entry.key


def _has_capacity(state: State, entry: VPodEntry) -> bool:
    """Return whether any accepting pod has capacity for one more vreplica, even without moves of the vpod itself."""
    return any(
        slot.verdict.pod_class is PodClass.ACCEPT and slot.adding + entry.weight <= state.options.capacity
        for slot in state.slots.values()
    )

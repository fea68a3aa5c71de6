"""What the controller does now, for all workloads, as a function of the cluster, its memory and the time.

`decide` is called again and again: each call orders at most one move of a workload by policy, and everything that nodes
which end leave no time for. In read-only mode it orders nothing and says what it would have ordered.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from situate.spot.actions import Action, Evict, Move, Reason, SetCost
from situate.spot.calm import Pools, calm_pools, next_calm, observed
from situate.spot.counting import by_placement, effective, on_demand_effective
from situate.spot.evictions import Blocked, Misplaced, Workload, gate, misplaced
from situate.spot.limits import Limits
from situate.spot.model import ALLOW_RESTART, Capacity, NodeState, PodFacts
from situate.spot.money import break_even_hours
from situate.spot.observed import NO_MEMORY, Cluster, Memory, target_of
from situate.spot.prices import NO_PRICES, Prices
from situate.spot.room import Room
from situate.spot.scale_down import cost_changes
from situate.spot.shortage import degraded, in_want, remembered, repaid, room_made, surge_relief
from situate.spot.targets import Rules, Target, participation
from situate.spot.waves import (
    Surroundings,
    endings,
    evacuations,
    leaving,
    orphans,
    release,
    release_refused,
    running,
    shorter_tolerations,
)
from situate.spot.windows import any_open


class Phase(StrEnum):
    """How a workload fares (3.10)."""

    UNMANAGED = "unmanaged"
    SETTLED = "settled"
    CONVERTING = "converting"
    BLOCKED = "blocked"
    ROLLOUT = "rollout"
    WAVE = "wave"
    RECOVERING = "recovering"


@dataclass(frozen=True, slots=True)
class Notice:
    """Something that the workload's owner should know: an Event and a condition on its pods."""

    owner: str
    """Uid of the workload."""
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Report:
    """What is to be told of a workload."""

    phase: Phase
    target: Target
    asked: int
    """The target without what is owed (B18)."""
    on_demand: int
    """Effectively, and counted."""
    placements: Mapping[Capacity | None, int]
    need: int
    total: int
    """Moves until the target is met."""
    blocked: Blocked | None
    waiting: int
    """On-demand pods that find no room."""
    source: str
    """What says whether it takes part."""


@dataclass(frozen=True, slots=True)
class State:
    """What the controller remembers; lost, it costs some patience and nothing else."""

    memories: Mapping[str, Memory] = field(default_factory=dict)
    """By uid of the workload."""
    pools: Pools = field(default_factory=Pools)
    moved_at: tuple[float, ...] = ()
    """Moves by policy within the last hour."""


@dataclass(frozen=True, slots=True)
class Decision:
    actions: tuple[Action, ...]
    state: State
    reports: Mapping[str, Report]
    notices: tuple[Notice, ...] = ()
    would: tuple[Action, ...] = ()
    """In read-only mode what would have been ordered."""
    wave: bool = False
    requeue_after: float | None = None
    """Seconds until time alone may change the decision; None: events will tell."""


@dataclass(frozen=True, slots=True)
class Situation:
    """All that a decision depends on besides memory and time."""

    cluster: Cluster
    room: Room
    rules: Rules = field(default_factory=Rules)
    limits: Limits = field(default_factory=Limits)
    around: Surroundings = field(default_factory=Surroundings)
    prices: Prices = NO_PRICES


POLL_S: Final = 5.0
"""While something is under way."""
REFUSED_S: Final = 15.0
"""A pod that is still as it was so long after we moved it was not moved: the API has refused."""


def decide(state: State, situation: Situation, now: float) -> Decision:
    """Equal arguments give equal decisions; workloads are looked at in the order of namespace, name and uid."""
    limits, nodes = situation.limits, situation.cluster.nodes
    pools = observed(state.pools, nodes, now, limits)
    run = _Run(
        situation, now, dict(state.memories), _recent(state.moved_at, now), calm_pools(pools, nodes, now, limits)
    )
    run.look()
    seen = State(dict(run.memories), pools, tuple(run.moved_at))
    run.waves()
    run.shortages()
    run.policy()
    run.marks()
    after = State(run.memories, pools, tuple(run.moved_at))
    actions = tuple(run.actions)
    return Decision(
        () if limits.read_only else actions,
        seen if limits.read_only else after,
        run.reports(),
        tuple(run.notices),
        actions if limits.read_only else (),
        run.wave,
        _requeue(run, next_calm(pools, now, limits)),
    )


def _recent(moved_at: tuple[float, ...], now: float) -> list[float]:
    return [at for at in moved_at if now - at < 3600]


def _requeue(run: _Run, calm_in: float | None) -> float | None:
    if run.wave or run.actions or any(run.blocked.values()):
        return POLL_S
    return calm_in


class _Run:
    """One decision while it is made."""

    def __init__(
        self, situation: Situation, now: float, memories: dict[str, Memory], moved_at: list[float], calm: frozenset[str]
    ) -> None:
        self.situation, self.now, self.memories, self.moved_at, self.calm = situation, now, memories, moved_at, calm
        self.limits, self.nodes = situation.limits, situation.cluster.nodes
        self.targets: dict[str, Target] = {}
        self.sources: dict[str, str] = {}
        self.workloads: dict[str, Workload] = {}
        self.unmanaged: dict[str, Workload] = {}
        self.moves: dict[str, Misplaced] = {}
        self.blocked: dict[str, Blocked | None] = {}
        self.actions: list[Action] = []
        self.notices: list[Notice] = []
        self.struck: dict[str, Workload] = {}
        """Those with pods on nodes that end, and those with released pods."""
        self.waiting: dict[str, list[PodFacts]] = {}
        """On-demand pods that find no room, by workload."""
        self.wave = False

    def look(self) -> None:
        """Targets, faults, memory of what is over."""
        cluster = self.situation.cluster
        for owner in sorted(cluster.owners.values(), key=lambda each: (each.namespace, each.name, each.kind, each.uid)):
            memory = self.memories.get(owner.uid, NO_MEMORY)
            target = target_of(cluster, owner, self.situation.rules, memory)
            part = participation(owner, cluster.namespace(owner.namespace), self.situation.rules)
            self.targets[owner.uid], self.sources[owner.uid] = target, part.source
            for fault in (*target.faults, *part.faults):
                self._note(owner.uid, "InvalidPolicy", str(fault))
            if not target.faults:
                memory = replace(memory, policy=target.policy)
            workload = Workload(owner, target.on_demand, cluster.pods.get(owner.uid, ()))
            if not part.enabled:
                self.unmanaged[owner.uid] = workload
                continue
            memory = self._remembered(workload, memory)
            self.memories[owner.uid] = memory
            owed = max(0, target.on_demand - memory.debt)
            self.workloads[owner.uid] = replace(workload, target=owed) if memory.debt else workload
        self.memories = {uid: memory for uid, memory in self.memories.items() if uid in cluster.owners}
        self._who_is_struck()
        self.wave = running((self.workloads[uid] for uid in self.struck if uid in self.workloads), self.nodes)
        for uid, workload in self.workloads.items():
            if any(not pod.node for pod in workload.live):
                self.waiting[uid] = in_want(workload, self.now, self.limits.pend_s)

    def _who_is_struck(self) -> None:
        """Few workloads at a time have to do with a wave: all that follows from one is asked of these alone."""
        ending = {name for name, node in self.nodes.items() if node.ending}
        for uid, workload in {**self.workloads, **self.unmanaged}.items():
            if any(pod.released or pod.node in ending for pod in workload.pods):
                self.struck[uid] = workload

    def _remembered(self, workload: Workload, memory: Memory) -> Memory:
        memory = remembered(workload, memory)
        if not memory.moved:
            return memory
        live = workload.live
        if any(pod.uid == memory.moved for pod in live):
            refused = self.now - memory.moved_at >= REFUSED_S
            return replace(memory, moved="") if refused else memory
        whole = len(live) == workload.owner.replicas and all(pod.ready for pod in live)
        if whole and not any(pod.terminating or (pod.released and pod.active) for pod in workload.pods):
            wait = 0.0 if memory.returned_at == memory.moved_at else memory.return_wait_s
            return replace(memory, moved="", failures=0, return_wait_s=wait)
        pending = [pod for pod in live if not pod.node and pod.created >= memory.moved_at]
        if not any(self.now - pod.created >= self.limits.pend_s for pod in pending):
            return memory
        return self._failed(workload, memory)

    def _failed(self, workload: Workload, memory: Memory) -> Memory:
        """A replacement waits for a node for too long (B11, B26)."""
        limits = self.limits
        wait = memory.return_wait_s
        if memory.returned_at == memory.moved_at:
            wait = min(limits.longest_wait_s, 2 * max(wait, limits.return_every_s))
        memory = replace(memory, moved="", failures=memory.failures + 1, return_wait_s=wait)
        if memory.failures < limits.failures:
            return memory
        message = f"{memory.failures} moves in a row left a pod without a node; none follow for {limits.stop_s:g} s"
        self._note(workload.owner.uid, "MovesStopped", message)
        return replace(memory, failures=0, stopped_until=self.now + limits.stop_s)

    def waves(self) -> None:
        """Pods on nodes that end, and released pods that have done their time; no limit holds here."""
        around = self.situation.around
        for workload in self.struck.values():
            self.actions += endings(workload, self.nodes, self.now)
        self.actions += orphans(self.situation.cluster.pods, self.situation.cluster.owners)
        for workload in (each for uid, each in self.struck.items() if uid in self.workloads):
            self.actions += evacuations(workload, self.nodes, self.now, around, self.limits, self._elsewhere)

    def _elsewhere(self, pod: PodFacts) -> bool:
        """Whether a pod would find a place now, or one comes when it waits; a pod that must be on demand only there."""
        limits, room = self.limits, self.situation.room
        if limits.on_demand_autoscaling or room.fits(pod, Capacity.ON_DEMAND):
            return True
        free = pod.pod_class is not Capacity.ON_DEMAND
        return free and (limits.spot_autoscaling or room.fits(pod, Capacity.SPOT))

    def shortages(self) -> None:
        """On-demand pods that find no room."""
        for uid, workload in self.workloads.items():
            memory = self.memories[uid]
            waiting = self.waiting.get(uid)
            if not waiting:
                self.memories[uid] = repaid(workload, memory, self.situation.room)
                continue
            count = len(waiting)
            message = f"{count} of {workload.target} on-demand pods find no room on on-demand nodes: {waiting[0].key}"
            self._note(uid, str(Blocked.NO_ON_DEMAND_ROOM), message + (", …" if count > 1 else ""))
            if memory.moved:
                continue
            relief = surge_relief(workload, self.nodes, self.now, memory, self.limits)
            if relief is None and not self.wave and self._allowance() > 0:
                evicted = self._make_room(workload)
                if evicted is not None:
                    self._order(evicted)
                    continue
            relief = relief or degraded(workload, self.now, memory, self.limits)
            if relief is not None:
                self.actions += relief.moves
                self.memories[uid] = relief.memory

    def _make_room(self, workload: Workload) -> Evict | None:
        others = [each for uid, each in self.workloads.items() if not self.memories[uid].moved]
        return room_made(
            workload, others, self.nodes, self.now, self.situation.room, self.limits, self.situation.around.leaders
        )

    def policy(self) -> None:
        """At most one move of a workload, those first that lack most."""
        for uid, workload in self.workloads.items():
            self.moves[uid] = misplaced(workload, self.nodes, self.situation.around.leaders)
        turn = sorted(self.moves, key=lambda uid: -self.moves[uid].need)  # stable: equals keep their order
        for uid in turn:
            found = self.moves[uid]
            self.blocked[uid] = None
            if found.need == 0:
                self._at_risk(self.workloads[uid])
                continue
            move, why = self._next_move(self.workloads[uid], found)
            self.blocked[uid] = why
            if move is not None:
                self._order(move)

    def _next_move(self, workload: Workload, found: Misplaced) -> tuple[Move | None, Blocked | None]:
        if not found.total:
            return None, self._cannot(workload, found)
        why = self._gate(workload)
        if why is not None:
            return None, why
        return self._up(workload, found) if found.need > 0 else self._down(workload, found)

    def _cannot(self, workload: Workload, found: Misplaced) -> Blocked | None:
        """Why nobody is a candidate although something is amiss."""
        owner = workload.owner
        wanted = Capacity.ON_DEMAND if found.need > 0 else Capacity.SPOT
        if owner.pinned is None or owner.pinned is wanted:
            return None
        if wanted is Capacity.ON_DEMAND:
            message = f"{found.need} more pods have to be on demand, and {owner.conflict} allows spot nodes only"
            self._note(owner.uid, "PolicyConflict", message)
        return Blocked.PINNED

    def _gate(self, workload: Workload) -> Blocked | None:
        """All limits on what only policy asks for."""
        limits, uid = self.limits, workload.owner.uid
        if any(isinstance(action, Move) and action.owner == uid for action in self.actions):
            return Blocked.IN_FLIGHT
        if self.memories[uid].moved:
            return Blocked.IN_FLIGHT
        if self.now < self.memories[uid].stopped_until:
            return Blocked.STOPPED
        allowed = self.situation.around.disruptions_allowed(workload.live)
        why = gate(
            workload,
            self.now,
            wave=self.wave or (uid in self.struck and leaving(workload, self.nodes)),
            disruptions_allowed=allowed,
            cool_down_s=limits.cool_down_s,
        )
        if why is not None:
            return why
        if not any_open(limits.windows, self.now):
            return Blocked.WINDOW
        return Blocked.BUDGET if self._allowance() < 1 else None

    def _allowance(self) -> int:
        """Moves by policy that may still be ordered now."""
        in_flight = sum(bool(memory.moved) for memory in self.memories.values())
        return min(self.limits.per_cluster - in_flight, self.limits.per_hour - len(self.moved_at))

    def _up(self, workload: Workload, found: Misplaced) -> tuple[Move | None, Blocked | None]:
        """Another pod has to be on demand."""
        for pod in found.victims:
            if not (self.limits.on_demand_autoscaling or self.situation.room.fits(pod, Capacity.ON_DEMAND)):
                continue
            reason = Reason.REPAIR if pod.pod_class is None else Reason.TO_ON_DEMAND
            return self._moved(workload, pod, reason)
        return None, Blocked.NO_ON_DEMAND_ROOM

    def _down(self, workload: Workload, found: Misplaced) -> tuple[Move | None, Blocked | None]:
        """A pod may go back to spot, if spot has room and is calm."""
        if not self.limits.returns:
            return None, Blocked.NOT_CALM
        memory = self.memories[workload.owner.uid]
        wait = max(memory.return_wait_s, self.limits.return_every_s)
        why = Blocked.NO_SPOT_ROOM
        for pod in found.victims:
            back = pod.pod_class is not Capacity.ON_DEMAND
            if back and memory.returned_at is not None and self.now - memory.returned_at < wait:
                why = Blocked.COOL_DOWN
                continue
            if not self._spot_fits(pod):
                fits_somewhere = self.situation.room.fits(pod, Capacity.SPOT)
                why = Blocked.NOT_CALM if fits_somewhere else Blocked.NO_SPOT_ROOM
                continue
            if back and not self._pays(pod):
                why = Blocked.NOT_CALM
                continue
            return self._moved(workload, pod, Reason.RETURN if back else Reason.TO_SPOT)
        return None, why

    def _spot_fits(self, pod: PodFacts) -> bool:
        if self.situation.room.fits(pod, Capacity.SPOT, pools=self.calm):
            return True
        return self.limits.spot_autoscaling and not self.situation.room.fits(pod, Capacity.SPOT)

    def _pays(self, pod: PodFacts) -> bool:
        """Whether spot earns the restart soon enough; without a price it is taken to."""
        node = self.nodes.get(pod.node)
        price = self.situation.prices.price(node.instance_type, node.zone) if node is not None else None
        if node is None or price is None or not node.cpu_milli:
            return True
        discount, _ = self.situation.prices.discount(node.instance_type, node.zone)
        share = pod.cpu_milli / node.cpu_milli
        hours = break_even_hours(self.limits.restart_cost, price.on_demand, discount, share)
        return hours <= self.limits.pays_within_h

    def _moved(self, workload: Workload, pod: PodFacts, reason: Reason) -> tuple[Move | None, Blocked | None]:
        """The order, make-before-break for an only pod (P29)."""
        owner = workload.owner
        if owner.replicas > 1:
            return Evict(pod.key, pod.uid, owner.uid, reason), None
        if not release_refused(owner, pod, None, self.now, self.situation.around, self.limits):
            return release(owner, pod, None, self.now, reason), None
        allowed = owner.annotations.get(ALLOW_RESTART) == "true" or bool(self.limits.windows)
        if allowed:
            return Evict(pod.key, pod.uid, owner.uid, reason), None
        return None, Blocked.RESTART_NOT_ALLOWED

    def _at_risk(self, workload: Workload) -> None:
        """A pod whose node may be reclaimed soon moves make-before-break, under the same limits (B22)."""
        if not any(self._risky(pod) for pod in workload.live) or self._gate(workload) is not None:
            return
        around = self.situation.around
        for pod in sorted(workload.live, key=lambda each: each.key):
            if not self._risky(pod) or pod.uid in around.leaders:
                continue
            if release_refused(workload.owner, pod, None, self.now, around, self.limits):
                continue
            if self.situation.room.fits(pod, Capacity.SPOT) or self.situation.room.fits(pod, Capacity.ON_DEMAND):
                self._order(release(workload.owner, pod, None, self.now, Reason.AT_RISK))
                return

    def _risky(self, pod: PodFacts) -> bool:
        node = self.nodes.get(pod.node)
        return node is not None and node.state is NodeState.AT_RISK

    def _order(self, move: Move) -> None:
        self.actions.append(move)
        self.moved_at.append(self.now)
        memory = replace(self.memories[move.owner], moved=move.uid, moved_at=self.now)
        if move.reason is Reason.RETURN:
            memory = replace(memory, returned_at=self.now)
        self.memories[move.owner] = memory

    def marks(self) -> None:
        """Deletion costs that have changed, and shorter tolerations for pods that run with the defaults."""
        for uid, workload in self.workloads.items():
            yielding = self.memories[uid].yielding
            if not workload.owner.template_cost:
                keys = {pod.uid: pod.key for pod in workload.pods}
                changes = cost_changes(workload, self.nodes, self.now, (yielding,) if yielding else ())
                self.actions += (SetCost(keys[pod], pod, uid, cost) for pod, cost in changes.items())
            self.actions += shorter_tolerations(workload, self.limits.eviction_s)
            self._leader_on_spot(workload)
            self._one_zone(workload)

    def _one_zone(self, workload: Workload) -> None:
        """A floor of several pods that one zone could take away (B41)."""
        zones = {node.zone for node in self.nodes.values() if node.capacity is Capacity.ON_DEMAND and node.zone}
        held = [self.nodes[pod.node].zone for pod in workload.live if pod.node in self.nodes and self._holds_floor(pod)]
        if len(zones) > 1 and len(held) > 1 and len(held) >= workload.target and len(set(held)) == 1 and held[0]:
            message = (
                f"all {len(held)} on-demand pods stand in the zone {held[0]}; spread them by constraints of its own"
            )
            self._note(workload.owner.uid, "OneZone", message)

    def _holds_floor(self, pod: PodFacts) -> bool:
        return effective(pod, self.nodes) is Capacity.ON_DEMAND

    def _leader_on_spot(self, workload: Workload) -> None:
        """A leader on spot beside a ready on-demand replica is reported; no failover is forced (B45)."""
        leaders = [pod for pod in workload.live if pod.uid in self.situation.around.leaders]
        for leader in leaders:
            others = [pod for pod in workload.live if pod.ready and pod.uid != leader.uid]
            if on_demand_effective([leader], self.nodes) == 0 and on_demand_effective(others, self.nodes):
                message = f"the leader {leader.key} stands on spot beside ready on-demand replicas"
                self._note(workload.owner.uid, "LeaderOnSpot", message)

    def _note(self, owner: str, reason: str, message: str) -> None:
        self.notices.append(Notice(owner, reason, message))

    def reports(self) -> dict[str, Report]:
        found = {}
        for uid, workload in {**self.workloads, **self.unmanaged}.items():
            managed = uid in self.workloads
            moves = self.moves.get(uid, Misplaced(0))
            found[uid] = Report(
                self._phase(workload, moves) if managed else Phase.UNMANAGED,
                self.targets[uid],
                workload.target,
                on_demand_effective(workload.live, self.nodes),
                by_placement(workload.pods, self.nodes),
                moves.need,
                moves.total,
                self.blocked.get(uid),
                len(self.waiting.get(uid, ())),
                self.sources[uid],
            )
        return found

    def _phase(self, workload: Workload, moves: Misplaced) -> Phase:
        if workload.owner.uid in self.struck and leaving(workload, self.nodes):
            return Phase.WAVE
        if workload.owner.rolling:
            return Phase.ROLLOUT
        if any(not pod.ready for pod in workload.live) or len(workload.live) < workload.owner.replicas:
            return Phase.RECOVERING if moves.need == 0 else Phase.CONVERTING
        if moves.need == 0 or self.blocked.get(workload.owner.uid) is Blocked.PINNED:
            return Phase.SETTLED
        return Phase.BLOCKED if self.blocked.get(workload.owner.uid) is not None else Phase.CONVERTING

"""Decision of the controller for all workloads, as a function of the cluster, its memory and the time.

`decide` is called repeatedly. Each call orders at most one policy move for a workload, and every move that ending nodes
make urgent. In read-only mode it orders nothing and reports the actions that it would order. Rule: D17.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from situate.spot.model.actions import Action, Evict, Move, Reason, SetCost
from situate.spot.model.counts import by_placement, on_demand_effective
from situate.spot.model.misplaced_pods import Blocked, Misplaced, Workload, misplaced
from situate.spot.model.pods_nodes_workloads import Capacity, NodeState, Owner, PodFacts
from situate.spot.nodes.pool_stability import calm_at, calm_pools, next_calm, observed
from situate.spot.rebalance.capacity_shortage import degraded, in_want, repaid, room_made, surge_relief
from situate.spot.rebalance.clock_rollback import come
from situate.spot.rebalance.decision import POLL_S, Decision, Notice, Phase, Report, Situation, State
from situate.spot.rebalance.move_followup import followed
from situate.spot.rebalance.node_termination import (
    endings,
    evacuations,
    leaving,
    next_end,
    orphans,
    running,
    shorter_tolerations,
)
from situate.spot.rebalance.policy_moves import PolicyMoves, Standing
from situate.spot.rebalance.rollout_wait import awaiting
from situate.spot.rebalance.settled_cache import AllSettled, Settled, holds, nodes_if_timeless
from situate.spot.rebalance.workload_status import blocked_until, leaders_on_spot, on_demand_zones, one_zone, phase_of
from situate.spot.workloads.cluster_objects import NO_MEMORY, Memory, target_of
from situate.spot.workloads.deletion_cost import cost_changes
from situate.spot.workloads.on_demand_target import Target, participation

__all__ = ("Decision", "Notice", "Phase", "Report", "Situation", "State", "decide", "deciding")

Steps: TypeAlias = Generator[None, None, None]


def decide(state: State, situation: Situation, now: float) -> Decision:
    """Decide in one call. Equal arguments give equal decisions; workloads are sorted by namespace, name and uid."""
    steps = deciding(state, situation, now)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            decision: Decision = end.value
            return decision


def deciding(state: State, situation: Situation, now: float) -> Generator[None, None, Decision]:
    """Decide in steps of a fraction of a millisecond, so that the caller can answer admissions between them.

    The content of the situation must not change until the end.
    """
    limits, nodes = situation.limits, situation.cluster.nodes
    state = come(state, limits, now)
    pools = observed(state.pools, nodes, now, limits)
    run = _Run(state, situation, now, calm_pools(pools, nodes, now, limits), calm_at(pools, nodes, now, limits))
    yield from run.look()
    seen = State(dict(run.memories), pools, tuple(run.moved_at))
    yield from run.waves()
    yield from run.shortages()
    yield from run.policy()
    yield from run.marks()
    yield from run.tell()
    after = State(run.memories, pools, tuple(run.moved_at))
    actions = tuple(run.actions)
    return Decision(
        () if limits.read_only else actions,
        replace(seen if limits.read_only else after, settled=run.settled()),
        run.reports,
        tuple(run.notices),
        actions if limits.read_only else (),
        run.wave,
        _requeue(run, next_calm(pools, now, limits)),
    )


def _requeue(run: _Run, calm_in: float | None) -> float | None:
    busy = run.wave or run.actions or any(run.blocked.values())
    waits = (POLL_S if busy else calm_in, *run.ends())
    return min((seconds for seconds in waits if seconds is not None), default=None)


def _instead(target: Target) -> str:
    """Return the policy that applies while the value cannot be read."""
    if target.unreadable:
        return "no valid value is known, so new Pods are created on demand and no Pod is moved until it is corrected"
    return f"the last valid value, {target.policy}, stays in force until it is corrected"


class _Run:
    """State of one decision in progress."""

    def __init__(
        self, state: State, situation: Situation, now: float, calm: frozenset[str], calm_at: float | None
    ) -> None:
        self.situation, self.now = situation, now
        self.limits, self.nodes = situation.limits, situation.cluster.nodes
        self._calm_at = calm_at
        self.memories = dict(state.memories)
        self.moved_at = [at for at in state.moved_at if now - at < 3600]
        self.reckoned: dict[str, Memory] = {}
        """Memory with which workloads were evaluated; a later difference requires another evaluation."""
        self.in_flight: set[str] = set()
        """Workloads with a move in progress."""
        self.targets: dict[str, Target] = {}
        self.sources: dict[str, str] = {}
        self.workloads: dict[str, Workload] = {}
        self.unmanaged: dict[str, Workload] = {}
        self.moves: dict[str, Misplaced] = {}
        self.blocked: dict[str, Blocked | None] = {}
        self.actions: list[Action] = []
        self.moving: set[str] = set()
        """Workloads for which moves are ordered."""
        self.notices: list[Notice] = []
        self.struck: dict[str, Workload] = {}
        """Workloads with pods on ending nodes or with released pods."""
        self.waiting: dict[str, list[PodFacts]] = {}
        """On-demand pods without free capacity, by workload."""
        self.wave = False
        self.reports: dict[str, Report] = {}
        self.quiet: dict[str, Settled[Report]] = {}
        """Workloads that have not changed since the last decision and needed nothing then."""
        self._before = state.settled
        self._changed = state.settled.changed(self.nodes)
        self._zones = on_demand_zones(self.nodes)
        self._at_risk = any(node.state is NodeState.AT_RISK for node in self.nodes.values())
        self._policy = PolicyMoves(situation, now, calm, self._note)

    def look(self) -> Steps:
        """Compute targets and faults, and clear memory that no longer applies."""
        cluster = self.situation.cluster
        known: Mapping[str, Settled[Report]] = self._before.workloads if self._before.basis == self._basis() else {}
        for owner in sorted(cluster.owners.values(), key=lambda each: (each.namespace, each.name, each.kind, each.uid)):
            namespace, pods = cluster.namespace(owner.namespace), cluster.pods.get(owner.uid, ())
            memory = self.memories.get(owner.uid)
            settled = known.get(owner.uid)
            if settled is not None and holds(settled, owner, pods, namespace, memory, self._changed):
                self.quiet[owner.uid] = settled
                continue
            self._look_at(owner, pods, memory or NO_MEMORY)
            yield
        self.memories = {uid: memory for uid, memory in self.memories.items() if uid in cluster.owners}
        self.in_flight = {uid for uid, memory in self.memories.items() if memory.moved}
        yield from self._who_is_struck()
        self.wave = running((self.workloads[uid] for uid in self.struck if uid in self.workloads), self.nodes)
        for uid, workload in self.workloads.items():
            if any(not pod.node for pod in workload.live):
                self.waiting[uid] = in_want(workload, self.now, self.limits.pend_s)
            yield

    def _look_at(self, owner: Owner, pods: Sequence[PodFacts], memory: Memory) -> None:
        cluster, rules = self.situation.cluster, self.situation.rules
        target = target_of(cluster, owner, rules, memory)
        part = participation(owner, cluster.namespace(owner.namespace), rules)
        self.targets[owner.uid], self.sources[owner.uid] = target, part.source
        for fault in target.faults:
            self._note(owner.uid, "InvalidPolicy", f"{fault}; {_instead(target)}")
        for fault in part.faults:
            self._note(owner.uid, "InvalidPolicy", str(fault))
        if not target.faults:
            memory = replace(memory, policy=target.policy)
        workload = Workload(owner, target.on_demand, pods)
        if not part.enabled:
            self.unmanaged[owner.uid] = workload
            return
        if not owner.placeable:
            message = f"{owner.conflict} allows neither on-demand nor spot nodes, so spot does not change the pods"
            self._note(owner.uid, "Unplaceable", message)
        after = followed(workload, memory, self.nodes, self.limits, self.now)
        if after.stopped:
            self._note(owner.uid, "MovesStopped", after.stopped)
        self.memories[owner.uid] = self.reckoned[owner.uid] = awaiting(workload, after.memory, self.now)
        owed = max(0, target.on_demand - after.memory.debt)
        self.workloads[owner.uid] = replace(workload, target=owed) if after.memory.debt else workload

    def _who_is_struck(self) -> Steps:
        """Find the workloads that a wave affects; usually few, and only these are checked further."""
        ending = {name for name, node in self.nodes.items() if node.ending}
        for uid, workload in {**self.workloads, **self.unmanaged}.items():
            if any(pod.released or pod.node in ending for pod in workload.pods):
                self.struck[uid] = workload
            yield

    def waves(self) -> Steps:
        """Move pods off ending nodes, and delete released pods that are due; no limit applies here."""
        around = self.situation.around
        for workload in self.struck.values():
            self._act(endings(workload, self.nodes, self.now))
            yield
        self._act(orphans(self.situation.cluster.pods, self.situation.cluster.owners))
        for workload in (each for uid, each in self.struck.items() if uid in self.workloads):
            yield from self.situation.room.beginning()
            self._act(evacuations(workload, self.nodes, self.now, around, self.limits, self._elsewhere))
            yield

    def ends(self) -> Iterator[float | None]:
        """Yield, for each workload, the seconds until its next pod must go."""
        return (next_end(workload, self.nodes, self.now) for workload in self.struck.values())

    def _elsewhere(self, pod: PodFacts) -> bool:
        """Return whether the pod would find a place, or an autoscaler adds one; on demand only if the class requires
        it."""
        limits, room = self.limits, self.situation.room
        if limits.on_demand_autoscaling or room.fits(pod, Capacity.ON_DEMAND):
            return True
        free = pod.pod_class is not Capacity.ON_DEMAND
        return free and (limits.spot_autoscaling or room.fits(pod, Capacity.SPOT))

    def shortages(self) -> Steps:
        """Relieve on-demand pods that find no free capacity."""
        for uid, workload in self.workloads.items():
            memory = self.memories[uid]
            waiting = self.waiting.get(uid)
            if waiting or memory.debt:
                yield from self.situation.room.beginning()
            if not waiting:
                self.memories[uid] = repaid(workload, memory, self.situation.room)
                continue
            message = (
                "on-demand nodes have no free capacity for pods that must be on demand; "
                "the conditions of each waiting pod have details"
            )
            count = f"{len(waiting)} of {workload.target} on-demand pods are missing"
            self._note(uid, str(Blocked.NO_ON_DEMAND_ROOM), message, count)
            if memory.moved:
                continue
            self._relieve(workload, memory)
            yield

    def _relieve(self, workload: Workload, memory: Memory) -> None:
        relief = surge_relief(workload, self.nodes, self.now, memory, self.limits)
        if relief is None and not self.wave and self._allowance() > 0:
            evicted = self._make_room(workload)
            if evicted is not None:
                self._order(evicted)
                return
        relief = relief or degraded(workload, self.now, memory, self.limits)
        if relief is not None:
            self._act(relief.moves)
            self._remember(workload.owner.uid, relief.memory)

    def _make_room(self, workload: Workload) -> Evict | None:
        others = [each for uid, each in self.workloads.items() if uid not in self.in_flight]
        return room_made(
            workload, others, self.nodes, self.now, self.situation.room, self.limits, self.situation.around.leaders
        )

    def policy(self) -> Steps:
        """Order at most one policy move for a workload; workloads that lack most on-demand pods come first."""
        if self.in_flight:
            yield from self.situation.room.beginning()
        self._keep_places()
        for uid, workload in self.workloads.items():
            self.moves[uid] = misplaced(workload, self.nodes, self.situation.around.leaders)
            yield
        turn = sorted(self.moves, key=lambda uid: -self.moves[uid].need)  # a stable sort: equals keep their order
        for uid in turn:
            workload, found = self.workloads[uid], self.moves[uid]
            self.blocked[uid] = None
            if found.need or self._at_risk:
                yield from self.situation.room.beginning()
            if self.targets[uid].unreadable:
                self.blocked[uid] = Blocked.INVALID_POLICY if found.need else None
            elif found.need == 0:
                risky = self._policy.at_risk(workload, self._standing(uid))
                if risky is not None:
                    self._order(risky)
            else:
                move, self.blocked[uid] = self._policy.next_move(workload, found, self._standing(uid))
                if move is not None:
                    self._order(move)
            yield

    def _keep_places(self) -> None:
        """Claim places for the replacements of moves in progress before other pods are sent there."""
        for uid in sorted(self.in_flight & self.workloads.keys()):
            workload, moved = self.workloads[uid], self.memories[uid].moved
            on_the_way = next((pod for pod in workload.pods if pod.uid == moved), None)
            if on_the_way is None:
                continue
            others = [pod for pod in workload.live if pod.uid != moved]
            lacks = on_demand_effective(others, self.nodes) < workload.target
            if len(others) < workload.owner.replicas:
                self.situation.room.fits(on_the_way, Capacity.ON_DEMAND if lacks else Capacity.SPOT)

    def _standing(self, uid: str) -> Standing:
        return Standing(self.memories[uid], uid in self.moving, uid in self.struck, self.wave, self._allowance())

    def _allowance(self) -> int:
        """Policy moves that may still be ordered now."""
        return min(self.limits.per_cluster - len(self.in_flight), self.limits.per_hour - len(self.moved_at))

    def _act(self, actions: Sequence[Action]) -> None:
        self.actions += actions
        self.moving.update(action.owner for action in actions if isinstance(action, Move))

    def _order(self, move: Move) -> None:
        self._act((move,))
        self.moved_at.append(self.now)
        raising = move.reason in (Reason.TO_ON_DEMAND, Reason.REPAIR)
        memory = replace(self.memories[move.owner], moved=move.uid, moved_at=self.now, raising=raising)
        if move.reason is Reason.RETURN:
            memory = replace(memory, returned_at=self.now)
        self._remember(move.owner, memory)

    def _remember(self, uid: str, memory: Memory) -> None:
        self.memories[uid] = memory
        if memory.moved:
            self.in_flight.add(uid)

    def marks(self) -> Steps:
        """Order changed deletion costs, and shorter tolerations for pods that run with the defaults.

        Leaving pods are skipped: a wave has more urgent writes.
        """
        leaders = self.situation.around.leaders
        leave = {action.uid for action in self.actions if isinstance(action, Move)}
        for uid, workload in self.workloads.items():
            yielding = self.memories[uid].yielding
            if not workload.owner.template_cost:
                keys = {pod.uid: pod.key for pod in workload.pods}
                changes = cost_changes(workload, self.nodes, self.now, (yielding,) if yielding else ())
                kept = ((pod, cost) for pod, cost in changes.items() if pod not in leave)
                self.actions += (SetCost(keys[pod], pod, uid, cost) for pod, cost in kept)
            shorter = shorter_tolerations(workload, self.limits.eviction_s)
            self.actions += (action for action in shorter if action.uid not in leave)
            for message in leaders_on_spot(workload, self.nodes, leaders) if leaders else ():
                self._note(uid, "LeaderOnSpot", message)
            if len(self._zones) > 1 and (message := one_zone(workload, self.nodes)):
                self._note(uid, "OneZone", message)
            yield

    def _note(self, owner: str, reason: str, message: str, count: str = "") -> None:
        self.notices.append(Notice(owner, reason, message, count))

    def tell(self) -> Steps:
        """Report each workload, and record those that need no evaluation until they change."""
        self.reports = {uid: settled.report for uid, settled in self.quiet.items()}
        busy = (
            {notice.owner for notice in self.notices} | {action.owner for action in self.actions} | self.struck.keys()
        )
        for uid, workload in {**self.workloads, **self.unmanaged}.items():
            report = self.reports[uid] = self._report(uid, workload)
            memory = self.memories.get(uid)
            if uid not in busy and not report.need and memory == self.reckoned.get(uid, memory):
                names = nodes_if_timeless(workload, self.nodes, memory)
                if names is not None:
                    namespace = self.situation.cluster.namespace(workload.owner.namespace)
                    self.quiet[uid] = Settled(workload.owner, workload.pods, namespace, memory, names, report)
            yield

    def settled(self) -> AllSettled[Report]:
        return AllSettled(self._basis(), dict(self.nodes), self.quiet)

    def _report(self, uid: str, workload: Workload) -> Report:
        moves, blocked = self.moves.get(uid, Misplaced(0)), self.blocked.get(uid)
        going = uid in self.struck and leaving(workload, self.nodes)
        managed = uid in self.workloads
        return Report(
            phase_of(workload, moves, blocked, leaving=going) if managed else Phase.UNMANAGED,
            self.targets[uid],
            workload.target,
            on_demand_effective(workload.live, self.nodes),
            by_placement(workload.pods, self.nodes),
            moves.need,
            moves.total,
            blocked,
            len(self.waiting.get(uid, ())),
            self.sources[uid],
            blocked_until(blocked, workload, self.memories.get(uid, NO_MEMORY), self.limits, self.now, self._calm_at),
        )

    def _basis(self) -> Any:
        """Return the inputs of a settled workload besides its own."""
        situation = self.situation
        return situation.rules, situation.limits.eviction_s, situation.around.leaders, len(self._zones) > 1

"""Decision of the controller for all workloads, as a function of the cluster, its memory and the time.

`decide` is called repeatedly. Each call orders at most one policy move for a workload, and every move that ending nodes
make urgent. In read-only mode it orders nothing and reports the actions that it would order. Rule: D17.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from situate.spot.model.actions import Action, Evict, Move, Reason, SetCost
from situate.spot.model.counts import count_by_placement, effective_on_demand_count
from situate.spot.model.misplaced_pods import BlockReason, MisplacedPods, Workload, find_misplaced_pods
from situate.spot.model.pods_nodes_workloads import Capacity, NodeState, Owner, PodFacts
from situate.spot.nodes.pool_stability import calm_pools, next_calm_time, observe_pools, seconds_until_calm
from situate.spot.rebalance.capacity_shortage import (
    degradation_relief,
    eviction_for_capacity,
    pods_without_capacity,
    repay_debt,
    surge_relief,
)
from situate.spot.rebalance.clock_rollback import correct_future_times
from situate.spot.rebalance.decision import POLL_S, ClusterView, Decision, Notice, Phase, Report, State
from situate.spot.rebalance.move_followup import follow_up_move
from situate.spot.rebalance.node_termination import (
    evacuations,
    has_leaving_pods,
    is_wave_in_progress,
    orphan_deletions,
    released_pod_deletions,
    seconds_until_next_end,
    toleration_changes,
)
from situate.spot.rebalance.policy_moves import PolicyMoves, WorkloadMoveConditions
from situate.spot.rebalance.rollout_wait import record_wait_start
from situate.spot.rebalance.settled_cache import SettledCache, SettledWorkload, is_still_settled, nodes_if_timeless
from situate.spot.rebalance.workload_status import (
    blocked_until,
    leader_on_spot_messages,
    on_demand_zones,
    phase_of,
    single_zone_warning,
)
from situate.spot.workloads.cluster_objects import NO_MEMORY, WorkloadMemory, target_of
from situate.spot.workloads.deletion_cost import cost_changes
from situate.spot.workloads.on_demand_target import Target, participation

__all__ = ("ClusterView", "Decision", "Notice", "Phase", "Report", "State", "decide", "decide_in_steps")

Steps: TypeAlias = Generator[None, None, None]


def decide(state: State, situation: ClusterView, now: float) -> Decision:
    """Decide in one call. Equal arguments give equal decisions; workloads are sorted by namespace, name and uid."""
    steps = decide_in_steps(state, situation, now)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            decision: Decision = end.value
            return decision


def decide_in_steps(state: State, situation: ClusterView, now: float) -> Generator[None, None, Decision]:
    """Decide in steps of a fraction of a millisecond, so that the caller can answer admissions between them.

    The content of the situation must not change until the end.
    """
    limits, nodes = situation.limits, situation.cluster.nodes
    state = correct_future_times(state, limits, now)
    pools = observe_pools(state.pools, nodes, now, limits)
    run = _DecisionRun(
        state, situation, now, calm_pools(pools, nodes, now, limits), next_calm_time(pools, nodes, now, limits)
    )
    yield from run.evaluate_workloads()
    seen = State(dict(run.memories), pools, tuple(run.moved_at))
    yield from run.order_wave_moves()
    yield from run.relieve_shortages()
    yield from run.order_policy_moves()
    yield from run.order_marks()
    yield from run.build_reports()
    after = State(run.memories, pools, tuple(run.moved_at))
    actions = tuple(run.actions)
    return Decision(
        () if limits.read_only else actions,
        replace(seen if limits.read_only else after, settled=run.settled_workloads()),
        run.reports,
        tuple(run.notices),
        actions if limits.read_only else (),
        run.wave,
        _requeue_delay(run, seconds_until_calm(pools, now, limits)),
    )


def _requeue_delay(run: _DecisionRun, calm_in: float | None) -> float | None:
    busy = run.wave or run.actions or any(run.blocked.values())
    waits = (POLL_S if busy else calm_in, *run.next_deadlines())
    return min((seconds for seconds in waits if seconds is not None), default=None)


def _fallback_text(target: Target) -> str:
    """Return the policy that applies while the value cannot be read."""
    if target.unreadable:
        return "no valid value is known, so new Pods are created on demand and no Pod is moved until it is corrected"
    return f"the last valid value, {target.policy}, stays in force until it is corrected"


class _DecisionRun:
    """State of one decision in progress."""

    def __init__(
        self, state: State, situation: ClusterView, now: float, calm: frozenset[str], calm_at: float | None
    ) -> None:
        self.view, self.now = situation, now
        self.limits, self.nodes = situation.limits, situation.cluster.nodes
        self._calm_at = calm_at
        self.memories = dict(state.memories)
        self.moved_at = [at for at in state.moved_at if now - at < 3600]
        self.evaluated_memories: dict[str, WorkloadMemory] = {}
        """Memory with which workloads were evaluated; a later difference requires another evaluation."""
        self.in_flight: set[str] = set()
        """Workloads with a move in progress."""
        self.targets: dict[str, Target] = {}
        self.sources: dict[str, str] = {}
        self.workloads: dict[str, Workload] = {}
        self.unmanaged: dict[str, Workload] = {}
        self.moves: dict[str, MisplacedPods] = {}
        self.blocked: dict[str, BlockReason | None] = {}
        self.actions: list[Action] = []
        self.moving: set[str] = set()
        """Workloads for which moves are ordered."""
        self.notices: list[Notice] = []
        self.affected: dict[str, Workload] = {}
        """Workloads with pods on ending nodes or with released pods."""
        self.waiting: dict[str, list[PodFacts]] = {}
        """On-demand pods without free capacity, by workload."""
        self.wave = False
        self.reports: dict[str, Report] = {}
        self.unchanged: dict[str, SettledWorkload[Report]] = {}
        """Workloads that have not changed since the last decision and needed nothing then."""
        self._before = state.settled
        self._changed = state.settled.changed_nodes(self.nodes)
        self._zones = on_demand_zones(self.nodes)
        self._at_risk = any(node.state is NodeState.AT_RISK for node in self.nodes.values())
        self._policy = PolicyMoves(situation, now, calm, self._add_notice)

    def evaluate_workloads(self) -> Steps:
        """Compute targets and faults, and clear memory that no longer applies."""
        cluster = self.view.cluster
        known: Mapping[str, SettledWorkload[Report]] = (
            self._before.workloads if self._before.basis == self._cache_basis() else {}
        )
        for owner in sorted(cluster.owners.values(), key=lambda each: (each.namespace, each.name, each.kind, each.uid)):
            namespace, pods = cluster.namespace(owner.namespace), cluster.pods.get(owner.uid, ())
            memory = self.memories.get(owner.uid)
            settled = known.get(owner.uid)
            if settled is not None and is_still_settled(settled, owner, pods, namespace, memory, self._changed):
                self.unchanged[owner.uid] = settled
                continue
            self._evaluate_workload(owner, pods, memory or NO_MEMORY)
            yield
        self.memories = {uid: memory for uid, memory in self.memories.items() if uid in cluster.owners}
        self.in_flight = {uid for uid, memory in self.memories.items() if memory.moved}
        yield from self._find_affected_workloads()
        self.wave = is_wave_in_progress(
            (self.workloads[uid] for uid in self.affected if uid in self.workloads), self.nodes
        )
        for uid, workload in self.workloads.items():
            if any(not pod.node for pod in workload.live_pods):
                self.waiting[uid] = pods_without_capacity(workload, self.now, self.limits.pend_s)
            yield

    def _evaluate_workload(self, owner: Owner, pods: Sequence[PodFacts], memory: WorkloadMemory) -> None:
        cluster, rules = self.view.cluster, self.view.rules
        target = target_of(cluster, owner, rules, memory)
        part = participation(owner, cluster.namespace(owner.namespace), rules)
        self.targets[owner.uid], self.sources[owner.uid] = target, part.source
        for fault in target.faults:
            self._add_notice(owner.uid, "InvalidPolicy", f"{fault}; {_fallback_text(target)}")
        for fault in part.faults:
            self._add_notice(owner.uid, "InvalidPolicy", str(fault))
        if not target.faults:
            memory = replace(memory, policy=target.policy)
        workload = Workload(owner, target.on_demand, pods)
        if not part.enabled:
            self.unmanaged[owner.uid] = workload
            return
        if not owner.placeable:
            message = f"{owner.conflict} allows neither on-demand nor spot nodes, so spot does not change the pods"
            self._add_notice(owner.uid, "Unplaceable", message)
        after = follow_up_move(workload, memory, self.nodes, self.limits, self.now)
        if after.stopped:
            self._add_notice(owner.uid, "MovesStopped", after.stopped)
        self.memories[owner.uid] = self.evaluated_memories[owner.uid] = record_wait_start(
            workload, after.memory, self.now
        )
        owed = max(0, target.on_demand - after.memory.debt)
        self.workloads[owner.uid] = replace(workload, target=owed) if after.memory.debt else workload

    def _find_affected_workloads(self) -> Steps:
        """Find the workloads that a wave affects; usually few, and only these are checked further."""
        ending = {name for name, node in self.nodes.items() if node.ending}
        for uid, workload in {**self.workloads, **self.unmanaged}.items():
            if any(pod.released or pod.node in ending for pod in workload.pods):
                self.affected[uid] = workload
            yield

    def order_wave_moves(self) -> Steps:
        """Move pods off ending nodes, and delete released pods that are due; no limit applies here."""
        around = self.view.constraints
        for workload in self.affected.values():
            self._add_actions(released_pod_deletions(workload, self.nodes, self.now))
            yield
        self._add_actions(orphan_deletions(self.view.cluster.pods, self.view.cluster.owners))
        for workload in (each for uid, each in self.affected.items() if uid in self.workloads):
            yield from self.view.capacity.prepare_in_steps()
            self._add_actions(evacuations(workload, self.nodes, self.now, around, self.limits, self._fits_elsewhere))
            yield

    def next_deadlines(self) -> Iterator[float | None]:
        """Yield, for each workload, the seconds until its next pod must go."""
        return (seconds_until_next_end(workload, self.nodes, self.now) for workload in self.affected.values())

    def _fits_elsewhere(self, pod: PodFacts) -> bool:
        """Return whether the pod would find a place, or an autoscaler adds one; on demand only if the class requires
        it."""
        limits, room = self.limits, self.view.capacity
        if limits.on_demand_autoscaling or room.fits(pod, Capacity.ON_DEMAND):
            return True
        free = pod.pod_class is not Capacity.ON_DEMAND
        return free and (limits.spot_autoscaling or room.fits(pod, Capacity.SPOT))

    def relieve_shortages(self) -> Steps:
        """Relieve on-demand pods that find no free capacity."""
        for uid, workload in self.workloads.items():
            memory = self.memories[uid]
            waiting = self.waiting.get(uid)
            if waiting or memory.debt:
                yield from self.view.capacity.prepare_in_steps()
            if not waiting:
                self.memories[uid] = repay_debt(workload, memory, self.view.capacity)
                continue
            message = (
                "on-demand nodes have no free capacity for pods that must be on demand; "
                "the conditions of each waiting pod have details"
            )
            count = f"{len(waiting)} of {workload.target} on-demand pods are missing"
            self._add_notice(uid, str(BlockReason.NO_ON_DEMAND_ROOM), message, count)
            if memory.moved:
                continue
            self._relieve_workload(workload, memory)
            yield

    def _relieve_workload(self, workload: Workload, memory: WorkloadMemory) -> None:
        relief = surge_relief(workload, self.nodes, self.now, memory, self.limits)
        if relief is None and not self.wave and self._allowance() > 0:
            evicted = self._evict_for_capacity(workload)
            if evicted is not None:
                self._order_move(evicted)
                return
        relief = relief or degradation_relief(workload, self.now, memory, self.limits)
        if relief is not None:
            self._add_actions(relief.moves)
            self._store_memory(workload.owner.uid, relief.memory)

    def _evict_for_capacity(self, workload: Workload) -> Evict | None:
        others = [each for uid, each in self.workloads.items() if uid not in self.in_flight]
        return eviction_for_capacity(
            workload, others, self.nodes, self.now, self.view.capacity, self.limits, self.view.constraints.leaders
        )

    def order_policy_moves(self) -> Steps:
        """Order at most one policy move for a workload; workloads that lack most on-demand pods come first."""
        if self.in_flight:
            yield from self.view.capacity.prepare_in_steps()
        self._claim_replacement_places()
        for uid, workload in self.workloads.items():
            self.moves[uid] = find_misplaced_pods(workload, self.nodes, self.view.constraints.leaders)
            yield
        turn = sorted(self.moves, key=lambda uid: -self.moves[uid].need)  # a stable sort: equals keep their order
        for uid in turn:
            workload, found = self.workloads[uid], self.moves[uid]
            self.blocked[uid] = None
            if found.need or self._at_risk:
                yield from self.view.capacity.prepare_in_steps()
            if self.targets[uid].unreadable:
                self.blocked[uid] = BlockReason.INVALID_POLICY if found.need else None
            elif found.need == 0:
                risky = self._policy.next_at_risk_move(workload, self._move_conditions(uid))
                if risky is not None:
                    self._order_move(risky)
            else:
                move, self.blocked[uid] = self._policy.next_move(workload, found, self._move_conditions(uid))
                if move is not None:
                    self._order_move(move)
            yield

    def _claim_replacement_places(self) -> None:
        """Claim places for the replacements of moves in progress before other pods are sent there."""
        for uid in sorted(self.in_flight & self.workloads.keys()):
            workload, moved = self.workloads[uid], self.memories[uid].moved
            on_the_way = next((pod for pod in workload.pods if pod.uid == moved), None)
            if on_the_way is None:
                continue
            others = [pod for pod in workload.live_pods if pod.uid != moved]
            lacks = effective_on_demand_count(others, self.nodes) < workload.target
            if len(others) < workload.owner.replicas:
                self.view.capacity.fits(on_the_way, Capacity.ON_DEMAND if lacks else Capacity.SPOT)

    def _move_conditions(self, uid: str) -> WorkloadMoveConditions:
        return WorkloadMoveConditions(
            self.memories[uid], uid in self.moving, uid in self.affected, self.wave, self._allowance()
        )

    def _allowance(self) -> int:
        """Policy moves that may still be ordered now."""
        most = self.limits.evictions
        return min(most.per_cluster - len(self.in_flight), most.per_hour - len(self.moved_at))

    def _add_actions(self, actions: Sequence[Action]) -> None:
        self.actions += actions
        self.moving.update(action.owner for action in actions if isinstance(action, Move))

    def _order_move(self, move: Move) -> None:
        self._add_actions((move,))
        self.moved_at.append(self.now)
        raising = move.reason in (Reason.TO_ON_DEMAND, Reason.REPAIR)
        memory = replace(self.memories[move.owner], moved=move.uid, moved_at=self.now, raising=raising)
        if move.reason is Reason.RETURN:
            memory = replace(memory, returned_at=self.now)
        self._store_memory(move.owner, memory)

    def _store_memory(self, uid: str, memory: WorkloadMemory) -> None:
        self.memories[uid] = memory
        if memory.moved:
            self.in_flight.add(uid)

    def order_marks(self) -> Steps:
        """Order changed deletion costs, and shorter tolerations for pods that run with the defaults.

        Leaving pods are skipped: a wave has more urgent writes.
        """
        leaders = self.view.constraints.leaders
        leave = {action.uid for action in self.actions if isinstance(action, Move)}
        for uid, workload in self.workloads.items():
            yielding = self.memories[uid].yielding
            if not workload.owner.template_cost:
                keys = {pod.uid: pod.key for pod in workload.pods}
                changes = cost_changes(workload, self.nodes, self.now, (yielding,) if yielding else ())
                kept = ((pod, cost) for pod, cost in changes.items() if pod not in leave)
                self.actions += (SetCost(keys[pod], pod, uid, cost) for pod, cost in kept)
            shorter = toleration_changes(workload, self.limits.eviction_s)
            self.actions += (action for action in shorter if action.uid not in leave)
            for message in leader_on_spot_messages(workload, self.nodes, leaders) if leaders else ():
                self._add_notice(uid, "LeaderOnSpot", message)
            if len(self._zones) > 1 and (message := single_zone_warning(workload, self.nodes)):
                self._add_notice(uid, "OneZone", message)
            yield

    def _add_notice(self, owner: str, reason: str, message: str, count: str = "") -> None:
        self.notices.append(Notice(owner, reason, message, count))

    def build_reports(self) -> Steps:
        """Report each workload, and record those that need no evaluation until they change."""
        self.reports = {uid: settled.report for uid, settled in self.unchanged.items()}
        busy = (
            {notice.owner for notice in self.notices} | {action.owner for action in self.actions} | self.affected.keys()
        )
        for uid, workload in {**self.workloads, **self.unmanaged}.items():
            report = self.reports[uid] = self._build_report(uid, workload)
            memory = self.memories.get(uid)
            if uid not in busy and not report.need and memory == self.evaluated_memories.get(uid, memory):
                names = nodes_if_timeless(workload, self.nodes, memory)
                if names is not None:
                    namespace = self.view.cluster.namespace(workload.owner.namespace)
                    self.unchanged[uid] = SettledWorkload(
                        workload.owner, workload.pods, namespace, memory, names, report
                    )
            yield

    def settled_workloads(self) -> SettledCache[Report]:
        return SettledCache(self._cache_basis(), dict(self.nodes), self.unchanged)

    def _build_report(self, uid: str, workload: Workload) -> Report:
        moves, blocked = self.moves.get(uid, MisplacedPods(0)), self.blocked.get(uid)
        going = uid in self.affected and has_leaving_pods(workload, self.nodes)
        managed = uid in self.workloads
        return Report(
            phase_of(workload, moves, blocked, leaving=going) if managed else Phase.UNMANAGED,
            self.targets[uid],
            workload.target,
            effective_on_demand_count(workload.live_pods, self.nodes),
            count_by_placement(workload.pods, self.nodes),
            moves.need,
            moves.total,
            blocked,
            len(self.waiting.get(uid, ())),
            self.sources[uid],
            blocked_until(blocked, workload, self.memories.get(uid, NO_MEMORY), self.limits, self.now, self._calm_at),
        )

    def _cache_basis(self) -> Any:
        """Return the inputs of a settled workload besides its own."""
        situation = self.view
        return situation.rules, situation.limits.eviction_s, situation.constraints.leaders, len(self._zones) > 1

"""Moves that only policy requires: at most one pod of a workload, or the reason for no move.

Rules: B11, B13, B20, B22, B26, P29 and "Controller: pods to evict" in docs/spec/spot.md.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cached_property

from situate.objects.values.counts import format_count
from situate.spot.model.actions import Evict, Move, Reason, Release
from situate.spot.model.maintenance_windows import any_window_open
from situate.spot.model.misplaced_pods import (
    BlockReason,
    MisplacedPods,
    Workload,
    blocking_reason,
    required_steady_time,
)
from situate.spot.model.pods_nodes_workloads import ALLOW_RESTART, Capacity, NodeState, PodFacts
from situate.spot.nodes.savings import break_even_hours
from situate.spot.rebalance.decision import ClusterView
from situate.spot.rebalance.node_termination import build_release, has_leaving_pods, release_refusal
from situate.spot.rebalance.rollout_wait import is_wait_overdue
from situate.spot.workloads.cluster_objects import WorkloadMemory


@dataclass(frozen=True, slots=True)
class WorkloadMoveConditions:
    """State of a workload in this decision."""

    memory: WorkloadMemory
    moving: bool
    """Whether an action has already been ordered for it."""
    affected: bool
    """Whether ending nodes affect it."""
    wave: bool
    """Whether a cluster-wide wave is in progress."""
    allowance: int
    """Policy moves that may still be ordered now."""


class PolicyMoves:
    """Policy moves of one decision; the caller orders them."""

    def __init__(
        self, situation: ClusterView, now: float, calm: Collection[str], note: Callable[[str, str, str, str], None]
    ) -> None:
        """`calm_pools`: pools to which pods may return. `note`: takes uid of the workload, reason, message, count."""
        self.view, self.now, self.calm_pools = situation, now, calm
        self.limits, self.nodes = situation.limits, situation.cluster.nodes
        self._note = note

    def next_move(
        self, workload: Workload, found: MisplacedPods, standing: WorkloadMoveConditions
    ) -> tuple[Move | None, BlockReason | None]:
        """Return the move, or the reason for none; neither if no pod is misplaced."""
        if not found.total:
            return None, self._reason_without_candidate(workload, found, standing)
        why = self._limiting_reason(
            workload, standing, required_steady_time(found.victims[0], self.now, self.limits.evictions.cool_down_s)
        )
        if why is not None:
            return None, why
        if found.need > 0:
            return self._move_to_on_demand(workload, found)
        return self._move_to_spot(workload, found, standing.memory)

    def next_at_risk_move(self, workload: Workload, standing: WorkloadMoveConditions) -> Release | None:
        """Return a make-before-break move of a pod on an at-risk node, under the same limits."""
        if not any(self._is_at_risk(pod) for pod in workload.live_pods):
            return None
        if self._limiting_reason(workload, standing, self.limits.evictions.cool_down_s) is not None:
            return None
        around = self.view.constraints
        for pod in sorted(workload.live_pods, key=lambda each: each.key):
            if not self._is_at_risk(pod) or pod.uid in around.leaders:
                continue
            if release_refusal(workload.owner, pod, None, self.now, around, self.limits):
                continue
            if self.view.capacity.fits(pod, Capacity.SPOT) or self.view.capacity.fits(pod, Capacity.ON_DEMAND):
                return build_release(workload.owner, pod, None, self.now, Reason.AT_RISK)
        return None

    def _reason_without_candidate(
        self, workload: Workload, found: MisplacedPods, standing: WorkloadMoveConditions
    ) -> BlockReason:
        """Return why there is no candidate although the target is not met."""
        owner = workload.owner
        wanted = Capacity.ON_DEMAND if found.need > 0 else Capacity.SPOT
        if owner.pinned is None or owner.pinned is wanted:
            held = BlockReason.ROLLOUT if owner.rolling else BlockReason.HELD
            return self._limiting_reason(workload, standing, self.limits.evictions.cool_down_s) or held
        if wanted is Capacity.ON_DEMAND:
            message = f"more pods must be on demand, but {owner.conflict} allows only spot nodes"
            self._note(
                owner.uid,
                "PolicyConflict",
                message,
                format_count(found.need, "on-demand pod is", "on-demand pods are") + " missing",
            )
        return BlockReason.PINNED

    def _limiting_reason(
        self, workload: Workload, standing: WorkloadMoveConditions, cool_down_s: float
    ) -> BlockReason | None:
        """Return the first limit that forbids a policy move; None if none does."""
        memory = standing.memory
        if standing.moving or memory.moved:
            return BlockReason.IN_FLIGHT
        if self.now < memory.stopped_until:
            return BlockReason.STOPPED
        why = blocking_reason(
            workload,
            self.now,
            wave=standing.wave or (standing.affected and has_leaving_pods(workload, self.nodes)),
            overdue=is_wait_overdue(workload.owner, memory, self.now),
            disruptions_allowed=self.view.constraints.disruptions_allowed(workload.live_pods),
            cool_down_s=cool_down_s,
        )
        if why is not None:
            return why
        if not self._window_open:
            return BlockReason.WINDOW
        return BlockReason.BUDGET if standing.allowance < 1 else None

    @cached_property
    def _window_open(self) -> bool:
        """Cached for all workloads, because checking a long window takes milliseconds."""
        return any_window_open(self.limits.windows, self.now)

    def _move_to_on_demand(self, workload: Workload, found: MisplacedPods) -> tuple[Move | None, BlockReason | None]:
        """Move one more pod to on demand."""
        for pod in found.victims:
            if not (self.limits.on_demand_autoscaling or self.view.capacity.fits(pod, Capacity.ON_DEMAND)):
                continue
            reason = Reason.REPAIR if pod.pod_class is None else Reason.TO_ON_DEMAND
            return self._build_move(workload, pod, reason)
        return None, BlockReason.NO_ON_DEMAND_ROOM

    def _move_to_spot(
        self, workload: Workload, found: MisplacedPods, memory: WorkloadMemory
    ) -> tuple[Move | None, BlockReason | None]:
        """Move a pod back to spot, if spot nodes have free capacity and are calm."""
        if not self.limits.returns.enabled:
            return None, BlockReason.NOT_CALM
        wait = max(memory.return_wait_s, self.limits.returns.every_s)
        why = BlockReason.NO_SPOT_ROOM
        for pod in found.victims:
            back = pod.pod_class is not Capacity.ON_DEMAND
            if back and memory.returned_at is not None and self.now - memory.returned_at < wait:
                why = BlockReason.COOL_DOWN
                continue
            if back and not self._saving_pays_restart(pod):
                why = BlockReason.NOT_CALM
                continue
            if not self._fits_on_spot(pod):
                fits_somewhere = self.view.capacity.fits(pod, Capacity.SPOT)
                why = BlockReason.NOT_CALM if fits_somewhere else BlockReason.NO_SPOT_ROOM
                continue
            return self._build_move(workload, pod, Reason.RETURN if back else Reason.TO_SPOT)
        return None, why

    def _fits_on_spot(self, pod: PodFacts) -> bool:
        if self.view.capacity.fits(pod, Capacity.SPOT, pools=self.calm_pools):
            return True
        return self.limits.spot_autoscaling and not self.view.capacity.fits(pod, Capacity.SPOT)

    def _saving_pays_restart(self, pod: PodFacts) -> bool:
        """Return whether the saving pays the restart soon enough; true without a price."""
        node = self.nodes.get(pod.node)
        price = self.view.prices.price(node.instance_type, node.zone) if node is not None else None
        if node is None or price is None or not node.cpu_milli:
            return True
        discount, _ = self.view.prices.discount(node.instance_type, node.zone)
        share = pod.cpu_milli / node.cpu_milli
        hours = break_even_hours(self.limits.returns.restart_cost, price.on_demand, discount, share)
        return hours <= self.limits.returns.pays_within_s / 3600

    def _build_move(self, workload: Workload, pod: PodFacts, reason: Reason) -> tuple[Move | None, BlockReason | None]:
        """Return the order. An only pod is released, or evicted at once if it cannot be released.

        An only pod of a StatefulSet needs permission (P29). A configured window is open here. Rule: B20.
        """
        owner = workload.owner
        only = owner.replicas <= 1
        if only and not release_refusal(owner, pod, None, self.now, self.view.constraints, self.limits):
            return build_release(owner, pod, None, self.now, reason), None
        allowed = owner.annotations.get(ALLOW_RESTART) == "true" or bool(self.limits.windows)
        if only and owner.stateful and not allowed:
            return None, BlockReason.RESTART_NOT_ALLOWED
        return Evict(pod.key, pod.uid, owner.uid, reason), None

    def _is_at_risk(self, pod: PodFacts) -> bool:
        node = self.nodes.get(pod.node)
        return node is not None and node.state is NodeState.AT_RISK

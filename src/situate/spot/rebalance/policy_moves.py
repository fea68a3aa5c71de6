"""Moves that only policy requires: at most one pod of a workload, or the reason for no move.

Rules: B11, B13, B20, B22, B26, P29 and "Controller: pods to evict" in docs/spec/spot.md.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cached_property

from situate.objects.values.counts import counted
from situate.spot.model.actions import Evict, Move, Reason, Release
from situate.spot.model.maintenance_windows import any_open
from situate.spot.model.misplaced_pods import Blocked, Misplaced, Workload, gate, patience
from situate.spot.model.pods_nodes_workloads import ALLOW_RESTART, Capacity, NodeState, PodFacts
from situate.spot.nodes.savings import break_even_hours
from situate.spot.rebalance.decision import Situation
from situate.spot.rebalance.node_termination import leaving, release, release_refused
from situate.spot.rebalance.rollout_wait import overdue
from situate.spot.workloads.cluster_objects import Memory


@dataclass(frozen=True, slots=True)
class Standing:
    """State of a workload in this decision."""

    memory: Memory
    moving: bool
    """Whether an action has already been ordered for it."""
    struck: bool
    """Whether ending nodes affect it."""
    wave: bool
    """Whether a cluster-wide wave is in progress."""
    allowance: int
    """Policy moves that may still be ordered now."""


class PolicyMoves:
    """Policy moves of one decision; the caller orders them."""

    def __init__(
        self, situation: Situation, now: float, calm: Collection[str], note: Callable[[str, str, str, str], None]
    ) -> None:
        """`calm`: pools to which pods may return. `note`: takes uid of the workload, reason, message, count."""
        self.situation, self.now, self.calm = situation, now, calm
        self.limits, self.nodes = situation.limits, situation.cluster.nodes
        self._note = note

    def next_move(self, workload: Workload, found: Misplaced, standing: Standing) -> tuple[Move | None, Blocked | None]:
        """Return the move, or the reason for none; neither if no pod is misplaced."""
        if not found.total:
            return None, self._cannot(workload, found, standing)
        why = self._gate(workload, standing, patience(found.victims[0], self.now, self.limits.cool_down_s))
        if why is not None:
            return None, why
        if found.need > 0:
            return self._up(workload, found)
        return self._down(workload, found, standing.memory)

    def at_risk(self, workload: Workload, standing: Standing) -> Release | None:
        """Return a make-before-break move of a pod on an at-risk node, under the same limits."""
        if not any(self._risky(pod) for pod in workload.live):
            return None
        if self._gate(workload, standing, self.limits.cool_down_s) is not None:
            return None
        around = self.situation.around
        for pod in sorted(workload.live, key=lambda each: each.key):
            if not self._risky(pod) or pod.uid in around.leaders:
                continue
            if release_refused(workload.owner, pod, None, self.now, around, self.limits):
                continue
            if self.situation.room.fits(pod, Capacity.SPOT) or self.situation.room.fits(pod, Capacity.ON_DEMAND):
                return release(workload.owner, pod, None, self.now, Reason.AT_RISK)
        return None

    def _cannot(self, workload: Workload, found: Misplaced, standing: Standing) -> Blocked:
        """Return why there is no candidate although the target is not met."""
        owner = workload.owner
        wanted = Capacity.ON_DEMAND if found.need > 0 else Capacity.SPOT
        if owner.pinned is None or owner.pinned is wanted:
            held = Blocked.ROLLOUT if owner.rolling else Blocked.HELD
            return self._gate(workload, standing, self.limits.cool_down_s) or held
        if wanted is Capacity.ON_DEMAND:
            message = f"more pods must be on demand, but {owner.conflict} allows only spot nodes"
            self._note(
                owner.uid,
                "PolicyConflict",
                message,
                counted(found.need, "on-demand pod is", "on-demand pods are") + " missing",
            )
        return Blocked.PINNED

    def _gate(self, workload: Workload, standing: Standing, cool_down_s: float) -> Blocked | None:
        """Return the first limit that forbids a policy move; None if none does."""
        memory = standing.memory
        if standing.moving or memory.moved:
            return Blocked.IN_FLIGHT
        if self.now < memory.stopped_until:
            return Blocked.STOPPED
        why = gate(
            workload,
            self.now,
            wave=standing.wave or (standing.struck and leaving(workload, self.nodes)),
            overdue=overdue(workload.owner, memory, self.now),
            disruptions_allowed=self.situation.around.disruptions_allowed(workload.live),
            cool_down_s=cool_down_s,
        )
        if why is not None:
            return why
        if not self._window_open:
            return Blocked.WINDOW
        return Blocked.BUDGET if standing.allowance < 1 else None

    @cached_property
    def _window_open(self) -> bool:
        """Cached for all workloads, because checking a long window takes milliseconds."""
        return any_open(self.limits.windows, self.now)

    def _up(self, workload: Workload, found: Misplaced) -> tuple[Move | None, Blocked | None]:
        """Move one more pod to on demand."""
        for pod in found.victims:
            if not (self.limits.on_demand_autoscaling or self.situation.room.fits(pod, Capacity.ON_DEMAND)):
                continue
            reason = Reason.REPAIR if pod.pod_class is None else Reason.TO_ON_DEMAND
            return self._moved(workload, pod, reason)
        return None, Blocked.NO_ON_DEMAND_ROOM

    def _down(self, workload: Workload, found: Misplaced, memory: Memory) -> tuple[Move | None, Blocked | None]:
        """Move a pod back to spot, if spot nodes have free capacity and are calm."""
        if not self.limits.returns:
            return None, Blocked.NOT_CALM
        wait = max(memory.return_wait_s, self.limits.return_every_s)
        why = Blocked.NO_SPOT_ROOM
        for pod in found.victims:
            back = pod.pod_class is not Capacity.ON_DEMAND
            if back and memory.returned_at is not None and self.now - memory.returned_at < wait:
                why = Blocked.COOL_DOWN
                continue
            if back and not self._pays(pod):
                why = Blocked.NOT_CALM
                continue
            if not self._spot_fits(pod):
                fits_somewhere = self.situation.room.fits(pod, Capacity.SPOT)
                why = Blocked.NOT_CALM if fits_somewhere else Blocked.NO_SPOT_ROOM
                continue
            return self._moved(workload, pod, Reason.RETURN if back else Reason.TO_SPOT)
        return None, why

    def _spot_fits(self, pod: PodFacts) -> bool:
        if self.situation.room.fits(pod, Capacity.SPOT, pools=self.calm):
            return True
        return self.limits.spot_autoscaling and not self.situation.room.fits(pod, Capacity.SPOT)

    def _pays(self, pod: PodFacts) -> bool:
        """Return whether the saving pays the restart soon enough; true without a price."""
        node = self.nodes.get(pod.node)
        price = self.situation.prices.price(node.instance_type, node.zone) if node is not None else None
        if node is None or price is None or not node.cpu_milli:
            return True
        discount, _ = self.situation.prices.discount(node.instance_type, node.zone)
        share = pod.cpu_milli / node.cpu_milli
        hours = break_even_hours(self.limits.restart_cost, price.on_demand, discount, share)
        return hours <= self.limits.pays_within_h

    def _moved(self, workload: Workload, pod: PodFacts, reason: Reason) -> tuple[Move | None, Blocked | None]:
        """Return the order. An only pod is released, or evicted at once if it cannot be released.

        An only pod of a StatefulSet needs permission (P29). A configured window is open here. Rule: B20.
        """
        owner = workload.owner
        only = owner.replicas <= 1
        if only and not release_refused(owner, pod, None, self.now, self.situation.around, self.limits):
            return release(owner, pod, None, self.now, reason), None
        allowed = owner.annotations.get(ALLOW_RESTART) == "true" or bool(self.limits.windows)
        if only and owner.stateful and not allowed:
            return None, Blocked.RESTART_NOT_ALLOWED
        return Evict(pod.key, pod.uid, owner.uid, reason), None

    def _risky(self, pod: PodFacts) -> bool:
        node = self.nodes.get(pod.node)
        return node is not None and node.state is NodeState.AT_RISK

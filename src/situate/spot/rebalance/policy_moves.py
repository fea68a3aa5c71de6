"""What policy alone would move now, one pod of a workload at most, and why nothing (3.7, B11, B13, B22, B26, P29)."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cached_property

from situate.spot.model.actions import Evict, Move, Reason, Release
from situate.spot.model.maintenance_windows import any_open
from situate.spot.model.misplaced import Blocked, Misplaced, Workload, gate, patience
from situate.spot.model.pods_nodes_workloads import ALLOW_RESTART, Capacity, NodeState, PodFacts
from situate.spot.nodes.savings import break_even_hours
from situate.spot.rebalance.decision import Situation
from situate.spot.rebalance.node_termination import leaving, release, release_refused
from situate.spot.rebalance.rollout_wait import overdue
from situate.spot.workloads.cluster_view import Memory


@dataclass(frozen=True, slots=True)
class Standing:
    """How a workload stands in this decision."""

    memory: Memory
    moving: bool
    """Whether something has been ordered for it already."""
    struck: bool
    """Whether nodes that end have to do with it."""
    wave: bool
    """For all."""
    allowance: int
    """Moves by policy that may still be ordered now."""


class PolicyMoves:
    """Of one decision; it orders nothing itself."""

    def __init__(
        self, situation: Situation, now: float, calm: Collection[str], note: Callable[[str, str, str, str], None]
    ) -> None:
        """`calm`: pools that may be returned to. `note`: uid of the workload, reason, message, how much."""
        self.situation, self.now, self.calm = situation, now, calm
        self.limits, self.nodes = situation.limits, situation.cluster.nodes
        self._note = note

    def next_move(self, workload: Workload, found: Misplaced, standing: Standing) -> tuple[Move | None, Blocked | None]:
        """The move, or why there is none; neither if nothing is wrong."""
        if not found.total:
            return None, self._cannot(workload, found, standing)
        why = self._gate(workload, standing, patience(found.victims[0], self.now, self.limits.cool_down_s))
        if why is not None:
            return None, why
        if found.need > 0:
            return self._up(workload, found)
        return self._down(workload, found, standing.memory)

    def at_risk(self, workload: Workload, standing: Standing) -> Release | None:
        """A pod whose node may be reclaimed soon moves make-before-break, under the same limits."""
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
        """Why nobody is a candidate although something is amiss."""
        owner = workload.owner
        wanted = Capacity.ON_DEMAND if found.need > 0 else Capacity.SPOT
        if owner.pinned is None or owner.pinned is wanted:
            held = Blocked.ROLLOUT if owner.rolling else Blocked.HELD
            return self._gate(workload, standing, self.limits.cool_down_s) or held
        if wanted is Capacity.ON_DEMAND:
            message = f"more pods have to be on demand, and {owner.conflict} allows spot nodes only"
            self._note(owner.uid, "PolicyConflict", message, f"{found.need} are missing")
        return Blocked.PINNED

    def _gate(self, workload: Workload, standing: Standing, cool_down_s: float) -> Blocked | None:
        """All limits on what only policy asks for."""
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
        """The same for all workloads, and a look at a long window takes milliseconds."""
        return any_open(self.limits.windows, self.now)

    def _up(self, workload: Workload, found: Misplaced) -> tuple[Move | None, Blocked | None]:
        """Another pod has to be on demand."""
        for pod in found.victims:
            if not (self.limits.on_demand_autoscaling or self.situation.room.fits(pod, Capacity.ON_DEMAND)):
                continue
            reason = Reason.REPAIR if pod.pod_class is None else Reason.TO_ON_DEMAND
            return self._moved(workload, pod, reason)
        return None, Blocked.NO_ON_DEMAND_ROOM

    def _down(self, workload: Workload, found: Misplaced, memory: Memory) -> tuple[Move | None, Blocked | None]:
        """A pod may go back to spot, if spot has room and is calm."""
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
        """The order. An only pod moves make-before-break, and where that is not used at once, as B20 says; that of a
        StatefulSet waits for leave (P29). Windows are open by now.
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

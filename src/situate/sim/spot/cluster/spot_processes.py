"""The webhook and the controller of spot in a simulated cluster: the shipped `admit` and `decide`, with their effects.

The controller decides shortly after each change, and at the times that a decision requests. Without a wave it polls a
little less often than the shipped one, which affects only the time of a run.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from situate.sim.spot.cluster.shapes import NAMESPACE
from situate.sim.spot.cluster.world import PodCreation, SpotWorld
from situate.sim.spot.policies import Policy, Reaction
from situate.sim.spot.results.account import EndCause
from situate.sim.timeline import ScheduledCall
from situate.spot.admission.admit import AdmissionView, LiveRead, NeedsRead, PodRequest, admit
from situate.spot.admission.ledger import Ledger
from situate.spot.admission.patch import Operation
from situate.spot.capacity.free_capacity import FreeCapacity
from situate.spot.config.settings import SpotSettings
from situate.spot.model.actions import (
    POLICY_REASONS,
    Action,
    Delete,
    Evict,
    Reason,
    Release,
    SetCost,
    ShortenTolerations,
)
from situate.spot.model.pods_nodes_workloads import Capacity, PodFacts
from situate.spot.model.policy_limits import Limits, ReturnConditions
from situate.spot.rebalance.decide import ClusterView, State, decide
from situate.spot.rebalance.node_termination import nodes_to_avoid
from situate.spot.workloads.on_demand_target import TargetRules

_QUIET_POLL_S: Final = 60.0
_SOONEST_S: Final = 1.0
"""Minimum seconds between two decisions, as in the shipped controller (`moving.SOONEST_S`)."""
_END_SOONEST_S: Final = 0.1
"""The same if the time of a pod is over (`moving.END_SOONEST_S`)."""
_FOR_WAVES: Final = frozenset((Reason.EVACUATE, Reason.DEAD_NODE, Reason.REPLACED, Reason.ORPHANED))


def settings_of(policy: Policy, *, autoscaling: bool, start_s: float) -> SpotSettings:
    """Return the configuration of a policy."""
    return SpotSettings(
        eviction_toleration_s=20.0 if policy.reacts else None,
        make_before_break=policy.reaction is Reaction.RELEASE,
        returns=ReturnConditions(enabled=policy.returns),
        autoscaling=autoscaling,
        start_s=start_s,
    )


@dataclass(slots=True)
class SimulatedCapacity(FreeCapacity):
    """Free capacity, answered by the simulated cluster's scheduler."""

    world: SpotWorld

    def fits(
        self,
        pod: PodFacts,
        capacity: Capacity,
        *,
        without: PodFacts | None = None,
        pools: Collection[str] | None = None,
    ) -> bool:
        return self.world.fits(pod, capacity, without, pools)


@dataclass(slots=True)
class SimulatedSpot:
    """spot in a simulated world. It admits pods, and decides once it is woken."""

    world: SpotWorld
    settings: SpotSettings
    reacts: bool
    """Whether it reacts to nodes that end."""
    rules: TargetRules
    limits: Limits
    state: State = field(default_factory=State)
    ledger: Ledger = field(default_factory=Ledger.empty)
    _due: ScheduledCall | None = None
    _decided_at: float = -math.inf

    @classmethod
    def install(cls, world: SpotWorld, settings: SpotSettings, reacts: bool) -> SimulatedSpot:
        return cls(world, settings, reacts, settings.rules(), settings.limits())

    def __post_init__(self) -> None:
        self.world.admit = self.admit
        self.world.on_change = self.wake

    def fork(self, world: SpotWorld) -> SimulatedSpot:
        return replace(self, world=world, _due=None)

    def admit(self, birth: PodCreation, token: str) -> Sequence[Operation]:
        """Return the operations on a new pod."""
        world = self.world
        cluster = world.cluster()
        doomed = nodes_to_avoid(cluster.nodes.values())
        view = AdmissionView(cluster, self.settings.admission_settings(1, doomed), self.state.memories)
        request = PodRequest(NAMESPACE, birth.document)
        answered = admit(request, view, self.ledger, world.now, token)
        if isinstance(answered, NeedsRead):
            replica_set = cluster.replica_sets.get(birth.controller)
            pods = tuple(pod for pod in world.pods_of(birth.owner.uid) if pod.controller == birth.controller)
            live = AdmissionView(cluster, view.settings, view.memories, LiveRead(birth.owner, replica_set, pods))
            answered = admit(request, live, self.ledger, world.now, token)
        assert not isinstance(answered, NeedsRead), "admission requests a second live read"
        answer, self.ledger = answered
        return answer.operations

    def wake(self) -> None:
        """Plan a decision after a change."""
        self._decide_at(max(self.world.now + self.world.delays.react_s, self._decided_at + _SOONEST_S))

    def _decide_at(self, when: float) -> None:
        if self._due is not None:
            if self._due.call is not None and self._due.when <= when:
                return
            self._due.cancel()
        self._due = self.world.timeline.call_at(when, self._decide)

    def _decide(self) -> None:
        world = self.world
        self._decided_at = world.now
        cluster = world.cluster()
        for slot in list(self.ledger.reservations):
            pods = [pod for pod in world.pods_of(slot.owner) if pod.revision == slot.revision]
            self.ledger = self.ledger.without_settled_entries(slot, pods, world.now)
        situation = ClusterView(cluster, SimulatedCapacity(world), self.rules, self.limits)
        decision = decide(self.state, situation, world.now)
        self.state = decision.state
        for action in decision.actions:
            self._perform(action)
        if decision.requeue_after is not None:
            quiet = 0.0 if decision.wave and self.reacts else _QUIET_POLL_S
            self._decide_at(world.now + max(quiet, _END_SOONEST_S, decision.requeue_after))

    def _perform(self, action: Action) -> None:
        pod = self.world.pods.get(action.uid)
        if pod is None or pod.facts.terminating:
            return
        match action:
            case SetCost(cost=cost):
                self.world.set_fields(pod, cost=cost)
            case ShortenTolerations(keys=keys, seconds=seconds):
                shorter = tuple((key, seconds if key in keys else was) for key, was in pod.facts.evicting)
                self.world.set_fields(pod, evicting=shorter)
            case Evict() | Delete() | Release():
                if action.reason in _FOR_WAVES and not self.reacts:
                    return
                if isinstance(action, Release):
                    self.world.release(action.uid, action.deadline)
                else:
                    self.world.delete(action.uid, EndCause.MOVED if action.reason in POLICY_REASONS else EndCause.WAVE)

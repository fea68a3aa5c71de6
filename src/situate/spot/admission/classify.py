"""Class of the next pod of a workload.

A pod of a Deployment is on demand while its revision has fewer on-demand pods, seen or reserved, than the target. A pod
of a StatefulSet gets its class by its ordinal and needs no count. Terminating pods never count, so a scale-up, a
replacement and a rollout are one case. Rules: P15, P16, P20 and "Classification at admission" in docs/spec/spot.md.

If the API server refuses the create after the answer, the reservation has no pod (K3). The leader does not learn this
at once. A ReplicaSet creates the next batch only after the previous batch is complete (K1). So while one of its pods
waits for an answer, the reservations older than the request are fulfilled or void. If a pod would be spot only because
of such reservations, it waits. The wait ends when their pods are seen. It also ends when the youngest reservation is
`ARRIVAL_S` old: then a live read shows its pod, or the pod never comes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from situate.spot.admission.ledger import ARRIVAL_S, Ledger, Reservation, Slot, missing_on_demand
from situate.spot.model.counts import Nodes, counted_pods, effective_on_demand_count
from situate.spot.model.pods_nodes_workloads import Capacity, Owner, PodFacts


class ClassReason(StrEnum):
    """Reason for the class of a pod."""

    BELOW_TARGET = "below-target"
    TARGET_MET = "target-met"
    ORDINAL_BELOW_TARGET = "ordinal-below-target"
    ORDINAL_ABOVE_TARGET = "ordinal-above-target"
    SURGE_AS_SPOT = "surge-as-spot"
    """The revision's surplus goes to spot because on-demand nodes are full (B17)."""
    IN_DOUBT = "in-doubt"
    """One on-demand pod too many can be corrected; one too few breaks the floor (P5)."""
    RESERVED = "reserved"
    """An earlier decision exists."""
    DEGRADED = "degraded"
    """On-demand nodes have been full for long: the pod prefers them and does not require them (B18)."""
    PINNED = "pinned"
    """The user's own constraints allow only this class."""


@dataclass(frozen=True, slots=True)
class ReplicaSetView:
    """The ReplicaSet of a new pod: its uid and the number of pods that it wants."""

    uid: str
    replicas: int
    live: bool = False
    """Whether this and the pods come from one live read."""


@dataclass(frozen=True, slots=True)
class Demand:
    """All inputs of the class of the next pod."""

    owner: Owner
    target: int
    revision: str
    pods: Sequence[PodFacts]
    """The workload's pods of all revisions, terminating pods included."""
    replica_set: ReplicaSetView | None = None
    """None if it is unknown or does not exist; then the slot rule does not apply."""
    name: str = ""
    """Name of the new pod; empty if the API server generates it later."""
    surge_as_spot: bool = False
    """Whether the revision is in the state surge-as-spot."""
    unreadable: bool = False
    """Whether a live read was needed and failed."""
    requested_at: float = math.inf
    """When the request of the new pod came. Reservations made later belong to its own batch."""

    @property
    def slot(self) -> Slot:
        return Slot(self.owner.uid, self.revision)

    def pods_of_revision(self) -> list[PodFacts]:
        """Return all pods of the revision, counted or not."""
        return [pod for pod in self.pods if pod.revision == self.revision]


@dataclass(frozen=True, slots=True)
class Classification:
    pod_class: Capacity
    why: ClassReason
    on_demand: int
    """On-demand pods counted, reservations included."""


@dataclass(frozen=True, slots=True)
class StaleView:
    """The view is unreliable: read the ReplicaSet and its pods live, then classify again."""

    not_before: float
    """Earlier reads show nothing new; until then the watch may show the missing pods."""


def classify(demand: Demand, nodes: Nodes, ledger: Ledger, now: float) -> Classification | StaleView:
    """Return the class of the next pod; records nothing."""
    if demand.owner.stateful:
        return _classify_by_ordinal(demand, nodes)
    pods = demand.pods_of_revision()
    most: int | None = None
    if demand.replica_set is not None:
        slots, unmatched = _open_slots(demand, demand.replica_set, ledger, now)
        crowded = slots <= 0 or len(unmatched) >= slots
        if crowded and demand.unreadable:
            return Classification(
                Capacity.ON_DEMAND, ClassReason.IN_DOUBT, effective_on_demand_count(counted_pods(pods), nodes)
            )
        if crowded and demand.replica_set.live:
            most = max(0, slots - 1)
        promises = _reservations_relied_on(demand, unmatched, nodes, ledger, now, most)
        settled_at = max((each.decided_at for each in promises), default=-math.inf) + ARRIVAL_S
        if promises and demand.unreadable and settled_at <= now:
            ledger = ledger.without_reservations(demand.slot, promises)
        elif promises:
            return StaleView(settled_at)
        elif crowded and not demand.replica_set.live:
            return StaleView(now)
    lacking = missing_on_demand(ledger, demand.slot, demand.target, pods, nodes, now, most)
    have = demand.target - lacking
    if not lacking:
        return Classification(Capacity.SPOT, ClassReason.TARGET_MET, have)
    if demand.surge_as_spot and _on_demand_all_revisions(demand, nodes, ledger, now) >= demand.target:
        return Classification(Capacity.SPOT, ClassReason.SURGE_AS_SPOT, have)
    return Classification(Capacity.ON_DEMAND, ClassReason.BELOW_TARGET, have)


def _open_slots(
    demand: Demand, replica_set: ReplicaSetView, ledger: Ledger, now: float
) -> tuple[int, list[Reservation]]:
    """Return the number of pods that the ReplicaSet lacks, and its reservations without a seen pod."""
    own = [pod for pod in demand.pods if pod.controller == replica_set.uid]
    unmatched = [
        entry
        for entry in ledger.unmatched_reservations(demand.slot, demand.pods_of_revision(), now)
        if entry.replica_set in ("", replica_set.uid)
    ]
    return replica_set.replicas - sum(pod.active for pod in own), unmatched


def _reservations_relied_on(
    demand: Demand, unmatched: Sequence[Reservation], nodes: Nodes, ledger: Ledger, now: float, most: int | None
) -> list[Reservation]:
    """Return earlier on-demand reservations of the ReplicaSet if only they make the next pod spot, else none."""
    promises = [
        entry
        for entry in unmatched
        if entry.replica_set and entry.pod_class is Capacity.ON_DEMAND and entry.decided_at <= demand.requested_at
    ]

    pods = demand.pods_of_revision()

    def lacking(doubted: int) -> int:
        return missing_on_demand(ledger, demand.slot, demand.target, pods, nodes, now, most, doubted)

    return promises if promises and not lacking(0) and lacking(len(promises)) else []


def _on_demand_all_revisions(demand: Demand, nodes: Nodes, ledger: Ledger, now: float) -> int:
    """Count on-demand pods over all revisions, plus the reservations of this revision."""
    promised = ledger.open_on_demand_count(demand.slot, demand.pods_of_revision(), now)
    return effective_on_demand_count(counted_pods(demand.pods), nodes) + promised


def _classify_by_ordinal(demand: Demand, nodes: Nodes) -> Classification:
    ordinal = demand.owner.ordinal(demand.name)
    have = effective_on_demand_count(counted_pods(demand.pods), nodes)
    if ordinal is None:
        return Classification(Capacity.ON_DEMAND, ClassReason.IN_DOUBT, have)
    if ordinal < demand.target:
        return Classification(Capacity.ON_DEMAND, ClassReason.ORDINAL_BELOW_TARGET, have)
    return Classification(Capacity.SPOT, ClassReason.ORDINAL_ABOVE_TARGET, have)

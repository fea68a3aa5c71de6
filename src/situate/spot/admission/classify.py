"""The class of the next pod of a workload (3.4 of the reference, P15, P16, P20).

A Deployment's pod is on demand while its revision has fewer on-demand pods, seen or promised, than the target; a
StatefulSet's by its ordinal, which needs no count. Terminating pods count nowhere, so a scale-up, a replacement and a
rollout are one case.

A promise is broken if the create is refused after our answer (K3), which nobody tells at once. A ReplicaSet creates the
next batch when the one before is done with (K1): while one of its pods waits for our answer, whatever was promised
before it came is kept or broken. So a pod that would be spot only thanks to such promises waits until their pods are
seen, or until the youngest is so old that a live read shows its pod or it never comes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from situate.spot.admission.ledger import ARRIVED_S, Ledger, Reservation, Slot, missing
from situate.spot.model.counts import Nodes, counted, on_demand_effective
from situate.spot.model.pods_nodes_workloads import Capacity, Owner, PodFacts


class Why(StrEnum):
    """Why a pod got its class."""

    BELOW_TARGET = "below-target"
    TARGET_MET = "target-met"
    ORDINAL_BELOW_TARGET = "ordinal-below-target"
    ORDINAL_ABOVE_TARGET = "ordinal-above-target"
    SURGE_AS_SPOT = "surge-as-spot"
    """The revision's surplus goes to spot, since on demand has no room for it (B17)."""
    IN_DOUBT = "in-doubt"
    """One on demand too many is corrected, one too few breaks the floor (P5)."""
    RESERVED = "reserved"
    """It has been decided before."""
    DEGRADED = "degraded"
    """On demand has had no room for long: it would rather stand there, and need not (B18)."""
    PINNED = "pinned"
    """The user's own constraints allow nothing else."""


@dataclass(frozen=True, slots=True)
class ReplicaSetView:
    """The ReplicaSet of a new pod: how many pods it wants, and how many it is seen to have."""

    uid: str
    replicas: int
    live: bool = False
    """Whether this was read live, with the pods of the same read."""


@dataclass(frozen=True, slots=True)
class Demand:
    """All that the class of the next pod depends on."""

    owner: Owner
    target: int
    revision: str
    pods: Sequence[PodFacts]
    """The workload's, of all revisions, also those that are ending."""
    replica_set: ReplicaSetView | None = None
    """None where it is not known, or there is none: then the slot rule says nothing."""
    name: str = ""
    """The new pod's; empty where the server makes one later."""
    surge_as_spot: bool = False
    """Whether the revision is in that state."""
    unreadable: bool = False
    """Whether a live read was needed and failed."""
    asked_at: float = math.inf
    """When the new pod came: promises that were made later are of its own batch."""

    @property
    def slot(self) -> Slot:
        return Slot(self.owner.uid, self.revision)

    def of_revision(self) -> list[PodFacts]:
        """All pods of the revision, counted or not."""
        return [pod for pod in self.pods if pod.revision == self.revision]


@dataclass(frozen=True, slots=True)
class Classified:
    pod_class: Capacity
    why: Why
    on_demand: int
    """Pods on demand that were counted, with those that are promised."""


@dataclass(frozen=True, slots=True)
class StaleView:
    """The view cannot be relied on: the ReplicaSet and its pods have to be read live, then it is asked again (P20)."""

    not_before: float
    """The read shows nothing new before then; until then the watch may show what is missed."""


def classify(demand: Demand, nodes: Nodes, ledger: Ledger, now: float) -> Classified | StaleView:
    """The class of the next pod; nothing is remembered here."""
    if demand.owner.stateful:
        return _by_ordinal(demand, nodes)
    pods = demand.of_revision()
    most: int | None = None
    if demand.replica_set is not None:
        slots, unmatched = _slots(demand, demand.replica_set, ledger, now)
        crowded = slots <= 0 or len(unmatched) >= slots
        if crowded and demand.unreadable:
            return Classified(Capacity.ON_DEMAND, Why.IN_DOUBT, on_demand_effective(counted(pods), nodes))
        if crowded and demand.replica_set.live:
            most = max(0, slots - 1)
        promises = _relied_on(demand, unmatched, nodes, ledger, now, most)
        settled_at = max((each.decided_at for each in promises), default=-math.inf) + ARRIVED_S
        if promises and demand.unreadable and settled_at <= now:
            ledger = ledger.without(demand.slot, promises)
        elif promises:
            return StaleView(settled_at)
        elif crowded and not demand.replica_set.live:
            return StaleView(now)
    lacking = missing(ledger, demand.slot, demand.target, pods, nodes, now, most)
    have = demand.target - lacking
    if not lacking:
        return Classified(Capacity.SPOT, Why.TARGET_MET, have)
    if demand.surge_as_spot and _everywhere(demand, nodes, ledger, now) >= demand.target:
        return Classified(Capacity.SPOT, Why.SURGE_AS_SPOT, have)
    return Classified(Capacity.ON_DEMAND, Why.BELOW_TARGET, have)


def _slots(demand: Demand, replica_set: ReplicaSetView, ledger: Ledger, now: float) -> tuple[int, list[Reservation]]:
    """How many pods the ReplicaSet still lacks, and the answers for it whose pods have not been seen."""
    own = [pod for pod in demand.pods if pod.controller == replica_set.uid]
    unmatched = [
        entry
        for entry in ledger.unmatched(demand.slot, demand.of_revision(), now)
        if entry.replica_set in ("", replica_set.uid)
    ]
    return replica_set.replicas - sum(pod.active for pod in own), unmatched


def _relied_on(
    demand: Demand, unmatched: Sequence[Reservation], nodes: Nodes, ledger: Ledger, now: float, most: int | None
) -> list[Reservation]:
    """Earlier promises to the ReplicaSet, if the next pod is spot with them and on demand without; none otherwise."""
    promises = [
        entry
        for entry in unmatched
        if entry.replica_set and entry.pod_class is Capacity.ON_DEMAND and entry.decided_at <= demand.asked_at
    ]

    pods = demand.of_revision()

    def lacking(doubted: int) -> int:
        return missing(ledger, demand.slot, demand.target, pods, nodes, now, most, doubted)

    return promises if promises and not lacking(0) and lacking(len(promises)) else []


def _everywhere(demand: Demand, nodes: Nodes, ledger: Ledger, now: float) -> int:
    """On demand over all revisions, with what is promised to this one."""
    promised = ledger.open_on_demand(demand.slot, demand.of_revision(), now)
    return on_demand_effective(counted(demand.pods), nodes) + promised


def _by_ordinal(demand: Demand, nodes: Nodes) -> Classified:
    ordinal = demand.owner.ordinal(demand.name)
    have = on_demand_effective(counted(demand.pods), nodes)
    if ordinal is None:
        return Classified(Capacity.ON_DEMAND, Why.IN_DOUBT, have)
    if ordinal < demand.target:
        return Classified(Capacity.ON_DEMAND, Why.ORDINAL_BELOW_TARGET, have)
    return Classified(Capacity.SPOT, Why.ORDINAL_ABOVE_TARGET, have)

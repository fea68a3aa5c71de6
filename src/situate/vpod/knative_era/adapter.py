"""The reference profile of v0.43.0 on the current `State`, which calls the procedures of this package.

These procedures know Pods by name and rebuild their own state on every call, as that version does. The safe profile
does not use this module.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from situate.vpod.knative_era.scale import era_compaction, era_replicas
from situate.vpod.knative_era.schedule import MaxFillUp, PredicatesAndPriorities, era_decision
from situate.vpod.knative_era.state import EraCluster, EraState, era_state
from situate.vpod.model.options import PolicyName
from situate.vpod.model.pod_classes import NodeFacts
from situate.vpod.model.vpod import Key, Placement, Placements, VPod, pod_name
from situate.vpod.state.state import State


def reproduces_knative(state: State) -> bool:
    """Return whether this profile and policy reproduce v0.43.0."""
    return not state.options.safe and state.options.policy is not PolicyName.SPREAD


@dataclass(frozen=True, slots=True)
class EraAnswer:
    """Placements, vreplicas left over, and the reservations afterwards by ordinal."""

    placements: Placements
    left: int
    reservation: dict[int, int]
    others: dict[Key, dict[int, int]]
    """Reservations of other vpods that the call changes: committed ones and those of unlisted vpods go."""


def schedule_vpod(state: State, vpod: VPod) -> EraAnswer:
    before = _reservations(state)
    decided = era_decision(_era_cluster(state), _listed_vpods(state), before, vpod, _era_mode(state))
    others = {
        key: _reservations_by_ordinal(state, decided.reserved.get(key, {}))
        for key, by_pod in before.items()
        if key != vpod.key and decided.reserved.get(key) != by_pod
    }
    return EraAnswer(
        decided.placements, decided.left, _reservations_by_ordinal(state, decided.reserved.get(vpod.key, {})), others
    )


def _reservations_by_ordinal(state: State, reserved: Mapping[str, int]) -> dict[int, int]:
    found = ((state.ordinal(name), vreplicas) for name, vreplicas in reserved.items())
    return dict(sorted((ordinal, vreplicas) for ordinal, vreplicas in found if ordinal is not None))


def era_replica_count(state: State, may_shrink: bool) -> int:
    """Return the replicas that one round of the autoscaler asks for."""
    return era_replicas(_era_state(state), _era_mode(state), may_shrink)


def compaction_evictions(state: State) -> list[tuple[Key, Placement]]:
    """Return the placements that compaction evicts, in order."""
    return era_compaction(_era_state(state), _listed_vpods(state), _era_mode(state))


def _era_mode(state: State) -> MaxFillUp | PredicatesAndPriorities:
    options = state.options
    if options.policy is PolicyName.PACK:
        return MaxFillUp()
    return PredicatesAndPriorities(options.placing, options.removing)


def _era_cluster(state: State) -> EraCluster:
    options = state.options
    pods = tuple(slot.pod for _, slot in sorted(state.slots.items()) if slot.pod is not None)
    nodes = tuple(node for _, node in sorted(state.nodes.items()))
    if not state.nodes_known:  # unknown nodes count as healthy, and all are in one zone
        nodes = tuple(NodeFacts(name) for name in sorted({pod.node for pod in pods if pod.node}))
    return EraCluster(options.statefulset_name, state.replicas, options.capacity, pods, nodes)


def _listed_vpods(state: State) -> list[VPod]:
    return [entry.as_vpod() for entry in state.vpods.values() if entry.listed]


def _reservations(state: State) -> dict[Key, dict[str, int]]:
    name = state.options.statefulset_name
    return {
        entry.key: {pod_name(name, ordinal): vreplicas for ordinal, vreplicas in entry.reserved.items()}
        for entry in state.vpods.values()
        if entry.reserved is not None
    }


def _era_state(state: State) -> EraState:
    return era_state(_era_cluster(state), _listed_vpods(state), _reservations(state))[0]

"""The state of the policy era: free capacity of each Pod and Pods of each vpod, with reservations merged in.

The rules are in "State" of `docs/spec/vpod.md`. A reservation is a decision that the status possibly does not show yet,
so the state counts it instead of the status. A reservation equal to the status is committed and dropped. Upstream:
pkg/scheduler/state/state.go of knative/eventing v0.43.0, with D10 to D12 and D22 applied.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field, replace

from situate.vpod.model.pod_classes import NodeFacts, PodFacts, is_true
from situate.vpod.model.vpod import UNKNOWN_ZONE, Key, Placement, Placements, VPod, ordinal_of, total_vreplicas

# Vreplicas by pod name by vpod.
Reservations = Mapping[Key, Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class EraCluster:
    """The part of the input that does not depend on any vpod."""

    statefulset: str
    replicas: int
    capacity: int
    pods: tuple[PodFacts, ...] = ()
    nodes: tuple[NodeFacts, ...] = ()

    def zones_by_node(self) -> dict[str, str]:
        """Return the zone of each node. Cordoned and unreachable nodes do not count; Pods on them are unschedulable."""
        return {
            node.name: node.zone or UNKNOWN_ZONE
            for node in self.nodes
            if not node.unschedulable and not node.unreachable
        }

    def nodes_by_schedulable_pod(self, known_nodes: Container[str]) -> dict[int, str]:
        """Return, by ordinal below `replicas`, the nodes of Pods that are bound to a known node and not annotated."""
        nodes: dict[int, str] = {}
        for pod in self.pods:
            ordinal = ordinal_of(pod.name, self.statefulset)
            known = pod.node in known_nodes  # D22: an unknown node affects only its own Pods
            if ordinal is not None and ordinal < self.replicas and known and not is_true(pod.annotation):
                nodes[ordinal] = pod.node
        return nodes


@dataclass(frozen=True, slots=True)
class EraState:
    """The state of one call. `free` is sparse: an ordinal without an entry has `capacity`."""

    cluster: EraCluster
    zone_of_node: Mapping[str, str]
    node_of_pod: Mapping[int, str]  # of schedulable pods
    free: dict[int, int]  # by ordinal; negative where overcommitted
    pod_spread: dict[Key, Mapping[int, int]]  # vreplicas by ordinal, schedulable Pods only, with zeros
    pending: dict[Key, int]
    expected: dict[Key, int]

    @property
    def schedulable_pods(self) -> tuple[int, ...]:
        return tuple(sorted(self.node_of_pod))

    @property
    def last_ordinal(self) -> int:
        return max(self.free, default=-1)

    def free_at(self, ordinal: int) -> int:
        return self.free.get(ordinal, self.cluster.capacity)

    def free_capacity(self) -> int:
        return sum(self.free_at(ordinal) for ordinal in self.node_of_pod)

    def node_spread(self, key: Key) -> dict[str, int]:
        spread: dict[str, int] = {}
        for ordinal, vreplicas in self.pod_spread.get(key, {}).items():
            node = self.node_of_pod[ordinal]
            spread[node] = spread.get(node, 0) + vreplicas
        return spread

    def zone_spread(self, key: Key) -> dict[str, int]:
        spread: dict[str, int] = {}
        for node, vreplicas in self.node_spread(key).items():
            zone = self.zone_of_node[node]
            spread[zone] = spread.get(zone, 0) + vreplicas
        return spread


@dataclass(frozen=True, slots=True)
class MergedPlacements:
    """One vpod's placements as they count: in status order, then the reservations without a status entry."""

    charges: Placements
    reserved: Mapping[str, int] = field(default_factory=dict)  # not committed yet


def merge_reservations(placements: Iterable[Placement], reserved: Mapping[str, int]) -> MergedPlacements:
    """Merge a status with reservations. A reserved value replaces the status value; an equal reservation is dropped."""
    waiting = dict(reserved)
    charges: list[Placement] = []
    named: set[str] = set()
    for placement in placements:
        name = placement.pod_name
        named.add(name)
        if waiting.get(name) == placement.vreplicas:
            del waiting[name]
        charges.append(Placement(name, waiting.get(name, placement.vreplicas)))
    charges.extend(Placement(name, vreplicas) for name, vreplicas in waiting.items() if name not in named)
    return MergedPlacements(tuple(charges), waiting)


class EraBuilder:
    """Adds vpods and reservations to a state. A copy can continue from the present state of the original."""

    def __init__(self, empty: EraState) -> None:
        self._state = empty

    def copy(self) -> EraBuilder:
        """Copy the state. The spreads are shared with the original, because a stored spread never changes."""
        state = self._state
        return EraBuilder(
            replace(
                state,
                free=dict(state.free),
                pod_spread=dict(state.pod_spread),
                pending=dict(state.pending),
                expected=dict(state.expected),
            )
        )

    def add(self, vpod: VPod, reserved: Mapping[str, int]) -> Mapping[str, int]:
        """Count a listed vpod, and return its reservations that are not committed yet."""
        merged = merge_reservations(vpod.placements, reserved)
        self._state.pending[vpod.key] = max(0, vpod.vreplicas - total_vreplicas(vpod.placements))
        self._state.expected[vpod.key] = vpod.vreplicas
        spread: dict[int, int] = {}
        for ordinal, vreplicas in self._subtract_placements(merged.charges):
            if ordinal in self._state.node_of_pod:
                spread[ordinal] = spread.get(ordinal, 0) + vreplicas
        self._state.pod_spread[vpod.key] = spread
        return merged.reserved

    def add_unlisted(self, reserved: Mapping[str, int]) -> None:
        """Count the reservations of an unlisted vpod. They only use capacity."""
        self._subtract_placements(tuple(Placement(name, vreplicas) for name, vreplicas in reserved.items()))

    def state(self) -> EraState:
        return self._state

    def _subtract_placements(self, placements: Placements) -> list[tuple[int, int]]:
        """Subtract the placements from the free capacity.

        Return (ordinal, vreplicas) for the StatefulSet's Pods. Rules D10 and D12.
        """
        charged = []
        for placement in placements:
            ordinal = ordinal_of(placement.pod_name, self._state.cluster.statefulset)
            if ordinal is not None:
                self._state.free[ordinal] = self._state.free_at(ordinal) - placement.vreplicas
                charged.append((ordinal, placement.vreplicas))
        return charged


def era_state(
    cluster: EraCluster, vpods: Iterable[VPod], reserved: Reservations
) -> tuple[EraState, dict[Key, Mapping[str, int]]]:
    """Return the state, and the reservations that are not committed yet."""
    builder, waiting = build_era_state(cluster, vpods, reserved)
    return builder.state(), waiting


def build_era_state(
    cluster: EraCluster, vpods: Iterable[VPod], reserved: Reservations
) -> tuple[EraBuilder, dict[Key, Mapping[str, int]]]:
    """Return the same as `era_state`, but as a builder that can take more vpods."""
    zone_of_node = cluster.zones_by_node()
    node_of_pod = cluster.nodes_by_schedulable_pod(zone_of_node)
    free = dict.fromkeys(node_of_pod, cluster.capacity)
    builder = EraBuilder(EraState(cluster, zone_of_node, node_of_pod, free, {}, {}, {}))
    waiting: dict[Key, Mapping[str, int]] = {}
    unlisted = dict(reserved)
    for vpod in vpods:
        unlisted.pop(vpod.key, None)
        still = builder.add(vpod, reserved.get(vpod.key, {}))
        if still:
            waiting[vpod.key] = still
    for key, by_pod in unlisted.items():
        waiting[key] = by_pod
        builder.add_unlisted(by_pod)
    return builder, waiting

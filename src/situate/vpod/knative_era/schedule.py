"""The schedule procedures of v0.43.0, policy and MAXFILLUP, for the `reference` profile.

The rules are in "Pack" and "Policy" of `docs/spec/vpod.md`. As upstream does, sums wrap and a rescale places everything
again. A shortage returns the old placements, and reservations are merged. D14 and D15 apply here too. The safe profile
uses `situate.vpod.policy.place` instead. Upstream: pkg/scheduler/statefulset/scheduler.go of knative/eventing v0.43.0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from situate.vpod.knative_era.state import EraBuilder, EraCluster, EraState, Reservations, build_era_state, era_state
from situate.vpod.model.vpod import Key, Placement, VPod, ordinal_of, pod_name, total_vreplicas
from situate.vpod.policy.choose import Arithmetic, best_pod, feasible_pods
from situate.vpod.policy.registry import CompiledPolicy, Policy, compile_policy
from situate.vpod.policy.scores import Direction
from situate.vpod.policy.view import Domains, PolicyView


@dataclass(frozen=True, slots=True)
class MaxFillUp:
    """Fill the Pods that the vpod already uses, then the lowest ordinals."""


@dataclass(frozen=True, slots=True)
class PredicatesAndPriorities:
    """The policies for placing and for removing; None means that there is no such policy."""

    placing: Policy | None = None
    removing: Policy | None = None


@dataclass(frozen=True, slots=True)
class EraDecision:
    """The result of a schedule. If `left` is above 0, upstream returns an error.

    Then the autoscaler is triggered, and the vpod is retried after 5 s.
    """

    placements: tuple[Placement, ...]
    left: int
    reserved: dict[Key, dict[str, int]]


def era_decision(
    cluster: EraCluster,
    vpods: Iterable[VPod],
    reserved: Reservations,
    vpod: VPod,
    mode: MaxFillUp | PredicatesAndPriorities,
) -> EraDecision:
    """Schedule one vpod. `vpods` are all vpods that the lister knows, usually including this one."""
    return _ScheduleCall(cluster, tuple(vpods), vpod, reserved).run(mode)


def updated_reservations(reserved: Mapping[str, int], placements: Iterable[Placement]) -> dict[str, int]:
    """Return a vpod's reservations after reserving. Pods that are not named stay reserved.

    Without placements the result is empty.
    """
    by_pod = {placement.pod_name: placement.vreplicas for placement in placements}
    return {**reserved, **by_pod} if by_pod else {}


class _ScheduleCall:
    """One call of schedule, with its changing reservations."""

    def __init__(self, cluster: EraCluster, vpods: tuple[VPod, ...], vpod: VPod, reserved: Reservations) -> None:
        self._cluster = cluster
        self._vpod = vpod
        self._state, waiting = era_state(cluster, vpods, reserved)
        # drop the reservations of unlisted vpods, and empty those of vpods with nothing pending
        self._reserved = {
            key: dict(by_pod) if self._state.pending[key] > 0 else {}
            for key, by_pod in waiting.items()
            if key in self._state.pending
        }
        self._listed = next((listed for listed in vpods if listed.key == vpod.key), None)
        self._others = tuple(other for other in vpods if other.key != vpod.key)
        self._base: EraBuilder | None = None  # all vpods but this one; they do not change during the call

    def run(self, mode: MaxFillUp | PredicatesAndPriorities) -> EraDecision:
        wanted = self._vpod.vreplicas
        placements = self._trim_placements()
        surplus = total_vreplicas(placements) - wanted
        if surplus == 0:
            return self._reserve_and_decide(placements)
        match mode:
            case MaxFillUp() if surplus > 0:
                return self._reserve_and_decide(_remove_from_end(placements, surplus))
            case MaxFillUp():
                return self._reserve_and_decide(*self._fill_pods(placements, -surplus))
            case PredicatesAndPriorities(removing=Policy() as removing) if surplus > 0:
                return self._reserve_and_decide(self._remove_surplus(placements, surplus, compile_policy(removing)))
            case PredicatesAndPriorities(placing=Policy() as placing):
                result, left = self._place_again(placements, compile_policy(placing))
                return self._reserve_and_decide(list(self._vpod.placements) if left > 0 else result, left)
            case _:
                return self._reserve_and_decide(placements)

    def _reserve_and_decide(self, placements: list[Placement], left: int = 0) -> EraDecision:
        self._reserve(placements)
        statefulset = self._cluster.statefulset

        def ordinal(placement: Placement) -> int | float:
            found = ordinal_of(placement.pod_name, statefulset)
            return float("inf") if found is None else found

        return EraDecision(tuple(sorted(placements, key=ordinal)), left, self._reserved)

    def _reserve(self, placements: Iterable[Placement]) -> None:
        key = self._vpod.key
        self._reserved[key] = updated_reservations(self._reserved.get(key, {}), placements)

    def _trim_placements(self) -> list[Placement]:
        """Return the status placements without unschedulable Pods and without the overcommitted vreplicas."""
        state = self._state
        kept: list[Placement] = []
        for placement in self._vpod.placements:
            ordinal = ordinal_of(placement.pod_name, self._cluster.statefulset)
            if ordinal is None or ordinal not in state.node_of_pod:
                continue
            cut = max(0, min(placement.vreplicas, -state.free_at(ordinal)))
            state.free[ordinal] = state.free_at(ordinal) + cut
            if placement.vreplicas - cut > 0:
                kept.append(Placement(placement.pod_name, placement.vreplicas - cut))
        return kept

    def _fill_pods(self, placements: list[Placement], missing: int) -> tuple[list[Placement], int]:
        """Fill every ordinal below R, including unschedulable Pods, as upstream does."""
        state = self._state
        statefulset = self._cluster.statefulset

        def allocated(ordinal: int) -> int:
            nonlocal missing
            amount = max(0, min(state.free_at(ordinal), missing))
            missing -= amount
            state.free[ordinal] = state.free_at(ordinal) - amount
            return amount

        result = [
            Placement(
                placement.pod_name, placement.vreplicas + allocated(_ordinal_of_placement(placement, statefulset))
            )
            for placement in placements
        ]
        for ordinal in range(self._cluster.replicas):
            if missing == 0:
                break
            amount = allocated(ordinal)
            if amount > 0:
                result.append(Placement(pod_name(statefulset, ordinal), amount))
        return result, missing

    def _place_again(self, placements: list[Placement], policy: CompiledPolicy) -> tuple[list[Placement], int]:
        """Place all wanted vreplicas again, one by one. The second value is the number that found no place."""
        self._reserve([Placement(placement.pod_name, 0) for placement in placements])
        result: dict[str, int] = {}
        statefulset = self._cluster.statefulset
        for left in range(self._vpod.vreplicas, 0, -1):
            view = self._current_view()
            pod, _ = best_pod(view, feasible_pods(view, policy.filters), policy, Direction.PLACE, Arithmetic.WRAPPING)
            if pod is None:
                return _to_placements(result), left
            name = pod_name(statefulset, int(view.ordinals[pod]))
            result[name] = result.get(name, 0) + 1
            self._reserve(_to_placements(result))
        return _to_placements(result), 0

    def _remove_surplus(self, placements: list[Placement], surplus: int, policy: CompiledPolicy) -> list[Placement]:
        """Remove the surplus one by one from Pods that still hold vreplicas.

        Stop if no Pod may lose one. Rule D14.
        """
        statefulset = self._cluster.statefulset
        for _ in range(surplus):
            view = self._current_view()
            holding = [_ordinal_of_placement(placement, statefulset) for placement in placements]
            candidates = feasible_pods(view, policy.filters) & np.isin(view.ordinals, holding)
            if int(candidates.sum()) == 1:
                pod: int | None = int(np.flatnonzero(candidates)[0])
            else:
                pod, _ = best_pod(view, candidates, policy, Direction.REMOVE, Arithmetic.WRAPPING)
            if pod is None:
                break
            placements = _remove_one(placements, pod_name(statefulset, int(view.ordinals[pod])))
            self._reserve(placements)
        return placements

    def _current_view(self) -> PolicyView:
        """Return the state of this moment, with all reservations so far."""
        key = self._vpod.key
        if self._base is None:
            others = {other: by_pod for other, by_pod in self._reserved.items() if other != key}
            self._base, waiting = build_era_state(self._cluster, self._others, others)
            own = {key: self._reserved[key]} if key in self._reserved else {}
            self._reserved = {other: dict(by_pod) for other, by_pod in waiting.items()} | own
        builder = self._base.copy()
        if self._listed is None:
            builder.add_unlisted(self._reserved.get(key, {}))
        else:
            self._reserved[key] = dict(builder.add(self._listed, self._reserved.get(key, {})))
        return view_of(builder.state(), key)


def view_of(state: EraState, key: Key) -> PolicyView:
    """Return the part of the state that a vpod sees: its schedulable Pods."""
    ordinals = state.schedulable_pods
    spread = state.pod_spread.get(key, {})
    nodes = {name: index for index, name in enumerate(sorted(state.zone_of_node))}
    zones = {name: index for index, name in enumerate(sorted(set(state.zone_of_node.values())))}
    own_nodes = state.node_spread(key)
    own_zones = state.zone_spread(key)
    pod_nodes = [state.node_of_pod[ordinal] for ordinal in ordinals]
    return PolicyView(
        replicas=state.cluster.replicas,
        ordinals=np.array(ordinals, dtype=np.int64),
        schedulable=np.ones(len(ordinals), dtype=np.bool_),
        free=np.array([state.free_at(ordinal) for ordinal in ordinals], dtype=np.int64),
        own=np.array([spread.get(ordinal, 0) for ordinal in ordinals], dtype=np.int64),
        in_spread=np.array([ordinal in spread for ordinal in ordinals], dtype=np.bool_),
        nodes=_domains([nodes[node] for node in pod_nodes], nodes, own_nodes),
        zones=_domains([zones[state.zone_of_node[node]] for node in pod_nodes], zones, own_zones),
    )


def _domains(of_pod: list[int], names: Iterable[str], own: dict[str, int]) -> Domains:
    return Domains(
        np.array(of_pod, dtype=np.int64),
        np.array([own.get(name, 0) for name in names], dtype=np.int64),
        np.array([name in own for name in names], dtype=np.bool_),
    )


def _ordinal_of_placement(placement: Placement, statefulset: str) -> int:
    """Return the ordinal of a trimmed placement; trimming leaves only Pods of the StatefulSet."""
    ordinal = ordinal_of(placement.pod_name, statefulset)
    assert ordinal is not None
    return ordinal


def _to_placements(by_pod: dict[str, int]) -> list[Placement]:
    return [Placement(name, vreplicas) for name, vreplicas in by_pod.items()]


def _remove_one(placements: list[Placement], name: str) -> list[Placement]:
    """Remove one vreplica from the last entry of that Pod. An entry that reaches zero is dropped."""
    result = list(placements)
    index = max(i for i, placement in enumerate(result) if placement.pod_name == name)
    left = result[index].vreplicas - 1
    result[index : index + 1] = [Placement(name, left)] if left > 0 else []
    return result


def _remove_from_end(placements: list[Placement], surplus: int) -> list[Placement]:
    """Drop whole placements from the end of the list while the surplus covers them, and cut the next by the rest."""
    kept: list[Placement] = []
    for placement in reversed(placements):
        cut = min(surplus, placement.vreplicas)
        surplus -= cut
        if placement.vreplicas > cut:
            kept.append(Placement(placement.pod_name, placement.vreplicas - cut))
    return kept

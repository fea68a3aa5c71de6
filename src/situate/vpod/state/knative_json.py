"""The state as JSON, with the keys of Knative's state, and the comparison of two states.

The JSON form is created on demand and never written as a whole to the log at info level. Rule S10.
"""

from __future__ import annotations

from typing import Any

from situate.vpod.model.options import PolicyName
from situate.vpod.model.pod_classes import PodClass
from situate.vpod.model.records import Slot, VPodEntry
from situate.vpod.model.vpod import UNKNOWN_ZONE
from situate.vpod.policy.registry import Policy
from situate.vpod.state.state import State

_ABSURD_FACTOR = 4
_ABSURD_MARGIN = 1024
"""Ordinals above 4 x (R + 1024) would make the dense list of `freeCap` grow without bound."""


def schedulable_pods(state: State) -> list[int]:
    """Return the ordinals that accept, ascending."""
    return sorted(o for o, slot in state.slots.items() if slot.verdict.pod_class is PodClass.ACCEPT)


def last_ordinal(state: State) -> int:
    """Return the highest ordinal that accepts or that a status names; -1 if there is none."""
    return max(free_by_ordinal(state), default=-1)


def free_by_ordinal(state: State) -> dict[int, int]:
    """Return capacity minus statuses, for ordinals that accept or that a status names, even with 0 vreplicas."""
    capacity = state.options.capacity
    named = {ordinal: capacity for entry in state.vpods.values() for ordinal in entry.status}
    seen = {ordinal: capacity - slot.committed for ordinal, slot in state.slots.items() if _is_used(slot)}
    return dict(sorted((named | seen).items()))


def free_capacity(state: State) -> int:
    """Return the units that the statuses leave free on accepting Pods."""
    slots = state.slots.values()
    return sum(state.options.capacity - s.committed for s in slots if s.verdict.pod_class is PodClass.ACCEPT)


def total_pending(state: State) -> int:
    return sum(_pending_vreplicas(entry) for entry in state.vpods.values() if entry.listed)


def total_expected_vreplicas(state: State) -> int:
    return sum(entry.wanted for entry in state.vpods.values() if entry.listed)


def pod_spread(state: State) -> dict[str, dict[str, int]]:
    """Return the status placements by vpod and accepting Pod, with zeros."""
    slots = state.slots
    return {
        str(entry.key): {
            slots[o].name: vreplicas
            for o, vreplicas in entry.status.items()
            if o in slots and slots[o].verdict.pod_class is PodClass.ACCEPT
        }
        for entry in state.vpods.values()
        if entry.listed
    }


def to_json(state: State) -> dict[str, Any]:
    """Return the keys of main, and those of the policy era if nodes can be listed."""
    listed = [entry for entry in state.vpods.values() if entry.listed]
    free = free_by_ordinal(state)
    absurd = _ABSURD_FACTOR * (state.replicas + _ABSURD_MARGIN)
    ordinals = list(free)
    end = ordinals[-1] if ordinals else -1
    if end > absurd:
        end = state.replicas - 1
    document: dict[str, Any] = {
        "freeCap": [free.get(ordinal, state.options.capacity) for ordinal in range(end + 1)],
        "schedulablePods": schedulable_pods(state),
        "capacity": state.options.capacity,
        "replicas": state.replicas,
        "statefulSetName": state.options.statefulset_name,
        "podSpread": pod_spread(state),
        "pending": {str(entry.key): _pending_vreplicas(entry) for entry in listed},
        "expectedVReplicaByVPod": {str(entry.key): entry.wanted for entry in listed},
        "lastOrdinal": ordinals[-1] if ordinals else -1,
    }
    if beyond := {str(ordinal): units for ordinal, units in free.items() if ordinal > end}:
        document["freeCapBeyond"] = beyond
    if state.nodes_known:
        document |= _topology(state, listed)
    if state.options.policy is PolicyName.PACK:
        document["schedulerPolicy"] = "MAXFILLUP"
    if state.options.policy is PolicyName.POLICY:
        document["schedPolicy"] = _policy_content(state.options.placing)
        document["deschedPolicy"] = _policy_content(state.options.removing)
    return document


def differences(kept: State, rebuilt: State) -> list[str]:
    """Describe each difference of two states of the same StatefulSet in a sentence; empty if there is none."""
    found = []
    if kept.replicas != rebuilt.replicas:
        found.append(f"replicas: {kept.replicas}, listed {rebuilt.replicas}")
    for ordinal in sorted(kept.slots.keys() | rebuilt.slots.keys()):
        ours, theirs = _slot_facts(kept.slots.get(ordinal)), _slot_facts(rebuilt.slots.get(ordinal))
        if ours != theirs:
            found.append(f"ordinal {ordinal}: {ours}, listed {theirs}")
    for key in sorted(kept.vpods.keys() | rebuilt.vpods.keys()):
        mine, listed = _entry_facts(kept.vpods.get(key)), _entry_facts(rebuilt.vpods.get(key))
        if mine != listed:
            found.append(f"vpod {key}: {mine}, listed {listed}")
    sums = ("open", "ousted", "causes", "wants", "used", "pending")
    found += [f"{name}: differs" for name in sums if getattr(kept, name) != getattr(rebuilt, name)]
    return found


def _policy_content(policy: Policy) -> dict[str, Any]:
    return {
        "predicates": [{"Name": each.name, "Args": each.args} for each in policy.predicates],
        "priorities": [{"Name": each.name, "Weight": each.weight, "Args": each.args} for each in policy.priorities],
    }


def _is_used(slot: Slot) -> bool:
    return slot.committed != 0 or slot.verdict.pod_class is PodClass.ACCEPT


def _pending_vreplicas(entry: VPodEntry) -> int:
    return max(0, entry.wanted - entry.status_total)


def _topology(state: State, listed: list[VPodEntry]) -> dict[str, Any]:
    zone_of_node = {
        name: node.zone or UNKNOWN_ZONE
        for name, node in sorted(state.nodes.items())
        if not node.unschedulable and not node.unreachable
    }
    node_spread: dict[str, dict[str, int]] = {}
    zone_spread: dict[str, dict[str, int]] = {}
    for entry in listed:
        by_node = node_spread[str(entry.key)] = {}
        by_zone = zone_spread[str(entry.key)] = {}
        for ordinal, vreplicas in entry.status.items():
            slot = state.slots.get(ordinal)
            node = slot.pod.node if slot is not None and slot.pod is not None else ""
            if slot is None or slot.verdict.pod_class is not PodClass.ACCEPT or node not in zone_of_node:
                continue
            by_node[node] = by_node.get(node, 0) + vreplicas
            by_zone[zone_of_node[node]] = by_zone.get(zone_of_node[node], 0) + vreplicas
    return {
        "numZones": len(set(zone_of_node.values())),
        "numNodes": len(zone_of_node),
        "nodeToZoneMap": zone_of_node,
        "nodeSpread": node_spread,
        "zoneSpread": zone_spread,
    }


def _slot_facts(slot: Slot | None) -> tuple[object, ...] | None:
    if slot is None:
        return None
    return (
        slot.pod,
        slot.verdict.pod_class,
        slot.verdict.cause,
        slot.domain,
        slot.committed,
        slot.adding,
        slot.trimming,
        slot.open,
        slot.counted,
    )


def _entry_facts(entry: VPodEntry | None) -> tuple[object, ...] | None:
    if entry is None:
        return None
    return (
        entry.wanted,
        entry.deleting,
        entry.weight,
        entry.priority,
        entry.listed,
        entry.placements,
        entry.invalid,
        dict(entry.status),
        None if entry.reserved is None else dict(entry.reserved),
        entry.status_total,
        entry.reserved_total,
    )

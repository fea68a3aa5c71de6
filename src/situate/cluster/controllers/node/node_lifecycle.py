"""Node lifecycle controller: set silent nodes to Unknown, and derive taints from conditions.

Upstream: pkg/controller/nodelifecycle. NoExecute taints are set at a rate per zone. The rate is lower or zero if much
of a zone is silent, and zero if all nodes are silent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from situate.cluster.controllers.machinery.actions import (
    Action,
    EventTemplate,
    ReconcileResult,
    RecordEvent,
    sequential_writes,
    uid_patch,
)
from situate.cluster.controllers.machinery.changes import Change
from situate.cluster.controllers.machinery.controllers import Controller, ControllerContext
from situate.cluster.controllers.machinery.tables import LEASES, NODES, PODS, Key, Obj
from situate.cluster.controllers.node.heartbeat import LEASE_NAMESPACE
from situate.cluster.controllers.node.kubelets import KubeletStates
from situate.cluster.controllers.node.nodes import NOT_READY, REGION, UNREACHABLE, UNSCHEDULABLE, ZONE
from situate.cluster.controllers.node.pods import condition, conditions_with
from situate.cluster.errors.times import timestamp

_MONITOR: Key = ("", "")
"""Key of the periodic check of all nodes."""
_FEW_SILENT_NODES = 2
"""A zone with at most this many silent nodes never counts as partially disrupted."""

_PRESSURE_TAINTS = {
    "MemoryPressure": "node.kubernetes.io/memory-pressure",
    "DiskPressure": "node.kubernetes.io/disk-pressure",
    "PIDPressure": "node.kubernetes.io/pid-pressure",
    "NetworkUnavailable": "node.kubernetes.io/network-unavailable",
}
_OWN_NO_SCHEDULE = {NOT_READY, UNREACHABLE, UNSCHEDULABLE, *_PRESSURE_TAINTS.values()}


class ZoneState(Enum):
    NORMAL = "Normal"
    PARTIAL = "PartialDisruption"
    FULL = "FullDisruption"


@dataclass(slots=True)
class _NodeHealth:
    """Last known state of a node."""

    probed: float
    """Last change of its Lease or of its reported condition, by our clock."""
    zone: tuple[str, str]
    ready: str = ""
    """Status of the condition Ready; empty without one."""
    registered: bool = False
    """Whether the Event RegisteredNode was written."""


@dataclass(slots=True)
class _Zone:
    state: ZoneState = ZoneState.NORMAL
    rate: float = 0.0
    next_eviction: float = 0.0
    names: set[str] = field(default_factory=set)


class NodeLifecycleController(Controller):
    name = "node-lifecycle"
    user = "system:serviceaccount:kube-system:node-controller"
    manager = "node-controller"
    watches = frozenset({NODES, LEASES})

    def __init__(self, cluster: ControllerContext, kubelets: KubeletStates) -> None:
        self._cluster = cluster
        self._kubelets = kubelets
        self._settings = cluster.settings.node_lifecycle
        self._nodes: dict[str, _NodeHealth] = {}
        self._zones: dict[tuple[str, str], _Zone] = {}
        self._disrupted = False

    def observe(self, change: Change, now: float) -> Iterator[Key]:
        if change.resource == NODES:
            name = change.last.name
            if change.new is None:
                self._remove_node(name)
                return
            if not self._nodes:
                yield _MONITOR
            self._record_health(name, change.object, now)
            yield "", name
        elif change.resource == LEASES and change.last.namespace == LEASE_NAMESPACE and change.new is not None:
            health = self._nodes.get(change.last.name)
            if health is not None:
                health.probed = now

    def reconcile(self, key: Key, now: float) -> ReconcileResult:
        return self._monitor(now) if key == _MONITOR else self._update_taints(key[1], now)

    def _monitor(self, now: float) -> ReconcileResult:
        """Check the health of all nodes (upstream: monitorNodeHealth)."""
        if not self._nodes:
            return ReconcileResult()
        actions: list[Action] = []
        for name, health in self._nodes.items():
            if self._cluster.settings.kubelet.lease_renewal <= 0 and self._kubelets.is_running(name):
                health.probed = now
            grace = self._settings.monitor_grace_period if health.ready else self._settings.startup_grace_period
            if health.ready != "Unknown" and now > health.probed + grace:
                actions.extend(self._mark_unknown(name, now))
                health.ready = "Unknown"
        self._update_zones(now)
        if self._all_silent() is not self._disrupted:
            actions.extend(self._switch_disruption_mode(now))
        return sequential_writes(actions, now + self._settings.monitor_period)

    def _switch_disruption_mode(self, now: float) -> Iterator[Action]:
        """Enter or leave full disruption.

        If all nodes are silent, the fault may be ours, so no node is evicted. Afterwards every node's grace period
        restarts.
        """
        self._disrupted = not self._disrupted
        for name, health in self._nodes.items():
            if not self._disrupted:
                health.probed = now
            for batch in self._update_taints(name, now).batches:
                yield from batch

    def _mark_unknown(self, name: str, now: float) -> Iterator[Action]:
        """Set the conditions of a silent node to Unknown, and its pods to not ready."""
        node = self._cluster.get(NODES, "", name)
        if node is None:
            return
        note = EventTemplate(node, "NodeNotReady", f"Node {name} status is now: NodeNotReady")
        yield uid_patch(NODES, node, {"status": {"conditions": _unknown_conditions(node, now)}}, "status", note)
        for facts in list(self._cluster.pods.pods_on_node(name)):
            if not facts.ready:
                continue
            pod = self._cluster.get(PODS, facts.namespace, facts.name)
            if pod is None:
                continue
            new = {"type": "Ready", "status": "False", "lastTransitionTime": timestamp(now)}
            told = EventTemplate(pod, "NodeNotReady", "Node is not ready", "Warning")
            yield uid_patch(PODS, pod, {"status": {"conditions": conditions_with(pod, new)}}, "status", told)

    def _update_taints(self, name: str, now: float) -> ReconcileResult:
        """Update the taints of a node to match its conditions."""
        node = self._cluster.get(NODES, "", name)
        health = self._nodes.get(name)
        if node is None or health is None:
            return ReconcileResult()
        taints: list[dict[str, Any]] = [dict(taint) for taint in (node.get("spec") or {}).get("taints") or ()]
        wanted = _no_schedule_keys(node)
        after = [
            taint
            for taint in taints
            if taint.get("effect") != "NoSchedule" or taint["key"] not in _OWN_NO_SCHEDULE or taint["key"] in wanted
        ]
        have = {taint["key"] for taint in after if taint.get("effect") == "NoSchedule"}
        at = timestamp(now)
        after += [{"key": key, "effect": "NoSchedule", "timeAdded": at} for key in wanted if key not in have]
        after, again = self._with_no_execute_taint(health, after, now)
        actions: list[Action] = []
        if not health.registered:
            health.registered = True
            text = f"Node {name} event: Registered Node {name} in Controller"
            actions.append(RecordEvent(EventTemplate(node, "RegisteredNode", text)))
        if after != taints:
            actions.append(uid_patch(NODES, node, {"spec": {"taints": after or None}}))
        return sequential_writes(actions, again)

    def _with_no_execute_taint(
        self, health: _NodeHealth, taints: list[dict[str, Any]], now: float
    ) -> tuple[list[dict[str, Any]], float | None]:
        """Return the taints with the NoExecute taint for the node's state, once the zone's rate allows it."""
        key = {"False": NOT_READY, "True": ""}.get(health.ready, UNREACHABLE if health.ready else NOT_READY)
        present = {taint["key"] for taint in taints if taint.get("effect") == "NoExecute"}
        kept = [
            taint
            for taint in taints
            if taint.get("effect") != "NoExecute" or taint["key"] not in (NOT_READY, UNREACHABLE) or taint["key"] == key
        ]
        if self._disrupted:
            own = (NOT_READY, UNREACHABLE)
            return [t for t in taints if t.get("effect") != "NoExecute" or t["key"] not in own], None
        if not key or key in present or not health.ready:
            return kept, None
        new = {"key": key, "effect": "NoExecute", "timeAdded": timestamp(now)}
        if present & {NOT_READY, UNREACHABLE}:
            # The other of the two taints is replaced at once; it has already been counted in the rate.
            return [*kept, new], None
        zone = self._zones[health.zone]
        if zone.rate <= 0:
            return kept, now + self._settings.monitor_period
        if now < zone.next_eviction:
            return kept, zone.next_eviction
        zone.next_eviction = now + 1 / zone.rate
        return [*kept, new], None

    def _update_zones(self, now: float) -> None:
        """Update state and rate of each zone (upstream: handleDisruption)."""
        for zone in self._zones.values():
            silent = sum(self._nodes[name].ready != "True" for name in zone.names)
            zone.state = zone_state(silent, len(zone.names), self._settings.unhealthy_zone_threshold)
            rate = self._settings.eviction_rate
            if zone.state is ZoneState.PARTIAL:
                large = len(zone.names) > self._settings.large_cluster_size
                rate = self._settings.secondary_eviction_rate if large else 0.0
            if rate != zone.rate:
                zone.rate = rate
                zone.next_eviction = max(now, min(zone.next_eviction, now + 1 / rate if rate else now))

    def _all_silent(self) -> bool:
        return all(zone.state is ZoneState.FULL for zone in self._zones.values())

    def _record_health(self, name: str, node: Obj, now: float) -> None:
        found = condition(node, "Ready")
        labels = node["metadata"].get("labels") or {}
        at = (labels.get(REGION, ""), labels.get(ZONE, ""))
        health = self._nodes.setdefault(name, _NodeHealth(now, at))
        if health.zone != at:
            self._leave_zone(name, health.zone)
            health.zone = at
        self._zones.setdefault(at, _Zone(rate=self._settings.eviction_rate)).names.add(name)
        status = found.get("status", "") if found else ""
        if status in ("True", "False") and status != health.ready:
            health.probed = now
        health.ready = status

    def _remove_node(self, name: str) -> None:
        health = self._nodes.pop(name, None)
        if health is not None:
            self._leave_zone(name, health.zone)

    def _leave_zone(self, name: str, at: tuple[str, str]) -> None:
        zone = self._zones[at]
        zone.names.discard(name)
        if not zone.names:
            del self._zones[at]


def zone_state(silent: int, nodes: int, threshold: float) -> ZoneState:
    """Return the state of a zone (upstream: ComputeZoneState)."""
    if silent and silent == nodes:
        return ZoneState.FULL
    if silent > _FEW_SILENT_NODES and silent / nodes >= threshold:
        return ZoneState.PARTIAL
    return ZoneState.NORMAL


def _no_schedule_keys(node: Obj) -> list[str]:
    """Return the keys of the NoSchedule taints that conditions and cordoning require."""
    keys = []
    if (node.get("spec") or {}).get("unschedulable"):
        keys.append(UNSCHEDULABLE)
    for entry in (node.get("status") or {}).get("conditions") or ():
        kind, status = entry.get("type"), entry.get("status")
        if kind == "Ready" and status in ("False", "Unknown"):
            keys.append(NOT_READY if status == "False" else UNREACHABLE)
        elif kind in _PRESSURE_TAINTS and status == "True":
            keys.append(_PRESSURE_TAINTS[kind])
    return keys


def _unknown_conditions(node: Obj, now: float) -> list[Mapping[str, Any]]:
    """Return the conditions of a silent node."""
    at = timestamp(now)
    conditions = [dict(entry) for entry in (node.get("status") or {}).get("conditions") or ()]
    for kind in ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure"):
        before = next((entry for entry in conditions if entry.get("type") == kind), None)
        new: dict[str, Any] = {"type": kind, "status": "Unknown", "lastTransitionTime": at}
        if before is None:
            created = node["metadata"].get("creationTimestamp", at)
            new |= {"reason": "NodeStatusNeverUpdated", "message": "Kubelet never posted node status."}
            conditions.append({**new, "lastHeartbeatTime": created})
        elif before.get("status") != "Unknown":
            new |= {"reason": "NodeStatusUnknown", "message": "Kubelet stopped posting node status."}
            conditions[conditions.index(before)] = {**before, **new}
    return list(conditions)

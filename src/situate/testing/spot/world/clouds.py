"""Events of clouds: nodes are added, announced to end, end with or without notice, lose labels and fill up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final

from situate.sim.timeline import ScheduledCall
from situate.spot.model.pods_nodes_workloads import CAPACITY_LABEL
from situate.testing.spot import steps
from situate.testing.spot.invariants.rules import SpotWatchdog
from situate.testing.spot.world.initial_objects import ON_DEMAND_NODES, SPOT_NODES
from situate.testing.spot.world.world import SpotWorld

ON_DEMAND_PODS: Final = 14
"""Pods per node, few enough that a workload may need several nodes."""
SPOT_PODS: Final = 8
ZONES: Final = ("zone-0", "zone-1")
AT_RISK: Final = "aws-node-termination-handler/rebalance-recommendation"
FULL: Final = "test/full"

_ZONE: Final = "topology.kubernetes.io/zone"
_NOTICE_TAINTS: Final = {
    "taint": ("aws-node-termination-handler/spot-itn", 120.0),
    "short taint": ("cloud.google.com/impending-node-termination", 30.0),
}


class Clouds:
    """All nodes except those of spot's own pods."""

    def __init__(self, world: SpotWorld, watchdog: SpotWatchdog) -> None:
        self._world = world
        self._watchdog = watchdog
        self._recorder = watchdog.recorder
        self._happened = world.happened
        self._created_counts = Counter[str]()
        self._planned_ends: list[ScheduledCall] = []  # planned ends of machines
        self._wave_at = float("-inf")

    def add_nodes(self, capacity: str, count: int) -> None:
        """Add nodes, alternating between the zones."""
        for _ in range(count):
            self._add_node(capacity, ZONES[self._created_counts[capacity] % len(ZONES)])

    def _add_node(self, capacity: str, zone: str) -> None:
        prefix, pods = ("od", ON_DEMAND_PODS) if capacity == "on-demand" else ("spot", SPOT_PODS)
        number = self._created_counts[capacity]
        self._created_counts[capacity] += 1
        self._world.add_node(f"{prefix}-{number}", capacity, pods=pods, zone=zone)

    def restore(self) -> None:
        """Reset labels, taints and conditions of the nodes whose machines run."""
        self._watchdog.record_disturbance()
        for name in list(self._recorder.nodes):
            kind = "spot" if name.startswith("spot") else "on-demand" if name.startswith("od") else ""
            if not kind or not self._world.cluster.machinery.kubelets.is_running(name):
                continue
            labels = {CAPACITY_LABEL: kind}
            self._patch_node(name, {"metadata": {"labels": labels}, "spec": {"unschedulable": None, "taints": None}})
            self._set_condition(name, "PreemptionScheduled", "False", "")

    def heal(self) -> None:
        """Restore the initial number of nodes, all healthy."""
        world = self._world
        for each in self._planned_ends:
            each.cancel()
        for name in list(self._recorder.nodes):
            if name.startswith(("spot", "od")) and not world.cluster.machinery.kubelets.is_running(name):
                world.call("DELETE", f"/api/v1/nodes/{name}")
        self.restore()
        self._replenish("spot", self.spot_nodes(), SPOT_NODES)
        self._replenish("on-demand", self.on_demand_nodes(), ON_DEMAND_NODES)

    def _replenish(self, capacity: str, present: list[str], wanted: int) -> None:
        """Restore the initial number of nodes in each zone, because some workloads require one zone."""
        zones = Counter(self._recorder.nodes[name].labels.get(_ZONE, "") for name in present)
        for zone in ZONES:
            for _ in range(wanted // len(ZONES) - zones[zone]):
                self._add_node(capacity, zone)

    def running_nodes(self) -> dict[str, str]:
        """Return the nodes whose machines run, with their real kind, whatever their labels say."""
        works = self._world.cluster.machinery.kubelets.is_running
        kinds = {"spot": "spot", "od": "on-demand"}
        return {
            name: kinds[name.partition("-")[0]]
            for name in sorted(self._recorder.nodes, key=lambda each: (not each.startswith("spot"), each))
            if name.partition("-")[0] in kinds and works(name)
        }

    def spot_nodes(self) -> list[str]:
        return [name for name, kind in self.running_nodes().items() if kind == "spot"]

    def on_demand_nodes(self) -> list[str]:
        return [name for name, kind in self.running_nodes().items() if kind == "on-demand"]

    def act_on_spot_node(self, number: int, do: Callable[[str], object]) -> None:
        if spot := self.spot_nodes():
            do(spot[number % len(spot)])

    def act_on_node(self, number: int, do: Callable[[str], object]) -> None:
        if nodes := list(self.running_nodes()):
            self._watchdog.record_disturbance()
            do(nodes[number % len(nodes)])

    def _patch_node(self, name: str, change: dict[str, Any]) -> None:
        self._world.call("PATCH", f"/api/v1/nodes/{name}", change, patch=True)

    def set_node(self, name: str, spec: dict[str, Any]) -> None:
        self._patch_node(name, {"spec": spec})

    def taint(self, name: str, key: str, effect: str = "NoSchedule") -> None:
        row = self._recorder.nodes[name]
        if all(taint["key"] != key for taint in row.taints):
            self.set_node(name, {"taints": [*row.taints, {"key": key, "effect": effect}]})

    def _set_condition(self, name: str, kind: str, status: str, message: str) -> None:
        stored = self._world.cluster.api.store.get("nodes", "", name)
        assert stored is not None
        present = stored.object().get("status", {}).get("conditions") or []
        others = [each for each in present if each["type"] != kind]
        if status == "False" and len(others) == len(present):
            return
        at = self._world.wall().strftime("%Y-%m-%dT%H:%M:%SZ")
        new = {"type": kind, "status": status, "reason": "Test", "message": message, "lastTransitionTime": at}
        change = {"status": {"conditions": others if status == "False" else [*others, new]}}
        self._world.call("PATCH", f"/api/v1/nodes/{name}/status", change, patch=True)

    def lose_label(self, name: str, *, swapped: bool) -> None:
        self._happened["LoseLabel swapped"] += swapped
        other = "on-demand" if name.startswith("spot") else "spot"
        self._patch_node(name, {"metadata": {"labels": {CAPACITY_LABEL: other if swapped else None}}})

    def give_notice(self, step: steps.Notice) -> None:
        spot = self.spot_nodes()
        if not spot:
            return
        name = spot[step.node % len(spot)]
        self._excuse_mislabelled_loss(name)
        self._happened[f"Notice {step.by}"] += 1
        if step.by in _NOTICE_TAINTS:
            key, said_s = _NOTICE_TAINTS[step.by]
            self.taint(name, key)
        else:
            said_s = 60.0 if step.by == "condition" else -600.0
            at = self._world.wall().astimezone(UTC) + timedelta(seconds=said_s)
            self._set_condition(name, "PreemptionScheduled", "True", f"Preempt Scheduled: {_rfc1123(at)}")
        if step.ends is None:
            self._happened["notice without end"] += 1
            return
        self._happened["end before the deadline"] += step.ends < said_s
        self._end_later(step.ends, name, silent=step.silent)

    def _end_later(self, seconds: float, name: str, *, silent: bool) -> None:
        self._planned_ends.append(self._world.timeline.call_after(seconds, partial(self.end_node, name, silent=silent)))

    def _excuse_mislabelled_loss(self, name: str) -> None:
        """Excuse the loss of a spot node whose label says on-demand: pods that count for the floor end with it."""
        if self._recorder.nodes[name].capacity == "on-demand":
            self._watchdog.record_disturbance()

    def end_node(self, name: str, *, silent: bool) -> None:
        """End a machine. Its Node is deleted, or stays and is silent."""
        if name not in self.running_nodes():
            return
        self._excuse_mislabelled_loss(name)
        self._world.cluster.machinery.stop_kubelet(name)
        if not silent:
            self._world.call("DELETE", f"/api/v1/nodes/{name}")
        self._world.plan_step()

    def end_spot_nodes(self, notice: float, silent: bool) -> None:
        spot = self.spot_nodes()
        self._happened["Wave silent" if silent else "Wave deleted"] += bool(spot)
        self._happened["Wave with notice"] += bool(spot) and notice > 0
        self._happened["second wave"] += bool(spot) and self._world.now - self._wave_at < 120.0
        self._wave_at = self._world.now + notice
        for name in spot:
            self._excuse_mislabelled_loss(name)
            if notice:
                self.taint(name, _NOTICE_TAINTS["short taint" if notice <= 30 else "taint"][0])
                self._end_later(notice, name, silent=silent)
            else:
                self.end_node(name, silent=silent)


def _rfc1123(at: datetime) -> str:
    return at.strftime("%a, %d %b %Y %H:%M:%S GMT")

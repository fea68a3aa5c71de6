"""Nodes and plain pods of a history, and acts of users and other tools on them."""

from __future__ import annotations

import json
from functools import partial

from situate.cluster.controllers.node.nodes import node as node_object
from situate.testing.builders.objects import pod as pod_object
from situate.testing.vm.history import VmHistorySettings
from situate.testing.vm.invariants.objects import FROZEN, Obj, name_of, owner_of, phase_of
from situate.testing.vm.invariants.watchdog import VmWatchdog
from situate.testing.vm.world.history_world import VmHistoryWorld
from situate.testing.vm.world.processes import NAMESPACE, PODS
from situate.vm.api.quantities import GIB
from situate.vm.api.well_known import CLAIM
from situate.vm.model.resource_amounts import Amounts


class NodesAndPods:
    """The nodes and plain pods of one history."""

    def __init__(self, place: VmHistoryWorld, watchdog: VmWatchdog, settings: VmHistorySettings) -> None:
        self._world = place
        self._watchdog = watchdog
        self._happened = place.happened
        self.nodes = {f"n{number}": cpus for number, cpus in enumerate(settings.nodes)}
        """By node name: its whole CPUs."""
        self.created_count = 0
        """Number of objects created so far. It names new ones."""

    def node_name(self, number: int) -> str:
        return f"n{number % len(self.nodes)}"

    def set_node(self, name: str, change: Obj) -> None:
        self._world.call("PATCH", f"/api/v1/nodes/{name}", dict(change), patch=True)

    def shrink_node(self, name: str, cpus: int) -> None:
        whole = self.nodes[name]
        allocatable = {"cpu": str(whole - cpus), "memory": f"{4 * (whole - cpus)}Gi"}
        self._set_node_status(name, {"allocatable": allocatable})
        if cpus:
            self._happened["ShrinkNode"] += 1
            self._watchdog.nodes.record_fact(name, Amounts.from_values(1000 * cpus, 4 * cpus * GIB))

    def _set_node_status(self, name: str, status: Obj) -> None:
        self._world.call("PATCH", f"/api/v1/nodes/{name}/status", {"status": status}, patch=True)

    def lose_node(self, which: str, number: int, seconds: float) -> None:
        name = self.node_name(number)
        for migration, machine in self._watchdog.usage.active_migrations():
            pods = migration.get("status") or {}
            pod = pods.get("targetPodName" if which == "target" else "sourcePodName", "")
            there = self.pod(pod)
            if which != "any" and phase_of(machine) in FROZEN and there is not None and there["spec"].get("nodeName"):
                self._happened[f"{which} lost"] += 1
                name = there["spec"]["nodeName"]
                break
        self._world.call("DELETE", f"/api/v1/nodes/{name}")
        for pod in list(self._watchdog.usage.table("pods")):
            if pod["spec"].get("nodeName") == name:
                self.delete_pod(name_of(pod), at_once=True, namespace=pod["metadata"]["namespace"])
        self._world.timeline.call_after(seconds, partial(self._rejoin_node, name))

    def _rejoin_node(self, name: str) -> None:
        cpus = self.nodes[name]
        self._world.call("POST", "/api/v1/nodes", node_object(name, cpu=str(cpus), memory=f"{4 * cpus}Gi", pods=110))

    def plain_pods(self) -> list[Obj]:
        """Return bound pods that run no VM and are not of the ignored namespace."""
        pods = (each for each in self._watchdog.usage.table("pods") if each["metadata"]["namespace"] == NAMESPACE)
        return [each for each in pods if each["spec"].get("nodeName") and not owner_of(each)]

    def pod(self, name: str) -> Obj | None:
        return self._world.object("pods", NAMESPACE, name) if name else None

    def add_pod(self, cpus: int, node: str = "") -> None:
        self.created_count += 1
        ours = "default-scheduler" if node else self._world.setup.rules.scheduler_name
        body = pod_object(f"p{self.created_count}", cpu=str(cpus), memory=f"{4 * cpus}Gi", node=node, scheduler=ours)
        answer = self._world.call("POST", PODS, body)
        assert answer["kind"] == "Pod", answer

    def delete_pod(self, name: str, *, at_once: bool = False, namespace: str = NAMESPACE) -> None:
        options = {"gracePeriodSeconds": 0} if at_once else None
        self._world.call("DELETE", f"/api/v1/namespaces/{namespace}/pods/{name}", options)

    def bind_intruder(self, number: int, cpus: int) -> None:
        node = self.node_name(number)
        for migration, _ in self._watchdog.usage.active_migrations():
            notes = migration["metadata"].get("annotations") or {}
            if CLAIM in notes:
                node = json.loads(notes[CLAIM])["node"]
                self._happened["intruded into claimed room"] += 1
                break
        if self._world.call("GET", f"/api/v1/nodes/{node}")["kind"] == "Status":
            return
        self._watchdog.nodes.record_fact(node, Amounts.from_values(1000 * cpus, 4 * cpus * GIB))
        self.add_pod(cpus, node)

    def defer_resize(self, number: int, admitted: bool) -> None:
        """Let another tool resize a pod by one CPU more. A deferred pod has a condition and keeps its size."""
        plain = self.plain_pods()
        if not plain:
            return
        pod = plain[number % len(plain)]
        container = pod["spec"]["containers"][0]
        cpus = int(container["resources"]["requests"]["cpu"])
        requests = {"cpu": str(cpus + 1), "memory": f"{4 * (cpus + 1)}Gi"}
        path = f"{PODS}/{name_of(pod)}"
        self._happened["admitted first" if admitted else "deferred"] += 1
        self._watchdog.nodes.record_fact(pod["spec"]["nodeName"], Amounts.from_values(1000, 4 * GIB))
        if not admitted:
            self._world.annotate(path, {"noresize": "true"})
        resources = {"spec": {"containers": [{**container, "resources": {"requests": requests}}]}}
        answer = self._world.call("PATCH", f"{path}/resize", resources, patch=True)
        if not admitted and answer["kind"] == "Pod":
            condition = {
                "type": "PodResizePending",
                "status": "True",
                "reason": "Deferred",
                "observedGeneration": answer["metadata"].get("generation", 1),
            }
            others = [each for each in answer["status"].get("conditions") or () if each["type"] != condition["type"]]
            self._world.call("PATCH", f"{path}/status", {"status": {"conditions": [*others, condition]}}, patch=True)

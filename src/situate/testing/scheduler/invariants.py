"""Invariants of every history of the scheduler: at each write, after each step, and after all faults have ended."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from situate.cluster.storage.effects import Identity
from situate.cluster.storage.watch import Watch
from situate.framework.pod.resources import amount
from situate.objects.messages import Request, Response
from situate.objects.values.quantity import parse_quantity
from situate.testing.histories.watchdog import HistoryBreach, Watchdog, check_processes, check_reflectors
from situate.testing.scheduler.world import FOREIGN_NODE, LEASE, SchedulerWorld

Obj = Mapping[str, Any]


class SchedulerWatchdog(Watchdog):
    """Checks every write after the server has carried it out."""

    def __init__(self, world: SchedulerWorld) -> None:
        super().__init__()
        self._world = world
        self._bound: dict[str, str] = {}
        """By Pod UID: the node of each accepted binding."""
        world.request_listeners.append(self._on_request)

    def check(self) -> None:
        """Raise the first breach found at a write, then check the processes."""
        self.raise_first_breach()
        check_processes(self._world.world.processes)
        for member in self._world.members:
            check_reflectors(member.identity, member.controller.reflectors())
            engine = member.controller.engine
            if engine is not None and member.leads:
                self._check_cached_pods(member.identity, engine.cache.pod)

    def _on_request(self, request: Request, answer: Response | Watch, identity: Identity) -> None:
        if not isinstance(answer, Response) or "/leases" in request.path:
            return
        self.writes += 1
        self._digest.update(f"{request.method} {request.path} {answer.status}".encode() + request.body)
        if answer.status >= 300:
            self._world.happened[f"{_request_kind(request)} answered {answer.status}"] += 1
            return
        self._world.happened[_request_kind(request)] += 1
        try:
            self._check_writer_leads(request, identity)
            if request.path.endswith("/binding"):
                self._check_binding(request)
            elif request.method == "DELETE":
                self._check_victim(request)
        except HistoryBreach as breach:
            self.record_breach(str(breach))

    def _check_writer_leads(self, request: Request, identity: Identity) -> None:
        if self._world.setup.election is None:
            return
        leases = [
            each for each in self._world.objects("leases.coordination.k8s.io") if each["metadata"]["name"] == LEASE
        ]
        holder = leases[0]["spec"].get("holderIdentity") if leases else None
        if holder != identity.user:
            raise HistoryBreach(f"{identity.user} wrote {request.path} while {holder} held the Lease")

    def _check_binding(self, request: Request) -> None:
        body = msgspec.json.decode(request.body)
        uid, node = body["metadata"]["uid"], body["target"]["name"]
        before = self._bound.setdefault(uid, node)
        if before != node:
            raise HistoryBreach(f"{request.path}: bound to {node} after {before}")
        over = overfull_node(self._world)
        if over:
            raise HistoryBreach(f"{request.path} to {node}: {over}")

    def _check_victim(self, request: Request) -> None:
        name = request.path.rpartition("/")[2]
        pods = {each["metadata"]["name"]: each for each in self._world.pods()}
        victim = pods.get(name)
        if victim is None:
            return
        conditions = {each["type"]: each for each in victim["status"].get("conditions", ())}
        if conditions.get("DisruptionTarget", {}).get("reason") != "PreemptionByScheduler":
            raise HistoryBreach(f"victim {name} was deleted without the condition of a preemption")
        waiting = [each for each in pods.values() if not each["spec"].get("nodeName")]
        if not any(_priority(each) > _priority(victim) for each in waiting):
            self._world.happened["victim without its preemptor"] += 1

    def _check_cached_pods(self, identity: str, cached: Any) -> None:
        """Check that a leader counts every Pod on the node that the server has, if it knows of a node."""
        for pod in self._world.pods():
            node, known = pod["spec"].get("nodeName"), cached(pod["metadata"]["uid"])
            if node and known is not None and known.node != node and not known.assumed:
                raise HistoryBreach(f"{identity} counts {pod['metadata']['name']} on {known.node}; it is on {node}")


def overfull_node(world: SchedulerWorld) -> str | None:
    """Return a message for a node whose Pods request more than it has. Return None if there is none."""
    pods: dict[str, list[Obj]] = {}
    for pod in world.pods():
        if pod["spec"].get("nodeName") and not _has_ended(pod):
            pods.setdefault(pod["spec"]["nodeName"], []).append(pod)
    for node in world.objects("nodes"):
        name = node["metadata"]["name"]
        if name == FOREIGN_NODE:
            continue
        on_it = pods.get(name, [])
        room = node["status"]["allocatable"]
        asked, has = sum(map(cpu_milli, on_it)), amount("cpu", parse_quantity(room["cpu"]))
        if asked > has or len(on_it) > int(room["pods"]):
            return f"{name} has {has}m and {room['pods']} pods, but {len(on_it)} Pods there request {asked}m"
    return None


def unsettled_pod(world: SchedulerWorld) -> str | None:
    """Return a message for an unsettled Pod, or None.

    A Pod is unsettled if it could have a node and has none, or if its condition does not say why it is Pending.
    """
    pods = [pod for pod in world.pods() if not _has_ended(pod)]
    nodes = [node for node in world.objects("nodes") if not node["spec"].get("unschedulable")]
    for pod in pods:
        name = pod["metadata"]["name"]
        if pod["spec"].get("nodeName"):
            if pod["status"].get("nominatedNodeName"):
                return f"{name} has a node, but also a nomination"
            continue
        if "deletionTimestamp" in pod["metadata"]:
            return f"{name} is still being deleted"
        better = [each for each in pods if _priority(each) >= _priority(pod) and each is not pod]
        for node in nodes:
            if _fits(pod, node, better):
                return (
                    f"{name} waits, although node {node['metadata']['name']} has capacity or could get it by preemption"
                )
        conditions = {each["type"]: each for each in pod["status"].get("conditions", ())}
        said = conditions.get("PodScheduled", {})
        if (said.get("status"), said.get("reason")) != ("False", "Unschedulable"):
            return f"{name} waits, and its condition is {said}"
    return None


def _fits(pod: Obj, node: Obj, others: Iterable[Obj]) -> bool:
    """Return whether the Pod fits on the node together with the Pods of its own or a higher priority."""
    room = node["status"]["allocatable"]
    on_it = [each for each in others if each["spec"].get("nodeName") == node["metadata"]["name"]]
    asked = sum(map(cpu_milli, on_it)) + cpu_milli(pod)
    return asked <= amount("cpu", parse_quantity(room["cpu"])) and len(on_it) < int(room["pods"])


def cpu_milli(pod: Obj) -> int:
    requests = (each.get("resources", {}).get("requests", {}) for each in pod["spec"]["containers"])
    return sum(amount("cpu", parse_quantity(each.get("cpu", "0"))) for each in requests)


def _priority(pod: Obj) -> int:
    return int(pod["spec"].get("priority") or 0)


def _has_ended(pod: Obj) -> bool:
    return pod["status"].get("phase") in ("Succeeded", "Failed")


def _request_kind(request: Request) -> str:
    last = request.path.rpartition("/")[2]
    if last in ("binding", "status"):
        return f"{last} written"
    return "victim deleted" if request.method == "DELETE" else f"{request.method} {last}"

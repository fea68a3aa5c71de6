"""A stand-in for kube-scheduler, so that pods of `default-scheduler` find a node in a cluster without one.

It is small on purpose. It honours gates, cordons, taints, node selectors, required node affinity, nominations and room
(CPU, memory, extended resources, pod count). A pod goes to the node that it is nominated for, if that has room. Of
others it prefers the one with the fewest PreferNoSchedule taints that the pod does not tolerate, then the one that
weighs most in its preferred node affinity, then the one with the least of its CPU and memory in use, then with the
fewest pods, then by name. Upstream adds these up, so its preferences can be outweighed.
It knows no affinity between pods, no topology spread, no volumes and no preemption.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from situate.cluster.controllers.actions import NOTHING, Action, Bind, Note, Outcome, Patch, Refusal, in_order
from situate.cluster.controllers.affinity import preference, required_affinity
from situate.cluster.controllers.changes import Change
from situate.cluster.controllers.controllers import Cluster
from situate.cluster.controllers.pods import condition, with_condition
from situate.cluster.controllers.tables import NODES, PODS, Key, Obj
from situate.cluster.controllers.taints import untolerated, unwanted
from situate.cluster.stored import Interned
from situate.cluster.times import timestamp
from situate.objects.quantity import parse_quantity

NAME = "default-scheduler"
_UNSCHEDULABLE = "node.kubernetes.io/unschedulable"


@dataclass(slots=True)
class _Node:
    """A node, its room and what is taken of it, in milli-units."""

    name: str
    node: Obj
    room: dict[str, int]
    taken: Counter[str] = field(default_factory=Counter)
    nominated: dict[Key, tuple[int, Mapping[str, int]]] = field(default_factory=dict)
    """Pods that wait for this node to be theirs: priority and requests."""

    @property
    def open(self) -> bool:
        """Neither cordoned nor tainted: any pod may come that asks for no node in particular."""
        spec = self.node["spec"]
        return not spec.get("taints") and not spec.get("unschedulable")

    def lack(self, key: Key, priority: int, requests: Mapping[str, int]) -> Iterator[str]:
        """Reasons why the requests do not fit beside what is taken, and nominated at no lower priority."""
        taken = self.taken
        if self.nominated:
            taken = Counter(taken)
            for other, (rank, wanted) in self.nominated.items():
                if other != key and rank >= priority:
                    taken.update(wanted)
        if taken["pods"] + 1000 > self.room.get("pods", 0):
            yield "Too many pods"
        for name, amount in requests.items():
            if name != "pods" and amount and taken[name] + amount > self.room.get(name, 0):
                yield f"Insufficient {name}"

    def rank(self, pod: Obj, requests: Mapping[str, int]) -> tuple[int, int, float, int, str]:
        """Smaller is better."""
        taints = self.node["spec"].get("taints")
        repelled = unwanted(pod["spec"].get("tolerations") or (), taints) if taints else 0
        weight = preference(pod, self.node) if pod["spec"].get("affinity") else 0
        return repelled, -weight, self.use(requests), self.taken["pods"], self.name

    def use(self, requests: Mapping[str, int]) -> float:
        """Mean share of CPU and memory in use with the requests on top."""
        share = 0.0
        for name in ("cpu", "memory"):
            room = self.room.get(name)
            if room:
                share += (self.taken[name] + requests.get(name, 0)) / room
        return share / 2


class SchedulerController:
    """Keys are pods."""

    name = "scheduler"
    user = "system:kube-scheduler"
    manager = NAME

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._nodes: dict[str, _Node] = {}
        self._placed: dict[Key, tuple[str, Mapping[str, int]]] = {}
        self._nominated: dict[Key, tuple[str, int, Mapping[str, int]]] = {}
        self._waiting: dict[Key, None] = {}
        self._shapes = Interned()

    def observe(self, change: Change, now: float) -> Iterator[Key]:  # noqa: ARG002  # the protocol's
        if change.resource == NODES:
            if self._node(change):
                yield from tuple(self._waiting)
        elif change.resource == PODS:
            pod = change.pod
            freed = self._account(change)
            freed |= self._nominate(change)
            if pod is None or pod.node or pod.terminating or pod.finished:
                self._waiting.pop(change.key, None)
            elif change.object["spec"].get("schedulerName", NAME) == NAME:
                yield change.key
            if freed:
                yield from tuple(self._waiting)

    def reconcile(self, key: Key, now: float) -> Outcome:
        facts = self._cluster.pods.pods.get(key)
        pod = self._cluster.get(PODS, *key)
        if facts is None or pod is None or facts.node or facts.terminating:
            return NOTHING
        if pod["spec"].get("schedulingGates"):
            return NOTHING
        requests = pod_requests(pod)
        fitting, reasons = self._filter(key, pod, requests)
        if not fitting:
            self._waiting[key] = None
            return in_order(_unschedulable(pod, self._sentence(reasons), now))
        own = [entry for entry in fitting if key in entry.nominated]
        chosen = own[0] if own else min(fitting, key=lambda entry: entry.rank(pod, requests))
        told = Note(pod, "Scheduled", f"Successfully assigned {key[0]}/{key[1]} to {chosen.name}")
        return in_order([Bind(key[0], key[1], facts.uid, chosen.name, done=told)])

    def refused(self, key: Key, refusal: Refusal) -> None:
        """Nothing to remember: the pod is tried again."""

    def _filter(self, key: Key, pod: Obj, requests: Mapping[str, int]) -> tuple[list[_Node], Counter[str]]:
        fitting = []
        reasons: Counter[str] = Counter()
        priority = pod["spec"].get("priority", 0)
        anywhere = not pod["spec"].get("nodeSelector") and not pod["spec"].get("affinity")
        for entry in self._nodes.values():
            first = "" if anywhere and entry.open else _excluded(pod, entry.node)
            lacks = [first] if first else list(entry.lack(key, priority, requests))
            if lacks:
                reasons.update(lacks)
            else:
                fitting.append(entry)
        return fitting, reasons

    def _sentence(self, reasons: Counter[str]) -> str:
        """Upstream: FitError."""
        if not self._nodes:
            return "no nodes available to schedule pods"
        told = ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items()))
        return f"0/{len(self._nodes)} nodes are available: {told}."

    def _node(self, change: Change) -> bool:
        """Take in a node; whether waiting pods might fit now."""
        name = change.last.name
        known = self._nodes.get(name)
        if change.new is None:
            self._nodes.pop(name, None)
            return False
        node = change.object
        status = node.get("status") or {}
        room = {
            kind: parse_quantity(str(text)).nano_value // 10**6
            for kind, text in (status.get("allocatable") or {}).items()
        }
        kept = {
            "metadata": {"name": name, "labels": node["metadata"].get("labels") or {}},
            "spec": node.get("spec") or {},
        }
        if known is not None:
            changed = known.room != room or known.node != kept
            known.room, known.node = room, kept
            return changed
        self._nodes[name] = entry = _Node(name, kept, room)
        for pod in self._cluster.pods.on_node(name):
            entry.taken.update(self._placed.get(pod.key, ("", {}))[1])
        for key, (host, priority, requests) in self._nominated.items():
            if host == name:
                entry.nominated[key] = (priority, requests)
        return True

    def _account(self, change: Change) -> bool:
        """Keep what pods take of their nodes; whether room became free."""
        pod = change.pod
        before = self._placed.pop(change.key, None)
        if before is not None and before[0] in self._nodes:
            self._nodes[before[0]].taken.subtract(before[1])
        if pod is None or not pod.node or pod.finished:
            return before is not None
        requests = before[1] if before is not None and change.pod_before is not None else {}
        if not requests or (change.pod_before is not None and change.pod_before.generation != pod.generation):
            requests = pod_requests(change.object)
            requests = self._shapes.share(tuple(requests.items()), requests)
        self._placed[change.key] = (pod.node, requests)
        if pod.node in self._nodes:
            self._nodes[pod.node].taken.update(requests)
        return before is not None and before[1] != requests

    def _nominate(self, change: Change) -> bool:
        """Keep which pods hold room without being placed, gated ones too; whether room became free."""
        pod = change.pod
        host = ""
        if pod is not None and not pod.node and not pod.terminating and not pod.finished:
            own = change.object["spec"].get("schedulerName", NAME) == NAME
            host = (change.object.get("status") or {}).get("nominatedNodeName", "") if own else ""
        before = self._nominated.pop(change.key, None)
        if before is not None and before[0] in self._nodes:
            self._nodes[before[0]].nominated.pop(change.key, None)
        if host:
            priority, requests = change.object["spec"].get("priority", 0), pod_requests(change.object)
            self._nominated[change.key] = (host, priority, requests)
            if host in self._nodes:
                self._nodes[host].nominated[change.key] = (priority, requests)
        return before is not None and before[0] != host


def pod_requests(pod: Obj) -> dict[str, int]:
    """What a pod asks of a node, in milli-units, itself as 1000 `pods` (upstream: resourcehelper.PodRequests)."""
    spec = pod["spec"]
    total: Counter[str] = Counter({"pods": 1000})
    for container in spec["containers"]:
        total.update(_requests(container))
    first: Counter[str] = Counter()
    sidecars: Counter[str] = Counter()
    for container in spec.get("initContainers") or ():
        own = _requests(container)
        if container.get("restartPolicy") == "Always":
            sidecars.update(own)
            own = dict(sidecars)
        else:
            own = {name: own.get(name, 0) + sidecars[name] for name in {*own, *sidecars}}
        for name, amount in own.items():
            first[name] = max(first[name], amount)
    total.update(sidecars)
    for name, amount in first.items():
        total[name] = max(total[name], amount)
    total.update({name: _milli(text) for name, text in (spec.get("overhead") or {}).items()})
    return dict(total)


def _requests(container: Obj) -> dict[str, int]:
    requests = (container.get("resources") or {}).get("requests") or {}
    return {name: _milli(text) for name, text in requests.items()}


def _milli(text: object) -> int:
    return parse_quantity(str(text)).milli_value


def _excluded(pod: Obj, node: Obj) -> str:
    """Why a pod may not go to a node whatever its room; empty if it may."""
    spec = node["spec"]
    tolerations: Iterable[Mapping[str, Any]] = pod["spec"].get("tolerations") or ()
    cordon = {"key": _UNSCHEDULABLE, "effect": "NoSchedule"}
    if spec.get("unschedulable") and untolerated(tolerations, [cordon], ("NoSchedule",)):
        return "node(s) were unschedulable"
    wanted = pod["spec"].get("nodeName")
    if wanted and wanted != node["metadata"]["name"]:
        return "node(s) didn't match the requested node name"
    taint = untolerated(tolerations, spec.get("taints") or (), ("NoSchedule", "NoExecute"))
    if taint is not None:
        return "node(s) had untolerated taint(s)"
    if not required_affinity(pod, node):
        return "node(s) didn't match Pod's node affinity/selector"
    return ""


def _unschedulable(pod: Obj, sentence: str, now: float) -> list[Action]:
    """The condition PodScheduled and its Event, once for each new reason."""
    before = condition(pod, "PodScheduled")
    if before is not None and before.get("message") == sentence:
        return []
    new = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": sentence,
        "lastTransitionTime": timestamp(now),
    }
    metadata = pod["metadata"]
    conditions = with_condition([dict(entry) for entry in (pod.get("status") or {}).get("conditions") or ()], new)
    body = {"metadata": {"uid": metadata["uid"]}, "status": {"conditions": conditions}}
    told = Note(pod, "FailedScheduling", sentence, "Warning")
    return [Patch(PODS, metadata["namespace"], metadata["name"], body, "status", done=told)]

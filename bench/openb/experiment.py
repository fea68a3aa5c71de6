"""One run of the published experiment: pods arrive one by one, nothing ever leaves, a refused pod is dropped.

The load (hkust-adsl/kubernetes-scheduler-simulator, core.go and simulator.go): all pods of the list, sorted by name and
shuffled; behind them pods drawn from the list with replacement until the GPUs asked for would be more than 1.3 times
those of the cluster; a list that asks for more from the start is thinned at random instead. The nodes come in random
order, and among equals the first is taken. Policies are compared on the same draw.

What decides is the public engine under a profile that enables the policy's plugin as its only score.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bench.openb.trace import PodList, TraceNode, TracePod
from situate.framework.engine.decisions import Placed
from situate.framework.engine.engine import Engine
from situate.framework.plugin_api.configuration import KubeSchedulerConfiguration
from situate.framework.profile.profile import Profile
from situate.framework.profile.profiles import profiles_of
from situate.objects.kinds.meta import ObjectMeta
from situate.objects.kinds.nodes import Node, NodeStatus
from situate.objects.kinds.pods import Container, Pod, PodSpec, ResourceRequirements
from situate.objects.settings.section import parse_section
from situate.objects.values.quantity import Quantity, parse_quantity
from situate.plugins.gpu_share.fragmentation import Fragmentation, TypicalPod, typical_pods
from situate.plugins.gpu_share.requests import COUNT, MILLI, MODEL
from situate.plugins.registry import registry

LOAD = 1.3
"""Times the GPUs of the cluster."""
SCHEDULER = "openb"
PODS_PER_NODE = 1001

PLUGINS = {
    "Random": "RandomScore",
    "DotProd": "DotProductScore",
    "GpuClustering": "GpuClusteringScore",
    "GpuPacking": "GpuPackingScore",
    "BestFit": "BestFitScore",
    "FGD": "FGDScore",
}
"""By policy, as the paper calls it; the worst first."""


@dataclass(frozen=True, slots=True)
class Curve:
    """What became of one run, at whole percents of the cluster's GPUs that the pods so far have asked for."""

    allocated: tuple[float, ...]
    """Percent of the cluster's GPUs that are in use: the mean over the pods that arrive around that percent."""
    fragmented: tuple[float, ...]
    """Percent of the cluster's GPUs that are idle and fragmented, when that percent is reached."""
    refused: int
    """So many pods."""
    placed: int


def run(listed: PodList, nodes: Sequence[TraceNode], policy: str, seed: int) -> Curve:
    """The same arguments give the same curve."""
    draw = random.Random(seed)
    capacity = sum(node.gpus for node in nodes) * 1000
    pods = arrivals(listed, capacity, draw)
    order = list(nodes)
    draw.shuffle(order)
    typical = typical_of(listed)
    engine = Engine([profile(policy, typical, seed)])
    for node in order:
        engine.set_node(_node(node), 0.0)
    recorder = _Recorder(capacity, typical)
    arrived = used = refused = 0
    for number, (pod, wanted) in enumerate(zip(_pods(pods), pods, strict=True)):
        now = float(number)
        engine.set_pod(pod, now)
        decision = engine.schedule(now)
        arrived += wanted.total_milli
        if isinstance(decision, Placed):
            engine.binding_succeeded(decision)
            used += wanted.total_milli
        else:
            engine.remove_pod(pod.metadata.uid, now)
            refused += 1
        recorder.note(arrived, used, engine)
    return recorder.curve(refused, len(pods) - refused)


def arrivals(listed: PodList, capacity: int, draw: random.Random) -> list[TracePod]:
    """The pods in the order in which they come; `capacity` in thousandths of GPUs."""
    pods = sorted(listed.pods, key=lambda pod: pod.name)
    known = tuple(pods)
    draw.shuffle(pods)
    asked = sum(pod.total_milli for pod in pods)
    while asked > LOAD * capacity:
        asked -= pods.pop(draw.randrange(len(pods))).total_milli
    number = 0
    while True:
        pod = known[draw.randrange(len(known))]
        if asked + pod.total_milli > LOAD * capacity:
            return pods
        asked += pod.total_milli
        pods.append(replace(pod, name=f"{pod.name}-again-{number}"))
        number += 1


def typical_of(listed: PodList) -> tuple[TypicalPod, ...]:
    return typical_pods(
        TypicalPod(pod.cpu_milli, pod.gpus, pod.gpu_milli, tuple(filter(None, pod.models.split("|"))))
        for pod in listed.pods
    )


def profile(policy: str, typical: Sequence[TypicalPod], seed: int) -> Profile:
    """All filters of the default profile, and the policy's plugin; nothing is preempted."""
    plugin = PLUGINS[policy]
    arguments: dict[str, Any] = {}
    if policy == "FGD":
        arguments = {"typicalPods": [_wire(pod) for pod in typical]}
    elif policy == "Random":
        arguments = {"seed": seed}
    only = {"enabled": [{"name": plugin}], "disabled": [{"name": "*"}]}
    multi = {"enabled": [{"name": plugin}], "disabled": [{"name": "DefaultPreemption"}]}
    wire = {
        "schedulerName": SCHEDULER,
        "percentageOfNodesToScore": 100,
        "plugins": {"multiPoint": multi, "score": only},
        "pluginConfig": [{"name": plugin, "args": arguments}],
    }
    configuration, mistakes = parse_section({"profiles": [wire]}, KubeSchedulerConfiguration)
    assert configuration is not None, mistakes
    shipped, _ = registry(())
    (made,), mistakes = profiles_of(configuration, shipped)
    assert not mistakes, mistakes
    return made


class _Recorder:
    def __init__(self, capacity: int, typical: Sequence[TypicalPod]) -> None:
        self._capacity = capacity
        self._typical = typical
        self._marks = round(LOAD * 100) + 1
        self._sums = np.zeros(self._marks)
        self._counts = np.zeros(self._marks, dtype=np.int64)
        self._fragmented: list[float] = []
        self._measure: Fragmentation | None = None

    def note(self, arrived: int, used: int, engine: Engine) -> None:
        mark = min(round(100 * arrived / self._capacity), self._marks - 1)
        self._sums[mark] += 100 * used / self._capacity
        self._counts[mark] += 1
        while len(self._fragmented) < self._marks and 100 * arrived >= len(self._fragmented) * self._capacity:
            self._fragmented.append(self._fragmentation(engine))

    def _fragmentation(self, engine: Engine) -> float:
        snapshot = engine.snapshot
        if self._measure is None:
            self._measure = Fragmentation.from_nodes(snapshot.nodes, self._typical)
        return float(100 * self._measure.fragmented_amount(snapshot).sum() / self._capacity)

    def curve(self, refused: int, placed: int) -> Curve:
        marks = np.arange(self._marks)
        seen = self._counts > 0
        means = np.interp(marks, marks[seen], self._sums[seen] / self._counts[seen])
        fragmented = self._fragmented + self._fragmented[-1:] * (self._marks - len(self._fragmented))
        return Curve(tuple(means.tolist()), tuple(fragmented), refused, placed)


def _wire(pod: TypicalPod) -> dict[str, Any]:
    return {
        "cpuMilli": pod.cpu_milli,
        "gpuCount": pod.gpu_count,
        "gpuMilli": pod.gpu_milli,
        "gpuModels": list(pod.gpu_models),
        "weight": pod.weight,
    }


def _node(node: TraceNode) -> Node:
    room = {
        "cpu": parse_quantity(f"{node.cpu_milli}m"),
        "memory": parse_quantity(f"{node.memory_mib}Mi"),
        "pods": parse_quantity(str(PODS_PER_NODE)),
        COUNT: parse_quantity(str(node.gpus)),
    }
    labels = {"kubernetes.io/hostname": node.name, MODEL: node.model}
    return Node(ObjectMeta(name=node.name, labels=labels), status=NodeStatus(allocatable=room))


def _pods(pods: Sequence[TracePod]) -> Iterator[Pod]:
    """Equal ones share their parts, as decoded ones do."""
    specs: dict[tuple[int, int], PodSpec] = {}
    for pod in pods:
        spec = specs.get((pod.cpu_milli, pod.memory_mib))
        if spec is None:
            requests: dict[str, Quantity] = {
                "cpu": parse_quantity(f"{pod.cpu_milli}m"),
                "memory": parse_quantity(f"{pod.memory_mib}Mi"),
            }
            container = Container(name="main", resources=ResourceRequirements(requests=requests))
            spec = specs[pod.cpu_milli, pod.memory_mib] = PodSpec(scheduler_name=SCHEDULER, containers=(container,))
        asked: dict[str, str] = {}
        if pod.gpu_milli:
            asked = {COUNT: str(pod.gpus), MILLI: str(pod.gpu_milli)}
            if pod.models:
                asked[MODEL] = pod.models
        yield Pod(ObjectMeta(name=pod.name, namespace="paib-gpu", uid=pod.name, annotations=asked), spec)

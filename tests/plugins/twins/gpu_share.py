"""The six policies for sharing GPUs, node by node, as their paper and its simulator have them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from situate.objects.kinds.nodes import Node
from situate.objects.kinds.pods import Pod
from tests.plugins.twins.requests import request, room
from tests.plugins.twins.world import PASS, UNRESOLVABLE, UNSCHEDULABLE, Answer, World

PREFIX = "alibabacloud.com/gpu-"


@dataclass(frozen=True)
class Kind:
    """Of a pod that usually comes, and how often it does."""

    cpu: int
    count: int
    milli: int
    models: tuple[str, ...]
    weight: int


def wants(pod: Pod) -> tuple[int, int, list[str]]:
    """Number of GPUs, thousandths of each, models that will do."""
    said = pod.metadata.annotations
    if PREFIX + "count" not in said and PREFIX + "milli" not in said:
        return 0, 0, []
    count, milli = int(said.get(PREFIX + "count", "1")), int(said.get(PREFIX + "milli", "1000"))
    if not count or not milli:
        return 0, 0, []
    return count, milli, [model for model in said.get(PREFIX + "card-model", "").split("|") if model]


def total(pod: Pod) -> int:
    count, milli, _ = wants(pod)
    return count * milli


def left(node: Node, world: World) -> list[int]:
    """Idle thousandths of each of the node's GPUs."""
    idle = [1000] * room(node, PREFIX + "count")
    for pod in world.on(node):
        said = pod.metadata.annotations.get(PREFIX + "index", "")
        for device in said.split("-") if said else []:
            idle[int(device)] -= wants(pod)[1]
    return idle


def cpu_left(node: Node, world: World) -> int:
    return room(node, "cpu") - sum(request(pod, "cpu") for pod in world.on(node))


def model(node: Node) -> str:
    return node.metadata.labels.get(PREFIX + "card-model", "")


def filter_node(pod: Pod, node: Node, world: World) -> Answer:
    count, milli, models = wants(pod)
    if not count:
        return PASS
    idle = left(node, world)
    if len(idle) < count:
        return Answer(UNRESOLVABLE, ("node(s) didn't have enough GPUs",))
    if models and model(node) not in models:
        return Answer(UNRESOLVABLE, ("node(s) didn't have GPUs of the wanted model",))
    if sum(each >= milli for each in idle) < count:
        return Answer(UNSCHEDULABLE, ("node(s) didn't have enough idle GPUs",))
    return PASS


def tightest(idle: Sequence[int], count: int, milli: int) -> list[int]:
    fitting = [device for device, each in enumerate(idle) if each >= milli]
    return sorted(sorted(fitting, key=lambda device: (idle[device], device))[:count])


def dot_product(pod: Pod, node: Node, world: World) -> int:
    cpu = cpu_left(node, world) / 128_000 * (request(pod, "cpu") / 128_000)
    gpu = sum(left(node, world)) / 8_000 * (total(pod) / 8_000)
    return min(100, max(0, int((1 - (cpu + gpu) / 2) * 100)))


def best_fit(pod: Pod, node: Node, world: World) -> int:
    cpu = (cpu_left(node, world) - request(pod, "cpu")) / 128_000
    gpu = (sum(left(node, world)) - total(pod)) / 8_000
    return int((1 - (cpu * 0.5 + gpu * 0.5)) * 100)


def stretched(raw: Sequence[int]) -> list[int]:
    low, high = min(raw), max(raw)
    return [0 if low == high else (each - low) * 100 // (high - low) for each in raw]


def kind(pod: Pod) -> str:
    count, milli, _ = wants(pod)
    if not count:
        return ""
    return "share" if count == 1 and milli < 1000 else f"{count}"


def clustering(pod: Pod, node: Node, world: World) -> int:
    if not kind(pod):
        return 0
    kinds = {kind(other) for other in world.on(node)} - {""}
    quarter = 3 if kinds == {kind(pod)} else 2 if kind(pod) in kinds else 0 if kinds else 1
    return 25 * quarter + 25 * max(0, 8_000 - sum(left(node, world))) // 8_000


def packing(pod: Pod, node: Node, world: World) -> int:
    count, milli, _ = wants(pod)
    if not count:
        return 0
    idle = left(node, world)
    unused = sum(each == 1000 for each in idle)
    if unused == len(idle):
        return max(33 - unused, unused)
    given = tightest(idle, count, milli)
    begun = sum(idle[device] == 1000 for device in given)
    if begun:
        return max(50 - begun, 33)
    return max(100 - sum(idle[device] * 100 // 1000 for device in given) // 10, 50)


def fragmentation(cpu: int, idle: Sequence[int], on: str, typical: Sequence[Kind]) -> Fraction:
    """In thousandths of a GPU: the mean over kinds of pods of what is idle and of no use to them."""
    lost = 0
    for pod in typical:
        runs = pod.cpu <= cpu and (not pod.models or on in pod.models)
        runs = runs and sum(each >= pod.milli for each in idle) >= pod.count
        if not pod.count or not pod.milli or not runs:
            lost += pod.weight * sum(idle)
        else:
            lost += pod.weight * sum(each for each in idle if each < pod.milli)
    return Fraction(lost, sum(pod.weight for pod in typical))


def descent(pod: Pod, node: Node, world: World, typical: Sequence[Kind]) -> tuple[int, list[int]]:
    """Score and devices."""
    count, milli, _ = wants(pod)
    idle, cpu = left(node, world), cpu_left(node, world)
    before = fragmentation(cpu, idle, model(node), typical)

    def score(given: Sequence[int]) -> int:
        then = [each - milli * (device in given) for device, each in enumerate(idle)]
        after = fragmentation(cpu - request(pod, "cpu"), then, model(node), typical)
        return int(100 / (1 + math.exp(-float((before - after) / 1000))))

    if count == 1 and milli < 1000:
        tries = [(score([device]), [device]) for device, each in enumerate(idle) if each >= milli]
        return max(tries, key=lambda each: each[0])
    given = tightest(idle, count, milli)
    return score(given), given


SCORES: Mapping[str, Callable[[Pod, Node, World], int]] = {
    "DotProductScore": dot_product,
    "GpuClusteringScore": clustering,
    "GpuPackingScore": packing,
}

"""Random clusters with GPUs, small and of few amounts, so that coincidences are common."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import msgspec

from situate.framework.pod.pods import PodInfo, PodReader
from situate.framework.snapshot.node_table import Vocabulary, node_row, node_table
from situate.framework.snapshot.snapshot import Snapshot, snapshot_of
from situate.objects.kinds.meta import ObjectMeta
from situate.objects.kinds.nodes import Node, NodeStatus
from situate.objects.kinds.pods import Container, Pod, PodSpec, ResourceRequirements
from situate.objects.values.quantity import parse_quantity
from situate.plugins.gpu_share.fragmentation import TypicalPod
from situate.plugins.gpu_share.requests import COUNT, INDEX, MILLI, MODEL, REQUEST_KEYS
from tests.plugins.twins import gpu_share as twin
from tests.plugins.twins.requests import request
from tests.plugins.twins.world import World

MODELS = ("T4", "A10", "V100")
MILLIS = (100, 250, 500, 600, 1000)


def node(name: str, *, gpus: int = 2, cpu_milli: int = 64_000, model: str = "") -> Node:
    room = {
        "cpu": parse_quantity(f"{cpu_milli}m"),
        "memory": parse_quantity("512Gi"),
        "pods": parse_quantity("110"),
        COUNT: parse_quantity(str(gpus)),
    }
    labels = {MODEL: model} if model else {}
    return Node(ObjectMeta(name=name, labels=labels), status=NodeStatus(allocatable=room))


def pod(
    name: str, *, gpus: int = 0, milli: int = 0, cpu_milli: int = 1000, models: str = "", index: str = "", on: str = ""
) -> Pod:
    said = {COUNT: str(gpus or ""), MILLI: str(milli or ""), MODEL: models, INDEX: index}
    annotations = {key: value for key, value in said.items() if value}
    requests = ResourceRequirements(requests={"cpu": parse_quantity(f"{cpu_milli}m")})
    spec = PodSpec(scheduler_name="here", node_name=on, containers=(Container(resources=requests),))
    return Pod(ObjectMeta(name=name, namespace="default", uid=name, annotations=annotations), spec)


def random_node(random: Random, number: int) -> Node:
    cpu = random.choice((4_000, 16_000, 96_000))
    return node(
        f"node-{number}", gpus=random.choice((0, 1, 2, 4, 8)), cpu_milli=cpu, model=random.choice(("", *MODELS))
    )


def random_pod(random: Random, name: str) -> Pod:
    gpus, milli = random.choice(((0, 0), (1, 0), (2, 0), (4, 0), (8, 0), (2, 500), *((1, each) for each in MILLIS)))
    models = random.choice(("", "", "T4", "A10|V100", "|T4"))
    return pod(name, gpus=gpus, milli=milli, cpu_milli=random.choice((0, 500, 2_000, 8_000)), models=models)


def random_world(seed: int, nodes: int, pods: int) -> tuple[World, Pod]:
    """Pods in place have devices of their nodes, where there was room; and a pod to place."""
    random = Random(seed)
    world = World(tuple(random_node(random, number) for number in range(nodes)))
    for number in range(pods):
        each = random_pod(random, f"pod-{number}")
        on = random.choice(world.nodes)
        if twin.filter_node(each, on, world).code != "Success" or twin.cpu_left(on, world) < request(each, "cpu"):
            continue
        count, milli, _ = twin.wants(each)
        fitting = [device for device, idle in enumerate(twin.left(on, world)) if idle >= milli]
        index = "-".join(map(str, sorted(random.sample(fitting, count)))) if count else ""
        world = world.with_pods(placed(each, on.metadata.name, index))
    return world, random_pod(random, "new")


def placed(each: Pod, node: str, index: str) -> Pod:
    metadata = each.metadata
    if index:
        metadata = msgspec.structs.replace(metadata, annotations={**metadata.annotations, INDEX: index})
    return msgspec.structs.replace(each, metadata=metadata, spec=msgspec.structs.replace(each.spec, node_name=node))


def random_kinds(seed: int) -> tuple[TypicalPod, ...]:
    random = Random(seed)
    found = []
    for number in range(random.randint(1, 8)):
        count, milli, models = twin.wants(random_pod(random, f"typical-{number}"))
        cpu = random.choice((0, 500, 2_000, 8_000, 32_000))
        found.append(TypicalPod(cpu, count, milli, tuple(models), random.randint(1, 9)))
    return (TypicalPod(gpu_count=1, gpu_milli=500), *found)


def as_twin(typical: Sequence[TypicalPod]) -> list[twin.Kind]:
    return [twin.Kind(each.cpu_milli, each.gpu_count, each.gpu_milli, each.gpu_models, each.weight) for each in typical]


def columns(world: World, pod: Pod) -> tuple[Snapshot, PodInfo]:
    vocabulary = Vocabulary.create()
    reader = PodReader(vocabulary.resources, REQUEST_KEYS)
    infos = [reader.read(each) for each in world.pods]
    table = node_table(vocabulary, [node_row(each, vocabulary) for each in world.nodes])
    there = ((info, table.index[info.pod.spec.node_name]) for info in infos)
    return snapshot_of(table, there), reader.read(pod)

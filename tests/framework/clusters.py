"""Engines over random clusters, with every default plugin: `tests.plugins.worlds` as a scheduler meets them."""

from __future__ import annotations

from random import Random

import msgspec

from situate.framework.engine.engine import Engine
from situate.framework.plugin_api.configuration import DEFAULT_SCHEDULER, KubeSchedulerConfiguration
from situate.framework.pod.pods import PodInfo
from situate.framework.profile.profile import Profile
from situate.framework.profile.profiles import profiles_of
from situate.framework.volumes.catalog import Catalog
from situate.objects.kinds.meta import ObjectMeta
from situate.objects.kinds.nodes import Node, NodeSpec, NodeStatus, Taint
from situate.objects.kinds.pods import Container, Pod, PodSpec, ResourceRequirements
from situate.objects.selection.label_selectors import selector_of
from situate.objects.values.quantity import parse_quantity
from situate.plugins.registry import registry
from tests.plugins.worlds import random_case


def default_profile() -> Profile:
    """As kube-scheduler has it, but looking at every node."""
    (profile,), mistakes = profiles_of(KubeSchedulerConfiguration(percentage_of_nodes_to_score=100), registry(())[0])
    assert not mistakes
    return profile


def a_node(
    name: str,
    *,
    cpu: str = "4",
    pods: str = "110",
    labels: dict[str, str] | None = None,
    taints: tuple[Taint, ...] = (),
    cordoned: bool = False,
) -> Node:
    room = {"cpu": parse_quantity(cpu), "memory": parse_quantity("16Gi"), "pods": parse_quantity(pods)}
    return Node(
        ObjectMeta(name=name, labels={"kubernetes.io/hostname": name, **(labels or {})}),
        NodeSpec(unschedulable=cordoned, taints=taints),
        NodeStatus(allocatable=room),
    )


def a_pod(
    name: str, cpu: str = "0", *, node: str = "", spec: PodSpec | None = None, labels: dict[str, str] | None = None
) -> Pod:
    """In namespace `default`, its uid is its name; `spec` says whatever else there is to say."""
    container = Container(resources=ResourceRequirements({"cpu": parse_quantity(cpu)} if cpu != "0" else {}))
    said = spec or PodSpec()
    spec = msgspec.structs.replace(
        said,
        node_name=node or said.node_name,
        scheduler_name=DEFAULT_SCHEDULER,
        containers=said.containers or (container,),
    )
    return Pod(ObjectMeta(name=name, namespace="default", uid=name, labels=labels or {}), spec)


def an_engine(*nodes: Node, pods: tuple[Pod, ...] = ()) -> Engine:
    """With the default plugins."""
    engine = Engine([default_profile()])
    for node in nodes:
        engine.set_node(node, 0.0)
    for pod in pods:
        engine.set_pod(pod, 0.0)
    return engine


def random_engine(seed: int, waiting: int, *, nodes: int = 8, placed: int = 20) -> tuple[Engine, list[Pod]]:
    """A cluster with pods in place, and pods that nobody has told the engine of; only what is not on its way out."""
    random = Random(seed)
    world, _ = random_case(seed, random.randrange(1, nodes + 1), random.randrange(placed + 1))
    engine = Engine([default_profile()])
    for node in world.nodes:
        engine.set_node(node, 0.0)
    catalog = Catalog(
        namespaces=world.namespaces,
        services=world.services,
        owners={key: selector_of(wire) for key, wire in world.owners.items()},
    )
    engine.set_catalog(catalog, (), 0.0)
    for pod in world.pods:
        engine.set_pod(_of_default(pod), 0.0)
    new = [random_case(seed * 1000 + number, 1, 0)[1] for number in range(waiting)]
    return engine, [
        _of_default(_named(pod, f"new-{number}"), node="")
        for number, pod in enumerate(new)
        if not pod.metadata.deletion_timestamp
    ]


def read(engine: Engine, pod: Pod) -> PodInfo:
    return engine.cache.reader.read(pod)


def _named(pod: Pod, name: str) -> Pod:
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, name=name, uid=name))


def _of_default(pod: Pod, node: str | None = None) -> Pod:
    spec = msgspec.structs.replace(
        pod.spec, scheduler_name=DEFAULT_SCHEDULER, node_name=pod.spec.node_name if node is None else node
    )
    return msgspec.structs.replace(pod, spec=spec)

"""Random clusters that touch every rule of every plugin: small, so that coincidences are common."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random
from typing import TypeVar

from hypothesis import strategies as st

from situate.objects.kinds.meta import ObjectMeta, OwnerReference
from situate.objects.kinds.nodes import ContainerImage, Node, NodeSpec, NodeStatus, Taint
from situate.objects.kinds.pods import (
    Affinity,
    Container,
    ContainerPort,
    ContainerRestartRule,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodSpec,
    PodStatus,
    PreferredSchedulingTerm,
    ResourceRequirements,
    Toleration,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)
from situate.objects.kinds.selectors import LabelSelector, LabelSelectorRequirement
from situate.objects.values.quantity import Quantity, parse_quantity
from tests.plugins.twins.world import World

T = TypeVar("T")

ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
KEYS = (ZONE, HOSTNAME, "rack")
NAMESPACES = ("east", "west", "north")
MEBI = 2**20


@dataclass(frozen=True)
class Case:
    """A cluster and a pod to place, by the numbers that they are made of: all that a failing test has to print."""

    seed: int
    nodes: int
    pods: int
    make: Make = field(repr=False)

    @property
    def made(self) -> tuple[World, Pod]:
        return self.make(self.seed, self.nodes, self.pods)


Make = Callable[[int, int, int], tuple[World, Pod]]
"""Of seed, nodes and pods."""


def cases(make: Make, nodes: int, pods: int) -> st.SearchStrategy[Case]:
    """They shrink in size, not in kind."""
    return st.builds(Case, st.integers(0, 2**32 - 1), st.integers(1, nodes), st.integers(0, pods), st.just(make))


def worlds(nodes: int = 7, pods: int = 16) -> st.SearchStrategy[Case]:
    return cases(random_case, nodes, pods)


def random_case(seed: int, nodes: int, pods: int) -> tuple[World, Pod]:
    random = Random(seed)
    listed = tuple(_node(random, number) for number in range(nodes))
    world = World(
        listed,
        tuple(_pod(random, f"pod-{number}", random.choice(listed).metadata.name) for number in range(pods)),
        namespaces={name: {"team": random.choice("xy")} for name in NAMESPACES[:2]},
        services={
            name: tuple(_labels(random) for _ in range(random.randrange(3)))
            for name in NAMESPACES
            if random.random() < 0.5
        },
        owners={("ReplicaSet", name, "web"): _selector(random) for name in NAMESPACES if random.random() < 0.5},
    )
    name = random.choice(listed).metadata.name if random.random() < 0.1 else ""
    return world, _pod(random, "new", name)


def _some(random: Random, chance: float, make: Callable[[], T], otherwise: T) -> T:
    return make() if random.random() < chance else otherwise


def _many(random: Random, most: int, make: Callable[[], T]) -> tuple[T, ...]:
    return tuple(make() for _ in range(random.randrange(most + 1)))


def _node(random: Random, number: int) -> Node:
    name = f"node-{number}"
    labels = {"kind": random.choice("ab"), "gen": random.choice(("1", "2", "x"))}
    if random.random() < 0.85:
        labels[ZONE] = random.choice(("z1", "z2", "z3"))
    if random.random() < 0.9:
        labels[HOSTNAME] = name if random.random() < 0.9 else "another"
    if random.random() < 0.6:
        labels["rack"] = random.choice(("r1", "r2"))
    room = {"memory": random.choice(("4Gi", "16Gi")), "pods": random.choice(("2", "110")), "ephemeral-storage": "3Gi"}
    if random.random() < 0.5:
        room["example.com/gpu"] = random.choice(("0", "2", "8"))
    room["cpu"] = random.choice(("0", "2", "4", "7500m"))
    return Node(
        ObjectMeta(name=name, labels=labels),
        NodeSpec(unschedulable=random.random() < 0.2, taints=_many(random, 2, lambda: _taint(random))),
        NodeStatus(
            allocatable={each: parse_quantity(text) for each, text in room.items()},
            images=_many(random, 3, lambda: _image(random)),
            declared_features=_many(
                random,
                2,
                lambda: random.choice(("RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport")),
            ),
        ),
    )


def _image(random: Random) -> ContainerImage:
    return ContainerImage((random.choice(IMAGES),), random.choice((10, 300, 2000)) * MEBI)


IMAGES = ("web:1", "db:latest", "registry:5000/tool:latest")


def _taint(random: Random) -> Taint:
    effect = random.choice(("NoSchedule", "NoExecute", "PreferNoSchedule", "PreferNoSchedule"))
    return Taint(random.choice("kl"), random.choice("vw"), effect)


def _toleration(random: Random) -> Toleration:
    key = random.choice(("k", "l", "", "node.kubernetes.io/unschedulable"))
    operator = "Exists" if not key else random.choice(("Exists", "Equal", ""))
    effect = random.choice(("", "NoSchedule", "PreferNoSchedule", "NoExecute"))
    return Toleration(key, operator, random.choice("vw") if operator != "Exists" else "", effect)


def _labels(random: Random) -> dict[str, str]:
    return {key: random.choice(values) for key, values in (("app", "aab"), ("tier", "cd")) if random.random() < 0.7}


def _selector(random: Random) -> LabelSelector:
    """Of pods; sometimes of all."""
    if random.random() < 0.4:
        return LabelSelector({"app": "a"})
    expressions = _many(random, 1, lambda: _label_requirement(random))
    return LabelSelector(_labels(random) if random.random() < 0.5 else {}, expressions)


def _label_requirement(random: Random) -> LabelSelectorRequirement:
    operator = random.choice(("In", "NotIn", "Exists", "DoesNotExist"))
    values = random.choice((("a",), ("a", "c"), ("d",))) if operator in ("In", "NotIn") else ()
    return LabelSelectorRequirement(random.choice(("app", "tier")), operator, values)


def _quantities(random: Random, choices: dict[str, Sequence[str]], chance: float) -> dict[str, Quantity]:
    return {name: parse_quantity(random.choice(texts)) for name, texts in choices.items() if random.random() < chance}


REQUESTS: dict[str, Sequence[str]] = {
    "cpu": ("0", "100m", "500m", "1"),
    "memory": ("0", "64Mi", "1Gi", "3Gi"),
    "ephemeral-storage": ("1Mi", "10Mi", "2Gi"),
    "example.com/gpu": ("1", "2", "4"),
}


def _container(random: Random, restart: str = "") -> Container:
    return Container(
        image=random.choice(("web:1", "db", "registry:5000/tool", "none")),
        resources=ResourceRequirements(_quantities(random, REQUESTS, 0.3)),
        ports=_some(random, 0.3, lambda: _many(random, 2, lambda: _port(random)), ()),
        restart_policy=restart,
        restart_policy_rules=_some(
            random, 0.1, lambda: (ContainerRestartRule(random.choice(("Restart", "RestartAllContainers"))),), ()
        ),
    )


def _port(random: Random) -> ContainerPort:
    address = random.choice(("", "0.0.0.0", "10.0.0.1", "10.0.0.2"))
    return ContainerPort(80, random.choice((0, 8080, 8081)), address, random.choice(("TCP", "UDP")))


def _node_requirement(random: Random, *, readable: bool = False) -> NodeSelectorRequirement:
    """`readable`: a preference that is not fails the pod."""
    operator = random.choice(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"))
    key = random.choice(("kind", "gen", ZONE, HOSTNAME, "rack"))
    if operator in ("Exists", "DoesNotExist"):
        return NodeSelectorRequirement(key, operator)
    values = random.choice((("a",), ("z1", "node-1"), ("1",), ("2",), ("z2", "r1", "b")))
    if readable and operator in ("Gt", "Lt"):
        values = (random.choice("12"),)
    return NodeSelectorRequirement(key, operator, values)


def _node_term(random: Random, *, readable: bool = False) -> NodeSelectorTerm:
    fields = NodeSelectorRequirement("metadata.name", random.choice(("In", "NotIn")), (f"node-{random.randrange(4)}",))
    return NodeSelectorTerm(
        _many(random, 2, lambda: _node_requirement(random, readable=readable)),
        (fields,) if random.random() < 0.25 else (),
    )


def _node_affinity(random: Random) -> NodeAffinity:
    terms = _many(random, 2, lambda: _node_term(random))
    return NodeAffinity(
        NodeSelector(terms) if terms and random.random() < 0.6 else None,
        _many(random, 2, lambda: PreferredSchedulingTerm(random.randrange(1, 101), _node_term(random, readable=True))),
    )


def _pod_term(random: Random) -> PodAffinityTerm:
    return PodAffinityTerm(
        random.choice(KEYS),
        _selector(random) if random.random() < 0.9 else None,
        _some(random, 0.3, lambda: tuple(random.sample(NAMESPACES, random.randrange(1, 3))), ()),
        _some(
            random, 0.25, lambda: LabelSelector({"team": random.choice("xy")} if random.random() < 0.7 else {}), None
        ),
    )


def _pod_affinity(random: Random) -> PodAffinity:
    return PodAffinity(
        _many(random, 2, lambda: _pod_term(random)) if random.random() < 0.5 else (),
        _many(random, 2, lambda: WeightedPodAffinityTerm(random.randrange(1, 101), _pod_term(random))),
    )


def _constraint(random: Random) -> TopologySpreadConstraint:
    return TopologySpreadConstraint(
        max_skew=random.choice((1, 1, 1, 2, 3)),
        topology_key=random.choice(KEYS),
        when_unsatisfiable=random.choice(("DoNotSchedule", "ScheduleAnyway")),
        label_selector=_selector(random) if random.random() < 0.9 else None,
        min_domains=random.choice((None, None, 1, 3)),
        node_affinity_policy=random.choice(("Honor", "Ignore")),
        node_taints_policy=random.choice(("Honor", "Ignore")),
        match_label_keys=_some(random, 0.2, lambda: ("tier",), ()),
    )


def _pod(random: Random, name: str, node: str) -> Pod:
    ended = datetime(2026, 1, 1, tzinfo=UTC) if random.random() < 0.1 else None
    owner = OwnerReference("ReplicaSet", "web", "u", "apps/v1", controller=True)
    spec = PodSpec(
        node_name=node,
        priority=random.choice((None, 0, 10, 100)),
        containers=tuple(_container(random) for _ in range(random.randrange(1, 3))),
        init_containers=_many(random, 2, lambda: _container(random, random.choice(("", "Always")))),
        overhead=_some(random, 0.1, lambda: _quantities(random, {"cpu": ("50m",), "memory": ("1Mi",)}, 0.5), {}),
        resources=_some(
            random,
            0.1,
            lambda: ResourceRequirements(_quantities(random, {"cpu": ("1",), "memory": ("1Gi",)}, 0.7)),
            ResourceRequirements(),
        ),
        node_selector=_some(random, 0.2, lambda: {random.choice(("kind", "rack")): random.choice(("a", "r1"))}, {}),
        affinity=Affinity(
            _some(random, 0.4, lambda: _node_affinity(random), None),
            _some(random, 0.4, lambda: _pod_affinity(random), None),
            _some(random, 0.4, lambda: _pod_affinity(random), None),
        ),
        tolerations=_many(random, 2, lambda: _toleration(random)),
        topology_spread_constraints=_some(random, 0.5, lambda: _many(random, 3, lambda: _constraint(random)), ()),
        host_network=random.random() < 0.3,
        host_users=random.choice((None, True, False)),
    )
    return Pod(
        ObjectMeta(
            name=name,
            namespace=random.choice((*NAMESPACES, *NAMESPACES[:1] * 4)),
            uid=name,
            labels=_labels(random),
            deletion_timestamp=ended,
            owner_references=_some(random, 0.4, lambda: (owner,), ()),
        ),
        spec,
        PodStatus(start_time=datetime(2026, 1, 1, 0, random.randrange(4), tzinfo=UTC)),
    )

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from situate.objects.kinds.nodes import Node
from situate.objects.kinds.pods import Pod, PodAffinity, PodAffinityTerm
from situate.objects.selection.label_selectors import selector_of
from tests.plugins.twins.world import PASS, UNRESOLVABLE, UNSCHEDULABLE, Answer, World

Pairs = Counter[tuple[str, str]]
"""By topology key and value."""


def required(affinity: PodAffinity | None) -> tuple[PodAffinityTerm, ...]:
    return affinity.required if affinity is not None else ()


def preferred(affinity: PodAffinity | None) -> list[tuple[int, PodAffinityTerm]]:
    return [(wish.weight, wish.pod_affinity_term) for wish in affinity.preferred] if affinity is not None else []


def check(pod: Pod) -> None:
    """`BadSelector` where one of the pod's own terms cannot be read."""
    for each in (pod.spec.affinity.pod_affinity, pod.spec.affinity.pod_anti_affinity):
        for term in (*required(each), *(term for _, term in preferred(each))):
            selector_of(term.label_selector)
            selector_of(term.namespace_selector)


def means(term: PodAffinityTerm, owner: Pod, other: Pod, world: World) -> bool:
    """Whether the owner's term is about the other pod."""
    namespaces = set(term.namespaces)
    if not namespaces and term.namespace_selector is None:
        namespaces = {owner.metadata.namespace}
    namespace = other.metadata.namespace
    chosen = selector_of(term.namespace_selector).matches(world.namespaces.get(namespace, {}))
    if namespace not in namespaces and not chosen:
        return False
    return selector_of(term.label_selector).matches(other.metadata.labels)


def means_all(terms: Sequence[PodAffinityTerm], owner: Pod, other: Pod, world: World) -> bool:
    return bool(terms) and all(means(term, owner, other, world) for term in terms)


def pairs(pod: Pod, world: World) -> tuple[Pairs, Pairs, Pairs]:
    """Existing anti-affinity that means the pod, its affinity, its anti-affinity: (a), (b), (c) of the reference."""
    repelled, affinity, anti_affinity = Pairs(), Pairs(), Pairs()
    own = pod.spec.affinity
    attracting = required(own.pod_affinity)
    for node in world.nodes:
        labels = node.metadata.labels
        for other in world.on(node):
            for term in required(other.spec.affinity.pod_anti_affinity):
                if term.topology_key in labels and means(term, other, pod, world):
                    repelled[term.topology_key, labels[term.topology_key]] += 1
            for term in attracting:
                if term.topology_key in labels and means_all(attracting, pod, other, world):
                    affinity[term.topology_key, labels[term.topology_key]] += 1
            for term in required(own.pod_anti_affinity):
                if term.topology_key in labels and means(term, pod, other, world):
                    anti_affinity[term.topology_key, labels[term.topology_key]] += 1
    return repelled, affinity, anti_affinity


def filter_node(pod: Pod, node: Node, world: World) -> Answer:
    check(pod)
    repelled, affinity, anti_affinity = pairs(pod, world)
    labels = node.metadata.labels
    attracting = required(pod.spec.affinity.pod_affinity)
    if any(term.topology_key not in labels for term in attracting):
        return Answer(UNRESOLVABLE, ("node(s) didn't match pod affinity rules",))
    near = all(affinity[term.topology_key, labels[term.topology_key]] > 0 for term in attracting)
    first = not affinity and means_all(attracting, pod, pod, world)
    if not near and not first:
        return Answer(UNRESOLVABLE, ("node(s) didn't match pod affinity rules",))
    for term in required(pod.spec.affinity.pod_anti_affinity):
        if anti_affinity[term.topology_key, labels.get(term.topology_key, "")] and term.topology_key in labels:
            return Answer(UNSCHEDULABLE, ("node(s) didn't match pod anti-affinity rules",))
    if any(repelled[pair] for pair in labels.items()):
        return Answer(UNSCHEDULABLE, ("node(s) didn't satisfy existing pods anti-affinity rules",))
    return PASS


def score_nodes(
    pod: Pod, feasible: Sequence[Node], world: World, hard_weight: int = 1, ignore_existing: bool = False
) -> list[int] | None:
    """None is Skip."""
    check(pod)
    own = pod.spec.affinity
    wishes = preferred(own.pod_affinity) + [(-weight, term) for weight, term in preferred(own.pod_anti_affinity)]
    if ignore_existing and not wishes:
        return None
    worth: dict[tuple[str, str], int] = {}

    def add(node: Node, key: str, weight: int) -> None:
        if key in node.metadata.labels and weight:
            pair = key, node.metadata.labels[key]
            worth[pair] = worth.get(pair, 0) + weight

    for node in world.nodes:
        for other in world.on(node):
            theirs = other.spec.affinity
            for weight, term in wishes:
                if means(term, pod, other, world):
                    add(node, term.topology_key, weight)
            for term in required(theirs.pod_affinity):
                if means(term, other, pod, world):
                    add(node, term.topology_key, hard_weight)
            for weight, term in preferred(theirs.pod_affinity):
                if means(term, other, pod, world):
                    add(node, term.topology_key, weight)
            for weight, term in preferred(theirs.pod_anti_affinity):
                if means(term, other, pod, world):
                    add(node, term.topology_key, -weight)
    if not worth:
        return None
    raw = [sum(worth.get(pair, 0) for pair in node.metadata.labels.items()) for node in feasible]
    lowest, highest = min(raw, default=0), max(raw, default=0)
    if highest == lowest:
        return [0 for _ in raw]
    return [int(100.0 * (float(each - lowest) / float(highest - lowest))) for each in raw]

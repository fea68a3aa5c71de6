from __future__ import annotations

from collections.abc import Callable, Sequence

from situate.objects.kinds.nodes import Node
from situate.objects.kinds.pods import Pod
from tests.plugins.twins.normalizing import broken_line
from tests.plugins.twins.requests import is_extended, names, request, room, scored_request, wanted_request
from tests.plugins.twins.world import PASS, UNRESOLVABLE, UNSCHEDULABLE, Answer, World

NATIVE = ("cpu", "memory", "ephemeral-storage")


def filter_node(
    pod: Pod, node: Node, world: World, ignored: Sequence[str] = (), ignored_groups: Sequence[str] = ()
) -> Answer:
    reasons = []
    never = False
    if len(world.on(node)) + 1 > room(node, "pods"):
        reasons.append("Too many pods")
    asked = names(pod)
    for name in [each for each in NATIVE if each in asked] + [each for each in asked if each not in NATIVE]:
        wanted = request(pod, name)
        if wanted <= 0:
            continue
        if is_extended(name) and (name in ignored or name.split("/")[0] in ignored_groups):
            continue
        used = sum(request(other, name) for other in world.on(node))
        if wanted > room(node, name) - used:
            reasons.append(f"Insufficient {name}")
        if wanted > room(node, name):
            never = True
    if not reasons:
        return PASS
    return Answer(UNRESOLVABLE if never else UNSCHEDULABLE, tuple(reasons))


def least_allocated(requested: int, capacity: int) -> int:
    return 0 if requested > capacity else (capacity - requested) * 100 // capacity


def most_allocated(requested: int, capacity: int) -> int:
    return min(requested, capacity) * 100 // capacity


def in_use(pod: Pod, node: Node, world: World, name: str) -> int | None:
    """With the pod on the node; None if the resource does not count."""
    asked = request(pod, name)
    if room(node, name) == 0 or (name not in NATIVE and asked == 0):
        return None
    return sum(scored_request(other, name) for other in world.on(node)) + wanted_request(pod, name)


def score_node(
    pod: Pod,
    node: Node,
    world: World,
    resources: Sequence[tuple[str, int]] = (("cpu", 1), ("memory", 1)),
    strategy: Callable[[int, int], int] = least_allocated,
) -> int:
    total = weights = 0
    for name, weight in resources:
        requested = in_use(pod, node, world, name)
        if requested is not None:
            total += weight * strategy(requested, room(node, name))
            weights += weight
    return total // weights if weights else 0


def score_by_ratio(
    pod: Pod, node: Node, world: World, resources: Sequence[tuple[str, int]], shape: Sequence[tuple[int, int]]
) -> int:
    points = [(at, 10 * score) for at, score in shape]
    total = weights = 0
    for name, weight in resources:
        requested = in_use(pod, node, world, name)
        if requested is None:
            continue
        capacity = room(node, name)
        share = broken_line(points, 100 if requested > capacity else requested * 100 // capacity)
        if share > 0:
            total += weight * share
            weights += weight
    return (2 * total + weights) // (2 * weights) if weights else 0

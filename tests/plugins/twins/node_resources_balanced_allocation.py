from __future__ import annotations

import math
from collections.abc import Sequence

from situate.objects.kinds.nodes import Node
from situate.objects.kinds.pods import Pod
from tests.plugins.twins.requests import request, room
from tests.plugins.twins.world import World

NATIVE = ("cpu", "memory", "ephemeral-storage")


def skips(pod: Pod, resources: Sequence[str] = ("cpu", "memory")) -> bool:
    return not any(request(pod, name) for name in resources)


def score_node(pod: Pod, node: Node, world: World, resources: Sequence[str] = ("cpu", "memory")) -> int:
    improved = evenness(pod, node, world, resources) - evenness(pod, node, world, resources, with_it=False)
    return 50 + (50 + improved) // 2


def evenness(
    pod: Pod, node: Node, world: World, resources: Sequence[str] = ("cpu", "memory"), *, with_it: bool = True
) -> int:
    """With the pod on the node, or without it."""
    shares = []
    for name in resources:
        capacity = room(node, name)
        if capacity == 0 or (name not in NATIVE and request(pod, name) == 0):
            continue
        used = sum(request(other, name) for other in world.on(node)) + with_it * request(pod, name)
        shares.append(min(used / capacity, 1.0))
    deviation = 0.0
    if len(shares) == 2:
        deviation = abs((shares[0] - shares[1]) / 2)
    elif len(shares) > 2:
        mean = sum(shares) / len(shares)
        squares = 0.0
        for share in shares:
            squares += (share - mean) * (share - mean)
        deviation = math.sqrt(squares / len(shares))
    return int((1 - deviation) * 100)

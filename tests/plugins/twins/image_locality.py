from __future__ import annotations

from situate.objects.kinds.nodes import Node
from situate.objects.kinds.pods import Pod
from tests.plugins.twins.world import World

MEBI = 2**20


def with_tag(image: str) -> str:
    return image if ":" in image.split("/")[-1] else image + ":latest"


def size_on(image: str, node: Node) -> int | None:
    sizes = [each.size_bytes for each in node.status.images if image in each.names]
    return max(sizes) if sizes else None


def score_node(pod: Pod, node: Node, world: World) -> int:
    containers = [*pod.spec.init_containers, *pod.spec.containers]
    images = [container.image for container in containers]
    images += [volume.image.reference for volume in pod.spec.volumes if volume.image is not None]
    total = 0
    for image in map(with_tag, images):
        size = size_on(image, node)
        if size is not None:
            having = sum(size_on(image, other) is not None for other in world.nodes)
            total += int(size * (having / len(world.nodes)))
    least, most = 23 * MEBI, 1000 * MEBI * len(containers)
    return 100 * ((least if total < least else min(total, most)) - least) // (most - least)

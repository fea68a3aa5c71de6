"""ImageLocality: prefers nodes that already have a Pod's images (upstream plugins/imagelocality)."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from situate.framework.plugin_api.plugin import HIGHEST, Reads, Scores
from situate.framework.pod.pods import PodInfo
from situate.framework.snapshot.node_table import NodeTable
from situate.framework.snapshot.snapshot import Snapshot

_MEBI: Final = 2**20
_LEAST: Final = 23 * _MEBI
_MOST_EACH: Final = 1000 * _MEBI


class ImageLocality:
    """A Score plugin: 0..100 by the bytes that need no download. An image counts more the more nodes have it."""

    name = "ImageLocality"
    reads = Reads.NODE
    heeds_requests = False

    def score(self, state: Any, pod: PodInfo, snapshot: Snapshot) -> Scores:  # noqa: ARG002
        images, containers = pod.template.images, pod.template.containers

        def counted(nodes: NodeTable) -> Scores:
            total = np.zeros(len(nodes), dtype=np.int64)
            for image in images:
                total += _image_scores(image, nodes)
            most = _MOST_EACH * containers
            counted: Scores = np.where(total < _LEAST, _LEAST, np.minimum(total, most))
            return HIGHEST * (counted - _LEAST) // (most - _LEAST)

        return snapshot.static((self.name, images, containers), counted)


def _image_scores(image: str, nodes: NodeTable) -> Scores:
    """Return `trunc(size * (nodes that have it / all nodes))` where the image is, else 0.

    The factor keeps Pods from crowding on few nodes.
    """
    there = nodes.map_images(lambda images: max((size for name, size in images if name == image), default=-1))
    has = there >= 0
    spread = float(np.count_nonzero(has)) / float(len(nodes))
    return np.where(has, (there * spread).astype(np.int64), 0)

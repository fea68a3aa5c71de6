"""Storage capacity scores (upstream volumebinding scorer.go, KEP-4049): alpha upstream, enabled here by a shape."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from situate.framework.plugin_api.plugin import Scores
from situate.framework.results.verdict import Mask
from situate.framework.snapshot.node_load import Amounts
from situate.framework.snapshot.node_table import NodeTable
from situate.framework.volumes.storage import Storage
from situate.plugins.broken_line import BrokenLine
from situate.plugins.volume_matching import NO_VOLUME
from situate.plugins.volume_search import VolumeSearchResult, capacity_for


class _ClassAmounts:
    """The requested amount and the capacity of each storage class, (nodes,) each."""

    def __init__(self, nodes: int) -> None:
        self._nodes = nodes
        self._of_class: dict[str, tuple[Mask, Amounts, Amounts]] = {}

    def arrays_of(self, name: str) -> tuple[Mask, Amounts, Amounts]:
        """Return the arrays of a class, for the caller to fill: where it counts, requested, capacity."""
        known = self._of_class.get(name)
        if known is None:
            zeros = np.zeros
            known = self._of_class[name] = (
                zeros(self._nodes, np.bool_),
                zeros(self._nodes, np.int64),
                zeros(self._nodes, np.int64),
            )
        return known

    def scores(self, line: BrokenLine) -> Scores:
        """Return the mean over the classes that count on a node, rounded half away from zero; 0 without any."""
        total = np.zeros(self._nodes, dtype=np.int64)
        number = np.zeros(self._nodes, dtype=np.int64)
        for counts, requested, capacity in self._of_class.values():
            share = np.where((capacity == 0) | (requested > capacity), 100, requested * 100 // np.maximum(capacity, 1))
            total += np.where(counts, line.values_at(share), 0)
            number += counts
        mean: NDArray[np.float64] = total / np.maximum(number, 1)
        return np.floor(mean + 0.5).astype(np.int64)


def capacity_scores(found: VolumeSearchResult, line: BrokenLine, storage: Storage, nodes: NodeTable) -> Scores:
    """Return (nodes,): scores of the chosen volumes, or where there are none, of the storage for provisioning."""
    given, made = _ClassAmounts(len(nodes)), _ClassAmounts(len(nodes))
    any_given = np.zeros(len(nodes), dtype=np.bool_)
    for match in found.matches:
        size = 0 if match.claim.requested_storage is None else match.claim.requested_storage.value
        for place in np.unique(match.choice[match.choice != NO_VOLUME]).tolist():
            volume = match.volumes[place]
            here = match.choice == place
            counts, requested, capacity = given.arrays_of(volume.spec.storage_class_name)
            counts |= here
            requested[here] += size
            capacity[here] += volume.size.value
            any_given |= here
    for provision in found.provisions:
        room = capacity_for(provision.claim, storage, nodes)
        if room is not None and provision.claim.requested_storage is not None:
            here = provision.where & (room >= 0)
            counts, requested, capacity = made.arrays_of(provision.claim.spec.storage_class_name)
            counts |= here
            requested[here] += provision.claim.requested_storage.value
            capacity[here] = room[here]  # not added: all these volumes share one capacity
    return np.where(any_given, given.scores(line), made.scores(line))

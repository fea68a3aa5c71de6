"""Counts of pods per topology domain, kept up to date pod by pod.

Affinity and spread ask over and over how many pods of a kind are in each domain. A tally answers in no time: it is
counted once, and then moves by one entry for each pod that comes or goes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from situate.framework.pod.pods import PodInfo
from situate.framework.results.verdict import Indices, Mask
from situate.framework.snapshot.labels import Domains

Weight = Callable[[PodInfo], int]
"""How much a pod counts; depends on its template, its labels and whether it is terminating, nothing else."""

_KEPT: Final = 1024
"""Tallies before all are counted afresh."""
_CLASSES: Final = 2**16


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """What a tally counts."""

    key: Hashable
    """Equal keys ask the same about the same domains and eligible nodes."""
    topology_key: str
    weight: Weight
    eligible: Mask | None = None
    """(nodes,): only pods there count; None is everywhere."""


@dataclass(slots=True, eq=False)
class _Tally:
    question: Question
    domains: Domains
    domain: NDArray[np.int32]
    """(nodes,): -1 where pods do not count."""
    counts: NDArray[np.int64]
    """(domains,)"""


class Tallies:
    """Those that were asked for, over one node table; mutable, of one owner."""

    def __init__(self) -> None:
        self._tallies: dict[Hashable, _Tally] = {}
        self._concerned: dict[tuple[int, int, bool], tuple[PodInfo, tuple[tuple[_Tally, int], ...]]] = {}

    def get(
        self, question: Question, domains: Domains, placed: Callable[[], Iterable[tuple[PodInfo, int]]]
    ) -> NDArray[np.int64]:
        """(domains,): the counts. They go on changing with the owner; whoever wants to keep them copies them."""
        key = (question.key, id(domains), id(question.eligible))  # the tally keeps both, so that the ids stay theirs
        tally = self._tallies.get(key)
        if tally is None:
            if len(self._tallies) >= _KEPT:
                self._tallies.clear()
            tally = self._tallies[key] = _counted(question, domains, placed())
            self._concerned.clear()
        return tally.counts

    def move(self, info: PodInfo, node: int, sign: int) -> None:
        """A pod comes to the node (+1), or leaves it (-1)."""
        if not self._tallies:
            return
        for tally, weight in self._concerning(info):
            domain, counts = tally.domain.item(node), tally.counts
            if domain >= 0:
                counts[domain] = counts.item(domain) + sign * weight  # half the time of `+=`

    def move_equal(self, info: PodInfo, nodes: Indices, sign: int) -> None:
        """Many pods like `info`, one for each entry of `nodes`, which may repeat."""
        for tally, weight in self._concerning(info):
            domains = tally.domain[nodes]
            np.add.at(tally.counts, domains[domains >= 0], sign * weight)

    def clear(self) -> None:
        """They are counted afresh when they are asked for again."""
        self._tallies.clear()
        self._concerned.clear()

    def copy(self) -> Tallies:
        twin = Tallies()
        twin._tallies = {
            key: _Tally(tally.question, tally.domains, tally.domain, tally.counts.copy())
            for key, tally in self._tallies.items()
        }
        return twin

    def _concerning(self, info: PodInfo) -> tuple[tuple[_Tally, int], ...]:
        if not self._tallies:
            return ()
        identity = (id(info.template), id(info.labels), info.terminating)
        known = self._concerned.get(identity)
        if known is None:
            if len(self._concerned) >= _CLASSES:
                self._concerned.clear()
            weighed = ((tally, tally.question.weight(info)) for tally in self._tallies.values())
            # the pod is kept, so that nothing else can get its template's identity
            known = self._concerned[identity] = (info, tuple(pair for pair in weighed if pair[1]))
        return known[1]


def _counted(question: Question, domains: Domains, placed: Iterable[tuple[PodInfo, int]]) -> _Tally:
    domain = domains.of_node
    if question.eligible is not None:
        domain = np.where(question.eligible, domain, np.int32(-1))
    counts = np.zeros(domains.count, dtype=np.int64)
    weights: dict[tuple[int, int, bool], int] = {}
    for info, node in placed:
        if node < 0:
            continue
        identity = (id(info.template), id(info.labels), info.terminating)
        weight = weights.get(identity)
        if weight is None:
            weight = weights[identity] = question.weight(info)
        if weight and domain[node] >= 0:
            counts[domain[node]] += weight
    return _Tally(question, domains, domain, counts)

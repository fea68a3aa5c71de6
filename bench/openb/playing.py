"""Many runs, some at the same time."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

from bench.openb.experiment import Curve, run
from bench.openb.trace import PodList, TraceNode


@dataclass(frozen=True, slots=True)
class Asked:
    """One run."""

    listed: int
    """Which of the lists."""
    policy: str
    seed: int


def play(lists: Sequence[PodList], nodes: Sequence[TraceNode], asked: Sequence[Asked], jobs: int) -> Iterator[Curve]:
    """In the order asked, whoever is done first; at most `jobs` processes."""
    if jobs == 1:
        yield from (run(lists[each.listed], nodes, each.policy, each.seed) for each in asked)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, context, initializer=_take, initargs=(lists, nodes)) as pool:
        yield from pool.map(_play, asked)


_GIVEN: list[tuple[Sequence[PodList], Sequence[TraceNode]]] = []
"""In a worker: what it plays on, sent once."""


def _take(lists: Sequence[PodList], nodes: Sequence[TraceNode]) -> None:
    _GIVEN.append((lists, nodes))


def _play(asked: Asked) -> Curve:
    lists, nodes = _GIVEN[0]
    return run(lists[asked.listed], nodes, asked.policy, asked.seed)

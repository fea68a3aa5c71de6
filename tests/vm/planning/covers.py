"""Random choices of whom to move, and how far from the best one of all that are possible `cheapest_cover` is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import numpy as np
from numpy.typing import NDArray

from situate.vm.model.policy import GIB
from situate.vm.planning.search.cheapest_cover import cheapest_cover


@dataclass(frozen=True, slots=True)
class CoverCase:
    """A choice as `cheapest_cover` is asked for it, with targets for everybody."""

    costs: list[int]
    freed: NDArray[np.int64]
    """(candidates, resources)"""
    need: list[int]


def cover_case(rng: Random, candidates: int) -> CoverCase:
    """Machines whose CPU and memory are alike or not, and whose cost follows from their memory or does not."""
    alike, by_size = rng.random() < 0.5, rng.random() < 0.5
    costs, freed = [], []
    for _ in range(candidates):
        cpu = rng.randint(1, 16)
        memory = cpu if alike else rng.randint(1, 16)
        price = 5 + memory * rng.uniform(0.8, 4.5) if by_size else rng.uniform(5, 100)
        costs.append(round(price * 1e6))
        freed.append((cpu * 250, memory * GIB))
    amounts = np.array(freed, dtype=np.int64)
    share = rng.uniform(0.05, 0.8)
    need = [max(1, int(each * share)) for each in amounts.sum(axis=0).tolist()]
    if rng.random() < 0.3:
        need[rng.randint(0, 1)] = 0
    return CoverCase(costs, amounts, need)


def optimum(costs: Sequence[int], freed: NDArray[np.int64], need: Sequence[int], most: int | None = None) -> int:
    """The least cost of all sets, of up to `most` members, that cover the need; -1: none does."""
    sets = np.arange(1, 1 << len(costs))
    members = ((sets[:, None] >> np.arange(len(costs))) & 1).astype(np.int64)
    covering = (members @ freed >= np.array(need)).all(axis=1) & (members.sum(axis=1) <= (most or len(costs)))
    return int((members @ np.array(costs))[covering].min(initial=-1 if not covering.any() else np.iinfo(np.int64).max))


def ratio(case: CoverCase) -> float:
    """What the choice costs, by what the best one does."""
    chosen = cheapest_cover(case.costs, case.freed, case.need, lambda _chosen: True)
    return sum(case.costs[each] for each in chosen) / optimum(case.costs, case.freed, case.need)


def ratio_of_few(case: CoverCase, most: int = 3) -> float | None:
    """The same where no more than `most` may be chosen together; None where so few cannot cover the need."""
    best = optimum(case.costs, case.freed, case.need, most)
    if best < 0:
        return None
    chosen = cheapest_cover(case.costs, case.freed, case.need, lambda chosen: len(chosen) <= most)
    return sum(case.costs[each] for each in chosen) / best if chosen else math.inf

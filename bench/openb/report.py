"""Means over seeds, and the table of them beside the published ones."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from typing import Any

import numpy as np

from bench.openb.experiment import Curve
from bench.openb.trace import DATA

ALLOCATED_AT = (100, 130)
FRAGMENTED_AT = (50, 80, 100, 130)
"""Percent of the cluster's GPUs that the pods so far have asked for."""
WITHIN = 0.6
"""Points that a mean may be off."""


@dataclass(frozen=True, slots=True)
class Band:
    """At each whole percent asked for: percent of the cluster's GPUs, over the seeds."""

    mean: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]

    @classmethod
    def of(cls, curves: Sequence[Sequence[float]]) -> Band:
        stacked = np.array(curves)
        return cls(*(tuple(each.tolist()) for each in (stacked.mean(axis=0), stacked.min(axis=0), stacked.max(axis=0))))


@dataclass(frozen=True, slots=True)
class Policy:
    """What became of one policy on one list."""

    allocated: Band
    fragmented: Band

    @classmethod
    def of(cls, curves: Sequence[Curve]) -> Policy:
        return cls(Band.of([curve.allocated for curve in curves]), Band.of([curve.fragmented for curve in curves]))


Study = Mapping[str, Policy]
"""By policy."""


@dataclass(frozen=True, slots=True)
class Published:
    """Means of ten seeds."""

    allocated: tuple[float, ...]
    """At `ALLOCATED_AT`."""
    fragmented: tuple[float, ...]
    """At `FRAGMENTED_AT`."""


def published(listed: str) -> Mapping[str, Published]:
    """By policy; empty for a list that nothing was published about."""
    of_list: dict[str, Any] = _published()["lists"].get(listed, {})
    return {policy: Published(tuple(each["allocated"]), tuple(each["fragmented"])) for policy, each in of_list.items()}


@cache
def _published() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((DATA / "published.json").read_text(encoding="utf-8"))
    return found


def figures(study: Study) -> dict[str, list[float]]:
    """For programs: each policy's allocation."""
    return {
        policy: [round(each.allocated.mean[percent], 2) for percent in ALLOCATED_AT] for policy, each in study.items()
    }


def table(listed: str, study: Study) -> Iterator[str]:
    """Lines."""
    known = published(listed)
    yield "GPUs in use, % of the cluster, when 100 % and 130 % of it have been asked for; mean of the seeds"
    heads = [f"at {percent} %" for percent in ALLOCATED_AT]
    yield _row("policy", *heads, *(f"published {head}" for head in heads if known), *("off by",) * bool(known))
    for policy, each in study.items():
        ours = [each.allocated.mean[percent] for percent in ALLOCATED_AT]
        theirs = known[policy].allocated if policy in known else ()
        off = max((abs(one - other) for one, other in zip(ours, theirs, strict=False)), default=None)
        yield _row(policy, *_numbers(ours, 2), *_numbers(theirs, 2), "" if off is None else f"{off:.2f}")
    yield ""
    yield "GPUs idle but fragmented, % of the cluster, when so much has been asked for; ours / published"
    yield _row("policy", *(f"{percent} %" for percent in FRAGMENTED_AT))
    for policy, each in study.items():
        mine = _numbers([each.fragmented.mean[percent] for percent in FRAGMENTED_AT], 1)
        other = _numbers(known[policy].fragmented, 1) if policy in known else [""] * len(mine)
        yield _row(policy, *(f"{one} / {two}" if two else one for one, two in zip(mine, other, strict=True)))
    yield ""
    yield verdict(study, known)


def verdict(study: Study, known: Mapping[str, Published]) -> str:
    """Whether these are the published results."""
    if not known.keys() >= study.keys():
        return "nothing was published about this list"
    off = {
        policy: max(
            abs(each.allocated.mean[at] - was) for at, was in zip(ALLOCATED_AT, known[policy].allocated, strict=True)
        )
        for policy, each in study.items()
    }
    worst = max(off, key=lambda policy: off[policy])
    close = (
        f"all means are within {WITHIN} points" if off[worst] <= WITHIN else f"{worst} is {off[worst]:.2f} points off"
    )
    return f"{close}; {_ranking(study, known)}"


def _ranking(study: Study, known: Mapping[str, Published]) -> str:
    swapped = [
        f"{one} and {other} at {percent} % (published {abs(apart):.2f} apart)"
        for number, percent in enumerate(ALLOCATED_AT)
        for one, other in combinations(study, 2)
        if (apart := known[one].allocated[number] - known[other].allocated[number])
        * (study[one].allocated.mean[percent] - study[other].allocated.mean[percent])
        < 0
    ]
    return "the ranking is the published one" if not swapped else "these change places: " + ", ".join(swapped)


def _numbers(values: Sequence[float], digits: int) -> list[str]:
    return [f"{value:.{digits}f}" for value in values]


def _row(first: str, *cells: str) -> str:
    return (f"  {first:<13}" + "".join(f"{cell:>20}" for cell in cells)).rstrip()

"""Free capacity in two steps: a neighbour migrates to a node after another VM has left that node.

The planner uses chains only if no single step covers the need (B19).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from math import fsum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from situate.vm.model.migrations import Beneficiary, BeneficiaryKind
from situate.vm.model.node_columns import Column, column
from situate.vm.model.resource_amounts import Amounts, total
from situate.vm.planning.candidates import Candidate
from situate.vm.planning.plan import Way
from situate.vm.planning.plan_builder import beneficiary, migration_ref, steps_with_claims
from situate.vm.planning.search.options import Option, Shortfall
from situate.vm.planning.search.view import PlanningView, cheapest_candidates

MAX_LINKS: Final = 200
"""How many links are evaluated, the most promising first, so that a plan takes bounded time."""
MAX_COMPLETED_LINKS: Final = 10
"""For how many links the search looks for further VMs that must leave as well."""


@dataclass(frozen=True, slots=True)
class Link:
    """A VM that leaves for a target, and the VMs that leave that target for it."""

    candidate: Candidate
    target: int
    missing: Amounts
    """The missing capacity for it on the target."""
    target_leavers: tuple[Candidate, ...]


@dataclass(frozen=True, slots=True)
class Chain:
    link: Link
    others: tuple[Candidate, ...]
    """Further neighbours, whose targets have capacity."""

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        return (*self.link.target_leavers, self.link.candidate, *self.others)

    @property
    def cost(self) -> float:
        return fsum(each.cost for each in self.candidates)

    @property
    def price(self) -> int:
        return sum(each.price for each in self.candidates)


def cheapest_chain(
    view: PlanningView, short: Shortfall, leavers: Sequence[Candidate], aimed: Sequence[Candidate]
) -> Option:
    """Return the cheapest chain for the whole need.

    The target of one neighbour is freed first; all others have targets with capacity. `leavers` are the VMs that may
    leave the node, and `with_targets` are those with a target. No VM migrates to the node that needs capacity. Ties go
    by creation time and UID of the neighbour, then by name of the target.
    """
    if view.rules.chain_depth < 2:
        return Option(Way.CHAIN, why_not="chains are disabled (chainDepth)")
    away = view.without_target(short.node)
    best: tuple[Chain, tuple[str, ...]] | None = None
    completed = 0
    for least, mover, target in islice(_promising_links(away, short, leavers, aimed), MAX_LINKS):
        if best is not None and least >= best[0].price:
            break
        link = _link(away, mover, target)
        completed += link is not None
        found = (
            _complete_chain(away, short, link, aimed) if link is not None and completed <= MAX_COMPLETED_LINKS else None
        )
        if found and (best is None or found[0].price < best[0].price):
            best = found
    if best is None:
        return Option(Way.CHAIN, why_not="no target has enough capacity after other VMs leave it")
    return _option(view, short, *best)


def _promising_links(
    view: PlanningView, short: Shortfall, leavers: Sequence[Candidate], aimed: Sequence[Candidate]
) -> Iterator[tuple[int, Candidate, int]]:
    """Yield neighbours and targets without enough capacity, by the least cost of such a chain, with that cost."""
    pools = _Pools.from_view(view)
    costs, whose, targets = [], [], []
    for number, mover in enumerate(leavers):
        rest = (short.wanted - mover.amount).positive_part()
        beside = [each for each in aimed if each.pod is not mover.pod]
        others = cheapest_candidates(beside, rest, lambda _chosen: True) if rest else ()  # at least these
        if rest and not others:
            continue
        missing = _missing_by_target(view, mover)
        able = view.targets.open & missing.any(axis=0) & (missing <= pools.leaving).all(axis=0)
        found = np.flatnonzero(able)
        costs.append(mover.price + sum(each.price for each in others) + pools.cheapest[found])
        whose.append(np.full(found.size, number))
        targets.append(found)
    if costs:
        least, who, where = np.concatenate(costs), np.concatenate(whose), np.concatenate(targets)
        for at in np.argsort(least, kind="stable").tolist():
            yield int(least[at]), leavers[who[at]], int(where[at])


def _missing_by_target(view: PlanningView, mover: Candidate) -> Column:
    """Return (resources, nodes): the capacity that each target lacks for the VM."""
    wanted = column([mover.amount], len(mover.amount))
    return np.asarray(np.maximum(wanted - view.targets.capacity, 0), dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class _Pools:
    """The VMs that might leave each target. An upper bound, because their own targets are not checked."""

    leaving: Column
    """(resources, nodes): the sum of their amounts."""
    cheapest: NDArray[np.int64]
    """(nodes,): the least price of any of them."""

    @classmethod
    def from_view(cls, view: PlanningView) -> _Pools:
        leaving, cheapest = np.zeros_like(view.targets.total), np.zeros(len(view.targets.names), dtype=np.int64)
        most = view.targets.largest_capacity
        for index in np.flatnonzero(view.targets.open).tolist():
            pods = view.state.nodes[view.targets.names[index]].pods.values()
            held = [(pod, pod.counted_amount(pod.reserved)) for pod in pods]
            leavers = [(pod, amount) for pod, amount in held if amount.fits_within(most) and not view.stay_reason(pod)]
            if leavers:
                leaving[:, index] = total((amount for _, amount in leavers), view.state.resources).values
                cheapest[index] = min(view.least_price(pod) for pod, _ in leavers)
        return cls(leaving, cheapest)


def _link(view: PlanningView, mover: Candidate, target: int) -> Link | None:
    """Return the link with the cheapest VMs that free the target.

    None if the target refuses the VM or cannot be freed.
    """
    name = view.targets.names[target]
    if target not in view.accepting_nodes(mover, [target]):
        return None
    missing = Amounts(tuple(_missing_by_target(view, mover)[:, target].tolist()))
    makers = view.cover(view.candidates(name, missing), missing)
    return Link(mover, target, missing, makers) if makers else None


def _complete_chain(
    view: PlanningView, short: Shortfall, link: Link, aimed: Sequence[Candidate]
) -> tuple[Chain, tuple[str, ...]] | None:
    """Return the chain with the other VMs that it needs and targets for all. None: there are none.

    No other VM migrates to the target that is being freed.
    """
    after = view.without_target(view.targets.names[link.target])
    rest = (short.wanted - link.candidate.amount).positive_part()
    others: tuple[Candidate, ...] = ()
    if rest:
        others = after.cover(after.with_targets([each for each in aimed if each.pod is not link.candidate.pod]), rest)
        if not others:
            return None
    placed = after.best_targets((*link.target_leavers, *others))
    return None if placed is None else (Chain(link, others), placed)


def _option(view: PlanningView, short: Shortfall, chain: Chain, placed: tuple[str, ...]) -> Option:
    """Return the option: first the VMs that free the target, each with a claim for the migration that needs it."""
    link, first = chain.link, len(chain.link.target_leavers)
    waits = Beneficiary(BeneficiaryKind.TARGET, migration_ref(link.candidate))
    steps = steps_with_claims(link.target_leavers, placed[:first], waits, link.missing)
    targets = (view.targets.names[link.target], *placed[first:])
    steps += steps_with_claims((link.candidate, *chain.others), targets, beneficiary(short.pod), short.wanted)
    return Option(Way.CHAIN, chain.cost, tuple(steps))

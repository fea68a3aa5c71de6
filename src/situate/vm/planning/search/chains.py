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
from situate.vm.planning.candidates import Mover
from situate.vm.planning.plan import Way
from situate.vm.planning.plan_builder import beneficiary, claiming, migration
from situate.vm.planning.search.options import Option, Short
from situate.vm.planning.search.view import View, cheapest

MOST_LINKS: Final = 200
"""How many links are evaluated, the most promising first, so that a plan takes bounded time."""
MOST_COMPLETED: Final = 10
"""For how many links the search looks for further VMs that must leave as well."""


@dataclass(frozen=True, slots=True)
class Link:
    """A VM that leaves for a target, and the VMs that leave that target for it."""

    mover: Mover
    target: int
    missing: Amounts
    """The missing capacity for it on the target."""
    makers: tuple[Mover, ...]


@dataclass(frozen=True, slots=True)
class Chain:
    link: Link
    others: tuple[Mover, ...]
    """Further neighbours, whose targets have capacity."""

    @property
    def movers(self) -> tuple[Mover, ...]:
        return (*self.link.makers, self.link.mover, *self.others)

    @property
    def cost(self) -> float:
        return fsum(each.cost for each in self.movers)

    @property
    def price(self) -> int:
        return sum(each.price for each in self.movers)


def chain(view: View, short: Short, leavers: Sequence[Mover], aimed: Sequence[Mover]) -> Option:
    """Return the cheapest chain for the whole need.

    The target of one neighbour is freed first; all others have targets with capacity. `leavers` are the VMs that may
    leave the node, and `aimed` are those with a target. No VM migrates to the node that needs capacity. Ties go by
    creation time and UID of the neighbour, then by name of the target.
    """
    if view.rules.chain_depth < 2:
        return Option(Way.CHAIN, why_not="chains are disabled (chainDepth)")
    away = view.without_target(short.node)
    best: tuple[Chain, tuple[str, ...]] | None = None
    completed = 0
    for least, mover, target in islice(_promising(away, short, leavers, aimed), MOST_LINKS):
        if best is not None and least >= best[0].price:
            break
        link = _link(away, mover, target)
        completed += link is not None
        found = _completed(away, short, link, aimed) if link is not None and completed <= MOST_COMPLETED else None
        if found and (best is None or found[0].price < best[0].price):
            best = found
    if best is None:
        return Option(Way.CHAIN, why_not="no target has enough capacity after other VMs leave it")
    return _option(view, short, *best)


def _promising(
    view: View, short: Short, leavers: Sequence[Mover], aimed: Sequence[Mover]
) -> Iterator[tuple[int, Mover, int]]:
    """Yield neighbours and targets without enough capacity, by the least cost of such a chain, with that cost."""
    pools = _Pools.of(view)
    costs, whose, targets = [], [], []
    for number, mover in enumerate(leavers):
        rest = (short.wanted - mover.amount).positive()
        beside = [each for each in aimed if each.pod is not mover.pod]
        others = cheapest(beside, rest, lambda _chosen: True) if rest else ()  # at least these
        if rest and not others:
            continue
        missing = _missing(view, mover)
        able = view.targets.open & missing.any(axis=0) & (missing <= pools.leaving).all(axis=0)
        found = np.flatnonzero(able)
        costs.append(mover.price + sum(each.price for each in others) + pools.cheapest[found])
        whose.append(np.full(found.size, number))
        targets.append(found)
    if costs:
        least, who, where = np.concatenate(costs), np.concatenate(whose), np.concatenate(targets)
        for at in np.argsort(least, kind="stable").tolist():
            yield int(least[at]), leavers[who[at]], int(where[at])


def _missing(view: View, mover: Mover) -> Column:
    """Return (resources, nodes): the capacity that each target lacks for the VM."""
    wanted = column([mover.amount], len(mover.amount))
    return np.asarray(np.maximum(wanted - view.targets.room, 0), dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class _Pools:
    """The VMs that might leave each target. An upper bound, because their own targets are not checked."""

    leaving: Column
    """(resources, nodes): the sum of their amounts."""
    cheapest: NDArray[np.int64]
    """(nodes,): the least price of any of them."""

    @classmethod
    def of(cls, view: View) -> _Pools:
        leaving, cheapest = np.zeros_like(view.targets.total), np.zeros(len(view.targets.names), dtype=np.int64)
        most = view.targets.most
        for index in np.flatnonzero(view.targets.open).tolist():
            pods = view.state.nodes[view.targets.names[index]].pods.values()
            held = [(pod, pod.counted(pod.reserved)) for pod in pods]
            leavers = [(pod, amount) for pod, amount in held if amount.within(most) and not view.stays(pod)]
            if leavers:
                leaving[:, index] = total((amount for _, amount in leavers), view.state.resources).values
                cheapest[index] = min(view.least_price(pod) for pod, _ in leavers)
        return cls(leaving, cheapest)


def _link(view: View, mover: Mover, target: int) -> Link | None:
    """Return the link with the cheapest VMs that free the target.

    None if the target refuses the VM or cannot be freed.
    """
    name = view.targets.names[target]
    if target not in view.willing(mover, [target]):
        return None
    missing = Amounts(tuple(_missing(view, mover)[:, target].tolist()))
    makers = view.cover(view.candidates(name, missing), missing)
    return Link(mover, target, missing, makers) if makers else None


def _completed(view: View, short: Short, link: Link, aimed: Sequence[Mover]) -> tuple[Chain, tuple[str, ...]] | None:
    """Return the chain with the other VMs that it needs and targets for all. None: there are none.

    No other VM migrates to the target that is being freed.
    """
    after = view.without_target(view.targets.names[link.target])
    rest = (short.wanted - link.mover.amount).positive()
    others: tuple[Mover, ...] = ()
    if rest:
        others = after.cover(after.aimed([each for each in aimed if each.pod is not link.mover.pod]), rest)
        if not others:
            return None
    placed = after.placed((*link.makers, *others))
    return None if placed is None else (Chain(link, others), placed)


def _option(view: View, short: Short, chain: Chain, placed: tuple[str, ...]) -> Option:
    """Return the option: first the VMs that free the target, each with a claim for the migration that needs it."""
    link, first = chain.link, len(chain.link.makers)
    waits = Beneficiary(BeneficiaryKind.TARGET, migration(link.mover))
    steps = claiming(link.makers, placed[:first], waits, link.missing)
    targets = (view.targets.names[link.target], *placed[first:])
    steps += claiming((link.mover, *chain.others), targets, beneficiary(short.pod), short.wanted)
    return Option(Way.CHAIN, chain.cost, tuple(steps))

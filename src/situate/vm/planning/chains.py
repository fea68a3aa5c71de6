"""Room in two steps: a neighbour goes where others make room for it first (B19), for what no single step can do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import fsum

import numpy as np

from situate.vm.amounts import Amounts, total
from situate.vm.claims import Beneficiary, BeneficiaryKind
from situate.vm.planning.building import beneficiary, claiming, migration
from situate.vm.planning.movers import Mover
from situate.vm.planning.options import Option, Short
from situate.vm.planning.plan import Way
from situate.vm.planning.view import View


@dataclass(frozen=True, slots=True)
class Link:
    """One that leaves for a node, and those that leave that node for it."""

    mover: Mover
    target: int
    missing: Amounts
    """Of the room that it needs there."""
    makers: tuple[Mover, ...]


@dataclass(frozen=True, slots=True)
class Chain:
    link: Link
    others: tuple[Mover, ...]
    """Further neighbours, with room where they go."""

    @property
    def movers(self) -> tuple[Mover, ...]:
        return (*self.link.makers, self.link.mover, *self.others)

    @property
    def cost(self) -> float:
        return fsum(each.cost for each in self.movers)

    @property
    def price(self) -> int:
        return sum(each.price for each in self.movers)


def chain(view: View, short: Short) -> Option:
    """The cheapest chain for all that is wanted: of one neighbour the target is made ready, all others have theirs.

    Nobody goes to the node on which room is made. Ties: the neighbour's creation time and UID, then the target's name.
    """
    if view.rules.chain_depth < 2:
        return Option(Way.CHAIN, why_not="chains are switched off")
    away = view.without_target(short.node)
    leavers = away.free_to_go(short.node, short.wanted, but=short.pod.uid)
    best: tuple[Chain, tuple[str, ...]] | None = None
    pools: dict[int, tuple[Mover, ...]] = {}
    for mover in sorted(leavers, key=lambda each: (each.price, each.order)):
        for target, missing in _targets(away, mover):
            if target not in pools:
                pools[target] = away.candidates(away.targets.names[target], missing)
            limit = None if best is None else best[0].price
            if limit is not None and mover.price + min((each.price for each in pools[target]), default=0) >= limit:
                continue
            makers = away.cover([away.priced(each, missing) for each in pools[target]], missing)
            if not makers:
                continue
            found = _completed(away, short, Link(mover, target, missing, makers), leavers)
            if found is not None and (limit is None or found[0].price < limit):
                best = found
    if best is None:
        return Option(Way.CHAIN, why_not="no target can be made ready by moving others away from it")
    return _option(view, short, *best)


def _targets(view: View, mover: Mover) -> Iterator[tuple[int, Amounts]]:
    """Nodes that would take it if there were room, and what is missing there."""
    wanted = np.array(mover.amount.values, dtype=np.int64)[:, None]
    missing = np.maximum(wanted - view.targets.room, 0)
    used = view.targets.total - view.targets.avail
    able = view.targets.open & missing.any(axis=0) & (missing <= used).all(axis=0)
    for index in view.willing(mover, able):
        yield index, Amounts(tuple(missing[:, index].tolist()))


def _completed(
    view: View, short: Short, link: Link, leavers: tuple[Mover, ...]
) -> tuple[Chain, tuple[str, ...]] | None:
    """With those others that are needed beside it, and targets of all but the one that is made ready."""
    after = view.with_room(
        link.target, total((each.amount for each in link.makers), len(short.wanted)) - link.mover.amount
    )
    rest = (short.wanted - link.mover.amount).positive()
    others: tuple[Mover, ...] = ()
    if rest:
        direct = (_elsewhere(each, link.target) for each in leavers if each is not link.mover)
        others = after.cover([each for each in direct if each.targets], rest)
        if not others:
            return None
    placed = after.placed((*link.makers, *others))
    return None if placed is None else (Chain(link, others), placed)


def _elsewhere(mover: Mover, target: int) -> Mover:
    return replace(mover, targets=tuple(each for each in mover.targets if each != target))


def _option(view: View, short: Short, chain: Chain, placed: tuple[str, ...]) -> Option:
    """First those that make a target ready, each with a claim of the move that needs it (B1)."""
    link, first = chain.link, len(chain.link.makers)
    waits = Beneficiary(BeneficiaryKind.TARGET, migration(link.mover))
    steps = claiming(link.makers, placed[:first], waits, link.missing)
    targets = (view.targets.names[link.target], *placed[first:])
    steps += claiming((link.mover, *chain.others), targets, beneficiary(short.pod), short.wanted)
    return Option(Way.CHAIN, chain.cost, tuple(steps))

"""Opt-in rebalance (B7): moves a satisfied vpod towards even, with the fewest moves and never more than allowed.

A move takes from the pod that holds most of the vpod and gives to the one that holds least and has room, as long as
they differ by two or more. Pods that are held neither give nor take, and none takes what the predicates of
`policy: policy` refuse it. With a topology, domains are evened out first, then the pods inside each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain

from situate.vpod.model.options import PolicyName, Topology
from situate.vpod.model.pod_classes import PodClass
from situate.vpod.model.vpod import Key
from situate.vpod.placement import resize_by_policy
from situate.vpod.placement.decide import Decision, MoveCause, resettled
from situate.vpod.state.state import State
from situate.vpod.state.vpod_view import Situation


def is_due(state: State, last: float | None, now: float, rollout: bool) -> bool:
    """Whether an interval may begin: never while a drain or a rollout of the StatefulSet is under way."""
    options = state.options.rebalance
    if not options.enabled or not state.options.safe or state.drain is not None or rollout:
        return False
    return last is None or now >= last + options.interval


def moves_allowed(state: State) -> int:
    """Moves of one interval over all vpods: the number that is set, or a share of all that is reserved, at least 1."""
    options = state.options.rebalance
    if options.max_moves is not None:
        return options.max_moves
    return max(1, int(options.max_moves_share * sum(entry.reserved_total for entry in state.vpods.values())))


def candidates(state: State) -> list[Key]:
    """Vpods that may be evened out. In lister order."""
    return [key for key in state.vpods if is_settled(state, key)]


def is_settled(state: State, key: Key) -> bool:
    """Whether a vpod holds all it wants and its status says so: nothing of it is under way."""
    entry = state.vpods.get(key)
    if entry is None or not entry.listed or not entry.reserved:
        return False
    return entry.reserved_total == entry.wanted and entry.status == entry.reserved


def rebalanced(state: State, key: Key, now: float, allowed: int) -> Decision | None:
    """Up to `allowed` moves of one vpod, and not above `maxMovesPerVPod`; None if it is even. The caller commits.

    None as well while a pod gives it up or is overcommitted: then it has to be scheduled, not evened out (S4).
    """
    state.advance(now)
    entry = state.vpods[key]
    if not state.ousted.isdisjoint(entry.reserved or ()):
        return None
    vpod = entry.as_vpod()
    situation = Situation.of(state, vpod)
    own = dict(situation.start)
    moved = 0
    for _ in range(min(allowed, state.options.rebalance.max_moves_per_vpod)):
        move = _next_move(situation, own)
        if move is None:
            break
        giver, taker = move
        own[giver] -= 1
        if own[giver] == 0:
            del own[giver]
        own[taker] = own.get(taker, 0) + 1
        moved += 1
    return resettled(situation, vpod, own, Counter({MoveCause.REBALANCE: moved})) if moved else None


def _next_move(situation: Situation, own: dict[int, int]) -> tuple[int, int] | None:
    """From the fullest pod (ties: highest ordinal) to the emptiest one with room (ties: lowest); None when even."""
    state = situation.state
    if state.options.topology is Topology.NONE:
        return _between(situation, own, list(_accepting(state, own)), situation.fresh(own, set()))
    domains: dict[str, list[int]] = {name: [] for name in state.open}
    for ordinal in _accepting(state, own):
        domains.setdefault(state.slots[ordinal].domain, []).append(ordinal)
    totals = {name: sum(own[o] for o in ordinals) for name, ordinals in domains.items()}
    if totals:
        fullest = max(totals, key=lambda name: (totals[name], name))
        for name in sorted(totals, key=lambda name: (totals[name], name)):
            if totals[fullest] - totals[name] < 2:
                break
            giver = max(domains[fullest], key=lambda o: (own[o], o))
            taker = _emptiest(situation, own, giver, domains[name], situation.fresh(own, set(), name))
            if taker is not None:
                return giver, taker
    for name in sorted(domains):
        move = _between(situation, own, domains[name], situation.fresh(own, set(), name))
        if move is not None:
            return move
    return None


def _between(
    situation: Situation, own: dict[int, int], holding: list[int], fresh: Iterator[int]
) -> tuple[int, int] | None:
    if not holding:
        return None
    giver = max(holding, key=lambda o: (own[o], o))
    if own[giver] < 2:
        return None
    emptier = (ordinal for ordinal in holding if own[giver] - own[ordinal] >= 2)
    taker = _emptiest(situation, own, giver, emptier, fresh)
    return (giver, taker) if taker is not None else None


def _emptiest(
    situation: Situation, own: dict[int, int], giver: int, holding: Iterable[int], fresh: Iterator[int]
) -> int | None:
    """Of the pods with room the one with the fewest, as far as the policy lets it take what the giver gives."""
    by_load = sorted(holding, key=lambda o: (own[o], o))
    takers = (o for o in chain(fresh, by_load) if situation.room(o, own.get(o, 0)))
    first = next(takers, None)
    if first is None or situation.state.options.policy is not PolicyName.POLICY:
        return first
    refused = resize_by_policy.refusals(situation, own | {giver: own[giver] - 1})
    return next((ordinal for ordinal in chain((first,), takers) if ordinal not in refused), None)


def _accepting(state: State, own: dict[int, int]) -> Iterator[int]:
    return (o for o in own if state.verdict(o).pod_class is PodClass.ACCEPT)

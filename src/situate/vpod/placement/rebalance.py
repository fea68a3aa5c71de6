"""Opt-in rebalancing: evens out a satisfied vpod with the fewest moves, within the move limits.

A move goes from the Pod with the most vreplicas of the vpod to the Pod with the fewest. The taking Pod needs free
capacity, and the two must differ by at least two. Pods on hold take no part. With `policy: policy`, no Pod takes a
vreplica that the predicates refuse. With a topology, domains are evened out first, then the Pods inside each domain.
Rule B7.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain

from situate.vpod.model.options import PolicyName, Topology
from situate.vpod.model.pod_classes import PodClass
from situate.vpod.model.vpod import Key
from situate.vpod.placement import resize_by_policy
from situate.vpod.placement.decide import Decision, MoveCause, decision_with_places
from situate.vpod.state.state import State
from situate.vpod.state.vpod_view import VPodView


def is_due(state: State, last: float | None, now: float, rollout: bool) -> bool:
    """Return whether an interval may begin; never while a drain or a rollout of the StatefulSet is in progress."""
    options = state.options.rebalance
    if not options.enabled or not state.options.safe or state.drain is not None or rollout:
        return False
    return last is None or now >= last + options.interval


def moves_allowed(state: State) -> int:
    """Return the most moves of one interval over all vpods: the configured number, or a share of all reserved
    vreplicas.
    """
    return state.options.rebalance.allowed_moves(sum(entry.reserved_total for entry in state.vpods.values()))


def rebalance_candidates(state: State) -> list[Key]:
    """Return the vpods that may be evened out, in lister order."""
    return [key for key in state.vpods if is_settled(state, key)]


def is_settled(state: State, key: Key) -> bool:
    """Return whether a vpod holds exactly its wanted vreplicas and its status agrees with its reservation."""
    entry = state.vpods.get(key)
    if entry is None or not entry.listed or not entry.reserved:
        return False
    return entry.reserved_total == entry.wanted and entry.status == entry.reserved


def rebalance_vpod(state: State, key: Key, now: float, allowed: int) -> Decision | None:
    """Make up to `allowed` moves of one vpod, at most `maxMovesPerVPod`. The caller commits the decision.

    Return None if the vpod is even. Return None too if one of its Pods rejects it or is overcommitted: such a vpod has
    to be scheduled first (S4).
    """
    state.advance(now)
    entry = state.vpods[key]
    if not state.ousted.isdisjoint(entry.reserved or ()):
        return None
    vpod = entry.as_vpod()
    situation = VPodView.from_state(state, vpod)
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
    return decision_with_places(situation, vpod, own, Counter({MoveCause.REBALANCE: moved})) if moved else None


def _next_move(situation: VPodView, own: dict[int, int]) -> tuple[int, int] | None:
    """Return the next move, from the fullest Pod to the emptiest Pod with free capacity; None if the vpod is even.

    Ties: the highest ordinal gives, and the lowest ordinal takes.
    """
    state = situation.state
    if state.options.topology is Topology.NONE:
        return _move_between_pods(
            situation, own, list(_accepting_ordinals(state, own)), situation.unused_ordinals(own, set())
        )
    domains: dict[str, list[int]] = {name: [] for name in state.open}
    for ordinal in _accepting_ordinals(state, own):
        domains.setdefault(state.slots[ordinal].domain, []).append(ordinal)
    totals = {name: sum(own[o] for o in ordinals) for name, ordinals in domains.items()}
    if totals:
        fullest = max(totals, key=lambda name: (totals[name], name))
        for name in sorted(totals, key=lambda name: (totals[name], name)):
            if totals[fullest] - totals[name] < 2:
                break
            giver = max(domains[fullest], key=lambda o: (own[o], o))
            taker = _emptiest_taker(situation, own, giver, domains[name], situation.unused_ordinals(own, set(), name))
            if taker is not None:
                return giver, taker
    for name in sorted(domains):
        move = _move_between_pods(situation, own, domains[name], situation.unused_ordinals(own, set(), name))
        if move is not None:
            return move
    return None


def _move_between_pods(
    situation: VPodView, own: dict[int, int], holding: list[int], fresh: Iterator[int]
) -> tuple[int, int] | None:
    if not holding:
        return None
    giver = max(holding, key=lambda o: (own[o], o))
    if own[giver] < 2:
        return None
    emptier = (ordinal for ordinal in holding if own[giver] - own[ordinal] >= 2)
    taker = _emptiest_taker(situation, own, giver, emptier, fresh)
    return (giver, taker) if taker is not None else None


def _emptiest_taker(
    situation: VPodView, own: dict[int, int], giver: int, holding: Iterable[int], fresh: Iterator[int]
) -> int | None:
    """Return the Pod with free capacity and the fewest own vreplicas that may take one from the giver by the policy."""
    by_load = sorted(holding, key=lambda o: (own[o], o))
    takers = (o for o in chain(fresh, by_load) if situation.free_vreplicas(o, own.get(o, 0)))
    first = next(takers, None)
    if first is None or situation.state.options.policy is not PolicyName.POLICY:
        return first
    refused = resize_by_policy.refusals_by_ordinal(situation, own | {giver: own[giver] - 1})
    return next((ordinal for ordinal in chain((first,), takers) if ordinal not in refused), None)


def _accepting_ordinals(state: State, own: dict[int, int]) -> Iterator[int]:
    return (o for o in own if state.verdict(o).pod_class is PodClass.ACCEPT)

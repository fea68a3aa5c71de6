"""The deciding half of vpod: the placement of one vpod as a function of the state, the vpod and the time.

`decide` reads and `commit` reserves: together they are one schedule, in O(own entries + placed + log pods). The rules
are in "Spread", "Pack" and "Beyond Knative" of `docs/spec/vpod.md`. The plugins are in `policy`, and `autoscaler` sizes
the StatefulSet.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

import msgspec

from situate.objects.values.counts import format_count
from situate.vpod.knative_era import adapter
from situate.vpod.model.options import PolicyName, ReferenceVersion
from situate.vpod.model.pod_classes import Cause, PodClass
from situate.vpod.model.records import NO_PLACES, Places, VPodEntry
from situate.vpod.model.vpod import Key, NotEnoughReplicas, Placements, VPod, priority_of
from situate.vpod.placement import fill, resize_by_policy, shrink, spare_copies
from situate.vpod.placement.shortage import Shortage, describe_shortage
from situate.vpod.state.fairness_limits import Limit, Rule, strictest_limit
from situate.vpod.state.state import State
from situate.vpod.state.vpod_view import VPodView


class MoveCause(StrEnum):
    """Why placed vreplicas lose their place."""

    LOSS = "loss"
    DRAIN = "drain"
    REBALANCE = "rebalance"
    OVERCOMMIT = "overcommit"


@dataclass(frozen=True, slots=True)
class Notice:
    """A message for the owner of the vpod, for an Event on the vpod."""

    reason: str
    message: str


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """The placements of one vpod. A shortage is a result, not an error: see `left`."""

    key: Key
    wanted: int
    """0 for a vpod that is being deleted."""
    target: int
    """At least `wanted`; more if `minReplicas` asks for it and no vpod lacks wanted vreplicas."""
    placements: Placements
    """Sorted by ordinal, one entry for each Pod, no entry with zero vreplicas."""
    left: int = 0
    """Vreplicas without a place."""
    reservation: Places
    """The same as `placements`, by ordinal."""
    delta: Places = NO_PLACES
    """Vreplicas that the reservation gains or loses, by ordinal."""
    base: Places | None = None
    """The reservation before the decision."""
    others: Mapping[Key, Places] = msgspec.field(default_factory=dict)
    """Changed reservations of other vpods; only with the decisions of v0.43.0."""
    resource_version: str = ""
    """resourceVersion of the vpod that the decision read."""
    changed: bool = False
    """Whether the status has to be written because it differs."""
    moves: Mapping[MoveCause, int] = msgspec.field(default_factory=dict)
    """Vreplicas that lost their place, by cause."""
    notices: tuple[Notice, ...] = ()
    shortage: Shortage | None = None
    """The reason if `left` is above 0."""

    @property
    def wakes_autoscaler(self) -> bool:
        return self.left > 0

    def result(self, statefulset: str) -> Placements:
        """Return the placements. A shortage raises NotEnoughReplicas with the partial result, as in Knative's API."""
        if self.left:
            raise NotEnoughReplicas(statefulset, self.placements, self.left)
        return self.placements


def decide(state: State, vpod: VPod, now: float, leave_draining: bool = False) -> Decision:
    """Place one vpod. The state does not change, except that its clock advances.

    Vreplicas stay on their Pods unless the Pod rejects them or is overcommitted (S5). `leave_draining` also moves
    vreplicas away from Pods that a drain empties. Equal inputs give equal decisions (S9).
    """
    state.advance(now)
    situation = VPodView.from_state(state, vpod)
    wanted = 0 if vpod.deletion_timestamp is not None else max(0, vpod.vreplicas)
    if adapter.reproduces_knative(state):
        return _era_decision(situation, vpod, wanted)
    raised = effective_target(state, wanted, _participating_pod_count(situation))
    target = spare_copies.vreplicas_to_hold(situation, vpod.key, wanted, raised, situation.start)
    surge = situation.entry.surge if situation.entry is not None else 0
    if not leave_draining and _is_settled(situation, target, target + surge):
        entry = situation.entry
        assert entry is not None
        return _make_decision(situation, vpod, wanted, target, entry.reserved or NO_PLACES, Counter(), None, 0)
    moves: Counter[MoveCause] = Counter()
    own, emptied, drained = _trim_places(situation, moves, leave_draining)
    target = spare_copies.vreplicas_to_hold(situation, vpod.key, wanted, raised, own)
    placed = sum(own.values())
    limited: Limit | None = None
    if placed > target + surge:
        own = _remove_surplus(situation, own, placed - target - surge, returns=target < raised)
    elif placed < target + surge:
        missing = target + surge - placed
        limited = strictest_limit(situation, vpod.key.namespace, priority_of(vpod), placed)
        allowed = missing if limited is None else min(missing, limited.vreplicas)
        before, own = own, _add_missing(situation, own, emptied, allowed)
        if moved := sum(max(0, held - own.get(ordinal, 0)) for ordinal, held in before.items()):
            moves[MoveCause.REBALANCE] += moved
        limited = _limiting_rule(situation, own, limited, missing, allowed, sum(own.values()) - placed)
        own = _return_to_drained_pods(own, drained, target + surge, moves)
    own = _spread_to_cover(situation, own, target, moves)
    return _make_decision(
        situation, vpod, wanted, target, own, moves, limited, _unplaced_count(state, wanted, target, own)
    )


def decision_with_places(situation: VPodView, vpod: VPod, own: Places, moves: Counter[MoveCause]) -> Decision:
    """Return a decision with the given places, for moves that no schedule asks for."""
    target = effective_target(situation.state, vpod.vreplicas)
    left = _unplaced_count(situation.state, vpod.vreplicas, target, own)
    return _make_decision(situation, vpod, vpod.vreplicas, target, own, moves, None, left)


def commit(state: State, decision: Decision) -> None:
    """Make the decision the vpod's reservation, also under a shortage, in O(changed entries)."""
    limited = decision.shortage.limit if decision.shortage is not None else None
    state.commit(
        decision.key,
        decision.reservation,
        decision.placements,
        decision.left,
        decision.delta,
        decision.base,
        # a vpod that waits only for higher priorities waits for capacity, as they do
        rule="" if limited is None or limited.rule is Rule.PRIORITY else limited.rule,
    )
    for key, places in decision.others.items():
        state.reserve(key, places)


def schedule_all(state: State, wanted: Iterable[tuple[VPod, int]], now: float) -> dict[Key, Decision]:
    """Schedule each (vpod, vreplicas) and commit the decisions, the same as one call after the other in this order."""
    decisions: dict[Key, Decision] = {}
    for vpod, vreplicas in wanted:
        decision = decide(state, ResizedVPod(vpod, vreplicas), now)
        commit(state, decision)
        decisions[vpod.key] = decision
    return decisions


@dataclass(frozen=True, slots=True)
class ResizedVPod:
    """A vpod with another number of vreplicas; all other attributes are the original's."""

    vpod: VPod
    vreplicas: int

    @property
    def key(self) -> Key:
        return self.vpod.key

    @property
    def placements(self) -> Placements:
        return self.vpod.placements

    @property
    def resource_version(self) -> str:
        return self.vpod.resource_version

    @property
    def deletion_timestamp(self) -> str | None:
        return self.vpod.deletion_timestamp

    @property
    def weight(self) -> int:
        return getattr(self.vpod, "weight", 1)

    @property
    def priority(self) -> int:
        return priority_of(self.vpod)


def retry_order(state: State) -> list[Key]:
    """Return the vpods with a shortage in the order of retries: by priority, then by age."""
    return [entry.key for entry in sorted(state.short.values(), key=retry_sort_key)]


def retry_sort_key(entry: VPodEntry) -> tuple[int, float, Key]:
    """Return the sort key of a vpod with a shortage; the smallest is tried first."""
    return -entry.priority, entry.short_since or 0.0, entry.key


def effective_target(state: State, wanted: int, pods: int | None = None) -> int:
    """Raise `wanted` to `minReplicas`, as far as there are accepting Pods (step 5 of "Spread").

    A vpod that wants 0 gets 0 (D7); the reference profile raises 0 as well. `pods` replaces the number of accepting
    Pods.
    """
    options = state.options
    if options.policy is not PolicyName.SPREAD or options.min_replicas <= wanted:
        return wanted
    if wanted == 0 and options.safe:
        return 0
    if not options.safe and options.version is not ReferenceVersion.MAIN:
        return wanted
    accepting = state.causes[Cause.NONE] if pods is None else pods
    return max(wanted, min(options.min_replicas, accepting))


def _participating_pod_count(situation: VPodView) -> int:
    """Count the accepting Pods, and the Pods on hold where the vpod runs.

    A short absence removes nothing. Rules V23 and B3.
    """
    state = situation.state
    accepting = state.causes[Cause.NONE]
    if not state.options.safe or accepting >= state.options.min_replicas:
        return accepting
    return accepting + sum(state.verdict(ordinal).pod_class is PodClass.HOLD for ordinal in situation.start)


def vpods_lacking_spare_copies(state: State) -> list[Key]:
    """Return satisfied vpods for whose `minReplicas` copies there is free capacity."""
    options = state.options
    if not options.safe or options.policy is not PolicyName.SPREAD or not options.min_replicas:
        return []
    targets = ((each, effective_target(state, each.wanted)) for each in state.vpods.values() if each.listed)
    return spare_copies.spare_copy_takers(state, targets)


def pods_to_cover(state: State, target: int) -> int:
    """Return the least number of Pods in a result, provided that they have free capacity."""
    options = state.options
    if not options.safe or options.policy is not PolicyName.SPREAD or not options.min_replicas:
        return 0
    return min(options.min_replicas, target, state.causes[Cause.NONE])


def _is_settled(situation: VPodView, target: int, aim: int) -> bool:
    """Return whether the vpod holds its target and none of its Pods rejects or is overcommitted."""
    entry, state = situation.entry, situation.state
    return (
        entry is not None
        and situation.start is entry.reserved
        and entry.reserved_total == aim
        and entry.reserved.keys().isdisjoint(state.ousted)
        and len(entry.reserved) >= pods_to_cover(state, target)
    )


def _trim_places(
    situation: VPodView, moves: Counter[MoveCause], leave_draining: bool
) -> tuple[dict[int, int], list[int], dict[int, int]]:
    """Trim the vpod's places (step 4 of "Spread"), and return three parts, each ascending.

    The parts are the vreplicas that stay, the accepting Pods that lost all of them, and the vreplicas on drained Pods.
    """
    state, weight = situation.state, situation.weight
    own: dict[int, int] = {}
    emptied: list[int] = []
    drained: dict[int, int] = {}
    for ordinal, held in sorted(situation.start.items()):
        verdict = state.verdict(ordinal)
        if verdict.pod_class is PodClass.REJECT:
            moves[MoveCause.LOSS] += held
            continue
        if leave_draining and state.is_drained(ordinal):
            moves[MoveCause.DRAIN] += held
            drained[ordinal] = held
            continue
        over = situation.overcommitted_units(ordinal, held)
        if over > 0:
            cut = min(held, -(-over // weight))
            moves[MoveCause.OVERCOMMIT] += cut
            held -= cut
        if held > 0:
            own[ordinal] = held
        elif verdict.pod_class is PodClass.ACCEPT:
            emptied.append(ordinal)
    return own, emptied, drained


def _return_to_drained_pods(
    own: dict[int, int], drained: Places, aim: int, moves: Counter[MoveCause]
) -> dict[int, int]:
    """Give vreplicas without another place back to the drained Pods, lowest ordinal first, so that they still run."""
    homeless = aim - sum(own.values())
    for ordinal, held in drained.items():
        back = min(held, homeless)
        if back > 0:
            own[ordinal] = back
            homeless -= back
            moves[MoveCause.DRAIN] -= back
    return own


def _remove_surplus(situation: VPodView, own: dict[int, int], surplus: int, *, returns: bool) -> dict[int, int]:
    """Remove the surplus as `shrink` says (step 6 of "Spread"), first from Pods that a drain empties.

    `returns`: the surplus frees capacity for other vpods, so it leaves accepting Pods first. Rule B4.
    """
    state = situation.state
    remove = shrink.remove_from_fullest if state.options.shrinks_evenly else shrink.remove_from_highest
    if returns:
        first, remove_first = spare_copies.returnable_places(situation, own), remove
    else:
        first, remove_first = {o: n for o, n in own.items() if state.is_drained(o)}, shrink.remove_from_highest
    cut = min(surplus, sum(first.values()))
    if cut:
        kept = remove_first(first, cut)
        own = {o: kept.get(o, 0) if o in first else n for o, n in own.items()}
        own = {o: n for o, n in own.items() if n}
        surplus -= cut
    if state.options.policy is PolicyName.POLICY:
        return resize_by_policy.remove_by_policy(situation, own, surplus)
    return remove(own, surplus)


def _add_missing(situation: VPodView, own: dict[int, int], emptied: list[int], missing: int) -> dict[int, int]:
    """Add the missing vreplicas with the configured policy (step 7 of "Spread")."""
    if missing <= 0:
        return own
    match situation.state.options.policy:
        case PolicyName.POLICY:
            return resize_by_policy.add_by_policy(situation, own, missing)
        case PolicyName.PACK:
            added = fill.pack(situation, own, missing)
        case PolicyName.SPREAD:
            added = fill.spread(situation, own, emptied, missing)
    return {ordinal: own.get(ordinal, 0) + added.get(ordinal, 0) for ordinal in (*own, *(added.keys() - own.keys()))}


def _limiting_rule(
    situation: VPodView, own: Places, limited: Limit | None, missing: int, allowed: int, added: int
) -> Limit | None:
    """Return the rule that prevented placing vreplicas, if there is one."""
    if added == missing:
        return None
    if added == allowed and allowed < missing:
        return limited
    if situation.state.options.topology_required and situation.has_free_capacity(own):
        return Limit(
            0, Rule.TOPOLOGY, f"a {situation.state.options.topology} with fewer vreplicas has no free capacity"
        )
    if situation.state.options.policy is PolicyName.POLICY and (
        refusal := resize_by_policy.refusal_summary(situation, own)
    ):
        return Limit(0, Rule.PREDICATES, refusal)
    return None


def _spread_to_cover(
    situation: VPodView, own: dict[int, int], target: int, moves: Counter[MoveCause]
) -> dict[int, int]:
    """Spread over more Pods while fewer than required are covered and others have free capacity.

    Each of these Pods takes one vreplica from the fullest own Pod (ties: the highest ordinal). Pods of the vpod's
    earlier reservation come first, then the lowest ordinals. Rule D7.
    """
    needed = min(pods_to_cover(situation.state, target), sum(own.values()))
    if len(own) >= needed:
        return own
    own = dict(own)
    before = [ordinal for ordinal in sorted(situation.start) if ordinal not in own]
    for ordinal in (*before, *situation.unused_ordinals(own, set(before))):
        if len(own) >= needed:
            break
        if ordinal in own or situation.free_vreplicas(ordinal, 0) == 0:
            continue
        fullest = max(own, key=lambda o: (own[o], o))
        if own[fullest] < 2:
            break
        own[fullest] -= 1
        own[ordinal] = 1
        if ordinal not in situation.start:
            moves[MoveCause.REBALANCE] += 1
    return own


def _unplaced_count(state: State, wanted: int, target: int, own: Places) -> int:
    """Return the vreplicas without a place.

    In `safe`, vreplicas that `minReplicas` adds do not count. Rule D6.
    """
    return max(0, (wanted if state.options.safe else target) - sum(own.values()))


def _make_decision(
    situation: VPodView,
    vpod: VPod,
    wanted: int,
    target: int,
    own: Places,
    moves: Counter[MoveCause],
    limited: Limit | None,
    left: int,
) -> Decision:
    state, entry = situation.state, situation.entry
    base = entry.reserved if entry is not None else None
    if own is base:
        assert entry is not None
        delta, placements = NO_PLACES, entry.result
    else:
        own = dict(sorted(own.items()))
        delta = _delta(base or NO_PLACES, own)
        placements = state.placements_of(own) if delta or base is None or entry is None else entry.result
    short = describe_shortage(situation, own, left, limited) if left else None
    return Decision(
        key=vpod.key,
        wanted=wanted,
        target=target,
        placements=placements,
        left=left,
        reservation=own,
        delta=delta,
        base=base,
        resource_version=vpod.resource_version,
        changed=vpod.placements is not placements and vpod.placements != placements,
        moves=moves,
        notices=_notices(situation, vpod),
        shortage=short,
    )


def _era_decision(situation: VPodView, vpod: VPod, wanted: int) -> Decision:
    """Decide as v0.43.0 does: a shortage returns the old placements, whatever is reserved by then."""
    state = situation.state
    answer = adapter.schedule_vpod(state, vpod)
    base = situation.entry.reserved if situation.entry is not None else None
    return Decision(
        key=vpod.key,
        wanted=wanted,
        target=wanted,
        placements=answer.placements,
        left=answer.left,
        reservation=answer.reservation,
        delta=_delta(base or NO_PLACES, answer.reservation),
        base=base,
        others=answer.others,
        resource_version=vpod.resource_version,
        changed=vpod.placements != answer.placements,
        notices=_notices(situation, vpod),
        shortage=describe_shortage(situation, answer.reservation, answer.left, None) if answer.left else None,
    )


def _delta(old: Places, new: Places) -> dict[int, int]:
    if not old:
        return dict(new)
    changed = sorted({ordinal for ordinal, _ in old.items() ^ new.items()})
    return {ordinal: new.get(ordinal, 0) - old.get(ordinal, 0) for ordinal in changed}


def _notices(situation: VPodView, vpod: VPod) -> tuple[Notice, ...]:
    entry = situation.entry
    faults = getattr(vpod, "faults", ())
    notices = [Notice("InvalidObject", "; ".join(faults))] if faults else []
    if entry is not None and entry.invalid:
        first = entry.invalid[0]
        notices.append(
            Notice(
                "InvalidPlacement",
                f"status.placements has {format_count(len(entry.invalid), 'invalid entry', 'invalid entries')} (no pod "
                "of "
                f"{situation.state.options.statefulset}, or a negative number), such as {first.pod_name[:253]!r} with "
                f"{first.vreplicas}; vpod ignores them and removes them with its next write",
            )
        )
    return tuple(notices)

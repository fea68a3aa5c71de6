"""The deciding half of vpod: where one vpod's vreplicas go, as a function of the state, the vpod and the time.

`decide` reads, `commit` remembers: together they are one schedule, O(own entries + placed + log pods). Sections 5.1,
5.2 and 12 of the reference; the plugins of 5.3 are in `policy`, sizing the StatefulSet is in `autoscaler`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

import msgspec

from situate.objects.values.counts import counted
from situate.vpod.knative_era import adapter
from situate.vpod.model.options import PolicyName, ReferenceVersion
from situate.vpod.model.pod_classes import Cause, PodClass
from situate.vpod.model.records import NO_PLACES, Entry, Places
from situate.vpod.model.vpod import Key, NotEnoughReplicas, Placements, VPod, priority_of
from situate.vpod.placement import fill, resize_by_policy, shrink, spare_copies
from situate.vpod.placement.shortage import Shortage, shortage
from situate.vpod.state.fairness_limits import Limit, Rule, limit
from situate.vpod.state.state import State
from situate.vpod.state.vpod_view import Situation


class MoveCause(StrEnum):
    """Why vreplicas that had a place get another one."""

    LOSS = "loss"
    DRAIN = "drain"
    REBALANCE = "rebalance"
    OVERCOMMIT = "overcommit"


@dataclass(frozen=True, slots=True)
class Notice:
    """Something about the vpod that its owner should know, for an Event on it."""

    reason: str
    message: str


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """Where one vpod's vreplicas go. A shortage is an answer, not an error: see `left`."""

    key: Key
    wanted: int
    """0 for a vpod that is being deleted."""
    target: int
    """At least `wanted`; more where `minReplicas` asks for it and no vpod lacks what it wants."""
    placements: Placements
    """Sorted by ordinal, one entry a pod, none of zero vreplicas."""
    left: int = 0
    """Vreplicas without a place."""
    reservation: Places
    """The same as `placements`, by ordinal."""
    delta: Places = NO_PLACES
    """Vreplicas that the reservation gains or loses, by ordinal."""
    base: Places | None = None
    """The reservation that the decision was made on."""
    others: Mapping[Key, Places] = msgspec.field(default_factory=dict)
    """Reservations of other vpods that go with it; only as v0.43.0 decides."""
    resource_version: str = ""
    """Of the vpod that was decided on; a write of the status tests it."""
    changed: bool = False
    """Whether the status has to be written: it does not say the same already."""
    moves: Mapping[MoveCause, int] = msgspec.field(default_factory=dict)
    """Vreplicas that lost their place, by cause."""
    notices: tuple[Notice, ...] = ()
    shortage: Shortage | None = None
    """With `left` above 0: why."""

    @property
    def wakes_autoscaler(self) -> bool:
        return self.left > 0

    def result(self, statefulset: str) -> Placements:
        """The placements, or NotEnoughReplicas with what could be placed, as Knative's API answers."""
        if self.left:
            raise NotEnoughReplicas(statefulset, self.placements, self.left)
        return self.placements


def decide(state: State, vpod: VPod, now: float, leave_draining: bool = False) -> Decision:
    """Places one vpod; the state is not changed, except that its clock advances.

    What it holds stays where it is unless its pod rejects it or is overcommitted (S5). `leave_draining` also moves
    what lies on pods that are being drained. Equal inputs give equal answers (S9).
    """
    state.advance(now)
    situation = Situation.of(state, vpod)
    wanted = 0 if vpod.deletion_timestamp is not None else max(0, vpod.vreplicas)
    if adapter.answers(state):
        return _era_decision(situation, vpod, wanted)
    raised = effective_target(state, wanted, _pods_taking_part(situation))
    target = spare_copies.aim(situation, vpod.key, wanted, raised, situation.start)
    surge = situation.entry.surge if situation.entry is not None else 0
    if not leave_draining and _is_settled(situation, target, target + surge):
        entry = situation.entry
        assert entry is not None
        return _decision(situation, vpod, wanted, target, entry.reserved or NO_PLACES, Counter(), None, 0)
    moves: Counter[MoveCause] = Counter()
    own, emptied, drained = _trimmed(situation, moves, leave_draining)
    target = spare_copies.aim(situation, vpod.key, wanted, raised, own)
    placed = sum(own.values())
    limited: Limit | None = None
    if placed > target + surge:
        own = _shrunk(situation, own, placed - target - surge, returns=target < raised)
    elif placed < target + surge:
        missing = target + surge - placed
        limited = limit(situation, vpod.key.namespace, priority_of(vpod), placed)
        allowed = missing if limited is None else min(missing, limited.vreplicas)
        before, own = own, _grown(situation, own, emptied, allowed)
        if moved := sum(max(0, held - own.get(ordinal, 0)) for ordinal, held in before.items()):
            moves[MoveCause.REBALANCE] += moved
        limited = _binding(situation, own, limited, missing, allowed, sum(own.values()) - placed)
        own = _given_back(own, drained, target + surge, moves)
    own = _covering(situation, own, target, moves)
    return _decision(situation, vpod, wanted, target, own, moves, limited, _left(state, wanted, target, own))


def resettled(situation: Situation, vpod: VPod, own: Places, moves: Counter[MoveCause]) -> Decision:
    """The decision that puts a vpod's vreplicas here: for moves that no schedule asks for."""
    target = effective_target(situation.state, vpod.vreplicas)
    left = _left(situation.state, vpod.vreplicas, target, own)
    return _decision(situation, vpod, vpod.vreplicas, target, own, moves, None, left)


def commit(state: State, decision: Decision) -> None:
    """The decision becomes the vpod's reservation, also when it leaves some over (S6); O(what changed)."""
    limited = decision.shortage.limit if decision.shortage is not None else None
    state.commit(
        decision.key,
        decision.reservation,
        decision.placements,
        decision.left,
        decision.delta,
        decision.base,
        # a vpod that waits for higher priorities only, waits for room like them
        rule="" if limited is None or limited.rule is Rule.PRIORITY else limited.rule,
    )
    for key, places in decision.others.items():
        state.reserve(key, places)


def schedule_all(state: State, wanted: Iterable[tuple[VPod, int]], now: float) -> dict[Key, Decision]:
    """V4: (vpod, vreplicas) in, placements out, each committed; equal to one after the other in the given order."""
    decisions: dict[Key, Decision] = {}
    for vpod, vreplicas in wanted:
        decision = decide(state, Resized(vpod, vreplicas), now)
        commit(state, decision)
        decisions[vpod.key] = decision
    return decisions


@dataclass(frozen=True, slots=True)
class Resized:
    """A vpod that asks for another number of vreplicas; everything else is the original's."""

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
    """Vpods whose last decision left some over, the ones to try first in front: by priority, then by age (L5)."""
    return [entry.key for entry in sorted(state.short.values(), key=turn)]


def turn(entry: Entry) -> tuple[int, float, Key]:
    """Of two vpods that are short, the one with the smaller turn is tried first."""
    return -entry.priority, entry.short_since or 0.0, entry.key


def effective_target(state: State, wanted: int, pods: int | None = None) -> int:
    """Section 5.1 step 5: `minReplicas` raises what is asked for, as far as there are accepting pods.

    A vpod that asks for nothing gets nothing (D7); the reference raises that too. `pods` stands in for the number
    of accepting pods.
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


def _pods_taking_part(situation: Situation) -> int:
    """The accepting pods, and those on hold where the vpod runs: a short absence takes nothing away (V23, B3)."""
    state = situation.state
    accepting = state.causes[Cause.NONE]
    if not state.options.safe or accepting >= state.options.min_replicas:
        return accepting
    return accepting + sum(state.verdict(ordinal).pod_class is PodClass.HOLD for ordinal in situation.start)


def lacking_spare_copies(state: State) -> list[Key]:
    """Vpods that hold what they want, and for which there is room for more of what `minReplicas` adds."""
    options = state.options
    if not options.safe or options.policy is not PolicyName.SPREAD or not options.min_replicas:
        return []
    targets = ((each, effective_target(state, each.wanted)) for each in state.vpods.values() if each.listed)
    return spare_copies.takers(state, targets)


def pods_to_cover(state: State, target: int) -> int:
    """D7: a result names at least so many pods, if they have room."""
    options = state.options
    if not options.safe or options.policy is not PolicyName.SPREAD or not options.min_replicas:
        return 0
    return min(options.min_replicas, target, state.causes[Cause.NONE])


def _is_settled(situation: Situation, target: int, aim: int) -> bool:
    """Whether nothing has to be looked at pod by pod: it holds what it should, and no pod it is on has to give."""
    entry, state = situation.entry, situation.state
    return (
        entry is not None
        and situation.start is entry.reserved
        and entry.reserved_total == aim
        and entry.reserved.keys().isdisjoint(state.ousted)
        and len(entry.reserved) >= pods_to_cover(state, target)
    )


def _trimmed(
    situation: Situation, moves: Counter[MoveCause], leave_draining: bool
) -> tuple[dict[int, int], list[int], dict[int, int]]:
    """Step 4: what stays, the accepting pods on which nothing of it does, and what should leave drained pods.

    All ascending.
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
        over = situation.overcommit(ordinal, held)
        if over > 0:
            cut = min(held, -(-over // weight))
            moves[MoveCause.OVERCOMMIT] += cut
            held -= cut
        if held > 0:
            own[ordinal] = held
        elif verdict.pod_class is PodClass.ACCEPT:
            emptied.append(ordinal)
    return own, emptied, drained


def _given_back(own: dict[int, int], drained: Places, aim: int, moves: Counter[MoveCause]) -> dict[int, int]:
    """What found no other place stays on the pods that are drained, from the lowest up: nothing ever runs nowhere."""
    homeless = aim - sum(own.values())
    for ordinal, held in drained.items():
        back = min(held, homeless)
        if back > 0:
            own[ordinal] = back
            homeless -= back
            moves[MoveCause.DRAIN] -= back
    return own


def _shrunk(situation: Situation, own: dict[int, int], surplus: int, *, returns: bool) -> dict[int, int]:
    """Step 6, as `shrink` says. Pods that are being drained give first: it has to leave them anyway (B4).

    `returns`: the surplus makes room for others, so it leaves accepting pods first.
    """
    state = situation.state
    remove = shrink.from_fullest if state.options.shrinks_evenly else shrink.from_highest
    if returns:
        first, remove_first = spare_copies.returnable(situation, own), remove
    else:
        first, remove_first = {o: n for o, n in own.items() if state.is_drained(o)}, shrink.from_highest
    cut = min(surplus, sum(first.values()))
    if cut:
        kept = remove_first(first, cut)
        own = {o: kept.get(o, 0) if o in first else n for o, n in own.items()}
        own = {o: n for o, n in own.items() if n}
        surplus -= cut
    if state.options.policy is PolicyName.POLICY:
        return resize_by_policy.shrunk(situation, own, surplus)
    return remove(own, surplus)


def _grown(situation: Situation, own: dict[int, int], emptied: list[int], missing: int) -> dict[int, int]:
    """Step 7, by the configured policy."""
    if missing <= 0:
        return own
    match situation.state.options.policy:
        case PolicyName.POLICY:
            return resize_by_policy.grown(situation, own, missing)
        case PolicyName.PACK:
            added = fill.pack(situation, own, missing)
        case PolicyName.SPREAD:
            added = fill.spread(situation, own, emptied, missing)
    return {ordinal: own.get(ordinal, 0) + added.get(ordinal, 0) for ordinal in (*own, *(added.keys() - own.keys()))}


def _binding(
    situation: Situation, own: Places, limited: Limit | None, missing: int, allowed: int, added: int
) -> Limit | None:
    """The rule that kept vreplicas from being placed, if one did."""
    if added == missing:
        return None
    if added == allowed and allowed < missing:
        return limited
    if situation.state.options.topology_required and situation.has_room(own):
        return Limit(0, Rule.TOPOLOGY, f"a {situation.state.options.topology} that lags behind has no room")
    if situation.state.options.policy is PolicyName.POLICY and (refusal := resize_by_policy.refusal(situation, own)):
        return Limit(0, Rule.PREDICATES, refusal)
    return None


def _covering(situation: Situation, own: dict[int, int], target: int, moves: Counter[MoveCause]) -> dict[int, int]:
    """D7: spreads over more pods while too few are covered and others have room, one vreplica each.

    It leaves the fullest pod (ties: the highest ordinal); pods that it held before come first, then the lowest.
    """
    needed = min(pods_to_cover(situation.state, target), sum(own.values()))
    if len(own) >= needed:
        return own
    own = dict(own)
    before = [ordinal for ordinal in sorted(situation.start) if ordinal not in own]
    for ordinal in (*before, *situation.fresh(own, set(before))):
        if len(own) >= needed:
            break
        if ordinal in own or situation.room(ordinal, 0) == 0:
            continue
        fullest = max(own, key=lambda o: (own[o], o))
        if own[fullest] < 2:
            break
        own[fullest] -= 1
        own[ordinal] = 1
        if ordinal not in situation.start:
            moves[MoveCause.REBALANCE] += 1
    return own


def _left(state: State, wanted: int, target: int, own: Places) -> int:
    """D6: what `minReplicas` asks for beyond what the vpod wants is best effort in `safe`."""
    return max(0, (wanted if state.options.safe else target) - sum(own.values()))


def _decision(
    situation: Situation,
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
    short = shortage(situation, own, left, limited) if left else None
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


def _era_decision(situation: Situation, vpod: VPod, wanted: int) -> Decision:
    """As v0.43.0 answers: a shortage keeps the old placements, whatever has been reserved by then."""
    state = situation.state
    answer = adapter.schedule(state, vpod)
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
        shortage=shortage(situation, answer.reservation, answer.left, None) if answer.left else None,
    )


def _delta(old: Places, new: Places) -> dict[int, int]:
    if not old:
        return dict(new)
    changed = sorted({ordinal for ordinal, _ in old.items() ^ new.items()})
    return {ordinal: new.get(ordinal, 0) - old.get(ordinal, 0) for ordinal in changed}


def _notices(situation: Situation, vpod: VPod) -> tuple[Notice, ...]:
    entry = situation.entry
    faults = getattr(vpod, "faults", ())
    notices = [Notice("InvalidObject", "; ".join(faults))] if faults else []
    if entry is not None and entry.invalid:
        first = entry.invalid[0]
        notices.append(
            Notice(
                "InvalidPlacement",
                f"status.placements has {counted(len(entry.invalid), 'entry that is', 'entries that are')} no pod of "
                f"{situation.state.options.statefulset} or negative, the first: {first.pod_name[:253]!r} with "
                f"{first.vreplicas}; vpod ignores them and leaves them out of the next write",
            )
        )
    return tuple(notices)

"""The ways to free capacity in one step: others leave, the requester leaves, or migrations in progress free it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import fsum

from situate.vm.model.pods_and_nodes import Pod, Ref
from situate.vm.model.resource_amounts import Amounts
from situate.vm.planning.candidates import Candidate, price
from situate.vm.planning.plan import Way
from situate.vm.planning.plan_builder import Step, beneficiary, steps_with_claims
from situate.vm.planning.rules.concurrency import is_ongoing
from situate.vm.planning.rules.migration_cost import copying_s
from situate.vm.planning.rules.shortfall import capacity_for, capacity_to_free, shortage
from situate.vm.planning.search.view import PlanningView


@dataclass(frozen=True, slots=True)
class Shortfall:
    """A Pod and its missing capacity."""

    pod: Pod
    node: str
    units: int
    """Number of missing units of the resource that lacks most."""
    wanted: Amounts
    """Capacity to free on its node for all of them."""


@dataclass(frozen=True, slots=True)
class Option:
    """One way with its cost and steps, or the reason that it does not help."""

    way: Way
    cost: float | None = None
    """Cost in seconds-equivalents. None: the way does not help."""
    steps: tuple[Step, ...] = ()
    evictions: tuple[Ref, ...] = ()
    why_not: str = ""

    @property
    def price(self) -> int:
        assert self.cost is not None
        return price(self.cost)


def neighbours_option(view: PlanningView, short: Shortfall, candidates: Sequence[Candidate]) -> Option:
    """Return the cheapest set of VMs that frees the whole need."""
    if not candidates:
        return Option(Way.NEIGHBOURS, why_not=f"no VM on node {short.node} may be migrated and has a target")
    chosen = view.cover(candidates, short.wanted)
    if not chosen:
        why = f"the VMs that may leave node {short.node} do not free enough, or some have no target"
        return Option(Way.NEIGHBOURS, why_not=why)
    return migration_option(view, short, Way.NEIGHBOURS, chosen, short.wanted)


def partial_option(view: PlanningView, short: Shortfall, candidates: Sequence[Candidate]) -> Option:
    """Return the cheapest set that frees the most whole units, at least one."""
    best: tuple[tuple[Candidate, ...], Amounts] | None = None
    enough, too_many = 0, short.units
    while too_many - enough > 1:
        units = (enough + too_many) // 2
        wanted = capacity_to_free(view.state, short.node, short.pod, units)
        chosen = view.cover(candidates, wanted) if wanted else ()
        if chosen:
            best = chosen, wanted
        if chosen or not wanted:
            enough = units
        else:
            too_many = units
    if best is None:
        return Option(Way.PART, why_not="the capacity for one more unit cannot be freed")
    return migration_option(view, short, Way.PART, *best)


def migration_option(
    view: PlanningView, short: Shortfall, way: Way, chosen: Sequence[Candidate], wanted: Amounts
) -> Option:
    targets = view.best_targets(chosen)
    if targets is None:  # for very many VMs, those with many targets were assumed to find one
        return Option(way, why_not=f"the targets of {len(chosen)} VMs do not fit together")
    steps = steps_with_claims(chosen, targets, beneficiary(short.pod), wanted)
    return Option(way, fsum(each.cost for each in chosen), tuple(steps))


def self_migration_option(view: PlanningView, short: Shortfall) -> Option:
    """Return the migration of the requester to a node that has capacity for its whole request."""
    if why := view.stay_reason(short.pod):
        return Option(Way.ITSELF, why_not=f"{short.pod.ref} {why}")
    aimed = view.with_targets([grown_candidate(view, short)])
    targets = view.best_targets(aimed)
    if not aimed or targets is None:
        return Option(Way.ITSELF, why_not=f"no other node has capacity for the whole request of {short.pod.ref}")
    return Option(Way.ITSELF, aimed[0].cost, (Step(aimed[0], targets[0]),))


def grown_candidate(view: PlanningView, short: Shortfall) -> Candidate:
    """Return the requester as it would be after growth. It frees no capacity for others, so it has no surplus."""
    wanted = capacity_for(short.pod, short.pod.reserved + shortage(short.pod, short.units))
    return view.candidate(short.pod, short.node, wanted, wanted)


def waiting_option(view: PlanningView, short: Shortfall) -> Option:
    """Return the option to wait for migrations in progress that free unclaimed capacity.

    Its cost is the waiting time.
    """
    left, cost = short.wanted, 0.0
    for seconds, _, surplus in sorted(_surpluses(view, short.node), key=lambda each: each[:2]):
        if surplus.minimum(left):
            left, cost = (left - surplus).positive_part(), seconds
    if left:
        return Option(Way.WAITING, why_not="migrations in progress free no unclaimed capacity for it")
    return Option(Way.WAITING, cost)


def _surpluses(view: PlanningView, node: str) -> Iterator[tuple[float, str, Amounts]]:
    """Yield, for each migration away from the node: remaining copying seconds, key, and capacity beyond its claim."""
    state = view.state
    for key, move in state.moves.items():
        pod = state.nodes[node].pods.get(move.source.uid)
        if move.source_node == node and is_ongoing(move) and pod is not None and pod.machine is not None:
            claim = state.claims.get(move.claim)
            frees = pod.counted_amount(pod.reserved)
            share = 1.0 if move.progress is None else move.progress.remaining / max(1, move.progress.total)
            seconds = share * copying_s(pod, pod.machine, view.rules)
            yield seconds, key, frees if claim is None else (frees - claim.amount).positive_part()


def _is_protected_from_eviction(pod: Pod) -> bool:
    """Return whether an eviction would be refused because the VM migrates instead, where possible."""
    return pod.migrating or (pod.machine is not None and pod.machine.own and pod.migratable)


def eviction_option(view: PlanningView, short: Shortfall) -> Option:
    """Return the eviction of lower-priority Pods: lowest priority first, then youngest, and only needed ones."""
    if not view.rules.evict:
        return Option(Way.EVICTION, why_not="eviction is disabled (evict)")
    pods = [
        pod
        for pod in view.state.nodes[short.node].pods.values()
        if pod.priority < short.pod.priority and not pod.tentative and not _is_protected_from_eviction(pod)
    ]
    pods.sort(key=lambda pod: (pod.priority, -pod.created_at, pod.uid))
    left, chosen = short.wanted, []
    for pod in pods:
        held = pod.counted_amount(pod.reserved)
        if held.minimum(left):
            chosen.append(pod)
            left = (left - held).positive_part()
    if left:
        return Option(Way.EVICTION, why_not="pods of lower priority hold too little")
    spare = Amounts.zero(len(left))
    for pod in chosen:
        spare = spare + pod.counted_amount(pod.reserved)
    spare = spare - short.wanted
    for pod in reversed(list(chosen)):
        held = pod.counted_amount(pod.reserved)
        if held.fits_within(spare):
            chosen.remove(pod)
            spare = spare - held
    return Option(Way.EVICTION, 0.0, evictions=tuple(pod.ref for pod in chosen))

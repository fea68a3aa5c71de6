"""Plan capacity for a Pod that is short: the cheapest way, and why the others were not taken."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from situate.vm.model.policy import Rules
from situate.vm.model.resource_amounts import Amounts, total
from situate.vm.model.state import LedgerState
from situate.vm.planning.candidates import Candidate, Requester
from situate.vm.planning.plan import Alternative, Plan, Way
from situate.vm.planning.plan_builder import build_migrations, plan_id
from situate.vm.planning.rules.concurrency import is_ongoing, unlimited_rules
from situate.vm.planning.rules.shortfall import capacity_to_free, whole_units
from situate.vm.planning.search.chains import cheapest_chain
from situate.vm.planning.search.options import (
    Option,
    Shortfall,
    eviction_option,
    grown_candidate,
    neighbours_option,
    partial_option,
    self_migration_option,
    waiting_option,
)
from situate.vm.planning.search.view import PlanningView, cheapest_candidates
from situate.vm.planning.targets import Fits, accept_any_node


def plan(state: LedgerState, uid: str, now: float, rules: Rules, fits: Fits = accept_any_node) -> Plan:
    """Plan the migrations that free capacity on the Pod's node or bring the Pod to a node with capacity.

    The caller decides whether the Pod has been short for long enough (B16). Plans of several waiters are made one after
    the other, by priority and then age. Each plan sees the migrations of the earlier ones in the state. If only
    migrations in progress prevent the start, the plan waits for the limits (B26): that is no reason to request a node.
    """
    ident = plan_id(uid, now)
    pod = state.pod(uid)
    if pod is None:
        return Plan(ident, reasons=(f"no pod with uid {uid} is on a known node",))
    if pod.frozen or any(move.source.uid == uid and is_ongoing(move) for move in state.moves.values()):
        return Plan(ident, reasons=(f"{pod.ref} is being migrated, so its size does not change",))
    node, units = state.where[uid], whole_units(pod)
    short = Shortfall(pod, node, units, capacity_to_free(state, node, pod, units))
    if not short.wanted:
        return Plan(ident, reasons=(f"the missing amount of {pod.ref} is free or is being freed",))
    asker = Requester(uid, pod.priority)
    view = PlanningView.from_state(state, now, rules, fits, asker)
    waits = view.limit_reason(node)
    found = None if waits else _best_plan(ident, view, short)
    if found is None or (found.way is None and view.moves):
        in_time = _best_plan(ident, PlanningView.from_state(state, now, unlimited_rules(rules), fits, asker), short)
        if in_time:
            why = waits or "all possible targets have the maximum number of incoming migrations"
            return Plan(ident, alternatives=in_time.alternatives, reasons=(why,))
        return in_time
    return found


def _best_plan(ident: str, view: PlanningView, short: Shortfall) -> Plan:
    """Plan the whole need in one step at least cost, else in two steps, else a part of it, else an eviction."""
    leavers = view.movable_candidates(short.node, short.wanted, but=short.pod.uid)
    candidates = view.with_targets(leavers)
    tried = [
        neighbours_option(view, short, candidates),
        self_migration_option(view, short),
        waiting_option(view, short),
    ]
    further: tuple[Callable[[], Option], ...] = (
        lambda: cheapest_chain(view, short, leavers, candidates),
        lambda: partial_option(view, short, candidates),
        lambda: eviction_option(view, short),
    )
    best = _cheapest_option(tried)
    for way in further:
        if best is None:
            tried.append(way())
            best = _cheapest_option(tried)
    others = tuple(Alternative(each.way, each.cost, each.why_not or "costs more") for each in tried if each is not best)
    if best is None:
        node = _needed_node_capacity(view, short, leavers)
        return Plan(
            ident, needs_node=node, alternatives=others, reasons=tuple(each.why_not for each in tried), unsolved=True
        )
    moves, claims = build_migrations(ident, best.steps, view.now, view.rules)
    cost = best.cost or 0.0
    reasons = () if moves or best.evictions else ("migrations in progress free the missing capacity",)
    unsolved = best.way is Way.PART
    return Plan(
        ident, best.way, moves, claims, best.evictions, cost, alternatives=others, reasons=reasons, unsolved=unsolved
    )


def _cheapest_option(options: Sequence[Option]) -> Option | None:
    """Return the cheapest option. Of equal ones, the first."""
    return min((each for each in options if each.cost is not None), key=lambda each: each.price, default=None)


def _needed_node_capacity(view: PlanningView, short: Shortfall, leavers: Sequence[Candidate]) -> Amounts | None:
    """Return the capacity that a new node would need: for the grown requester, or for the cheapest neighbours.

    None: no VM may migrate, so a new node does not help.
    """
    return min(_movable_sizes(view, short, leavers), key=lambda each: each[0], default=(0, None))[1]


def _movable_sizes(view: PlanningView, short: Shortfall, leavers: Sequence[Candidate]) -> Iterator[tuple[int, Amounts]]:
    """Yield price and size of the VMs that could migrate to a node with capacity."""
    chosen = cheapest_candidates(leavers, short.wanted, lambda _chosen: True)
    if chosen:
        yield sum(each.price for each in chosen), total((each.amount for each in chosen), len(short.wanted))
    if not view.stay_reason(short.pod):
        own = grown_candidate(view, short)
        yield own.price, own.amount

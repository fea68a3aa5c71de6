"""Plan the migrations that bring a node a little below its watermark."""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum

from situate.vm.model.migrations import Stage
from situate.vm.model.policy import Rules
from situate.vm.model.resource_amounts import Amounts, total
from situate.vm.model.state import LedgerState
from situate.vm.planning.candidates import Candidate
from situate.vm.planning.plan import Plan, Way
from situate.vm.planning.plan_builder import Step, build_migrations, plan_id
from situate.vm.planning.search.view import PlanningView
from situate.vm.planning.targets import Fits, accept_any_node


def plan_relief(state: LedgerState, node: str, now: float, rules: Rules, fits: Fits = accept_any_node) -> Plan:
    """Plan the cheapest migrations to `hysteresis` below the watermark, else to the watermark, else nearer to it.

    The migrations have no beneficiary. If a Pod waits on the node, the ledger gives the freed capacity to the first
    waiter (B1). So waiters themselves migrate only if all other candidates are not enough.
    """
    ident = plan_id(node, now)
    if node not in state.nodes:
        return Plan(ident, reasons=(f"node {node} is not known",))
    wanted = excess(state, node, rules)
    if not wanted:
        return Plan(ident, reasons=(f"node {node} is within its watermark, or will be after its migrations",))
    view = PlanningView.from_state(state, now, rules, fits, None)
    if waits := view.limit_reason(node):
        return Plan(ident, reasons=(waits,))
    candidates = view.candidates(node, wanted)
    content = [each for each in candidates if each.pod.uid not in state.waiters]
    chosen = (
        view.cover(content, wanted)
        or view.cover(content, _above_watermark(state, node))
        or view.cover(candidates, wanted)
        or view.cover(candidates, _above_watermark(state, node))
        or _fitting_candidates(view, candidates, wanted)
    )
    targets = view.best_targets(chosen)
    if not chosen or targets is None:
        pods = state.nodes[node].pods.values()
        return Plan(
            ident, reasons=tuple(f"{pod.ref} {view.stay_reason(pod) or 'has no target'}" for pod in pods), unsolved=True
        )
    steps = [Step(mover, target) for mover, target in zip(chosen, targets, strict=True)]
    moves, claims = build_migrations(ident, steps, now, rules)
    return Plan(ident, Way.RELIEF, moves, claims, cost=fsum(each.cost for each in chosen))


def excess(state: LedgerState, node: str, rules: Rules) -> Amounts:
    """Return the amount that must leave the node. Zero for each resource that is within the watermark.

    VMs that are leaving count as gone (C29). Ignored Pods never cause a migration (C28, I9).
    """
    slack = (int(size * rules.calm.hysteresis) for size in state.nodes[node].total)
    return Amounts(
        tuple(over + more if over else 0 for over, more in zip(_above_watermark(state, node), slack, strict=True))
    )


def _above_watermark(state: LedgerState, node: str) -> Amounts:
    entry = state.nodes[node]
    return (entry.reserved - entry.watermark - leaving_amount(state, node)).positive_part()


def leaving_amount(state: LedgerState, node: str) -> Amounts:
    """Return the reserved amount that does not count against the watermark: migration sources and ignored Pods.

    Sources are included whether or not their migration has started. The source of a failed migration is not included,
    even while its object exists (F12).
    """
    moves = [move for move in state.moves.values() if move.source_node == node]
    sources = {move.source.uid for move in moves if move.stage is not Stage.FAILED}
    pods = state.nodes[node].pods.values()
    gone = (pod for pod in pods if pod.migrating or pod.ignored or pod.uid in sources)
    return total((pod.counted_amount(pod.reserved) for pod in gone), state.resources)


def _fitting_candidates(view: PlanningView, candidates: Sequence[Candidate], wanted: Amounts) -> tuple[Candidate, ...]:
    """Choose candidates by cost per covered share, until no candidate helps and fits."""
    chosen: list[Candidate] = []
    left = wanted
    for mover in sorted(candidates, key=lambda each: (each.price / max(_share(each, wanted), 1e-12), each.order)):
        if mover.amount.minimum(left) and view.fit([*chosen, mover]):
            chosen.append(mover)
            left = (left - mover.amount).positive_part()
    return tuple(chosen)


def _share(mover: Candidate, wanted: Amounts) -> float:
    return sum(min(leaves / wants, 1.0) for leaves, wants in zip(mover.amount, wanted, strict=True) if wants)

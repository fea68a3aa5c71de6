"""Preemption costs of all nodes at once, for the case that only amounts decide.

The dry run of `situate.framework.preemption.preemption` removes Pods and adds them back one by one, with every filter.
If all filters whose result can change compare only amounts, the same result can be computed for all nodes together. The
Pods are in the order in which they are added back, and one rank is processed at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from situate.framework.cycle.cycle import PodsByNominatedNode, PreFilterResults, call
from situate.framework.plugin_api.plugin import Need, Reads
from situate.framework.pod.pods import PodInfo
from situate.framework.profile.profile import Profile
from situate.framework.results.verdict import Indices, Mask, Verdict, count_reasons
from situate.framework.snapshot.nominated_pods import NominatedPods
from situate.framework.snapshot.placed_pods import NOT_STARTED, PlacedPods
from situate.framework.snapshot.snapshot import Snapshot
from situate.framework.volumes.disruption_budgets import guards

Amounts = NDArray[np.int64]

NO_VICTIMS: Final = "No preemption victims found for incoming pod"
"""The reason for a node without Pods of lower priority."""
_LOWEST: Final = -(2**31)
"""No priority is lower."""
_DIGIT: Final = 2**16
"""NumPy sorts 16-bit values by counting, many times faster than wider ones."""


@dataclass(frozen=True, slots=True, eq=False)
class Costs:
    """Costs of `nodes`, in this order: the nodes where evictions help."""

    nodes: Indices
    victims: Amounts
    """The number of victims."""
    violations: Amounts
    """The number of victims whose eviction violates a budget."""
    highest: Amounts
    """The highest priority of a victim; -2^31 without victims."""
    total: Amounts
    """The sum of the victims' priorities, each raised by 2^31."""
    earliest: NDArray[np.float64]
    """The earliest start among the victims of highest priority; infinite without victims."""
    reasons: dict[str, int]
    """The reasons why evictions do not help on the other nodes, each with its number of nodes."""


@dataclass(frozen=True, slots=True, eq=False)
class Checks:
    """The answers of filters that can be computed for all nodes at once and for any victims."""

    steps: tuple[tuple[Need, ...] | Verdict, ...]
    """In the order of the filters: amounts that must be free, or a verdict that no eviction changes."""
    complete: bool
    """Whether these are all filters. Otherwise they end before the first filter that reads more data."""

    @property
    def needs(self) -> tuple[Need, ...]:
        return tuple(need for step in self.steps if isinstance(step, tuple) for need in step)


def checks_of(profile: Profile, pod: PodInfo, prepared: PreFilterResults, snapshot: Snapshot) -> Checks:
    """Return the checks up to the first filter that reads more data."""
    steps: list[tuple[Need, ...] | Verdict] = []
    for plugin in profile.filter:
        if plugin.name in prepared.skipped:
            continue
        needs = getattr(plugin, "needs", None)  # isinstance with a protocol costs as much as all the rest
        if needs is not None:
            steps.append(call(plugin, "Needs", needs, pod, snapshot))
        elif getattr(plugin, "reads", Reads.CLUSTER) is Reads.NODE:
            steps.append(call(plugin, "Filter", plugin.filter, prepared.states.get(plugin.name), pod, snapshot))
        else:
            return Checks(tuple(steps), complete=False)
    return Checks(tuple(steps), complete=True)


def costs(pod: PodInfo, snapshot: Snapshot, nodes: Indices, checks: Checks, nominations: PodsByNominatedNode) -> Costs:
    """Return the costs on a snapshot of all nodes.

    `nominations` are nominated Pods of at least the Pod's priority.
    """
    lower = _LowerPriorityPods.from_snapshot(pod, snapshot, nodes)
    needs = checks.needs
    asked = lower.released_amounts(snapshot.placed, needs)
    room = [
        free_after_adding(need, snapshot, nodes) + lower.sum_by_node(amounts)
        for need, amounts in zip(needs, asked, strict=True)
    ]
    hopeless = lower.number == 0
    reasons = {NO_VICTIMS: int(np.count_nonzero(hopeless))}
    # As upstream, test a node with its nominated Pods first. A node that passes then also passes without them.
    for need, free in zip(needs, room, strict=True):
        free -= nominated_amounts(need, nominations, snapshot.count)[nodes]
    frees = iter(room)
    for step in checks.steps:
        if isinstance(step, tuple):
            _check_amounts(step, [next(frees) for _ in step], hopeless, reasons)
        else:
            _check_static_verdict(step, nodes, hopeless, reasons)
    told = {text: count for text, count in reasons.items() if count}
    tried = np.flatnonzero(~hopeless)
    order, (victims, violations, highest, total), earliest = _add_pods_back(lower, tried, asked, room)
    return Costs(nodes[tried[order]], victims, violations, highest, total, earliest, told)


def _check_amounts(needs: Sequence[Need], room: Sequence[Amounts], hopeless: Mask, reasons: dict[str, int]) -> None:
    """Mark and count the nodes that lack an amount, once for each reason."""
    failed = [(free < 0) & ~hopeless for free in room]
    for need, where in zip(needs, failed, strict=True):
        reasons[need.reason] = reasons.get(need.reason, 0) + int(np.count_nonzero(where))
        hopeless |= where


def _check_static_verdict(verdict: Verdict, nodes: Indices, hopeless: Mask, reasons: dict[str, int]) -> None:
    """Mark and count the nodes that the filter refuses for any set of victims."""
    where = ~verdict.passes[nodes] & ~hopeless
    if where.any():
        there = np.zeros(len(verdict.passes), dtype=np.bool_)
        there[nodes[where]] = True
        for text, number in count_reasons([(verdict.refusals(), there)]).items():
            reasons[text] = reasons.get(text, 0) + number
        hopeless |= where


def _add_pods_back(
    lower: _LowerPriorityPods, tried: Indices, asked: Sequence[Amounts], room: Sequence[Amounts]
) -> tuple[Indices, Amounts, NDArray[np.float64]]:
    """Add Pods back on all tried nodes at once: first the first Pod of each node, then the second, and so on.

    Return the order in which the nodes are processed; victims, violations, highest and total; and the earliest start.
    Nodes with more Pods come before those with fewer, so that the nodes that still have a Pod are a slice.
    """
    number = lower.number.take(tried)
    most = int(number.max(initial=0))
    order = _order(most - number)
    tried = tried.take(order)
    begin = lower.begin.take(tried)
    still = np.cumsum(np.bincount(number, minlength=most + 1)[::-1])[::-1]  # [n]: nodes with n or more Pods
    frees = [free.take(tried) for free in room]
    columns = np.zeros((4, len(tried)), dtype=np.int64)
    victims, violations, highest, total = columns
    highest[:] = _LOWEST
    earliest = np.full(len(tried), NOT_STARTED)
    for rank in range(most):
        here = slice(0, int(still[rank + 1]))
        at = begin[here] + rank
        wanted = [amounts.take(at) for amounts in asked]
        goes = np.zeros(len(at), dtype=np.bool_)
        for amounts, free in zip(wanted, frees, strict=True):
            goes |= amounts > free[here]
        if not goes.all():
            stays = ~goes
            for amounts, free in zip(wanted, frees, strict=True):
                np.subtract(free[here], amounts, out=free[here], where=stays)
        if not goes.any():
            continue
        slots = lower.slots.take(at)
        priority, started = lower.priorities.take(slots), lower.started.take(slots)
        above = goes & ((victims[here] == 0) | (priority > highest[here]))
        sooner = goes & (priority == highest[here]) & (started < earliest[here])
        np.copyto(earliest[here], started, where=above | sooner)
        np.copyto(highest[here], priority, where=above)
        victims[here] += goes
        total[here] += (priority - _LOWEST) * goes
        if lower.violating is not None:
            violations[here] += lower.violating.take(at) & goes
    return order, columns, earliest


@dataclass(frozen=True, slots=True, eq=False)
class _LowerPriorityPods:
    """The Pods of lower priority on the nodes, node by node, in the order in which they are added back."""

    slots: Indices
    begin: Indices
    """(nodes,): the index of each node's first Pod."""
    number: NDArray[np.int64]
    """(nodes,)"""
    priorities: Amounts
    """For all slots."""
    started: NDArray[np.float64]
    """For all slots."""
    violating: Mask | None
    """The Pods that violate a budget once all more important Pods have been evicted; these come first.

    None means no Pod.
    """

    @classmethod
    def from_snapshot(cls, pod: PodInfo, snapshot: Snapshot, nodes: Indices) -> _LowerPriorityPods:
        placed = snapshot.placed
        node_of, priorities = placed.columns()
        place = np.full(snapshot.count + 1, -1, dtype=np.int32)  # the last entry is for free slots
        place[nodes] = np.arange(len(nodes), dtype=np.int32)
        at = place.take(node_of)
        slots = np.flatnonzero((priorities < pod.priority) & (at >= 0))
        started = placed.start_times
        slots = slots.take(np.argsort(started.take(slots), kind="stable"))  # mostly sorted already
        priority = priorities.take(slots)
        if len(priority) and priority.min() != priority.max():
            slots = slots.take(_order(pod.priority - 1 - priority))
        here = at.take(slots)
        slots = slots.take(_order(here))
        number = np.bincount(here, minlength=len(nodes))
        begin = np.cumsum(number) - number
        violating = None
        if snapshot.catalog.budgets:
            violating = _budget_violations(snapshot, slots, np.repeat(begin, number))
            order = np.argsort(~violating, kind="stable")
            order = order.take(_order(at.take(slots.take(order))))
            slots, violating = slots.take(order), violating.take(order)
        return cls(slots, begin, number, priorities, started, violating)

    def released_amounts(self, placed: PlacedPods, needs: Sequence[Need]) -> list[Amounts]:
        """Return, for each need, the amount that each Pod releases when it is evicted."""
        kinds = placed.kinds(self.slots)
        ones = np.ones(len(self.slots), dtype=np.int64)
        return [ones if need.column is None else placed.requests_by_kind(need.column).take(kinds) for need in needs]

    def sum_by_node(self, amounts: Amounts) -> Amounts:
        """Return (nodes,): the sum of the amounts over each node."""
        sums = np.zeros(len(self.number), dtype=np.int64)
        some = np.flatnonzero(self.number)
        if len(some):
            sums[some] = np.add.reduceat(amounts, self.begin.take(some))
        return sums


def _budget_violations(snapshot: Snapshot, slots: Indices, begin: Indices) -> Mask:
    """Return which Pods violate a budget. The Pods are sorted by node, then importance.

    `begin` is the index of the first Pod of the same node.
    """
    placed = snapshot.placed
    violating = np.zeros(len(slots), dtype=np.bool_)
    for namespace, budgets in snapshot.catalog.budgets.items():
        for budget in budgets:
            guarded = placed.matching_slots(partial(guards, budget, namespace), slots)
            if budget.disrupted_pods:
                for place in np.flatnonzero(guarded).tolist():
                    (info,) = placed.info_at(slots[place : place + 1])
                    guarded[place] = info.name not in budget.disrupted_pods
            if guarded.any():
                spent: Amounts = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(guarded, dtype=np.int64)))
                violating |= guarded & (spent[1:] - spent[begin] > budget.disruptions_allowed)
    return violating


def _order(values: NDArray[np.integer[Any]]) -> Indices:
    """Return a stable order of non-negative numbers, digit by digit."""
    most = int(values.max(initial=0))
    order = np.argsort(values.astype(np.uint16), kind="stable")  # the lowest 16 bits
    while most >= _DIGIT:
        most //= _DIGIT
        values = values // _DIGIT
        order = order[np.argsort(values[order].astype(np.uint16), kind="stable")]
    return order


def free_after_adding(need: Need, snapshot: Snapshot, nodes: Indices) -> Amounts:
    """Return (nodes,): the free amount after adding the Pod; negative if it is not enough."""
    if need.column is None:
        return snapshot.allowed_pods[nodes] - snapshot.pod_count[nodes] - need.asked
    return snapshot.allocatable(need.column)[nodes] - snapshot.requested(need.column)[nodes] - need.asked


def nominated_amounts(need: Need, nominations: PodsByNominatedNode, count: int) -> Amounts:
    """Return (nodes,): the amount to keep free for the Pods nominated to each node."""
    if isinstance(nominations, NominatedPods):
        return nominations.pod_count if need.column is None else nominations.requested_amounts(need.column)
    taken = np.zeros(count, dtype=np.int64)
    for node, others in nominations.items():
        for other in others:
            taken[node] += amount_taken(need, other)
    return taken


def amount_taken(need: Need, pod: PodInfo) -> int:
    """Return the amount of the need that this Pod takes."""
    return 1 if need.column is None else dict(pod.template.columns).get(need.column, 0)

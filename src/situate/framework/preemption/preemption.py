"""Find the Pods to evict so that another Pod fits (upstream framework/preemption and plugins/defaultpreemption).

This module does no I/O. A dry run tries each node separately, and `cheapest_candidate` compares the costs. The caller
evicts the victims.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from situate.framework.cycle.cycle import (
    PodsByNominatedNode,
    PreFilterResults,
    allot_units,
    call,
    with_pod,
    without_pod,
)
from situate.framework.plugin_api.plugin import FilterPlugin, Reads
from situate.framework.pod.pods import PodInfo
from situate.framework.preemption.cost_cache import Cost, cost_cache_for
from situate.framework.preemption.costs import (
    NO_VICTIMS,
    Checks,
    Costs,
    amount_taken,
    checks_of,
    costs,
    free_after_adding,
    nominated_amounts,
)
from situate.framework.profile.profile import Profile
from situate.framework.results.status import Code
from situate.framework.results.verdict import Codes, Indices, Verdict
from situate.framework.snapshot.placed_pods import NOT_STARTED, start_time
from situate.framework.snapshot.snapshot import Snapshot
from situate.framework.volumes.disruption_budgets import split_by_budget

PREEMPTION_NEVER: Final = "not eligible due to preemptionPolicy=Never."
VICTIMS_TERMINATING: Final = "not eligible due to a terminating pod on the nominated node."

PERCENTAGE: Final = 10
ABSOLUTE: Final = 100
"""Upstream's defaults of minCandidateNodesPercentage and minCandidateNodesAbsolute."""
_LOWEST: Final = 2**31
"""Added to each priority, so that fewer victims of negative priority have the lower sum."""


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """A node, and the cost of placing the Pod there."""

    node: int
    """Index in the snapshot."""
    victims: tuple[PodInfo, ...]
    """The most important first."""
    violations: int
    """The number of victims whose eviction violates a budget."""


@dataclass(frozen=True, slots=True, eq=False)
class UnhelpfulNode:
    """A node where evictions do not help."""

    node: int
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Search:
    """The result of dry runs."""

    candidates: tuple[Candidate, ...]
    """Candidates without budget violations come first."""
    reasons: Mapping[str, int]
    """The reasons for the other nodes, each with its number of nodes. Complete only if there is no candidate."""


def ineligibility_reason(pod: PodInfo, snapshot: Snapshot, nominated: Code) -> str:
    """Return the reason why the Pod may not preempt now; empty if it may.

    `nominated` is the filters' code for the Pod's nominated node, `SUCCESS` without a nomination. The Pod waits while
    victims of an earlier preemption are still terminating on that node.
    """
    if pod.template.preemption_policy == "Never":
        return PREEMPTION_NEVER
    index = snapshot.nodes.index.get(pod.nominated)
    if index is None or nominated is Code.UNRESOLVABLE:
        return ""
    leaving = any(other.priority < pod.priority and is_preempted(other) for other in snapshot.pods_on(index))
    return VICTIMS_TERMINATING if leaving else ""


def is_preempted(pod: PodInfo) -> bool:
    """Return whether the Pod is terminating because a scheduler preempted it."""
    condition = pod.pod.condition("DisruptionTarget")
    return (
        pod.terminating
        and condition is not None
        and condition.status == "True"
        and condition.reason == "PreemptionByScheduler"
    )


def nodes_that_might_help(codes: Codes) -> Indices:
    """Return the nodes whose refusal could change with fewer Pods."""
    return np.flatnonzero(codes == Code.UNSCHEDULABLE)


def candidates_to_find(nodes: int, percentage: int, absolute: int) -> int:
    """Return the number of candidates that is enough among `nodes`."""
    return min(nodes, max(nodes * percentage // 100, absolute))


def find_cheapest(
    profile: Profile,
    pod: PodInfo,
    prepared: PreFilterResults,
    snapshot: Snapshot,
    nodes: Indices,
    nominations: PodsByNominatedNode | None = None,
) -> Search:
    """Return only the candidate that `cheapest_candidate` takes among all of them.

    The nodes must be refused by filters, not by extenders. If only amounts decide, the nodes are compared in columns.
    Otherwise that comparison excludes nodes from the dry runs. The other filters can only raise the priority of the
    most important victim.
    """
    if not len(nodes):
        return Search((), {})
    promised = nominations or {}
    checks = checks_of(profile, pod, prepared, snapshot)
    if not checks.complete:
        compared = costs(pod, snapshot, nodes, checks, promised)
        return _find_by_dry_runs(profile, pod, prepared, snapshot, compared, promised)

    def judge(node: int) -> Candidate | None:
        return dry_run_by_amounts(pod, snapshot, node, checks, promised)

    known = cost_cache_for(profile, pod, snapshot)
    known.bring_up_to_date(pod, snapshot, nodes, checks, promised, lambda node: _optional_cost(judge(node)))
    node = known.cheapest_node(nodes)
    best = None if node is None else judge(node)
    if best is None:
        return Search((), costs(pod, snapshot, nodes, checks, promised).reasons)
    return Search((best,), {})


def _optional_cost(candidate: Candidate | None) -> Cost | None:
    return None if candidate is None else cost(candidate)


def dry_run_by_amounts(
    pod: PodInfo, snapshot: Snapshot, node: int, checks: Checks, nominations: PodsByNominatedNode
) -> Candidate | None:
    """Run the dry run on a node where only amounts decide; None if evictions do not help."""
    lower = sorted((other for other in snapshot.pods_on(node) if other.priority < pod.priority), key=importance)
    if not lower or not all(isinstance(step, tuple) or step.passes[node] for step in checks.steps):
        return None
    needs = checks.needs
    taken = {other.template: tuple(amount_taken(need, other) for need in needs) for other in lower}
    here = np.array([node], dtype=np.intp)
    left = [
        int(free_after_adding(need, snapshot, here)[0])
        - int(nominated_amounts(need, nominations, snapshot.count)[node])
        + sum(taken[other.template][place] for other in lower)
        for place, need in enumerate(needs)
    ]
    if min(left, default=0) < 0:
        return None
    violating, others = split_by_budget(lower, snapshot.catalog)
    victims: list[PodInfo] = []
    violations = 0
    for number, other in enumerate((*violating, *others)):
        after = [free - amount for free, amount in zip(left, taken[other.template], strict=True)]
        if min(after, default=0) < 0:
            victims.append(other)
            violations += number < len(violating)
        else:
            left = after
    return Candidate(node, tuple(sorted(victims, key=importance)), violations)


def _find_by_dry_runs(
    profile: Profile,
    pod: PodInfo,
    prepared: PreFilterResults,
    snapshot: Snapshot,
    compared: Costs,
    promised: PodsByNominatedNode,
) -> Search:
    """Run dry runs, the most promising nodes first.

    Stop when no other node can be as good, or after the number of candidates at which upstream stops. A dry run takes a
    third of a millisecond, and there are many nodes.
    """
    reasons = dict(compared.reasons)
    best: Candidate | None = None
    left = candidates_to_find(len(compared.nodes), PERCENTAGE, ABSOLUTE)
    # Pods are added back in the same order there, so a Pod that more filters refuse is an extra victim. If it violates
    # a budget, later Pods may stay instead. Then there is no bound for the most important victim.
    violating = np.minimum(compared.violations, 1)
    highest = np.where(violating, -_LOWEST, compared.highest)
    for place in np.lexsort((compared.nodes, highest, violating)).tolist():
        if best is not None and cost(best)[:2] < (violating[place], highest[place]):
            break
        if best is not None and left <= 0 and not best.violations:
            break
        node = int(compared.nodes[place])
        found = dry_run(profile, pod, prepared, snapshot, node, promised.get(node, ()))
        if isinstance(found, UnhelpfulNode):
            for text in found.reasons:
                reasons[text] = reasons.get(text, 0) + 1
            continue
        left -= 1
        if best is None or (cost(found), node) < (cost(best), best.node):
            best = found
    return Search((best,) if best is not None else (), reasons)


def find_candidates(
    profile: Profile,
    pod: PodInfo,
    prepared: PreFilterResults,
    snapshot: Snapshot,
    nodes: Indices,
    nominations: PodsByNominatedNode | None = None,
    *,
    offset: int = 0,
    enough: int | None = None,
) -> Search:
    """Run dry runs on the nodes, round robin from the one at `offset`.

    The search stops at `enough` candidates, one of them without budget violations; None tries every node.
    """
    harmless: list[Candidate] = []
    violating: list[Candidate] = []
    reasons: dict[str, int] = {}
    most = len(nodes) if enough is None else enough
    for node in np.roll(nodes, -offset).tolist():
        promised = (nominations or {}).get(node, ())
        found = dry_run(profile, pod, prepared, snapshot, node, promised)
        if isinstance(found, UnhelpfulNode):
            for text in found.reasons:
                reasons[text] = reasons.get(text, 0) + 1
            continue
        kind = violating if found.violations else harmless
        if len(kind) < most:
            kind.append(found)
        if harmless and len(harmless) + len(violating) >= most:
            break
    return Search((*harmless, *violating), reasons)


def dry_run(
    profile: Profile,
    pod: PodInfo,
    prepared: PreFilterResults,
    snapshot: Snapshot,
    node: int,
    promised: Sequence[PodInfo] = (),
) -> Candidate | UnhelpfulNode:
    """Return the Pods to evict from the node, or the reason why evictions do not help.

    All Pods of lower priority are removed. Then each Pod that fits together with the new one is added back: first the
    Pods that would violate a budget, then the others, the more important ones first. `promised` are Pods of at least
    the Pod's priority that are nominated to the node. The Pod must fit with and without them.
    """
    lower = sorted((other for other in snapshot.pods_on(node) if other.priority < pod.priority), key=importance)
    if not lower:
        return UnhelpfulNode(node, (NO_VICTIMS,))
    trial = _Trial(profile, pod, prepared, snapshot, node, promised)
    for other in lower:
        trial.take_away(other)
    refusal = trial.refusal()
    if refusal is not None:
        return UnhelpfulNode(node, refusal.refusals().reasons_at(0))
    violating, others = split_by_budget(lower, snapshot.catalog)
    victims: list[PodInfo] = []
    violations = 0
    for other in violating + others:
        trial.put_back(other)
        if trial.refusal() is not None:
            trial.take_away(other)
            victims.append(other)
            violations += other in violating
    return Candidate(node, tuple(sorted(victims, key=importance)), violations)


class _Trial:
    """One separate node, from which Pods are removed and added back."""

    def __init__(
        self,
        profile: Profile,
        pod: PodInfo,
        prepared: PreFilterResults,
        snapshot: Snapshot,
        node: int,
        promised: Sequence[PodInfo],
    ) -> None:
        self._profile = profile
        self._pod = pod
        self._prepared = prepared
        self._snapshot = snapshot
        self._node = node
        self._promised = promised
        self._single_node = snapshot.single_node(node)
        self._passed: set[FilterPlugin] = set()
        """Filters whose result evictions cannot change."""

    def take_away(self, other: PodInfo) -> None:
        self._single_node = self._single_node.forget(other)
        self._prepared = without_pod(self._profile, self._pod, self._prepared, other, self._node, self._snapshot)

    def put_back(self, other: PodInfo) -> None:
        self._single_node = self._single_node.assume(other, 0)
        self._prepared = with_pod(self._profile, self._pod, self._prepared, other, self._node, self._snapshot)

    def refusal(self) -> Verdict | None:
        """Return the verdict of the first filter that refuses the Pod now; None if all pass."""
        if self._promised:
            alone, prepared = self._single_node, self._prepared
            for other in self._promised:
                alone = alone.assume(allot_units(self._profile, other, alone), 0)
                prepared = with_pod(self._profile, self._pod, prepared, other, self._node, self._snapshot)
            crowded = self._first_refusal(alone, prepared)
            if crowded is not None:
                return crowded
        return self._first_refusal(self._single_node, self._prepared)

    def _first_refusal(self, alone: Snapshot, prepared: PreFilterResults) -> Verdict | None:
        for plugin in self._profile.filter:
            if plugin.name in prepared.skipped or plugin in self._passed:
                continue
            state = prepared.states.get(plugin.name)
            verdict: Verdict = call(plugin, "Filter", plugin.filter, state, self._pod, alone)
            if not verdict.passes[0]:
                return verdict
            if getattr(plugin, "reads", Reads.CLUSTER) is Reads.NODE:
                self._passed.add(plugin)
        return None


def cheapest_candidate(candidates: Sequence[Candidate]) -> Candidate:
    """Return the cheapest candidate.

    The criteria are: fewest budget violations, lowest "highest priority", lowest sum of priorities, fewest victims,
    latest start of the most important victims, then the first candidate.
    """
    return min(candidates, key=cost)


def cost(candidate: Candidate) -> Cost:
    """Return the values that `cheapest_candidate` compares; lower is better."""
    victims = candidate.victims
    if not victims:
        return candidate.violations, -_LOWEST, 0, 0, -NOT_STARTED
    highest = victims[0].priority
    earliest = min(start_time(each) for each in victims if each.priority == highest)
    return (
        candidate.violations,
        highest,
        sum(each.priority + _LOWEST for each in victims),
        len(victims),
        -earliest,
    )


def importance(pod: PodInfo) -> tuple[int, float]:
    """Return a sort key: higher priority first, then earlier start."""
    return -pod.priority, start_time(pod)

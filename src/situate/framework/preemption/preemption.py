"""Which pods would have to go so that another fits (upstream framework/preemption and plugins/defaultpreemption).

Pure: a dry run tries each node on its own, cut off from the others, and the choice compares what it would cost. Ending
the victims is somebody else's work.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from situate.framework.cycle.cycle import Nominations, Prepared, allotted, call, with_pod, without_pod
from situate.framework.plugin_api.plugin import FilterPlugin, Reads
from situate.framework.pod.pods import PodInfo
from situate.framework.preemption.cost_cache import Cost, known_costs
from situate.framework.preemption.costs import (
    NO_VICTIMS,
    Checks,
    Costs,
    checks_of,
    costs,
    kept_free,
    room_beside,
    takes,
)
from situate.framework.profile.profile import Profile
from situate.framework.results.status import Code
from situate.framework.results.verdict import Codes, Indices, Verdict
from situate.framework.snapshot.placed_pods import NOT_STARTED, started_at
from situate.framework.snapshot.snapshot import Snapshot
from situate.framework.volumes.disruption_budgets import split_by_budget

NEVER: Final = "not eligible due to preemptionPolicy=Never."
STILL_ENDING: Final = "not eligible due to a terminating pod on the nominated node."

PERCENTAGE: Final = 10
ABSOLUTE: Final = 100
"""Upstream's defaults of minCandidateNodesPercentage and minCandidateNodesAbsolute."""
_LOWEST: Final = 2**31
"""Added to each priority, so that fewer victims of a negative priority are the lesser sum."""


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """A node, and what it costs to place the pod there."""

    node: int
    """Index in the snapshot."""
    victims: tuple[PodInfo, ...]
    """The most important first."""
    violations: int
    """So many of them break a disruption budget."""


@dataclass(frozen=True, slots=True, eq=False)
class Hopeless:
    """A node where no pod's going helps."""

    node: int
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Search:
    """What dry runs have found."""

    candidates: tuple[Candidate, ...]
    """Those that break no budget come first."""
    reasons: Mapping[str, int]
    """Why the others are of no use, each with its number of nodes; only to be relied on where there is no candidate."""


def ineligible(pod: PodInfo, snapshot: Snapshot, nominated: Code) -> str:
    """Why the pod may not preempt now; empty if it may.

    `nominated`: what the filters said of the node that it was promised, `SUCCESS` if it has none. While pods that were
    ended for its sake are still leaving there, it waits.
    """
    if pod.template.preemption_policy == "Never":
        return NEVER
    index = snapshot.nodes.index.get(pod.nominated)
    if index is None or nominated is Code.UNRESOLVABLE:
        return ""
    leaving = any(other.priority < pod.priority and ended_by_preemption(other) for other in snapshot.pods_on(index))
    return STILL_ENDING if leaving else ""


def ended_by_preemption(pod: PodInfo) -> bool:
    """Whether the pod is on its way out because a scheduler made room."""
    condition = pod.pod.condition("DisruptionTarget")
    return (
        pod.terminating
        and condition is not None
        and condition.status == "True"
        and condition.reason == "PreemptionByScheduler"
    )


def nodes_that_might_help(codes: Codes) -> Indices:
    """Those that were refused for something that fewer pods could change."""
    return np.flatnonzero(codes == Code.UNSCHEDULABLE)


def candidates_to_find(nodes: int, percentage: int, absolute: int) -> int:
    """So many candidates are enough among `nodes`."""
    return min(nodes, max(nodes * percentage // 100, absolute))


def find_cheapest(
    profile: Profile,
    pod: PodInfo,
    prepared: Prepared,
    snapshot: Snapshot,
    nodes: Indices,
    nominations: Nominations | None = None,
) -> Search:
    """What `choose` takes of all candidates: no other is returned. Of nodes that filters refused, not extenders.

    Where only amounts decide, the nodes are compared in columns. Otherwise that comparison tells which nodes are not
    worth a dry run: what other filters demand besides can only make the most important victim more important.
    """
    if not len(nodes):
        return Search((), {})
    promised = nominations or {}
    checks = checks_of(profile, pod, prepared, snapshot)
    if not checks.complete:
        compared = costs(pod, snapshot, nodes, checks, promised)
        return _find_by_trying(profile, pod, prepared, snapshot, compared, promised)

    def judge(node: int) -> Candidate | None:
        return judge_by_amounts(pod, snapshot, node, checks, promised)

    known = known_costs(profile, pod, snapshot)
    known.bring_up_to_date(pod, snapshot, nodes, checks, promised, lambda node: _priced(judge(node)))
    node = known.cheapest(nodes)
    best = None if node is None else judge(node)
    if best is None:
        return Search((), costs(pod, snapshot, nodes, checks, promised).reasons)
    return Search((best,), {})


def _priced(candidate: Candidate | None) -> Cost | None:
    return None if candidate is None else cost(candidate)


def judge_by_amounts(
    pod: PodInfo, snapshot: Snapshot, node: int, checks: Checks, nominations: Nominations
) -> Candidate | None:
    """The dry run on a node where amounts alone decide; None if it does not help that pods go."""
    lower = sorted((other for other in snapshot.pods_on(node) if other.priority < pod.priority), key=importance)
    if not lower or not all(isinstance(step, tuple) or step.passes[node] for step in checks.steps):
        return None
    needs = checks.needs
    taken = {other.template: tuple(takes(need, other) for need in needs) for other in lower}
    here = np.array([node], dtype=np.intp)
    left = [
        int(room_beside(need, snapshot, here)[0])
        - int(kept_free(need, nominations, snapshot.count)[node])
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


def _find_by_trying(
    profile: Profile, pod: PodInfo, prepared: Prepared, snapshot: Snapshot, compared: Costs, promised: Nominations
) -> Search:
    """Dry runs, the most promising nodes first, until no other node can be as good, or as many are found as upstream
    looks at: a dry run takes a third of a millisecond, and nodes are many.
    """
    reasons = dict(compared.reasons)
    best: Candidate | None = None
    left = candidates_to_find(len(compared.nodes), PERCENTAGE, ABSOLUTE)
    # Pods come back in the same order as there, so the first one that more filters keep away is a victim more. Where
    # that breaks a budget, others behind it may stay instead: then nothing is known of the most important victim.
    violating = np.minimum(compared.violations, 1)
    highest = np.where(violating, -_LOWEST, compared.highest)
    for place in np.lexsort((compared.nodes, highest, violating)).tolist():
        if best is not None and cost(best)[:2] < (violating[place], highest[place]):
            break
        if best is not None and left <= 0 and not best.violations:
            break
        node = int(compared.nodes[place])
        found = dry_run(profile, pod, prepared, snapshot, node, promised.get(node, ()))
        if isinstance(found, Hopeless):
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
    prepared: Prepared,
    snapshot: Snapshot,
    nodes: Indices,
    nominations: Nominations | None = None,
    *,
    offset: int = 0,
    enough: int | None = None,
) -> Search:
    """Dry runs on the nodes, round robin from the one at `offset`.

    It stops once there are `enough` candidates and one of them breaks no budget; None tries every node.
    """
    harmless: list[Candidate] = []
    violating: list[Candidate] = []
    reasons: dict[str, int] = {}
    most = len(nodes) if enough is None else enough
    for node in np.roll(nodes, -offset).tolist():
        promised = (nominations or {}).get(node, ())
        found = dry_run(profile, pod, prepared, snapshot, node, promised)
        if isinstance(found, Hopeless):
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
    prepared: Prepared,
    snapshot: Snapshot,
    node: int,
    promised: Sequence[PodInfo] = (),
) -> Candidate | Hopeless:
    """Which pods would have to leave the node, or why that does not help.

    All pods of lower priority go, then each that fits beside the pod comes back: first those that would break a budget,
    then the others, the more important ones first. `promised`: pods of at least the pod's priority that were promised
    the node; it has to do with and without them.
    """
    lower = sorted((other for other in snapshot.pods_on(node) if other.priority < pod.priority), key=importance)
    if not lower:
        return Hopeless(node, (NO_VICTIMS,))
    trial = _Trial(profile, pod, prepared, snapshot, node, promised)
    for other in lower:
        trial.take_away(other)
    refusal = trial.refusal()
    if refusal is not None:
        return Hopeless(node, refusal.refusals().of(0))
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
    """One node on its own, with pods taken away and put back."""

    def __init__(
        self,
        profile: Profile,
        pod: PodInfo,
        prepared: Prepared,
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
        self._alone = snapshot.alone(node)
        self._passed: set[FilterPlugin] = set()
        """Filters that will not change their mind, whatever pods go."""

    def take_away(self, other: PodInfo) -> None:
        self._alone = self._alone.forget(other)
        self._prepared = without_pod(self._profile, self._pod, self._prepared, other, self._node, self._snapshot)

    def put_back(self, other: PodInfo) -> None:
        self._alone = self._alone.assume(other, 0)
        self._prepared = with_pod(self._profile, self._pod, self._prepared, other, self._node, self._snapshot)

    def refusal(self) -> Verdict | None:
        """Of the first filter that does not let the pod onto the node now; None if all do."""
        if self._promised:
            alone, prepared = self._alone, self._prepared
            for other in self._promised:
                alone = alone.assume(allotted(self._profile, other, alone), 0)
                prepared = with_pod(self._profile, self._pod, prepared, other, self._node, self._snapshot)
            crowded = self._first(alone, prepared)
            if crowded is not None:
                return crowded
        return self._first(self._alone, self._prepared)

    def _first(self, alone: Snapshot, prepared: Prepared) -> Verdict | None:
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


def choose(candidates: Sequence[Candidate]) -> Candidate:
    """The cheapest: fewest broken budgets, lowest "highest priority", lowest sum of priorities, fewest victims, latest
    start of the most important ones; then the first.
    """
    return min(candidates, key=cost)


def cost(candidate: Candidate) -> Cost:
    """What `choose` compares; the lower the better."""
    victims = candidate.victims
    if not victims:
        return candidate.violations, -_LOWEST, 0, 0, -NOT_STARTED
    highest = victims[0].priority
    earliest = min(started_at(each) for each in victims if each.priority == highest)
    return (
        candidate.violations,
        highest,
        sum(each.priority + _LOWEST for each in victims),
        len(victims),
        -earliest,
    )


def importance(pod: PodInfo) -> tuple[int, float]:
    """Sorts the more important first: higher priority, then earlier start."""
    return -pod.priority, started_at(pod)

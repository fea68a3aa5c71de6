"""DefaultPreemption: evicts Pods of lower priority so that a Pod fits (upstream plugins/defaultpreemption).

`situate.framework.preemption.preemption` runs the search. The Pod is not placed but nominated to the node, and is
scheduled again once its victims are gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Final
from zlib import crc32

import msgspec

from situate.framework.plugin_api.actions import Action, Evict, Nominate
from situate.framework.plugin_api.configuration import Extender
from situate.framework.plugin_api.events import Change, EventHint, Hint, Subject
from situate.framework.plugin_api.plugin import Diagnosis, PostFiltered
from situate.framework.pod.pods import PodInfo
from situate.framework.preemption.extenders import EXTENDER, Steps, reduce_candidates, run_without_questions
from situate.framework.preemption.post_filter import Cycle
from situate.framework.preemption.preemption import (
    ABSOLUTE,
    PERCENTAGE,
    Candidate,
    Search,
    candidates_to_find,
    cheapest_candidate,
    find_candidates,
    find_cheapest,
    ineligibility_reason,
    nodes_that_might_help,
)
from situate.framework.results.status import SUCCESS, Code, unresolvable_status, unschedulable_status
from situate.framework.results.verdict import Codes
from situate.framework.snapshot.snapshot import Snapshot
from situate.objects.settings.section import Mistake

_NOT_HELPFUL: Final = "Preemption is not helpful for scheduling"


class DefaultPreemptionArgs(msgspec.Struct, frozen=True, rename="camel"):
    """Upstream's DefaultPreemptionArgs. Without both fields, every node is tried."""

    min_candidate_nodes_percentage: Annotated[int, msgspec.Meta(ge=0, le=100)] | None = None
    """None means 10 if the other field is set."""
    min_candidate_nodes_absolute: Annotated[int, msgspec.Meta(ge=0)] | None = None
    """None means 100 if the other field is set."""

    def mistakes(self) -> Iterable[Mistake]:
        if self.min_candidate_nodes_percentage == 0 and self.min_candidate_nodes_absolute == 0:
            yield Mistake("minCandidateNodesPercentage", "0", "more than 0 if minCandidateNodesAbsolute is 0")

    def candidates_limit(self, nodes: int) -> int | None:
        """Return the number of candidates that ends the search among `nodes`; None means all."""
        percentage, absolute = self.min_candidate_nodes_percentage, self.min_candidate_nodes_absolute
        if percentage is None and absolute is None:
            return None
        return candidates_to_find(
            nodes, PERCENTAGE if percentage is None else percentage, ABSOLUTE if absolute is None else absolute
        )


class DefaultPreemption:
    """A PostFilter plugin that selects the node with the cheapest preemption, and its victims."""

    name = "DefaultPreemption"
    arguments = DefaultPreemptionArgs

    def __init__(self, arguments: DefaultPreemptionArgs = DefaultPreemptionArgs()) -> None:  # noqa: B008  # frozen
        self._limits = arguments

    def post_filter(self, pod: PodInfo, diagnosis: Diagnosis, cycle: Cycle) -> PostFiltered:
        """Return success with a nomination, else unschedulable. Without candidates an earlier nomination is cleared."""
        return run_without_questions(self.post_filter_steps(pod, diagnosis, cycle, ()))

    def post_filter_steps(
        self, pod: PodInfo, diagnosis: Diagnosis, cycle: Cycle, extenders: Sequence[Extender]
    ) -> Steps[PostFiltered]:
        """Run `post_filter` with extenders that may reduce the candidates and their victims.

        If an extender has refused nodes or gets the candidates, the search stops at upstream's number of candidates. A
        configured limit takes precedence. A node that needs no victims is no candidate. If there are only such nodes,
        the result is unresolvable, which stops PostFilter.
        """
        snapshot = diagnosis.snapshot
        codes = diagnosis.codes()
        reason = ineligibility_reason(pod, snapshot, _code_of_nominated(pod, diagnosis, codes))
        if reason:
            return PostFiltered(unschedulable_status(f"preemption: {reason}"))
        nodes = nodes_that_might_help(codes)
        promised = cycle.nominations.competing_pods(pod, snapshot.nodes.index) if cycle.nominations else {}
        shrinking = any(extender.preempt_verb for extender in extenders)
        enough = self._limits.candidates_limit(len(nodes))
        if enough is None and (shrinking or EXTENDER in diagnosis.rejectors):
            enough = candidates_to_find(len(nodes), PERCENTAGE, ABSOLUTE)
        prepared = cycle.feasibility.prepared
        if enough is None:
            found = find_cheapest(cycle.profile, pod, prepared, snapshot, nodes, promised)
        else:
            offset = crc32(pod.uid.encode()) % max(len(nodes), 1)  # any offset that differs between Pods will do
            found = find_candidates(
                cycle.profile, pod, prepared, snapshot, nodes, promised, offset=offset, enough=enough
            )
        candidates = [each for each in found.candidates if each.victims]
        if found.candidates and not candidates:
            return PostFiltered(unresolvable_status(f"preemption: {_no_victims_message(snapshot, found.candidates)}"))
        if not candidates:
            return PostFiltered(
                unschedulable_status(f"preemption: {_no_candidate_message(found, len(nodes), snapshot.count)}"),
                nominate="",
            )
        if shrinking:
            candidates = list((yield from reduce_candidates(extenders, pod, snapshot, candidates)))
            if not candidates:
                return PostFiltered(unschedulable_status("preemption: no candidate node for preemption"))
        best = cheapest_candidate(candidates)
        node = snapshot.name(best.node)
        return PostFiltered(SUCCESS, node, (*_evictions(pod, best), *_withdrawals(pod, node, cycle)))

    def events(self) -> tuple[EventHint, ...]:
        """Return an event that skips. The hints of the plugins that refused the Pod react to its victims' deletion."""
        return (EventHint(Subject.ASSIGNED_POD, Change.DELETE, _hint_after_pod),)


def _hint_after_pod(pod: PodInfo, old: PodInfo, new: PodInfo | None) -> Hint:  # noqa: ARG001
    return Hint.SKIP


def _code_of_nominated(pod: PodInfo, diagnosis: Diagnosis, codes: Codes) -> Code:
    index = diagnosis.snapshot.nodes.index.get(pod.nominated)
    return Code.SUCCESS if index is None else Code(int(codes[index]))


def _no_candidate_message(found: Search, tried: int, count: int) -> str:
    """Return the message for the dry runs, in the form used for every unschedulable Pod."""
    counts = dict(found.reasons)
    if count > tried:
        counts[_NOT_HELPFUL] = counts.get(_NOT_HELPFUL, 0) + count - tried
    entries = sorted(f"{number} {text}" for text, number in counts.items())
    return f"0/{count} nodes are available: {', '.join(entries)}."


def _no_victims_message(snapshot: Snapshot, found: Iterable[Candidate]) -> str:
    """Return upstream's message for one or several errors."""
    told = [f'expected at least one victim pod on node "{snapshot.name(each.node)}"' for each in found]
    return told[0] if len(told) == 1 else f"[{', '.join(told)}]"


def _evictions(pod: PodInfo, best: Candidate) -> Iterable[Action]:
    """Yield evictions of the victims that are not terminating yet."""
    message = f"{pod.template.scheduler_name}: preempting to accommodate a higher priority pod"
    for victim in best.victims:
        if not victim.terminating:
            yield Evict(victim.key, victim.uid, "PreemptionByScheduler", message)


def _withdrawals(pod: PodInfo, node: str, cycle: Cycle) -> Iterable[Action]:
    """Yield actions that clear the nominations of lower-priority Pods to the node."""
    for other in cycle.nominations.pods_on(node):
        if other.priority < pod.priority:
            yield Nominate(other.key, other.uid, "")

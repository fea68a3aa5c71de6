"""Questions to scheduler extenders, and the handling of their replies (upstream pkg/scheduler/extender.go).

The scheduler calls an extender in the middle of a cycle. This module does no I/O. A cycle that needs replies is a
generator: it yields questions that can be asked at the same time, and is sent one reply for each.
`situate.scheduler.extenders.client` sends the questions over HTTP. `situate.framework.engine.extender_cycle` decides
where in the cycle they are asked.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias, TypeVar

import msgspec
import numpy as np

from situate.framework.cycle.cycle import Feasibility, PluginFailed
from situate.framework.plugin_api.configuration import Extender
from situate.framework.plugin_api.plugin import HIGHEST, Scores
from situate.framework.pod.pods import PodInfo
from situate.framework.preemption.preemption import Candidate, importance
from situate.framework.results.status import Code
from situate.framework.results.verdict import Codes, Indices, Refusals, Verdict
from situate.framework.snapshot.snapshot import Snapshot

R = TypeVar("R")

EXTENDER: Final = "Extender"
"""The plugin name for nodes refused by extenders. It registers no events, so every event may help."""
HIGHEST_EXTENDER_SCORE: Final = 10
"""The highest score of an extender (extender/v1 MaxExtenderPriority)."""
_LARGEST: Final = 2**53
"""Scores beyond this limit are ignored, because their sum would not be exact."""


class ExtenderFailed(PluginFailed):
    """A non-ignorable extender did not reply, or its reply is invalid; ends the Pod's cycle with an error."""

    def __init__(self, extender: Extender, verb: str, problem: str) -> None:
        Exception.__init__(self, f"extender {extender.url_prefix} at {verb}: {problem}")
        self.plugin = extender.url_prefix
        self.point = verb


@dataclass(frozen=True, slots=True, eq=False)
class FilterNodes:
    """Ask the extender which of these nodes are feasible."""

    extender: Extender
    pod: PodInfo
    nodes: tuple[str, ...]
    """In the order of the table."""


@dataclass(frozen=True, slots=True, eq=False)
class PrioritizeNodes:
    """Ask the extender for a score of each of these nodes."""

    extender: Extender
    pod: PodInfo
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Victims:
    """Pods to evict from a node."""

    pods: tuple[PodInfo, ...]
    """The most important first."""
    violations: int
    """The number of victims whose eviction violates a budget."""


@dataclass(frozen=True, slots=True, eq=False)
class ProcessPreemption:
    """Ask the extender on which of these nodes the Pod may preempt, and which victims it accepts."""

    extender: Extender
    pod: PodInfo
    victims: Mapping[str, Victims]
    """By node."""


ExtenderQuestion: TypeAlias = FilterNodes | PrioritizeNodes | ProcessPreemption


@dataclass(frozen=True, slots=True)
class FilterReply:
    """The feasible nodes, and the reasons for the others as far as the extender gives them."""

    nodes: tuple[str, ...]
    failed: Mapping[str, str]
    unresolvable: Mapping[str, str]
    """Nodes where preemption cannot help; takes precedence over `failed`."""


@dataclass(frozen=True, slots=True)
class PrioritizeReply:
    """Nodes with scores from 0 to 10; the scores of a repeated node add up."""

    scores: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class PreemptionReply:
    """By node, the uids of the victims that the extender accepts, and the number of budget violations."""

    victims: Mapping[str, tuple[tuple[str, ...], int]]


@dataclass(frozen=True, slots=True)
class NoReply:
    """The extender was not reachable, or its reply could not be parsed."""

    problem: str


ExtenderReply: TypeAlias = FilterReply | PrioritizeReply | PreemptionReply | NoReply

Steps: TypeAlias = Generator[tuple[ExtenderQuestion, ...], Sequence[ExtenderReply], R]
"""A computation with questions: it yields questions and is sent one reply for each, in their order."""


def extenders_in_order(extenders: Sequence[Extender]) -> tuple[Extender, ...]:
    """Return the extenders in the order of calls: as configured, ignorable ones last (upstream buildExtenders)."""
    return tuple(sorted(extenders, key=lambda extender: extender.ignorable))


def manages_pod(extender: Extender, pod: PodInfo) -> bool:
    """Return whether the extender manages the Pod: it manages all Pods, or a resource that a container names."""
    managed = {resource.name for resource in extender.managed_resources}
    if not managed:
        return True
    spec = pod.pod.spec
    return any(
        name in managed
        for container in (*spec.containers, *spec.init_containers)
        for amounts in (container.resources.requests, container.resources.limits)
        for name in amounts
    )


def is_called_in_cycles(extender: Extender) -> bool:
    """Return whether scheduling cycles call the extender. One that only binds is not called there."""
    return bool(extender.filter_verb or extender.prioritize_verb or extender.preempt_verb)


def run_without_questions(steps: Steps[R]) -> R:
    """Return the result of a computation that asks no questions."""
    try:
        questions = next(steps)
    except StopIteration as end:
        result: R = end.value
        return result
    raise AssertionError(f"unexpected question to extender {questions[0].extender.url_prefix}")


def read_only_extenders(extenders: Sequence[Extender]) -> tuple[Extender, ...]:
    """Return the extenders for a trial: they do not bind, and an extender without a reply does not stop the trial."""
    return tuple(msgspec.structs.replace(each, ignorable=True, bind_verb="") for each in extenders_in_order(extenders))


def report_bad_replies(steps: Steps[R], note: Callable[[str], None]) -> Steps[R]:
    """Run the same computation, and pass each missing or invalid reply to `note`."""
    replies: Sequence[ExtenderReply] | None = None
    while True:
        try:
            questions = next(steps) if replies is None else steps.send(replies)
        except StopIteration as end:
            result: R = end.value
            return result
        replies = yield questions
        for question, reply in zip(questions, replies, strict=True):
            problem = _fault(question, reply)
            if problem is not None:
                note(str(problem))


def _fault(question: ExtenderQuestion, reply: ExtenderReply) -> ExtenderFailed | None:
    """Return the error of a reply, as far as it can be checked without the cluster."""
    extender = question.extender
    match question:
        case FilterNodes():
            try:
                _passed_nodes(extender, reply, question.nodes)
            except ExtenderFailed as problem:
                return problem
        case PrioritizeNodes():
            return (
                None if isinstance(reply, PrioritizeReply) else _failure_of(extender, extender.prioritize_verb, reply)
            )
        case ProcessPreemption():
            return None if isinstance(reply, PreemptionReply) else _failure_of(extender, extender.preempt_verb, reply)
    return None


def filter_feasibility(
    extenders: Sequence[Extender], pod: PodInfo, found: Feasibility, nodes: Indices, name_of: Callable[[Extender], str]
) -> Steps[tuple[Indices, Feasibility]]:
    """Return the nodes that all extenders pass, and the feasibility with the extenders' refusals.

    `name_of` returns the plugin name for an extender's refusals.
    """
    nodes, refused = yield from filter_nodes(extenders, pod, found.snapshot, nodes)
    if refused:
        passes = found.passes & np.logical_and.reduce([verdict.passes for _, verdict in refused])
        named = tuple((name_of(extender), verdict) for extender, verdict in refused)
        crowded = () if passes.any() else tuple(found.leading_verdicts())
        found = replace(found, passes=passes, verdicts=(*crowded, *found.verdicts, *named))
    return nodes, found


def filter_nodes(
    extenders: Sequence[Extender], pod: PodInfo, snapshot: Snapshot, nodes: Indices
) -> Steps[tuple[Indices, tuple[tuple[Extender, Verdict], ...]]]:
    """Return the nodes that all extenders pass, called in turn, and the verdict of each one that refused nodes."""
    verdicts: list[tuple[Extender, Verdict]] = []
    for extender in extenders:
        if not extender.filter_verb:
            continue
        if not len(nodes):
            break
        names = tuple(map(snapshot.name, nodes.tolist()))
        (answer,) = yield (FilterNodes(extender, pod, names),)
        try:
            kept = _passed_nodes(extender, answer, names)
        except ExtenderFailed:
            if extender.ignorable:
                continue
            raise
        assert isinstance(answer, FilterReply)
        left = nodes[[name in kept for name in names]]
        if len(left) < len(nodes):
            verdicts.append((extender, _verdict(snapshot, np.setdiff1d(nodes, left), answer)))
        nodes = left
    return nodes, tuple(verdicts)


def _passed_nodes(extender: Extender, answer: ExtenderReply, names: tuple[str, ...]) -> frozenset[str]:
    """Return the feasible nodes of the reply; they must be among the nodes of the question."""
    if not isinstance(answer, FilterReply):
        raise _failure_of(extender, extender.filter_verb, answer)
    kept = frozenset(answer.nodes)
    strangers = kept.difference(names)
    if strangers:
        raise ExtenderFailed(
            extender, extender.filter_verb, f"returned node {min(strangers)}, which was not in the request"
        )
    return kept


def _failure_of(extender: Extender, verb: str, answer: ExtenderReply) -> ExtenderFailed:
    problem = answer.problem if isinstance(answer, NoReply) else f"returned {type(answer).__name__}"
    return ExtenderFailed(extender, verb, problem)


def _verdict(snapshot: Snapshot, refused: Indices, answer: FilterReply) -> Verdict:
    """Build the verdict. As upstream, a node missing in the reply is unresolvable and has no reason."""
    passes = np.ones(snapshot.count, dtype=np.bool_)
    passes[refused] = False

    def told() -> Refusals:
        code: Codes = np.zeros(snapshot.count, dtype=np.uint8)
        by_reason: dict[str, list[int]] = {}
        for node in refused.tolist():
            name = snapshot.name(node)
            reason = answer.unresolvable.get(name)
            failed = answer.failed.get(name)
            resolvable = reason is None and failed is not None
            code[node] = Code.UNSCHEDULABLE if resolvable else Code.UNRESOLVABLE
            text = failed if resolvable else reason
            if text is not None:
                by_reason.setdefault(text, []).append(node)
        return Refusals(code, tuple((text, np.array(at, dtype=np.intp)) for text, at in by_reason.items()))

    return Verdict(passes, told)


def scores_of(
    extenders: Sequence[Extender], pod: PodInfo, snapshot: Snapshot, nodes: Indices
) -> Steps[list[tuple[Extender, Scores]]]:
    """Return (nodes,): the amount that each extender adds to the totals.

    The extenders are asked at the same time. An extender that fails adds nothing.
    """
    added_by: list[tuple[Extender, Scores]] = []
    asked = [extender for extender in extenders if extender.prioritize_verb]
    if not asked:
        return added_by
    names = tuple(map(snapshot.name, nodes.tolist()))
    place = {name: number for number, name in enumerate(names)}
    answers = yield tuple(PrioritizeNodes(extender, pod, names) for extender in asked)
    for extender, answer in zip(asked, answers, strict=True):
        if not isinstance(answer, PrioritizeReply):
            continue
        added = [0] * len(names)
        for name, score in answer.scores:
            if name in place:
                added[place[name]] += score * extender.weight * (HIGHEST // HIGHEST_EXTENDER_SCORE)
        if max(map(abs, added), default=0) < _LARGEST:
            added_by.append((extender, np.array(added, dtype=np.int64)))
    return added_by


def reduce_candidates(
    extenders: Sequence[Extender], pod: PodInfo, snapshot: Snapshot, candidates: Sequence[Candidate]
) -> Steps[tuple[Candidate, ...]]:
    """Return the preemption candidates that all extenders pass, in order, with the victims that they name."""
    left = tuple(candidates)
    for extender in extenders:
        if not extender.preempt_verb:
            continue
        if not left:
            break
        victims = {snapshot.name(each.node): Victims(each.victims, each.violations) for each in left}
        (answer,) = yield (ProcessPreemption(extender, pod, victims),)
        try:
            left = _candidates_of_reply(extender, answer, snapshot)
        except ExtenderFailed:
            if not extender.ignorable:
                raise
    return left


def _candidates_of_reply(extender: Extender, answer: ExtenderReply, snapshot: Snapshot) -> tuple[Candidate, ...]:
    """Return the nodes and victims of the reply. They may differ from the question, but must exist."""
    verb = extender.preempt_verb
    if not isinstance(answer, PreemptionReply):
        raise _failure_of(extender, verb, answer)
    candidates = []
    for name, (uids, violations) in answer.victims.items():
        node = snapshot.nodes.index.get(name)
        if node is None:
            raise ExtenderFailed(extender, verb, f"returned node {name}, which does not exist")
        there = {each.uid: each for each in snapshot.pods_on(node)}
        strangers = [uid for uid in uids if uid not in there]
        if strangers:
            raise ExtenderFailed(extender, verb, f"returned a pod with uid {strangers[0]}, which is not on node {name}")
        if uids:
            victims = sorted((there[uid] for uid in uids), key=importance)
            candidates.append(Candidate(node, tuple(victims), violations))
        elif not extender.ignorable:
            raise ExtenderFailed(extender, verb, f"returned no victim on node {name}; allowed: one or more")
    return tuple(sorted(candidates, key=lambda each: each.node))

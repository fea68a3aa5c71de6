"""What the scheduler asks its extenders, and what their answers come to (upstream pkg/scheduler/extender.go).

An extender is a program that is asked in the middle of a cycle. Nothing here asks anybody: a cycle that needs an answer
is a generator that yields questions, all that can be asked at the same time, and is sent one answer for each. Who
carries them over HTTP is `situate.scheduler.extenders.client`; where in the cycle they are asked is
`situate.framework.engine.extender_cycle`.
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
"""The plugin in whose name nodes are refused by extenders. They name no events, so every event may help."""
MOST: Final = 10
"""The highest score of an extender (extender/v1 MaxExtenderPriority)."""
_LARGEST: Final = 2**53
"""Beyond this a score is nonsense, and would not add up exactly with others."""


class ExtenderFailed(PluginFailed):
    """An extender did not answer, or not sensibly, and may not be ignored; ends the pod's cycle with an error."""

    def __init__(self, extender: Extender, verb: str, problem: str) -> None:
        Exception.__init__(self, f"extender {extender.url_prefix} at {verb}: {problem}")
        self.plugin = extender.url_prefix
        self.point = verb


@dataclass(frozen=True, slots=True, eq=False)
class FilterNodes:
    """Which of these nodes will do?"""

    extender: Extender
    pod: PodInfo
    nodes: tuple[str, ...]
    """In the order of the table."""


@dataclass(frozen=True, slots=True, eq=False)
class PrioritizeNodes:
    """How good is each of these nodes?"""

    extender: Extender
    pod: PodInfo
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Victims:
    """Pods that would have to leave a node."""

    pods: tuple[PodInfo, ...]
    """The most important first."""
    violations: int
    """So many of them break a disruption budget."""


@dataclass(frozen=True, slots=True, eq=False)
class ProcessPreemption:
    """On which of these nodes may the pod preempt, and whom?"""

    extender: Extender
    pod: PodInfo
    victims: Mapping[str, Victims]
    """By node."""


Question: TypeAlias = FilterNodes | PrioritizeNodes | ProcessPreemption


@dataclass(frozen=True, slots=True)
class Filtered:
    """The nodes that will do; of the others, why not, as far as the extender says."""

    nodes: tuple[str, ...]
    failed: Mapping[str, str]
    unresolvable: Mapping[str, str]
    """Where preemption cannot help either; goes before `failed`."""


@dataclass(frozen=True, slots=True)
class Prioritized:
    """Node and score, 0 to 10; what is named twice adds up."""

    scores: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Preempted:
    """By node the uids of the victims that the extender agrees to, and how many budgets that breaks."""

    victims: Mapping[str, tuple[tuple[str, ...], int]]


@dataclass(frozen=True, slots=True)
class NoReply:
    """The extender could not be reached, or what it said cannot be read."""

    problem: str


Reply: TypeAlias = Filtered | Prioritized | Preempted | NoReply

Steps: TypeAlias = Generator[tuple[Question, ...], Sequence[Reply], R]
"""A computation that asks: yields questions, is sent one answer for each, in their order."""


def in_turn(extenders: Sequence[Extender]) -> tuple[Extender, ...]:
    """In the order in which they are asked: as configured, those that may be ignored last (upstream buildExtenders)."""
    return tuple(sorted(extenders, key=lambda extender: extender.ignorable))


def interested(extender: Extender, pod: PodInfo) -> bool:
    """Whether the extender has to do with the pod: it manages all pods, or a resource that a container names."""
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


def asks(extender: Extender) -> bool:
    """Whether scheduling cycles ask it anything; one that only binds is not asked there."""
    return bool(extender.filter_verb or extender.prioritize_verb or extender.preempt_verb)


def finished(steps: Steps[R]) -> R:
    """The result of a computation that has nobody to ask."""
    try:
        questions = next(steps)
    except StopIteration as end:
        result: R = end.value
        return result
    raise AssertionError(f"asks {questions[0].extender.url_prefix} without being asked to")


def read_only(extenders: Sequence[Extender]) -> tuple[Extender, ...]:
    """The same for questions that nothing comes of: they bind nothing, and one that does not answer stops nobody."""
    return tuple(msgspec.structs.replace(each, ignorable=True, bind_verb="") for each in in_turn(extenders))


def noting(steps: Steps[R], note: Callable[[str], None]) -> Steps[R]:
    """The same computation; `note` is told of each question that got no answer, or none that makes sense."""
    replies: Sequence[Reply] | None = None
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


def _fault(question: Question, reply: Reply) -> ExtenderFailed | None:
    """What is wrong with a reply, as far as it can be told without the cluster."""
    extender = question.extender
    match question:
        case FilterNodes():
            try:
                _kept(extender, reply, question.nodes)
            except ExtenderFailed as problem:
                return problem
        case PrioritizeNodes():
            return None if isinstance(reply, Prioritized) else _failed(extender, extender.prioritize_verb, reply)
        case ProcessPreemption():
            return None if isinstance(reply, Preempted) else _failed(extender, extender.preempt_verb, reply)
    return None


def filtered(
    extenders: Sequence[Extender], pod: PodInfo, found: Feasibility, nodes: Indices, name_of: Callable[[Extender], str]
) -> Steps[tuple[Indices, Feasibility]]:
    """Those of the nodes that all extenders leave over, and what is known with what the others are refused for.

    `name_of`: in whose name an extender refuses nodes.
    """
    nodes, refused = yield from filter_by(extenders, pod, found.snapshot, nodes)
    if refused:
        passes = found.passes & np.logical_and.reduce([verdict.passes for _, verdict in refused])
        named = tuple((name_of(extender), verdict) for extender, verdict in refused)
        crowded = () if passes.any() else tuple(found.crowded())
        found = replace(found, passes=passes, verdicts=(*crowded, *found.verdicts, *named))
    return nodes, found


def filter_by(
    extenders: Sequence[Extender], pod: PodInfo, snapshot: Snapshot, nodes: Indices
) -> Steps[tuple[Indices, tuple[tuple[Extender, Verdict], ...]]]:
    """The nodes that all leave over, one extender after the other, and the verdict of each that refused some."""
    verdicts: list[tuple[Extender, Verdict]] = []
    for extender in extenders:
        if not extender.filter_verb:
            continue
        if not len(nodes):
            break
        names = tuple(map(snapshot.name, nodes.tolist()))
        (answer,) = yield (FilterNodes(extender, pod, names),)
        try:
            kept = _kept(extender, answer, names)
        except ExtenderFailed:
            if extender.ignorable:
                continue
            raise
        assert isinstance(answer, Filtered)
        left = nodes[[name in kept for name in names]]
        if len(left) < len(nodes):
            verdicts.append((extender, _verdict(snapshot, np.setdiff1d(nodes, left), answer)))
        nodes = left
    return nodes, tuple(verdicts)


def _kept(extender: Extender, answer: Reply, names: tuple[str, ...]) -> frozenset[str]:
    """The nodes that will do; they must be among those that were asked about."""
    if not isinstance(answer, Filtered):
        raise _failed(extender, extender.filter_verb, answer)
    kept = frozenset(answer.nodes)
    strangers = kept.difference(names)
    if strangers:
        raise ExtenderFailed(
            extender, extender.filter_verb, f"passes node {min(strangers)}, which it was not asked about"
        )
    return kept


def _failed(extender: Extender, verb: str, answer: Reply) -> ExtenderFailed:
    problem = answer.problem if isinstance(answer, NoReply) else f"answered {type(answer).__name__}"
    return ExtenderFailed(extender, verb, problem)


def _verdict(snapshot: Snapshot, refused: Indices, answer: Filtered) -> Verdict:
    """Nodes that it passed over in silence are refused for good and without a reason, as upstream has it."""
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
    """(nodes,): what each extender adds to the totals. They are asked at once; one that fails adds nothing."""
    added_by: list[tuple[Extender, Scores]] = []
    asked = [extender for extender in extenders if extender.prioritize_verb]
    if not asked:
        return added_by
    names = tuple(map(snapshot.name, nodes.tolist()))
    place = {name: number for number, name in enumerate(names)}
    answers = yield tuple(PrioritizeNodes(extender, pod, names) for extender in asked)
    for extender, answer in zip(asked, answers, strict=True):
        if not isinstance(answer, Prioritized):
            continue
        added = [0] * len(names)
        for name, score in answer.scores:
            if name in place:
                added[place[name]] += score * extender.weight * (HIGHEST // MOST)
        if max(map(abs, added), default=0) < _LARGEST:
            added_by.append((extender, np.array(added, dtype=np.int64)))
    return added_by


def shrink(
    extenders: Sequence[Extender], pod: PodInfo, snapshot: Snapshot, candidates: Sequence[Candidate]
) -> Steps[tuple[Candidate, ...]]:
    """The candidates for preemption that all extenders leave over, in their order, with the victims that they name."""
    left = tuple(candidates)
    for extender in extenders:
        if not extender.preempt_verb:
            continue
        if not left:
            break
        victims = {snapshot.name(each.node): Victims(each.victims, each.violations) for each in left}
        (answer,) = yield (ProcessPreemption(extender, pod, victims),)
        try:
            left = _shrunk(extender, answer, snapshot)
        except ExtenderFailed:
            if not extender.ignorable:
                raise
    return left


def _shrunk(extender: Extender, answer: Reply, snapshot: Snapshot) -> tuple[Candidate, ...]:
    """The nodes and victims of the answer, which may be others than those of the question, but must be there."""
    verb = extender.preempt_verb
    if not isinstance(answer, Preempted):
        raise _failed(extender, verb, answer)
    candidates = []
    for name, (uids, violations) in answer.victims.items():
        node = snapshot.nodes.index.get(name)
        if node is None:
            raise ExtenderFailed(extender, verb, f"names node {name}, which there is not")
        there = {each.uid: each for each in snapshot.pods_on(node)}
        strangers = [uid for uid in uids if uid not in there]
        if strangers:
            raise ExtenderFailed(extender, verb, f"names a pod with uid {strangers[0]}, which is not on node {name}")
        if uids:
            victims = sorted((there[uid] for uid in uids), key=importance)
            candidates.append(Candidate(node, tuple(victims), violations))
        elif not extender.ignorable:
            raise ExtenderFailed(extender, verb, f"names no victim on node {name}; needed: one or more")
    return tuple(sorted(candidates, key=lambda each: each.node))

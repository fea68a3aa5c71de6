"""Explain the placement of a Pod: the answers of every plugin for every node.

A `Question` is a Pod with all inputs of its scheduling cycle. `explain` runs the plain path, as the engine would, and
returns its intermediate results. If extenders manage the Pod, `explain_steps` yields questions that the caller must
carry to them. `situate.framework.explain.least_change` finds a change for a Pod without a node.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec
import numpy as np

from situate.framework.class_cache.switches import NO_SHORTCUTS
from situate.framework.cycle import cycle
from situate.framework.cycle.cycle import NO_NODES, Feasibility, call
from situate.framework.cycle.node_sampling import index_of_best
from situate.framework.engine.choose_node import NodeChooser
from situate.framework.engine.engine import Engine
from situate.framework.engine.messages import no_node_message
from situate.framework.plugin_api.configuration import Extender
from situate.framework.plugin_api.plugin import HIGHEST, Diagnosis, PostFiltered, Scores
from situate.framework.pod.pods import PodInfo, PodReader
from situate.framework.preemption.extenders import (
    EXTENDER,
    HIGHEST_EXTENDER_SCORE,
    Steps,
    filter_feasibility,
    is_called_in_cycles,
    manages_pod,
    run_without_questions,
    scores_of,
)
from situate.framework.preemption.nominations import Nominations
from situate.framework.preemption.post_filter import post_filter_steps, run_post_filter
from situate.framework.profile.profile import Profile
from situate.framework.results.status import Code, Status
from situate.framework.results.verdict import Indices, count_reasons
from situate.framework.snapshot.snapshot import Snapshot
from situate.objects.kinds.pods import Pod


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """A Pod to place, with all inputs of its cycle; immutable."""

    profile: Profile
    pod: PodInfo
    snapshot: Snapshot
    """Without the Pod."""
    reader: PodReader
    nominations: Nominations
    next_start: int = 0
    """The node at which visits start, if not all nodes are visited."""
    extenders: tuple[Extender, ...] = ()
    """The extenders that manage the Pod, in call order; see `situate.framework.preemption.extenders.read_only`."""
    extended: bool = False
    """Whether any extender filters or scores nodes, for any Pods."""

    @classmethod
    def of(cls, engine: Engine, pod: Pod) -> Question:
        """Create the question as if the Pod were the engine's next one and had no node; `BadPod` if invalid."""
        spec = msgspec.structs.replace(pod.spec, node_name="")
        info = engine.cache.reader.read(msgspec.structs.replace(pod, spec=spec))
        snapshot = engine.snapshot
        if info.uid in snapshot.placed:
            snapshot = snapshot.branch().forget(info)
        name = pod.spec.scheduler_name
        return cls(
            engine.profiles[name],
            info,
            snapshot,
            engine.cache.reader,
            engine.nominations,
            engine.next_start(name),
            tuple(
                extender
                for extender in engine.extenders
                if is_called_in_cycles(extender) and manages_pod(extender, info)
            ),
            engine.extended,
        )

    def with_pod(self, pod: Pod) -> Question:
        """Return the question about a changed Pod."""
        return replace(self, pod=self.reader.read(pod))

    def feasibility(self) -> Feasibility:
        """Return the feasible nodes; `PluginFailed` if a plugin fails."""
        against = self.nominations.competing_pods(self.pod, self.snapshot.nodes.index)
        return cycle.find_feasible(self.profile, self.pod, self.snapshot, against)

    def post_filter_result(self, found: Feasibility, diagnosis: Diagnosis) -> PostFiltered | None:
        """Return the result of PostFilter, which is preemption, without extenders."""
        return run_post_filter(self.profile, found, self.pod, diagnosis, self.nominations)

    def feasible_nominated_node(self, found: Feasibility) -> Steps[int | None]:
        """Return the Pod's nominated node if it is feasible, else None."""
        index = self.snapshot.nodes.index.get(self.nominations.node_of(self.pod.uid))
        if index is None or not found.passes[index]:
            return None
        alone: Indices = np.array([index], dtype=np.intp)
        kept, _ = yield from filter_feasibility(self.extenders, self.pod, found, alone, name_of)
        return index if len(kept) else None


@dataclass(frozen=True, slots=True)
class PreFilterLine:
    """One plugin's PreFilter answer for the Pod."""

    plugin: str
    code: Code | None
    """`SKIP` means that the plugin does not apply. None means that it did not run."""
    reasons: tuple[str, ...] = ()
    nodes: int | None = None
    """The number of nodes that the plugin admits; None means all."""


@dataclass(frozen=True, slots=True)
class FilterLine:
    """One plugin's Filter answer for the nodes."""

    plugin: str
    concerned: bool
    refused: int
    """Nodes that the plugin owns: no earlier plugin refuses them."""
    also: int
    """Other nodes that the plugin refuses."""
    reasons: Mapping[str, int]
    """For the owned nodes: the number of nodes by reason."""


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Nodes for which every plugin gives the same answer."""

    nodes: tuple[str, ...]
    code: Code
    """`SUCCESS` means that the nodes are feasible."""
    refusals: tuple[tuple[str, tuple[str, ...]], ...]
    """Plugin and reasons. The first plugin owns the nodes."""


@dataclass(frozen=True, slots=True)
class Share:
    """One plugin's scores for a node."""

    raw: int
    normalized: int
    weighted: int


@dataclass(frozen=True, slots=True)
class NodeScore:
    """The score of a node."""

    node: str
    total: int
    shares: Mapping[str, Share]
    """By plugin, in the order of the calls."""


@dataclass(frozen=True, slots=True, eq=False)
class Explanation:
    """The full explanation of one Pod's placement."""

    question: Question
    gate: Status | None
    """The reason why the Pod is gated; None if it is not. The other fields ignore the gate."""
    node: str
    """The node that the Pod would get; empty if no node is feasible."""
    uses_nomination: bool
    """Whether the Pod gets its nominated node, without a comparison."""
    pre_filters: tuple[PreFilterLine, ...]
    filters: tuple[FilterLine, ...]
    groups: tuple[NodeGroup, ...]
    """Feasible nodes first, then the largest group first. Empty if the Pod was rejected as a whole."""
    feasible: int
    visited: int
    """The number of visited nodes. It is less than the number of nodes only if the profile says so."""
    scores: tuple[NodeScore, ...]
    """The best first; empty if there is nothing to compare."""
    diagnosis: Diagnosis
    post_filter: PostFiltered | None
    """None if there is a node."""

    @property
    def message(self) -> str:
        """kube-scheduler's message for a Pod without a node; otherwise empty."""
        return "" if self.node else no_node_message(self.diagnosis)

    @property
    def best_nodes(self) -> tuple[str, ...]:
        """The nodes with the highest total. Order or a random draw decides among them."""
        if not self.scores:
            return (self.node,) if self.node else ()
        return tuple(each.node for each in self.scores if each.total == self.scores[0].total)


def name_of(extender: Extender) -> str:
    """Return the name of an extender in explanations, next to plugin names."""
    return f"{EXTENDER} {extender.url_prefix}"


def explain(question: Question) -> Explanation:
    """Run `explain_steps` for a question without extenders."""
    return run_without_questions(explain_steps(question))


def explain_steps(question: Question) -> Steps[Explanation]:
    """Return the engine's decision and all intermediate answers; `PluginFailed` if a plugin fails."""
    snapshot, extenders = question.snapshot, question.extenders
    gate = gate_of(question)
    if not snapshot.count:
        nothing = Diagnosis(snapshot, status=NO_NODES)
        return Explanation(question, gate, "", False, (), (), (), 0, 0, (), nothing, None)
    found = question.feasibility()
    index = yield from question.feasible_nominated_node(found)
    chooser = NodeChooser(question.profile, NO_SHORTCUTS, extended=question.extended)
    chooser.next_start = question.next_start
    nodes, visited = chooser.visit(found)
    nodes, found = yield from filter_feasibility(extenders, question.pod, found, nodes, name_of)
    diagnosis = found.diagnosis()
    added = (yield from scores_of(extenders, question.pod, snapshot, nodes)) if len(nodes) > 1 else []
    scores = node_scores(question, found, nodes, added) if len(nodes) > 1 else ()
    post_filter = None
    if not len(nodes) and index is None:
        steps = post_filter_steps(question.profile, found, question.pod, diagnosis, question.nominations, extenders)
        post_filter = yield from steps
    if index is not None:
        node = snapshot.name(index)
    elif scores:
        node = _first_of_the_best(question, nodes, scores)
    else:
        node = snapshot.name(int(nodes[0])) if len(nodes) else ""
    return Explanation(
        question,
        gate,
        node,
        index is not None,
        tuple(_pre_filters(question, found)),
        tuple(_filters(question, found, diagnosis)),
        _groups(found, diagnosis),
        int(np.count_nonzero(found.passes)),
        visited,
        scores,
        diagnosis,
        post_filter,
    )


def node_scores(
    question: Question, found: Feasibility, nodes: Indices, added: Sequence[tuple[Extender, Scores]] = ()
) -> tuple[NodeScore, ...]:
    """Return the scores of these feasible nodes, the best first; equal totals keep the order of the table.

    `added` are the scores of extenders.
    """
    view = question.snapshot.select_nodes(nodes)
    pod, profile = question.pod, question.profile
    states, skipped = cycle.pre_score(profile, pod, found.prepared, view)
    total = np.zeros(len(nodes), dtype=np.int64) if profile.score else np.ones(len(nodes), dtype=np.int64)
    columns = []
    for each in profile.score:
        if each.name not in skipped:
            raw, normalized = cycle.raw_and_normalized(each, states.get(each.name), pod, view)
            weighted = normalized * each.weight
            total += weighted
            columns.append((each.name, raw.tolist(), normalized.tolist(), weighted.tolist()))
    for extender, share in added:
        total += share
        factor = extender.weight * (HIGHEST // HIGHEST_EXTENDER_SCORE)
        raw = share // factor
        columns.append(
            (name_of(extender), raw.tolist(), (raw * (HIGHEST // HIGHEST_EXTENDER_SCORE)).tolist(), share.tolist())
        )
    told = []
    for place in np.argsort(-total, kind="stable").tolist():
        shares = {name: Share(raw[place], normal[place], share[place]) for name, raw, normal, share in columns}
        told.append(NodeScore(view.name(place), int(total[place]), shares))
    return tuple(told)


def _first_of_the_best(question: Question, nodes: Indices, scores: tuple[NodeScore, ...]) -> str:
    """Return the first of the best nodes in the order of the table, like `best`."""
    by_name = {each.node: each.total for each in scores}
    names = [question.snapshot.name(int(node)) for node in nodes]
    return names[index_of_best(np.array([by_name[name] for name in names], dtype=np.int64))]


def gate_of(question: Question) -> Status | None:
    """Return the reason why the Pod is gated; None if it is not."""
    for plugin in question.profile.pre_enqueue:
        status: Status = call(plugin, "PreEnqueue", plugin.pre_enqueue, question.pod)
        if not status.ok:
            return Status(status.code, status.reasons, plugin.name)
    return None


def _pre_filters(question: Question, found: Feasibility) -> list[PreFilterLine]:
    prepared, snapshot = found.prepared, question.snapshot
    told = []
    for plugin in question.profile.pre_filter:
        name = plugin.name
        if name in prepared.skipped:
            told.append(PreFilterLine(name, Code.SKIP))
        elif name not in prepared.states and name != prepared.status.plugin:
            told.append(PreFilterLine(name, None))
        else:
            answer = call(plugin, "PreFilter", plugin.pre_filter, question.pod, snapshot)
            only = None if answer.only is None else int(np.count_nonzero(answer.only))
            told.append(PreFilterLine(name, answer.status.code, tuple(answer.status.reasons), only))
    return told


def _filters(question: Question, found: Feasibility, diagnosis: Diagnosis) -> list[FilterLine]:
    if not found.prepared.status.ok:
        return []
    own: dict[str, tuple[int, Mapping[str, int]]] = {}
    for plugin, refusals, where in diagnosis.refused:
        before, reasons = own.get(plugin, (0, {}))
        counted = count_reasons(((refusals, where),))
        merged = {text: reasons.get(text, 0) + counted.get(text, 0) for text in (*reasons, *counted)}
        own[plugin] = before + int(np.count_nonzero(where)), merged
    refused: dict[str, int] = defaultdict(int)
    for plugin, verdict in found.verdicts:
        refused[plugin] += int(np.count_nonzero(~verdict.passes))
    told = []
    for each in question.profile.filter:
        count, reasons = own.get(each.name, (0, {}))
        concerned = each.name not in found.prepared.skipped
        told.append(FilterLine(each.name, concerned, count, refused[each.name] - count, reasons))
    for extender in question.extenders:
        if extender.filter_verb:
            name = name_of(extender)
            count, reasons = own.get(name, (0, {}))
            told.append(FilterLine(name, True, count, refused[name] - count, reasons))
    return told


def _groups(found: Feasibility, diagnosis: Diagnosis) -> tuple[NodeGroup, ...]:
    if diagnosis.status is not None:
        return ()
    count = found.snapshot.count
    said: list[list[tuple[str, tuple[str, ...]]]] = [[] for _ in range(count)]
    for plugin, refusals, where in diagnosis.refused:
        if plugin not in {name for name, _ in found.verdicts}:  # nodes that PreFilter left out
            for node in np.flatnonzero(where).tolist():
                said[node].append((plugin, refusals.reasons_at(node)))
    for plugin, verdict in found.verdicts:
        refused = np.flatnonzero(~verdict.passes)
        if not len(refused):
            continue
        texts: dict[int, list[str]] = defaultdict(list)
        for text, nodes in verdict.refusals().reasons:
            for node in nodes.tolist():
                texts[node].append(text)
        for node in refused.tolist():
            said[node].append((plugin, tuple(texts[node])))
    codes = diagnosis.codes()
    groups: dict[tuple[int, tuple[tuple[str, tuple[str, ...]], ...]], list[str]] = defaultdict(list)
    for node in range(count):
        groups[int(codes[node]), tuple(said[node])].append(found.snapshot.name(node))
    told = [NodeGroup(tuple(names), Code(code), refusals) for (code, refusals), names in groups.items()]
    return tuple(sorted(told, key=lambda group: (group.code is not Code.SUCCESS, -len(group.nodes))))

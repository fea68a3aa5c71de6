"""Find the least change that makes a Pod without a feasible node fit, by running the plugins again.

A *change* is one of these:

- a gate opens
- Pods of lower priority are preempted, which the scheduler does by itself
- one node is uncordoned
- one node gets more capacity
- the Pod gets one more toleration
- the Pod drops one entry of its nodeSelector
- the Pod drops one requirement of its node affinity, or all of it
- the Pod drops one spread constraint, or gets a larger maxSkew
- the Pod drops one required term of Pod affinity or anti-affinity, one host port, or one volume
- the Pod gets a higher priority and then preempts

A change *suffices* if the filters then pass a node, with nothing else changed. Of each kind only the least is returned:

- capacity where the largest missing part of the request is smallest, and no more than is missing
- the narrowest toleration, the smallest maxSkew, and the lowest priority
- entries and terms one at a time

Among equally small changes of one kind, those that open more nodes come first. Kinds are in the order of `Kind`. The
first change of all is *the least*.

If no single change suffices, the result is a set of changes that opens one node and has no superfluous change. It is
the smallest such set found on the nodes that lack least.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from situate.framework.cycle.cycle import call
from situate.framework.explain.explain import Explanation, Question
from situate.framework.explain.relaxations import (
    Kind,
    Relaxation,
    hard_constraints,
    relaxations,
    toleration_of,
    toleration_relaxation,
    wider_toleration_of,
    with_max_skew,
    with_priority,
)
from situate.framework.plugin_api.actions import Evict
from situate.framework.plugin_api.plugin import Need, NeedsPlugin
from situate.framework.pod.pods import PodKey
from situate.framework.pod.resources import CPU, EPHEMERAL, HUGE_PAGES, LARGEST_AMOUNT, MEMORY, PODS
from situate.framework.results.verdict import Indices, Mask
from situate.framework.snapshot.node_table import NodeTable
from situate.framework.snapshot.snapshot import Snapshot
from situate.objects.kinds.nodes import Taint
from situate.objects.kinds.pods import Pod, Toleration, TopologySpreadConstraint
from situate.objects.values.counts import format_count
from situate.objects.values.quantity import Quantity

SCHEDULING_GATES: Final = "SchedulingGates"
"""The plugin whose gates are fields of the Pod."""
_REFUSING: Final = ("NoSchedule", "NoExecute")
_CORDON: Final = "node.kubernetes.io/unschedulable"
_CHANGES_PER_KIND: Final = 5
"""Number of equally small changes of one kind to return."""
_TAINTS: Final = 64
"""Number of distinct taints to try, the most frequent first."""
_LEVELS: Final = 64
"""Number of priorities to try, the lowest first."""
_NEAREST: Final = 16
"""Number of nodes to try for several changes together."""


@dataclass(frozen=True, slots=True, eq=False)
class SuggestedChange:
    """A change that makes the Pod fit, alone or together with others."""

    kind: Kind
    text: str
    """An imperative, or the shortage.

    Examples: `tolerate taint gpu:NoSchedule`, `node-7 lacks 300m cpu`, `add a node with 100 cpu: larger than any node
    (32 cpu)`.
    """
    nodes: int
    """The number of nodes that are then feasible."""
    node: str
    """The first of these nodes, or the node that changes."""
    pod: Pod | None = None
    """The changed Pod; None if the Pod stays the same."""
    missing_amounts: Mapping[str, int] = field(default_factory=dict)
    """The amounts that `node` lacks, by resource, in units of `framework.resources`; `pods` for allowed Pods."""
    victims: tuple[PodKey, ...] = ()
    """Pods that would be evicted from `node`."""


@dataclass(frozen=True, slots=True)
class LeastChange:
    """The changes that make a Pod fit."""

    changes: tuple[SuggestedChange, ...] = ()
    """Each change suffices alone; the least first."""
    together: tuple[SuggestedChange, ...] = ()
    """If no single change suffices: changes that suffice together on one node, none of them superfluous.

    The Pod of each change includes the changes before it.
    """


def least_change(explanation: Explanation) -> LeastChange:
    """Find changes for a gated or unschedulable Pod; none for a Pod with a node. `PluginFailed` if a plugin fails.

    Extenders are not asked about changes, so an extender may still refuse the node that a change opens.
    """
    gated = explanation.gate is not None
    if explanation.node:
        return LeastChange((_gate_change(explanation),) if gated else ())
    question = explanation.question
    if not question.snapshot.count:
        return LeastChange()
    if question.extenders and question.feasibility().passes.any():
        return LeastChange(tuple(_preemption_changes(explanation)))  # only extenders refuse, without a remedy
    # a branch, so that results for changed nodes do not reach the live engine
    explanation = replace(explanation, question=replace(question, snapshot=question.snapshot.branch()))
    changes = tuple(_single_changes(explanation))
    if changes:
        return LeastChange(changes)
    return LeastChange(together=_combined_changes(explanation))


def _gate_change(explanation: Explanation) -> SuggestedChange:
    assert explanation.gate is not None
    own = [gate.name for gate in explanation.question.pod.pod.spec.scheduling_gates]
    if own and explanation.gate.plugin == SCHEDULING_GATES:
        order = f"remove {'gate' if len(own) == 1 else 'gates'} {', '.join(own)}"
    else:  # only the plugin knows the condition of its gate
        order = f"{explanation.gate.plugin}: {explanation.gate.message}"
    return SuggestedChange(Kind.GATE, order, explanation.feasible, explanation.node)


def _single_changes(explanation: Explanation) -> Iterator[SuggestedChange]:
    question = explanation.question
    preemption = list(_preemption_changes(explanation))
    yield from preemption
    yield from _uncordon_changes(question)
    yield from _capacity_changes(question)
    yield from _toleration_changes(question)
    yield from _relaxation_changes(question)
    if not preemption:
        yield from _priority_changes(question)


# Changes without user action


def _preemption_changes(explanation: Explanation) -> Iterator[SuggestedChange]:
    found = explanation.post_filter
    if found is None or not found.status.ok or not found.nominate:
        return
    victims = tuple(action.pod for action in found.actions if isinstance(action, Evict))
    what = f"preempting {format_count(len(victims), 'pod')} of lower priority on {found.nominate}"
    text = f"{what}, which the scheduler does by itself" if victims else f"pods are already leaving {found.nominate}"
    yield SuggestedChange(Kind.PREEMPTION, text, 1, found.nominate, victims=victims)


# Changes of one node


def _uncordon_changes(question: Question) -> Iterator[SuggestedChange]:
    cordoned = np.flatnonzero(question.snapshot.unschedulable)
    if not len(cordoned):
        return
    opened = _feasible_nodes(with_uncordoned(question, cordoned))
    sufficing = [int(node) for node in cordoned if opened[node]]
    for node in sufficing:
        if _feasible_nodes(with_uncordoned(question, [node]))[node]:
            name = question.snapshot.name(node)
            others = [question.snapshot.name(each) for each in sufficing if each != node]
            instead = f", or {others[0]}" if len(others) == 1 else f", or one of {len(others)} others" if others else ""
            yield SuggestedChange(Kind.UNCORDON, f"uncordon {name}{instead}", 1, name)
            return


def with_uncordoned(question: Question, nodes: Iterable[int]) -> Question:
    """Return the question as if these nodes were not cordoned."""
    table = question.snapshot.nodes
    unschedulable, taint_set = table.unschedulable.copy(), table.taint_set.copy()
    for node in nodes:
        unschedulable[node] = False
        left = tuple(taint for taint in table.taints(node) if taint.key != _CORDON)
        taint_set[node] = table.vocabulary.taints.number_of(left)
    return _with_nodes(question, replace(table, unschedulable=unschedulable, taint_set=taint_set, memo={}, plans={}))


@dataclass(frozen=True, slots=True, eq=False)
class _Shortage:
    """The amounts that nodes lack for the Pod."""

    needs: tuple[Need, ...]
    missing: NDArray[np.int64]
    """(needs, nodes): 0 where the amount is sufficient."""

    @classmethod
    def from_question(cls, question: Question) -> _Shortage:
        """Compute the shortage from the filters that compare amounts.

        An amount that several filters compare counts once.
        """
        snapshot = question.snapshot
        needs: dict[int | None, Need] = {}
        for plugin in question.profile.filter:
            if isinstance(plugin, NeedsPlugin):
                for need in call(plugin, "Filter", plugin.needs, question.pod, snapshot):
                    known = needs.get(need.column)
                    if known is None or known.asked < need.asked:
                        needs[need.column] = need
        listed = tuple(needs.values())
        missing = np.zeros((len(listed), snapshot.count), dtype=np.int64)
        for row, need in enumerate(listed):
            if need.column is None:
                missing[row] = snapshot.pod_count + need.asked - snapshot.allowed_pods
            else:
                missing[row] = snapshot.requested(need.column) + need.asked - snapshot.allocatable(need.column)
        return cls(listed, np.maximum(missing, 0))

    def nodes_in_order(self) -> Indices:
        """Return the nodes by the largest missing part of the request, then fewest missing resources, then index."""
        if not self.needs:
            return np.arange(self.missing.shape[1])
        asked = np.array([[max(need.asked, 1)] for need in self.needs], dtype=np.int64)
        part = (self.missing / asked).max(axis=0)
        return np.lexsort((np.count_nonzero(self.missing, axis=0), part))

    def larger_than_any_node(self, snapshot: Snapshot) -> list[tuple[int, int, int]]:
        """Return column, requested amount and largest allocatable amount where even an empty node is too small."""
        found = []
        for need in self.needs:
            if need.column is not None and snapshot.count:
                largest = int(snapshot.allocatable(need.column).max())
                if largest < need.asked:
                    found.append((need.column, need.asked, largest))
        return found

    def amounts_at(self, node: int, names: tuple[str, ...]) -> dict[str, int]:
        """Return the amounts that one node lacks, by resource."""
        return {
            PODS if need.column is None else names[need.column]: int(self.missing[row, node])
            for row, need in enumerate(self.needs)
            if self.missing[row, node]
        }


def _capacity_changes(question: Question) -> Iterator[SuggestedChange]:
    shortage = _Shortage.from_question(question)
    short: Mask = np.any(shortage.missing > 0, axis=0)
    if not short.any():
        return
    opened = _feasible_nodes(with_capacity(question, shortage.missing, shortage.needs, np.flatnonzero(short)))
    for node in shortage.nodes_in_order().tolist():
        if opened[node] and short[node] and _feasible_nodes(_with_capacity_at(question, shortage, node))[node]:
            yield _capacity_change(question, shortage, node)
            return


def _capacity_change(question: Question, shortage: _Shortage, node: int) -> SuggestedChange:
    name = question.snapshot.name(node)
    resources = question.snapshot.nodes.vocabulary.resources.names
    room = shortage.amounts_at(node, resources)
    beyond = shortage.larger_than_any_node(question.snapshot)
    if beyond:  # no eviction helps, so the difference to an existing node is not useful
        asked = " and ".join(amount_text(resources[column], asked) for column, asked, _ in beyond)
        known = ", ".join(amount_text(resources[column], most) for column, _, most in beyond if most)
        why = f"larger than any node ({known})" if known else "no node has any"
        return SuggestedChange(Kind.CAPACITY, f"add a node with {asked}: {why}", 1, name, missing_amounts=room)
    lacks = " and ".join(amount_text(resource, value) for resource, value in room.items())
    return SuggestedChange(Kind.CAPACITY, f"{name} lacks {lacks}", 1, name, missing_amounts=room)


def _with_capacity_at(question: Question, shortage: _Shortage, node: int) -> Question:
    return with_capacity(question, shortage.missing, shortage.needs, np.array([node], dtype=np.intp))


def with_capacity(question: Question, more: NDArray[np.int64], needs: tuple[Need, ...], nodes: Indices) -> Question:
    """Return the question as if these nodes had this much more; `more` is (needs, nodes)."""
    table = question.snapshot.nodes
    columns = max([len(table.allocatable), *(need.column + 1 for need in needs if need.column is not None)])
    allocatable = np.zeros((columns, len(table)), dtype=np.int64)
    allocatable[: len(table.allocatable)] = table.allocatable
    allowed_pods = table.allowed_pods.copy()
    for row, need in enumerate(needs):
        if need.column is None:
            allowed_pods[nodes] += more[row, nodes]
        else:
            allocatable[need.column, nodes] += more[row, nodes]
    return _with_nodes(question, replace(table, allocatable=allocatable, allowed_pods=allowed_pods, memo={}, plans={}))


def amount_text(resource: str, amount: int) -> str:
    """Return an amount as text: `300m cpu`, `1Gi memory`, `2 places for pods`.

    From `LARGEST_AMOUNT` on, the limit of counted amounts, it is `more than 4Pi memory`.
    """
    if amount >= LARGEST_AMOUNT:
        return (
            "more than "
            f"{amount_text(resource, LARGEST_AMOUNT // 2000 * 1000 if resource == CPU else LARGEST_AMOUNT // 2)}"
        )
    if resource == PODS:
        return format_count(amount, "place") + " for pods"
    if resource == CPU:
        return f"{Quantity(amount * 10**6)} cpu"
    binary = resource in (MEMORY, EPHEMERAL) or resource.startswith(HUGE_PAGES)
    return f"{Quantity(amount * 10**9, 'binary' if binary else 'decimal')} {resource}"


# Changes of the Pod


def _toleration_changes(question: Question) -> Iterator[SuggestedChange]:
    """Yield the narrowest tolerations. If none suffices, yield those of a key with all values and effects."""
    opened = np.flatnonzero(
        _feasible_nodes(
            question.with_pod(toleration_relaxation(Toleration(operator="Exists")).apply_to(question.pod.pod))
        )
    )
    if not len(opened):
        return
    table = question.snapshot.nodes
    seen: Counter[Taint] = Counter()
    for node in opened.tolist():
        seen.update({_taint_identity(taint) for taint in table.taints(node) if taint.effect in _REFUSING})
    taints = [taint for taint, _ in seen.most_common(_TAINTS)]
    for toleration in (toleration_of, wider_toleration_of):
        tried = dict.fromkeys(map(toleration, taints))
        found = list(_sufficient_changes(question, map(toleration_relaxation, tried)))
        if found:
            yield from found
            return


def _taint_identity(taint: Taint) -> Taint:
    return Taint(taint.key, taint.value, taint.effect)


def _relaxation_changes(question: Question) -> Iterator[SuggestedChange]:
    spec = question.pod.pod.spec
    kinds: dict[Kind, list[Relaxation]] = {}
    for each in relaxations(spec):
        kinds.setdefault(each.kind, []).append(each)
    if Kind.SPREAD in kinds:
        kinds[Kind.SPREAD] = list(_max_skew_relaxations(question, kinds[Kind.SPREAD]))
    for kind in Kind:
        yield from _sufficient_changes(question, kinds.get(kind, ()))


def _max_skew_relaxations(question: Question, dropped: Iterable[Relaxation]) -> Iterator[Relaxation]:
    """Yield, for each constraint, the smallest sufficient maxSkew. If none suffices, yield the constraint's removal."""
    for (number, constraint), drop in zip(hard_constraints(question.pod.pod.spec), dropped, strict=True):
        if not _feasible_nodes(question.with_pod(drop.apply_to(question.pod.pod))).any():
            continue

        def changed(skew: int, number: int = number, constraint: TopologySpreadConstraint = constraint) -> Relaxation:
            return with_max_skew(number, constraint, skew)

        def suffices(skew: int, changed: Callable[[int], Relaxation] = changed) -> bool:
            return bool(_feasible_nodes(question.with_pod(changed(skew).apply_to(question.pod.pod))).any())

        most = len(question.snapshot.placed) + constraint.max_skew + 1
        if not suffices(most):
            yield drop
            continue
        low = constraint.max_skew + 1
        while low < most:  # if a skew suffices, every larger one does
            middle = (low + most) // 2
            low, most = (low, middle) if suffices(middle) else (middle + 1, most)
        yield changed(most)


def _sufficient_changes(question: Question, tried: Iterable[Relaxation]) -> list[SuggestedChange]:
    """Return the relaxations that open a node, those with the most nodes first."""
    found = []
    for each in tried:
        pod = each.apply_to(question.pod.pod)
        passes = _feasible_nodes(question.with_pod(pod))
        if passes.any():
            first = question.snapshot.name(int(np.argmax(passes)))
            found.append(SuggestedChange(each.kind, each.text, int(np.count_nonzero(passes)), first, pod))
    return sorted(found, key=lambda change: -change.nodes)[:_CHANGES_PER_KIND]


def _priority_changes(question: Question) -> Iterator[SuggestedChange]:
    """Yield the lowest priority at which preemption helps.

    A higher priority may not help, because it could evict Pods that this Pod needs.
    """
    own = question.pod.priority
    levels = {info.priority + 1 for info, node in question.snapshot.placed if node >= 0 and info.priority >= own}
    if question.pod.template.preemption_policy == "Never":
        levels.add(own)
    for level in sorted(levels)[:_LEVELS]:
        change = _priority_change(question, level)
        if change is not None:
            yield change
            return


def _priority_change(question: Question, priority: int) -> SuggestedChange | None:
    raised = with_priority(priority)
    pod = raised.apply_to(question.pod.pod)
    changed = question.with_pod(pod)
    found = changed.feasibility()
    if found.passes.any():  # the needed capacity is nominated to Pods of lower priority
        node = question.snapshot.name(int(np.argmax(found.passes)))
        return SuggestedChange(Kind.PRIORITY, raised.text, int(np.count_nonzero(found.passes)), node, pod)
    answer = changed.post_filter_result(found, found.diagnosis())
    if answer is None or not answer.status.ok or not answer.nominate:
        return None
    victims = tuple(action.pod for action in answer.actions if isinstance(action, Evict))
    text = f"{raised.text}, so that it preempts {format_count(len(victims), 'pod')} on {answer.nominate}"
    return SuggestedChange(Kind.PRIORITY, text, 1, answer.nominate, pod, victims=victims)


# Several changes


def _combined_changes(explanation: Explanation) -> tuple[SuggestedChange, ...]:
    """Return the first of the smallest sets found on the nodes that lack least."""
    question = explanation.question
    everything = [toleration_relaxation(Toleration(operator="Exists")), *relaxations(question.pod.pod.spec)]
    pod = question.pod.pod
    for each in everything:
        pod = each.apply_to(pod)
    shortage = _Shortage.from_question(question.with_pod(pod))
    every = np.arange(question.snapshot.count)
    roomy = with_capacity(question, shortage.missing, shortage.needs, every)
    opened = _feasible_nodes(with_uncordoned(roomy.with_pod(pod), every.tolist()))
    refusing = {name: len(group.refusals) for group in explanation.groups for name in group.nodes}
    rank = {int(node): place for place, node in enumerate(shortage.nodes_in_order().tolist())}
    nodes = sorted(
        np.flatnonzero(opened).tolist(), key=lambda node: (refusing.get(question.snapshot.name(node), 0), rank[node])
    )
    sets = [_irreducible_changes(question, shortage, int(node)) for node in nodes[:_NEAREST]]
    return min((each for each in sets if each), key=len, default=())


@dataclass(frozen=True, slots=True, eq=False)
class _Step:
    """One of several changes, as an edit of the question."""

    edit: Callable[[Question], Question]
    change: SuggestedChange


def _irreducible_changes(question: Question, shortage: _Shortage, node: int) -> tuple[SuggestedChange, ...]:
    """Return changes that together open the node, none of them superfluous; empty if even all do not open it."""
    steps = list(_steps(question, shortage, node))

    def suffice(some: Sequence[_Step]) -> bool:
        asked = question
        for step in some:
            asked = step.edit(asked)
        return bool(_feasible_nodes(asked)[node])

    if not suffice(steps):
        return ()
    left = 0
    while left != len(steps):  # again after a removal, because constraints depend on each other
        left = len(steps)
        for step in list(reversed(steps)):
            others = [each for each in steps if each is not step]
            if suffice(others):
                steps = others
    asked, changes = question, []
    for step in steps:
        pod = asked.pod.pod
        asked = step.edit(asked)
        changes.append(step.change if asked.pod.pod is pod else replace(step.change, pod=asked.pod.pod))
    return tuple(changes)


def _steps(question: Question, shortage: _Shortage, node: int) -> Iterator[_Step]:
    """Yield all possible changes for one node, the smallest kind first; capacity is for the unchanged Pod."""
    table, name = question.snapshot.nodes, question.snapshot.name(node)
    if table.unschedulable[node]:
        yield _Step(
            lambda asked: with_uncordoned(asked, [node]), SuggestedChange(Kind.UNCORDON, f"uncordon {name}", 1, name)
        )
    if shortage.missing[:, node].any():
        yield _Step(lambda asked: _with_capacity_at(asked, shortage, node), _capacity_change(question, shortage, node))
    taints = dict.fromkeys(_taint_identity(taint) for taint in table.taints(node) if taint.effect in _REFUSING)
    tolerations = [toleration_relaxation(toleration_of(taint)) for taint in taints if taint.key != _CORDON]
    for each in (*tolerations, *relaxations(question.pod.pod.spec)):
        yield _Step(_question_edit(each), SuggestedChange(each.kind, each.text, 1, name))


def _question_edit(relaxation: Relaxation) -> Callable[[Question], Question]:
    return lambda asked: asked.with_pod(relaxation.apply_to(asked.pod.pod))


# Running the filters again


def _feasible_nodes(question: Question) -> Mask:
    return question.feasibility().passes


def _with_nodes(question: Question, table: NodeTable) -> Question:
    """Return the question with the same Pods on changed nodes."""
    return replace(question, snapshot=question.snapshot.with_changed_nodes(table))

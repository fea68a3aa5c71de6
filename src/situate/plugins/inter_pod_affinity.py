"""InterPodAffinity: pods that attract or repel each other, in topology domains (upstream plugins/interpodaffinity).

`inter_pod_affinity_terms` says whom the terms mean, `inter_pod_affinity_hints` what wakes a refused pod.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Final

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from situate.framework.plugin_api.compact_scores import Grades
from situate.framework.plugin_api.events import EventHint
from situate.framework.plugin_api.plugin import HIGHEST, SKIPPED, PreFiltered, PreScored, Reads, Scores
from situate.framework.pod.pods import PodInfo
from situate.framework.pod.terms import AffinityTerm
from situate.framework.results.status import Code
from situate.framework.results.verdict import Mask, Verdict, refuse_in_turn
from situate.framework.snapshot.snapshot import Snapshot
from situate.framework.snapshot.topology_counts import Question
from situate.plugins.inter_pod_affinity_hints import hints
from situate.plugins.inter_pod_affinity_terms import NAME, concern, matches_all, wanted

Counts = NDArray[np.int64]
"""(domains,)"""
ByKey = tuple[tuple[str, Counts], ...]
"""Counts with the topology key of their domains; copied before they are changed."""

_FEW: Final = 8
"""So many scores, as of zones, are cheaper to work out one by one: NumPy's time for them is its time for each call."""
_ALONE: Final = "node(s) didn't match pod affinity rules"
_DISLIKED: Final = "node(s) didn't match pod anti-affinity rules"
_REPELLED: Final = "node(s) didn't satisfy existing pods anti-affinity rules"


class InterPodAffinityArgs(msgspec.Struct, frozen=True, rename="camel"):
    """Upstream's InterPodAffinityArgs."""

    hard_pod_affinity_weight: Annotated[int, msgspec.Meta(ge=0, le=100)] = 1
    """What a required term of a pod in place is worth to a pod that it means."""
    ignore_preferred_terms_of_existing_pods: bool = False
    """For pods that prefer nothing themselves."""


class NeighbourState(msgspec.Struct, frozen=True, eq=False):
    """What Filter looks at."""

    affinity: ByKey
    """Pods that match all of the pod's required terms, by each of their keys."""
    anti_affinity: ByKey
    """Pods that match a required anti-affinity term, term by term."""
    repelled: ByKey
    """Pods in place with a required anti-affinity term that means the pod."""


class InterPodAffinity:
    """Refuses nodes where required terms, the pod's or those of pods in place, are not met; prefers liked ones."""

    name = NAME
    reads = Reads.CLUSTER
    arguments = InterPodAffinityArgs

    def __init__(self, arguments: InterPodAffinityArgs = InterPodAffinityArgs()) -> None:  # noqa: B008  # frozen
        self._hard_weight = arguments.hard_pod_affinity_weight
        self._ignores_others = arguments.ignore_preferred_terms_of_existing_pods

    def concerned(self, pod: PodInfo, snapshot: Snapshot) -> bool:
        """Whether the pod or any pod in place has terms."""
        return pod.template.has_terms or bool(snapshot.live_terms.templates)

    def pre_filter(self, pod: PodInfo, snapshot: Snapshot) -> PreFiltered:
        """Skipped where neither the pod nor any pod in place requires anything."""
        template = pod.template
        repelled: ByKey = ()
        if snapshot.live_terms.templates and (repelling := concern(pod, snapshot).repelled):
            counted = _counted(repelling, snapshot)
            repelled = tuple((key, counts) for key, counts in counted if np.count_nonzero(counts))
        if not (repelled or template.affinity or template.anti_affinity):
            return SKIPPED
        asked = wanted(template, snapshot)
        affinity, anti_affinity = _counted(asked.affinity, snapshot), _counted(asked.anti_affinity, snapshot)
        return PreFiltered(state=NeighbourState(affinity, anti_affinity, repelled))

    def add_pod(
        self, state: NeighbourState, pod: PodInfo, other: PodInfo, node: int, snapshot: Snapshot
    ) -> NeighbourState:
        return _moved(state, pod, other, node, snapshot, 1)

    def remove_pod(
        self, state: NeighbourState, pod: PodInfo, other: PodInfo, node: int, snapshot: Snapshot
    ) -> NeighbourState:
        return _moved(state, pod, other, node, snapshot, -1)

    def filter(self, state: NeighbourState, pod: PodInfo, snapshot: Snapshot) -> Verdict:
        """The pod's affinity first, which no preemption helps; then its anti-affinity, then that of pods in place."""
        refusals: list[tuple[Mask, str, Code]] = []
        if state.affinity:
            refusals.append((_alone(state.affinity, pod, snapshot), _ALONE, Code.UNRESOLVABLE))
        if state.anti_affinity:
            refusals.append((_any_there(state.anti_affinity, snapshot), _DISLIKED, Code.UNSCHEDULABLE))
        if state.repelled or not refusals:
            refusals.append((_any_there(state.repelled, snapshot), _REPELLED, Code.UNSCHEDULABLE))
        return refuse_in_turn(*refusals)

    def pre_score(self, state: object, pod: PodInfo, snapshot: Snapshot) -> PreScored:  # noqa: ARG002
        """Skipped where no term says anything about the pod and those in place."""
        template = pod.template
        prefers = bool(template.preferred_affinity or template.preferred_anti_affinity)
        if self._ignores_others and not prefers:
            return PreScored(Code.SKIP)
        weighed: list[tuple[int, Question]] = []
        if prefers:
            weighed += [(1, question) for question in wanted(template, snapshot).preferred]
        if snapshot.live_terms.templates:
            others = concern(pod, snapshot)
            weighed += others.liked
            if self._hard_weight:
                weighed += [(self._hard_weight, question) for question in others.attracted]
        if not weighed:
            return PreScored(Code.SKIP)
        worth: dict[str, Counts] = {}
        for weight, question in weighed:
            counts = snapshot.tally(question)
            if weight != 1:
                counts = weight * counts
            key = question.topology_key
            worth[key] = worth[key] + counts if key in worth else counts
        # nothing is skipped for want of pods: the first one that is placed changes that for those behind it
        return PreScored(state=tuple((key, counts) for key, counts in worth.items() if np.count_nonzero(counts)))

    def score(self, state: ByKey, pod: PodInfo, snapshot: Snapshot) -> Scores:
        """The sum of what the node's domains are worth."""
        return self.grades(state, pod, snapshot).by_node()

    def grades(self, state: ByKey, pod: PodInfo, snapshot: Snapshot) -> Grades:  # noqa: ARG002
        """The same."""
        if not state:
            return Grades(np.zeros(snapshot.count, dtype=np.int64))
        (key, counts), *others = state
        if not others and len(counts) < snapshot.count:
            values = np.zeros(len(counts) + 1, dtype=np.int64)  # the last one for nodes without the key
            values[:-1] = counts
            return Grades(values, snapshot.place_of_node(key), snapshot.present(key))
        total = snapshot.over_nodes(key, counts, 0)
        for key, counts in others:
            total = total + snapshot.over_nodes(key, counts, 0)
        return Grades(total)

    def normalize(self, state: ByKey, pod: PodInfo, raw: Scores) -> Scores:  # noqa: ARG002
        """In proportion between the lowest and the highest of the nodes, in upstream's order of operations."""
        if not len(raw):
            return raw
        if len(raw) <= _FEW:
            numbers: list[int] = raw.tolist()
            lowest, highest = min(numbers), max(numbers)
            difference = float(highest - lowest) or 1.0
            return np.array([int((each - lowest) / difference * float(HIGHEST)) for each in numbers], np.int64)
        lowest, highest = int(raw.min()), int(raw.max())
        if highest == lowest:
            return np.zeros_like(raw)
        shares = (raw - lowest) / float(highest - lowest)
        shares *= float(HIGHEST)
        scores: Scores = shares.astype(np.int64)
        return scores

    def events(self) -> tuple[EventHint, ...]:
        return hints()


def _counted(questions: Iterable[Question], snapshot: Snapshot) -> ByKey:
    return tuple((question.topology_key, snapshot.tally(question)) for question in questions)


def _any_there(by_key: ByKey, snapshot: Snapshot) -> Mask:
    (key, counts), *others = by_key
    there = snapshot.over_nodes(key, counts > 0, False)
    for key, counts in others:
        there = there | snapshot.over_nodes(key, counts > 0, False)
    return there


def _alone(affinity: ByKey, pod: PodInfo, snapshot: Snapshot) -> Mask:
    """Where a key is missing, or there is no matching pod in its domain.

    The latter does not matter while there is none anywhere and the pod is its own: so the first pod of a series that
    attracts itself finds a place.
    """
    first = not any(np.count_nonzero(counts) for _, counts in affinity) and matches_all(
        pod.template.affinity, pod, snapshot.catalog.namespace_labels
    )
    (key, counts), *others = affinity
    alone = snapshot.over_nodes(key, _empty(counts, first), True)
    for key, counts in others:
        alone = alone | snapshot.over_nodes(key, _empty(counts, first), True)
    return alone


def _empty(counts: Counts, first: bool) -> Mask:
    return np.zeros(len(counts), dtype=np.bool_) if first else counts <= 0


def _moved(
    state: NeighbourState, pod: PodInfo, other: PodInfo, node: int, snapshot: Snapshot, sign: int
) -> NeighbourState:
    """The state after a pod has come to the node, or gone."""
    asked = wanted(pod.template, snapshot)
    namespaces = snapshot.catalog.namespace_labels
    repelling = [
        term for term in other.template.anti_affinity if term.pods.selects(pod.namespace, pod.labels, namespaces)
    ]
    return replace(
        state,
        affinity=_changed(state.affinity, asked.affinity, other, node, snapshot, sign),
        anti_affinity=_changed(state.anti_affinity, asked.anti_affinity, other, node, snapshot, sign),
        repelled=_with_terms(state.repelled, repelling, node, snapshot, sign),
    )


def _changed(
    by_key: ByKey, questions: tuple[Question, ...], other: PodInfo, node: int, snapshot: Snapshot, sign: int
) -> ByKey:
    changed = list(by_key)
    for number, question in enumerate(questions):
        weight = question.weight(other)
        if weight:
            key, counts = changed[number]
            changed[number] = key, _shifted(counts, key, sign * weight, node, snapshot)
    return tuple(changed)


def _with_terms(by_key: ByKey, terms: list[AffinityTerm], node: int, snapshot: Snapshot, change: int) -> ByKey:
    """Counts of each key together: which term it was makes no difference to the answer."""
    if not terms:
        return by_key
    total: dict[str, Counts] = {}
    for key, counts in by_key:
        total[key] = total[key] + counts if key in total else counts
    for term in terms:
        key = term.topology_key
        counts = total[key] if key in total else np.zeros(snapshot.domains(key).count, dtype=np.int64)
        total[key] = _shifted(counts, key, change, node, snapshot)
    return tuple(total.items())


def _shifted(counts: Counts, key: str, change: int, node: int, snapshot: Snapshot) -> Counts:
    domain = int(snapshot.domains(key).of_node[node])
    if domain < 0:
        return counts
    shifted = counts.copy()
    shifted[domain] += change
    return shifted

"""InterPodAffinity: Pods that attract or repel each other in topology domains (upstream plugins/interpodaffinity).

`inter_pod_affinity_terms` finds the Pods that the terms select. `inter_pod_affinity_hints` has the queueing hints.
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
from situate.framework.snapshot.topology_counts import TallyDefinition
from situate.plugins.inter_pod_affinity_hints import hints
from situate.plugins.inter_pod_affinity_terms import NAME, matches_all, placed_pod_tallies, pod_tallies

Counts = NDArray[np.int64]
"""(domains,)"""
ByKey = tuple[tuple[str, Counts], ...]
"""Counts with the topology key of their domains; copied before a change."""

_FEW: Final = 8
"""Up to this number of scores, such as those of zones, a Python loop is cheaper than NumPy calls."""
_AFFINITY_MISMATCH: Final = "node(s) didn't match pod affinity rules"
_ANTI_AFFINITY_MISMATCH: Final = "node(s) didn't match pod anti-affinity rules"
_EXISTING_ANTI_AFFINITY_MISMATCH: Final = "node(s) didn't satisfy existing pods anti-affinity rules"


class InterPodAffinityArgs(msgspec.Struct, frozen=True, rename="camel"):
    """Upstream's InterPodAffinityArgs."""

    hard_pod_affinity_weight: Annotated[int, msgspec.Meta(ge=0, le=100)] = 1
    """Score weight of a placed Pod's required affinity term for a Pod that the term selects."""
    ignore_preferred_terms_of_existing_pods: bool = False
    """For Pods without preferred terms of their own."""


class AffinityState(msgspec.Struct, frozen=True, eq=False):
    """The state of Filter."""

    affinity: ByKey
    """Pods that match all required affinity terms of the Pod, for each topology key."""
    anti_affinity: ByKey
    """Pods that match a required anti-affinity term of the Pod, for each term."""
    repelled: ByKey
    """Placed Pods with a required anti-affinity term that selects the Pod."""


class InterPodAffinity:
    """A Filter and Score plugin for the affinity terms of the Pod and of placed Pods."""

    name = NAME
    reads = Reads.CLUSTER
    arguments = InterPodAffinityArgs

    def __init__(self, arguments: InterPodAffinityArgs = InterPodAffinityArgs()) -> None:  # noqa: B008  # frozen
        self._hard_weight = arguments.hard_pod_affinity_weight
        self._ignores_others = arguments.ignore_preferred_terms_of_existing_pods

    def concerned(self, pod: PodInfo, snapshot: Snapshot) -> bool:
        """Return whether the Pod or any placed Pod has terms."""
        return pod.template.has_terms or bool(snapshot.live_terms.templates)

    def pre_filter(self, pod: PodInfo, snapshot: Snapshot) -> PreFiltered:
        """Count the matching Pods. Skip if neither the Pod nor any placed Pod has required terms that apply."""
        template = pod.template
        repelled: ByKey = ()
        if snapshot.live_terms.templates and (repelling := placed_pod_tallies(pod, snapshot).repelled):
            counted = _counts_by_key(repelling, snapshot)
            repelled = tuple((key, counts) for key, counts in counted if np.count_nonzero(counts))
        if not (repelled or template.affinity or template.anti_affinity):
            return SKIPPED
        asked = pod_tallies(template, snapshot)
        affinity, anti_affinity = (
            _counts_by_key(asked.affinity, snapshot),
            _counts_by_key(asked.anti_affinity, snapshot),
        )
        return PreFiltered(state=AffinityState(affinity, anti_affinity, repelled))

    def add_pod(
        self, state: AffinityState, pod: PodInfo, other: PodInfo, node: int, snapshot: Snapshot
    ) -> AffinityState:
        return _with_pod_change(state, pod, other, node, snapshot, 1)

    def remove_pod(
        self, state: AffinityState, pod: PodInfo, other: PodInfo, node: int, snapshot: Snapshot
    ) -> AffinityState:
        return _with_pod_change(state, pod, other, node, snapshot, -1)

    def filter(self, state: AffinityState, pod: PodInfo, snapshot: Snapshot) -> Verdict:
        """Check the Pod's affinity, which preemption cannot help, then its anti-affinity and that of placed Pods."""
        refusals: list[tuple[Mask, str, Code]] = []
        if state.affinity:
            refusals.append(
                (_nodes_without_match(state.affinity, pod, snapshot), _AFFINITY_MISMATCH, Code.UNRESOLVABLE)
            )
        if state.anti_affinity:
            refusals.append(
                (_nodes_with_any(state.anti_affinity, snapshot), _ANTI_AFFINITY_MISMATCH, Code.UNSCHEDULABLE)
            )
        if state.repelled or not refusals:
            refusals.append(
                (_nodes_with_any(state.repelled, snapshot), _EXISTING_ANTI_AFFINITY_MISMATCH, Code.UNSCHEDULABLE)
            )
        return refuse_in_turn(*refusals)

    def pre_score(self, state: object, pod: PodInfo, snapshot: Snapshot) -> PreScored:  # noqa: ARG002
        """Sum the weights per domain. Skip if no term applies between the Pod and placed Pods."""
        template = pod.template
        prefers = bool(template.preferred_affinity or template.preferred_anti_affinity)
        if self._ignores_others and not prefers:
            return PreScored(Code.SKIP)
        weighed: list[tuple[int, TallyDefinition]] = []
        if prefers:
            weighed += [(1, question) for question in pod_tallies(template, snapshot).preferred]
        if snapshot.live_terms.templates:
            others = placed_pod_tallies(pod, snapshot)
            weighed += others.preferred
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
        # no Skip for missing Pods: the first placed Pod changes this for the Pods after it
        return PreScored(state=tuple((key, counts) for key, counts in worth.items() if np.count_nonzero(counts)))

    def score(self, state: ByKey, pod: PodInfo, snapshot: Snapshot) -> Scores:
        """Return the sum of the weights of the node's domains."""
        return self.grades(state, pod, snapshot).by_node()

    def grades(self, state: ByKey, pod: PodInfo, snapshot: Snapshot) -> Grades:  # noqa: ARG002
        """Return the same scores in compact form."""
        if not state:
            return Grades(np.zeros(snapshot.count, dtype=np.int64))
        (key, counts), *others = state
        if not others and len(counts) < snapshot.count:
            values = np.zeros(len(counts) + 1, dtype=np.int64)  # the last entry is for nodes without the key
            values[:-1] = counts
            return Grades(values, snapshot.place_of_node(key), snapshot.present_domains(key))
        total = snapshot.over_nodes(key, counts, 0)
        for key, counts in others:
            total = total + snapshot.over_nodes(key, counts, 0)
        return Grades(total)

    def normalize(self, state: ByKey, pod: PodInfo, raw: Scores) -> Scores:  # noqa: ARG002
        """Normalize linearly between the lowest and the highest score, in upstream's order of operations."""
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


def _counts_by_key(questions: Iterable[TallyDefinition], snapshot: Snapshot) -> ByKey:
    return tuple((question.topology_key, snapshot.tally(question)) for question in questions)


def _nodes_with_any(by_key: ByKey, snapshot: Snapshot) -> Mask:
    (key, counts), *others = by_key
    there = snapshot.over_nodes(key, counts > 0, False)
    for key, counts in others:
        there = there | snapshot.over_nodes(key, counts > 0, False)
    return there


def _nodes_without_match(affinity: ByKey, pod: PodInfo, snapshot: Snapshot) -> Mask:
    """Return the nodes that lack a key, or whose domain has no matching Pod.

    The second condition is waived if no Pod matches anywhere and the Pod matches its own terms. The first Pod of a
    series that attracts itself therefore fits.
    """
    first = not any(np.count_nonzero(counts) for _, counts in affinity) and matches_all(
        pod.template.affinity, pod, snapshot.catalog.namespace_labels
    )
    (key, counts), *others = affinity
    alone = snapshot.over_nodes(key, _empty_domains(counts, first), True)
    for key, counts in others:
        alone = alone | snapshot.over_nodes(key, _empty_domains(counts, first), True)
    return alone


def _empty_domains(counts: Counts, first: bool) -> Mask:
    return np.zeros(len(counts), dtype=np.bool_) if first else counts <= 0


def _with_pod_change(
    state: AffinityState, pod: PodInfo, other: PodInfo, node: int, snapshot: Snapshot, sign: int
) -> AffinityState:
    """Return the state after a Pod has been added to the node or removed from it."""
    asked = pod_tallies(pod.template, snapshot)
    namespaces = snapshot.catalog.namespace_labels
    repelling = [
        term for term in other.template.anti_affinity if term.pods.selects(pod.namespace, pod.labels, namespaces)
    ]
    return replace(
        state,
        affinity=_change_counts(state.affinity, asked.affinity, other, node, snapshot, sign),
        anti_affinity=_change_counts(state.anti_affinity, asked.anti_affinity, other, node, snapshot, sign),
        repelled=_with_terms(state.repelled, repelling, node, snapshot, sign),
    )


def _change_counts(
    by_key: ByKey, questions: tuple[TallyDefinition, ...], other: PodInfo, node: int, snapshot: Snapshot, sign: int
) -> ByKey:
    changed = list(by_key)
    for number, question in enumerate(questions):
        weight = question.weight(other)
        if weight:
            key, counts = changed[number]
            changed[number] = key, _shift_count(counts, key, sign * weight, node, snapshot)
    return tuple(changed)


def _with_terms(by_key: ByKey, terms: list[AffinityTerm], node: int, snapshot: Snapshot, change: int) -> ByKey:
    """Merge the counts per key, because the result does not depend on the term."""
    if not terms:
        return by_key
    total: dict[str, Counts] = {}
    for key, counts in by_key:
        total[key] = total[key] + counts if key in total else counts
    for term in terms:
        key = term.topology_key
        counts = total[key] if key in total else np.zeros(snapshot.domains(key).count, dtype=np.int64)
        total[key] = _shift_count(counts, key, change, node, snapshot)
    return tuple(total.items())


def _shift_count(counts: Counts, key: str, change: int, node: int, snapshot: Snapshot) -> Counts:
    domain = int(snapshot.domains(key).of_node[node])
    if domain < 0:
        return counts
    shifted = counts.copy()
    shifted[domain] += change
    return shifted

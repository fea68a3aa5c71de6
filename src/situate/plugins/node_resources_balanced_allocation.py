"""NodeResourcesBalancedAllocation: prefers nodes with balanced resource use (upstream plugins/noderesources).

Since Kubernetes 1.36 the score depends on the change that the Pod causes (kubernetes/kubernetes#135573). Before, it
depended only on the node's balance with the Pod.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from situate.framework.class_cache.resource_scorers import ResourceScorer
from situate.framework.plugin_api.plugin import HIGHEST, FilterPlugin, PreScored, Reads, Scores
from situate.framework.pod.pods import PodInfo, PodTemplate
from situate.framework.pod.resources import CPU, MEMORY
from situate.framework.profile.profile import WeightedPlugin
from situate.framework.results.status import Code
from situate.framework.results.verdict import Mask
from situate.framework.snapshot.derived_columns import SKIPPED_EVALUATOR, ColumnEvaluator
from situate.framework.snapshot.node_table import NodeTable
from situate.framework.snapshot.snapshot import Snapshot
from situate.objects.settings.section import Mistake
from situate.plugins.node_resources_fit import NodeResourcesFit, ResourceWeight
from situate.plugins.resource_evaluators import balanced_allocation_evaluator, bounds_of, evenness_columns
from situate.plugins.resource_scorer import CPU_AND_MEMORY, CpuMemoryScorer
from situate.plugins.resource_use import NATIVE, ScoredRequests, scored_requests_of


class NodeResourcesBalancedAllocationArgs(msgspec.Struct, frozen=True, rename="camel"):
    """Upstream's NodeResourcesBalancedAllocationArgs; weights must be 1."""

    resources: tuple[ResourceWeight, ...] = (ResourceWeight(CPU), ResourceWeight(MEMORY))

    def mistakes(self) -> Iterable[Mistake]:
        for number, resource in enumerate(self.resources):
            if resource.weight != 1:
                yield Mistake(f"resources[{number}].weight", str(resource.weight), "1")
        yield from _repetition_mistakes(self.resources)


def _repetition_mistakes(resources: tuple[ResourceWeight, ...]) -> Iterable[Mistake]:
    """Yield a mistake for each resource that is named twice."""
    seen: set[str] = set()
    for number, resource in enumerate(resources):
        if resource.name in seen:
            yield Mistake(f"resources[{number}].name", resource.name, "each resource once")
        seen.add(resource.name)


class NodeResourcesBalancedAllocation:
    """A Score plugin: higher if the Pod makes the node's resource shares more even."""

    name = "NodeResourcesBalancedAllocation"
    reads = Reads.LOAD
    arguments = NodeResourcesBalancedAllocationArgs

    def __init__(
        self,
        arguments: NodeResourcesBalancedAllocationArgs = NodeResourcesBalancedAllocationArgs(),  # noqa: B008  # frozen
    ) -> None:
        resources = arguments.resources or NodeResourcesBalancedAllocationArgs().resources
        self._resources = tuple((resource.name, resource.weight) for resource in resources)
        self._columns = tuple(NATIVE.index(name) for name, _ in self._resources if name in NATIVE)
        pair = len(self._columns) == len(self._resources) == _PAIR
        self._evenness_columns = evenness_columns(self._columns[0], self._columns[1]) if pair else None

    def pre_score(self, state: Any, pod: PodInfo, snapshot: Snapshot) -> PreScored:  # noqa: ARG002
        """Collect the Pod's requests of the scored resources; skip if it requests none of them."""
        if not any(pod.template.request.amount_of(name) for name, _ in self._resources):
            return PreScored(Code.SKIP)
        return PreScored(state=scored_requests_of(pod, snapshot.nodes, self._resources, with_defaults=False))

    def score_evaluator(self, template: PodTemplate, nodes: NodeTable) -> ColumnEvaluator | None:
        """Return an evaluator for two native resources."""
        if self._evenness_columns is None:
            return None
        one, other = (template.request.amount_of(name) for name, _ in self._resources)
        if not (one or other):
            return SKIPPED_EVALUATOR
        bounds = nodes.plan((self.name, self._columns), lambda: bounds_of(nodes, self._columns))
        return (
            balanced_allocation_evaluator(self._evenness_columns, bounds, one, other)
            if bounds.allow_requests((one, other))
            else None
        )

    def resource_scorer(
        self, filters: Sequence[FilterPlugin], scores: Sequence[WeightedPlugin], nodes: NodeTable
    ) -> ResourceScorer | None:
        """Return a scorer together with NodeResourcesFit.

        None unless NodeResourcesFit compares the same two resources and there are no other plugins.
        """
        if len(scores) != _PAIR or sorted(self._columns) != list(CPU_AND_MEMORY):
            return None
        own, other = sorted(scores, key=lambda each: each.plugin is not self)
        fit = other.plugin
        if own.plugin is not self or not isinstance(fit, NodeResourcesFit) or list(filters) != [fit]:
            return None
        if not fit.scores_least_allocated(CPU_AND_MEMORY):
            return None
        scorer = CpuMemoryScorer(nodes, other.weight, own.weight)
        return scorer if scorer.usable else None

    def score(self, state: ScoredRequests | None, pod: PodInfo, snapshot: Snapshot) -> Scores:  # noqa: ARG002
        """Return 75 where the Pod changes nothing, up to 100 where it evens the node out, down to 50."""
        if state is None:
            return np.full(snapshot.count, _UNCHANGED_SCORE, dtype=np.int64)
        before, after = evenness(state, snapshot)
        scores: Scores = after - before
        scores += 2 * _UNCHANGED_SCORE
        scores >>= 1  # never negative: evenness is at least 50
        return scores


def evenness(asked: ScoredRequests, snapshot: Snapshot) -> NDArray[np.int64]:
    """Return (2, nodes), without and with the Pod: the evenness of the shares in use.

    Evenness is `trunc((1 - deviation) * 100)`, with each share limited to 1.
    """
    room = asked.node_capacity(snapshot)
    used = asked.amounts_in_use(snapshot) + asked.without_and_with
    shares = used / (room if asked.everywhere else np.maximum(room, 1))
    np.minimum(shares, np.ones(shares.shape), out=shares)  # two arrays take half the time of array and number
    if asked.everywhere and len(asked.columns) == _PAIR:
        deviation = shares[:, 0] - shares[:, 1]
        deviation /= 2
        np.abs(deviation, out=deviation)
    else:
        there = room > 0
        deviation = np.stack([_deviation(each, there) for each in np.where(there, shares, 0.0)])
    even = 1.0 - deviation
    even *= HIGHEST
    return even.astype(np.int64)


def _deviation(shares: NDArray[np.float64], there: Mask) -> NDArray[np.float64]:
    """Return half the difference of two shares, or the standard deviation of more.

    The order of operations is upstream's, because the result is truncated. Resources that a node lacks do not count
    there.
    """
    present = np.count_nonzero(there, axis=0)
    deviation = np.zeros(len(present))
    two = present == _PAIR
    if two.any():
        deviation[two] = _half_difference(shares, there)[two]
    many = present > _PAIR
    if many.any():
        deviation[many] = _standard_deviation(shares, there, present)[many]
    return deviation


def _half_difference(shares: NDArray[np.float64], there: Mask) -> NDArray[np.float64]:
    """Return half the difference of the two shares that are present."""
    first = np.zeros(len(shares[0]))
    second = np.zeros(len(shares[0]))
    seen = np.zeros(len(shares[0]), dtype=np.int64)
    for share, has in zip(shares, there, strict=True):
        first = np.where(has & (seen == 0), share, first)
        second = np.where(has & (seen == 1), share, second)
        seen = seen + has
    return np.abs((first - second) / 2)


def _standard_deviation(shares: NDArray[np.float64], there: Mask, present: NDArray[np.int64]) -> NDArray[np.float64]:
    total = np.zeros(len(shares[0]))
    for share in shares:
        total = total + share
    divisor = np.maximum(present, 1)
    mean = total / divisor
    squares = np.zeros(len(shares[0]))
    for share, has in zip(shares, there, strict=True):
        squares = squares + np.where(has, (share - mean) * (share - mean), 0.0)
    deviation: NDArray[np.float64] = np.sqrt(squares / divisor)
    return deviation


_PAIR: Final = 2
_UNCHANGED_SCORE: Final = 75

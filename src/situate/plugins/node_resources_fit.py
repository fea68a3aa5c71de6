"""NodeResourcesFit: free capacity for a Pod's request, and preferred utilization (upstream plugins/noderesources).

Scores are integers and use upstream's integer arithmetic: `(a - r) * 100 / a`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal

import msgspec
import numpy as np

from situate.framework.plugin_api.events import Change, EventHint, Hint, Subject
from situate.framework.plugin_api.plugin import HIGHEST, Need, PreScored, Reads, Scores
from situate.framework.pod.pods import PodInfo, PodTemplate
from situate.framework.pod.resources import CPU, MEMORY, PODS, PodRequest, amounts
from situate.framework.results.status import Code
from situate.framework.results.verdict import Mask, Refusals, Verdict, refusals
from situate.framework.snapshot.derived_columns import ColumnEvaluator
from situate.framework.snapshot.node_load import SCORED
from situate.framework.snapshot.node_table import NodeTable
from situate.framework.snapshot.snapshot import Snapshot
from situate.objects.kinds.nodes import Node
from situate.objects.selection.label_selectors import valid_label_key
from situate.objects.settings.section import Mistake, format_value
from situate.plugins.broken_line import BrokenLine
from situate.plugins.resource_evaluators import bounds_of, fit_evaluator, free_columns, least_allocated_evaluator
from situate.plugins.resource_use import NATIVE, Amounts, ScoredRequests, percent, scored_requests_of

Weight = Annotated[int, msgspec.Meta(ge=1, le=100)]


class ResourceWeight(msgspec.Struct, frozen=True, rename="camel"):
    """A scored resource."""

    name: Annotated[str, msgspec.Meta(min_length=1)]
    weight: Weight = 1


class ShapePoint(msgspec.Struct, frozen=True, rename="camel"):
    """A point of the shape: the score at this utilization."""

    utilization: Annotated[int, msgspec.Meta(ge=0, le=100)] = 0
    score: Annotated[int, msgspec.Meta(ge=0, le=10)] = 0


class CapacityRatio(msgspec.Struct, frozen=True, rename="camel"):
    shape: tuple[ShapePoint, ...] = ()
    """Ascending in utilization."""

    def mistakes(self) -> Iterable[Mistake]:
        if not self.shape:
            yield Mistake("shape", "[]", "at least one point")
        for number, (one, other) in enumerate(zip(self.shape, self.shape[1:], strict=False), start=1):
            if one.utilization >= other.utilization:
                allowed = f"more than the utilization of the point before ({one.utilization})"
                yield Mistake(f"shape[{number}].utilization", str(other.utilization), allowed)


class ScoringStrategy(msgspec.Struct, frozen=True, rename="camel"):
    """The rule by which nodes are scored."""

    type: Literal["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"] = "LeastAllocated"
    resources: tuple[ResourceWeight, ...] = (ResourceWeight(CPU), ResourceWeight(MEMORY))
    requested_to_capacity_ratio: CapacityRatio | None = None

    def mistakes(self) -> Iterable[Mistake]:
        by_ratio = self.type == "RequestedToCapacityRatio"
        if by_ratio and self.requested_to_capacity_ratio is None:
            yield Mistake("requestedToCapacityRatio", "", "a shape, because type is RequestedToCapacityRatio")
        if not by_ratio and self.requested_to_capacity_ratio is not None:
            yield Mistake("requestedToCapacityRatio", "a shape", f"no shape, because type is {self.type}")


class NodeResourcesFitArgs(msgspec.Struct, frozen=True, rename="camel"):
    """Upstream's NodeResourcesFitArgs."""

    ignored_resources: tuple[str, ...] = ()
    """Extended resources that another component manages."""
    ignored_resource_groups: tuple[str, ...] = ()
    """The same for all resources whose name starts with `GROUP/`."""
    scoring_strategy: ScoringStrategy = ScoringStrategy()

    def mistakes(self) -> Iterable[Mistake]:
        for number, name in enumerate(self.ignored_resources):
            if not valid_label_key(name):
                yield Mistake(
                    f"ignoredResources[{number}]",
                    format_value(name),
                    "the name of a resource, such as example.com/thing",
                )
        for number, name in enumerate(self.ignored_resource_groups):
            if "/" in name or not valid_label_key(name):
                yield Mistake(
                    f"ignoredResourceGroups[{number}]", format_value(name), "the part of a resource name before the /"
                )


class NodeResourcesFit:
    """A Filter plugin for free capacity, with all reasons, and a Score plugin for utilization."""

    name = "NodeResourcesFit"
    reads = Reads.LOAD
    arguments = NodeResourcesFitArgs

    def __init__(self, arguments: NodeResourcesFitArgs = NodeResourcesFitArgs()) -> None:  # noqa: B008  # frozen
        self._ignored = frozenset(arguments.ignored_resources)
        self._ignored_groups = frozenset(arguments.ignored_resource_groups)
        self._ignores = bool(self._ignored or self._ignored_groups)
        strategy = arguments.scoring_strategy
        resources = strategy.resources or ScoringStrategy().resources
        self._resources = tuple((resource.name, resource.weight) for resource in resources)
        ratio = strategy.requested_to_capacity_ratio
        self._line = BrokenLine.from_shape((point.utilization, point.score) for point in ratio.shape) if ratio else None
        self._by_line = strategy.type == "RequestedToCapacityRatio"
        self._shares = most_allocated_shares if strategy.type == "MostAllocated" else least_allocated_shares
        if self._by_line:
            self._shares = self._shares_by_line
        least = strategy.type == "LeastAllocated" and all(name in NATIVE for name, _ in self._resources)
        self._scored = tuple(NATIVE.index(name) for name, _ in self._resources) if least else ()
        """Columns of the resources that an evaluator scores; empty without an evaluator."""
        self._weights = tuple(weight for _, weight in self._resources)
        self._free_columns = free_columns(self._scored)

    def filter(self, state: Any, pod: PodInfo, snapshot: Snapshot) -> Verdict:  # noqa: ARG002
        """Refuse nodes without enough free capacity: unresolvable if the node is too small, else unschedulable."""
        passes = snapshot.pod_count < snapshot.allowed_pods
        for column, asked in self._columns(pod, snapshot):
            passes &= snapshot.requested(column) <= snapshot.allocatable(column) - asked
        return Verdict(passes, lambda: self._refusals(pod, snapshot))

    def _columns(self, pod: PodInfo, snapshot: Snapshot) -> Iterable[tuple[int, int]]:
        """Return column and amount of each checked request."""
        if not self._ignores:
            return pod.template.columns
        return [(column, asked) for _, column, asked in self._checked_requests(pod, snapshot)]

    def _checked_requests(self, pod: PodInfo, snapshot: Snapshot) -> list[tuple[str, int, int]]:
        """Return name, column and amount of each checked request; cpu, memory and ephemeral-storage first."""
        names = snapshot.nodes.vocabulary.resources.names
        return [
            (names[column], column, asked)
            for column, asked in pod.template.columns
            if not self._is_ignored(names[column])
        ]

    def _is_ignored(self, name: str) -> bool:
        if not is_extended(name):
            return False
        return name in self._ignored or name.partition("/")[0] in self._ignored_groups

    def _refusals(self, pod: PodInfo, snapshot: Snapshot) -> Refusals:
        rules: list[tuple[Mask, str, Code]] = []
        never = np.zeros(snapshot.count, dtype=np.bool_)
        for need in self.needs(pod, snapshot):
            if need.column is None:
                where = snapshot.pod_count >= snapshot.allowed_pods
            else:
                room = snapshot.allocatable(need.column)
                where = snapshot.requested(need.column) > room - need.asked
                never |= room < need.asked
            rules.append((where, need.reason, Code.UNSCHEDULABLE))
        told = refusals(snapshot.count, *rules)
        return Refusals(np.where(never, np.uint8(Code.UNRESOLVABLE), told.code), told.reasons)

    def needs(self, pod: PodInfo, snapshot: Snapshot) -> tuple[Need, ...]:
        """Return the checked amounts as needs."""
        wanted = sorted(self._checked_requests(pod, snapshot), key=_reason_order)
        return (
            Need(None, 1, "Too many pods"),
            *(Need(column, asked, f"Insufficient {name}") for name, column, asked in wanted),
        )

    def pre_score(self, state: Any, pod: PodInfo, snapshot: Snapshot) -> PreScored:  # noqa: ARG002
        """Collect the Pod's requests of the scored resources."""
        return PreScored(state=scored_requests_of(pod, snapshot.nodes, self._resources, with_defaults=True))

    def score(self, state: ScoredRequests | None, pod: PodInfo, snapshot: Snapshot) -> Scores:  # noqa: ARG002
        """Return 0..100: the strategy's score of the shares in use with the Pod, weighted by resource."""
        if state is None:
            return np.zeros(snapshot.count, dtype=np.int64)
        room = state.node_capacity(snapshot)
        shares = self._shares(state.amounts_in_use(snapshot), state.amounts, room, everywhere=state.everywhere)
        if self._by_line:
            return _weighted_mean_by_line(shares, state.weights)
        if not state.everywhere:
            return _weighted_mean(room > 0, shares, state.weights)
        total = shares[0] if state.weights[0] == 1 else shares[0] * state.weights[0]
        for share, weight in zip(shares[1:], state.weights[1:], strict=True):
            total = total + (share if weight == 1 else share * weight)
        weights = sum(state.weights)
        scores: Scores = total // weights if total.dtype == np.int64 else (total / weights).astype(np.int64)
        return scores

    def filter_evaluator(self, template: PodTemplate, nodes: NodeTable) -> ColumnEvaluator | None:  # noqa: ARG002
        return fit_evaluator(self._free_columns, template.columns)

    def score_evaluator(self, template: PodTemplate, nodes: NodeTable) -> ColumnEvaluator | None:
        if not self._scored:
            return None
        bounds = nodes.plan((self.name, self._scored), lambda: bounds_of(nodes, self._scored))
        request = template.request
        asked = [_scored_amount(request, column) for column in self._scored]
        if not bounds.allow_requests(asked):
            return None
        return least_allocated_evaluator(self._free_columns, bounds, asked, self._weights)

    def scores_least_allocated(self, columns: tuple[int, ...]) -> bool:
        """Return whether the score is LeastAllocated of exactly these resources with equal weights."""
        return sorted(self._scored) == sorted(columns) and len(set(self._weights)) == 1

    def _shares_by_line(self, before: Amounts, asked: Amounts, room: Amounts, *, everywhere: bool) -> Amounts:
        line = self._line
        assert line is not None
        requested = before + asked
        utilization = np.where(requested > room, HIGHEST, percent(requested, room, everywhere=everywhere))
        return np.where(room > 0, line.values_at(utilization.astype(np.int64)), 0)

    def events(self) -> tuple[EventHint, ...]:
        """Return hints for Pods that go or shrink, nodes that are new or grow, and a lower request of the Pod."""
        return (
            EventHint(Subject.ASSIGNED_POD, Change.DELETE | Change.SCALE_DOWN, self._hint_after_pod),
            EventHint(Subject.POD, Change.SCALE_DOWN),
            EventHint(Subject.NODE, Change.ADD | Change.ALLOCATABLE, self._hint_after_node),
        )

    def _hint_after_pod(self, pod: PodInfo, old: PodInfo, new: PodInfo | None) -> Hint:
        if new is None:
            return Hint.QUEUE  # at least one of the node's allowed Pods is free
        freed = any(
            old.template.request.amount_of(name) > new.template.request.amount_of(name)
            for name in pod.template.request.amounts
        )
        return Hint.QUEUE if freed else Hint.SKIP

    def _hint_after_node(self, pod: PodInfo, old: Node | None, new: Node) -> Hint:
        room = amounts(new.status.allocatable)
        asked = {name: value for name, value in pod.template.request.amounts.items() if not self._is_ignored(name)}
        if room.get(PODS, 0) < 1 or any(value > room.get(name, 0) for name, value in asked.items()):
            return Hint.SKIP
        if old is None:
            return Hint.QUEUE
        before = amounts(old.status.allocatable)
        grown = any(room.get(name, 0) > before.get(name, 0) for name in (PODS, *asked))
        return Hint.QUEUE if grown else Hint.SKIP


def _scored_amount(request: PodRequest, column: int) -> int:
    """Return the Pod's request of a native resource, with the defaults of scores."""
    if column >= SCORED:
        return request.amount_of(NATIVE[column])
    return request.wanted_memory if column else request.wanted_cpu


def _reason_order(wanted: tuple[str, int, int]) -> tuple[bool, int, str]:
    """Return the sort key of reasons: cpu, memory, ephemeral-storage, then the others by name."""
    name, column, _ = wanted
    return (False, column, name) if name in NATIVE else (True, 0, name)


def is_extended(name: str) -> bool:
    """Return whether the resource is not one of Kubernetes' own (component-helpers IsExtendedResourceName)."""
    return "/" in name and "kubernetes.io/" not in name and not name.startswith("requests.")


def least_allocated_shares(before: Amounts, asked: Amounts, room: Amounts, *, everywhere: bool) -> Amounts:
    """Return `(room - requested) * 100 // room`; 0 if the request exceeds the capacity."""
    free = room - before
    free -= asked
    np.maximum(free, np.zeros_like(free), out=free)  # two arrays take half the time of array and number
    return percent(free, room, everywhere=everywhere)


def most_allocated_shares(before: Amounts, asked: Amounts, room: Amounts, *, everywhere: bool) -> Amounts:
    """Return `min(requested, room) * 100 // room`."""
    return percent(np.minimum(before + asked, room), room, everywhere=everywhere)


def _weighted_mean(there: Mask, shares: Amounts, weights: tuple[int, ...]) -> Scores:
    """Return the weighted mean. Resources that a node lacks do not count there."""
    each = there * np.array(weights, dtype=np.int64).reshape(-1, 1)
    total: Scores = (shares.astype(np.int64) * each).sum(axis=0)
    total //= np.maximum(each.sum(axis=0), 1)
    return total


def _weighted_mean_by_line(shares: Amounts, weights: tuple[int, ...]) -> Scores:
    """Return the weighted mean without resources of score 0, rounded half away from zero. No score is negative."""
    each = (shares > 0) * np.array(weights, dtype=np.int64).reshape(-1, 1)
    total: Scores = (shares * each).sum(axis=0)
    divisor = np.maximum(each.sum(axis=0), 1)
    scores: Scores = (2 * total + divisor) // (2 * divisor)
    return scores

"""Combined scorer of NodeResourcesFit and NodeResourcesBalancedAllocation.

See `situate.framework.class_cache.resource_scorers`. The scorer supports the default configuration: LeastAllocated of
cpu and memory with equal weights, and the balance of these two. It uses four shares: for each resource the free and the
used share after placement. They are rows of one array. Many templates on a node, or many nodes for a template,
therefore cost only a few operations.

*Exact* results for a few rows use 64 bits. `(room - used - asked) * 100 // room` is a subtraction and a division of
integers below 2^53, whose error is too small to cross an integer. The rest is the plugins' own arithmetic.

*Upper bounds* for all rows use 32 bits. The shares are columns that are updated with the Pods, and the new Pod's shares
are added. The sum of their rounding errors is less than `_SLACK`, which the columns include. The truncated result is
thus the plugins' score, or sometimes one more. A share of the Pod with a larger rounding error is so large that the Pod
does not fit the node, which then has no score. Compared amounts are rounded alike on both sides, so a node with enough
capacity never seems too small.

The plugins handle the other cases: nodes that lack a resource or exceed the exact floats, and Pods that request other
resources or many times a node's capacity.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from situate.framework.class_cache.resource_scorers import NO_CAPACITY, NarrowScores
from situate.framework.plugin_api.plugin import HIGHEST
from situate.framework.pod.pods import PodTemplate
from situate.framework.results.verdict import Indices, Mask
from situate.framework.snapshot.derived_columns import ColumnDefinition, Load, Numbers
from situate.framework.snapshot.node_table import NodeTable
from situate.framework.snapshot.snapshot import Snapshot
from situate.plugins.resource_evaluators import bounds_of

WideFloats = NDArray[np.float64]
ShortFloats = NDArray[np.float32]

_CPU, _MEMORY = range(2)
CPU_AND_MEMORY: Final = (_CPU, _MEMORY)
"""The columns of cpu and memory."""
_SLACK: Final = 2.0**-12
_NEUTRAL: Final = 150
"""Twice the score of NodeResourcesBalancedAllocation where a Pod changes nothing."""
_NOTHING: Final = -1e300
"""The required amount of a resource that is not compared."""
_FULL: Final = float("-inf")
"""The free amount of a node without a free Pod slot; less than `_NOTHING`."""

_FREE, _LEFT, _LEAN, _EVEN, _ROOM = slice(0, 2), slice(2, 4), 4, 5, slice(6, 8)
_LEFT_AND_LEAN = slice(2, 5)
_WIDTH: Final = 8
"""32-bit columns, in this order.

- the free amounts of both resources
- the free shares of both in percent
- a quarter of the percentage by which the used cpu share exceeds the used memory share
- the balance score without that quarter
- 100 divided by the capacity of both
"""


class CpuMemoryRequests(msgspec.Struct, frozen=True, gc=False):
    """A template's requests of cpu and memory."""

    least: tuple[float, float]
    """The amounts that must be free."""
    scored: tuple[int, int]
    """With the defaults of containers without a request."""
    real: tuple[int, int]

    @property
    def balance_is_scored(self) -> bool:
        """Whether NodeResourcesBalancedAllocation scores the Pod."""
        return self.real != (0, 0)


class CpuMemoryScorer:
    """The scorer for one table of nodes and these weights of the two plugins."""

    def __init__(self, nodes: NodeTable, fit: int, balanced: int) -> None:
        self._nodes = nodes
        self._bounds = nodes.plan(("ResourceMeter",), lambda: bounds_of(nodes, CPU_AND_MEMORY))
        self._fit, self._balanced = fit, balanced
        self.derived = ColumnDefinition(("ResourceMeter",), _compute_columns, _compute_row)
        self._same: tuple[float, float] | None = None
        if self._bounds.same is not None:
            self._same = self._bounds.same.item(_CPU, 0), self._bounds.same.item(_MEMORY, 0)
        count = len(nodes)
        shares, whole = np.empty((3, count), np.float32), np.empty((3, count), np.int16)
        self._shares: tuple[ShortFloats, ShortFloats, ShortFloats] = shares, shares[:2], shares[2]
        self._whole: tuple[NarrowScores, ...] = whole, whole[:2], *whole
        self._given = np.empty((3, 1), np.float32)
        self._requested_shares = np.empty((2, 0 if self._same else count), np.float32)
        self._zeros = np.zeros((2, count), np.int16)
        self._ones = np.ones(count, np.int16)
        self._refused = np.empty((2, count), np.bool_)

    @property
    def usable(self) -> bool:
        """Whether no amount of these nodes is missing or too large."""
        return min(self._bounds.most) >= 0

    def requests_of(self, template: PodTemplate) -> CpuMemoryRequests | None:
        """Return the template's requests; None if it requests other resources, or too much."""
        request = template.request
        most_cpu, most_memory = self._bounds.most
        if request.scored_cpu > most_cpu or request.scored_memory > most_memory:
            return None
        cpu = memory = 0
        for column, amount in template.columns:
            if column == _CPU:
                cpu = amount
            elif column == _MEMORY:
                memory = amount
            else:
                return None
        if cpu > most_cpu or memory > most_memory:
            return None
        scored = request.scored_cpu, request.scored_memory
        return CpuMemoryRequests((cpu or _NOTHING, memory or _NOTHING), scored, (cpu, memory))

    def upper_bounds(self, numbers: Numbers, asked: CpuMemoryRequests, settled: NarrowScores) -> NarrowScores:
        """Return (nodes,): see `ResourceScorer`."""
        shares, left, lean = self._shares
        whole, pair, total, other, even = self._whole
        self._compute_shares(numbers, asked)
        if asked.balance_is_scored:
            np.abs(lean, out=lean)
            np.subtract(numbers[_EVEN], lean, out=lean)
            np.copyto(whole, shares, casting="unsafe")
        else:
            np.copyto(pair, left, casting="unsafe")
        np.maximum(pair, self._zeros, out=pair)  # two arrays take a third of the time of array and number
        np.add(total, other, out=total)
        np.right_shift(total, self._ones, out=total)
        if self._fit != 1:
            total *= np.int16(self._fit)
        if asked.balance_is_scored:
            if self._balanced != 1:
                even *= np.int16(self._balanced)
            np.add(total, even, out=total)
        np.add(total, settled, out=total)
        return total

    def _compute_shares(self, numbers: Numbers, asked: CpuMemoryRequests) -> None:
        """Compute the free shares of both, and the excess of the cpu share over the memory share, into `_shares`."""
        given = self._given
        if self._same is not None:
            cpu, memory = self._same
            given[0] = asked.scored[_CPU] * HIGHEST / cpu
            given[1] = asked.scored[_MEMORY] * HIGHEST / memory
            given[2] = (asked.real[_MEMORY] * HIGHEST / memory - asked.real[_CPU] * HIGHEST / cpu) / 4
            np.subtract(numbers[_LEFT_AND_LEAN], given, out=self._shares[0])
            return
        _, left, lean = self._shares
        some, of_node = self._requested_shares, given[:2]
        given[0], given[1] = asked.scored
        np.multiply(numbers[_ROOM], of_node, out=some)
        np.subtract(numbers[_LEFT], some, out=left)
        given[0], given[1] = asked.real[_CPU] / 4, asked.real[_MEMORY] / 4
        np.multiply(numbers[_ROOM], of_node, out=some)
        np.add(numbers[_LEAN], some[_CPU], out=lean)
        np.subtract(lean, some[_MEMORY], out=lean)

    def lower_refused_bounds(self, numbers: Numbers, asked: CpuMemoryRequests, bounds: NarrowScores) -> None:
        """Implement `ResourceScorer.lower_refused_bounds`."""
        refused, memory = self._refused
        free = numbers[_FREE]
        np.less(free[_CPU], np.float32(max(asked.least[_CPU], _LOWEST)), out=refused)
        np.less(free[_MEMORY], np.float32(max(asked.least[_MEMORY], _LOWEST)), out=memory)
        np.bitwise_or(refused, memory, out=refused)
        np.bitwise_or(bounds, np.negative(refused.view(np.int8), dtype=np.int16), out=bounds)  # -1 where true

    def has_capacity(self, load: Load, row: int, asked: CpuMemoryRequests) -> bool:
        """Implement `ResourceScorer.has_capacity`."""
        room, requested = self._nodes.allocatable, load.requested
        return bool(
            load.pod_count.item(row) < self._nodes.allowed_pods.item(row)
            and room.item(_CPU, row) - requested.item(_CPU, row) >= asked.least[_CPU]
            and room.item(_MEMORY, row) - requested.item(_MEMORY, row) >= asked.least[_MEMORY]
        )

    def total(self, load: Load, row: int, asked: CpuMemoryRequests) -> int:
        """Implement `ResourceScorer.total`."""
        nodes = self._nodes
        room, requested, scored = nodes.allocatable, load.requested, load.scored
        cpu, memory = room.item(_CPU, row), room.item(_MEMORY, row)
        cpu_used, memory_used = requested.item(_CPU, row), requested.item(_MEMORY, row)
        if (
            load.pod_count.item(row) >= nodes.allowed_pods.item(row)
            or cpu - cpu_used < asked.least[_CPU]
            or memory - memory_used < asked.least[_MEMORY]
        ):
            return NO_CAPACITY
        left = (
            max(cpu - scored.item(_CPU, row) - asked.scored[_CPU], 0) * HIGHEST // cpu
            + max(memory - scored.item(_MEMORY, row) - asked.scored[_MEMORY], 0) * HIGHEST // memory
        )
        total = self._fit * (left >> 1)
        if asked.balance_is_scored:
            cpu_used, memory_used = min(cpu_used, cpu), min(memory_used, memory)
            even = _evenness((cpu_used + asked.real[_CPU]) / cpu, (memory_used + asked.real[_MEMORY]) / memory)
            now = _evenness(cpu_used / cpu, memory_used / memory)
            total += self._balanced * ((even - now + _NEUTRAL) >> 1)
        return total

    def scorer_for_templates(self, asked: Sequence[CpuMemoryRequests]) -> CpuMemoryTemplatesScorer:
        """Implement `ResourceScorer.scorer_for_templates`."""
        return CpuMemoryTemplatesScorer(self._nodes, self._fit, self._balanced, asked)


class CpuMemoryTemplatesScorer:
    """The readings of these templates, on any rows."""

    def __init__(self, nodes: NodeTable, fit: int, balanced: int, asked: Sequence[CpuMemoryRequests]) -> None:
        self._nodes = nodes
        self._fit, self._balanced = fit, balanced
        count = len(asked)
        self._least = np.array([each.least for each in asked]).T.reshape(2, count, 1)
        self._most = max(each.least[_CPU] for each in asked), max(each.least[_MEMORY] for each in asked)
        scored = np.array([each.scored for each in asked], np.float64).T
        self._most_scored = (scored.max(axis=1) * HIGHEST).tolist()
        real = np.array([each.real for each in asked], np.float64).T
        self._requests = np.concatenate((scored * -HIGHEST, real)).reshape(4, count, 1)
        self._balance_is_scored = None
        if not all(each.balance_is_scored for each in asked):
            self._balance_is_scored = np.array([each.balance_is_scored for each in asked], np.int16).reshape(count, 1)
        self._one = _Scratch(count, 1)
        # full arrays, because NumPy takes three times as long to broadcast a number over templates
        self._of_node, self._there = np.empty((4, count, 1)), np.empty((4, count, 1))
        self._fills = [part.fill for part in self._of_node]
        self._now = np.empty((count, 1), np.int16)
        self._room = (0, 0)
        """The capacities that `_there` holds."""

    def scores_at(self, load: Load, rows: Sequence[int] | Indices) -> tuple[NarrowScores, Mask | None]:
        """Implement `Readings.at`."""
        if len(rows) == 1:
            return self._score_row(load, int(rows[0]))
        return self._score_rows(load, np.asarray(rows, dtype=np.intp))

    def _score_row(self, load: Load, row: int) -> tuple[NarrowScores, Mask | None]:
        """Compute one row, with Python numbers for the node: a NumPy call costs more than a few of these."""
        nodes = self._nodes
        room, requested, scored = nodes.allocatable, load.requested, load.scored
        cpu, memory = room.item(_CPU, row), room.item(_MEMORY, row)
        if self._room != (cpu, memory):
            self._room = cpu, memory
            self._there[::2], self._there[1::2] = cpu, memory
        cpu_free, memory_free = cpu - requested.item(_CPU, row), memory - requested.item(_MEMORY, row)
        cpu_left = max(cpu - scored.item(_CPU, row), -cpu) * HIGHEST
        memory_left = max(memory - scored.item(_MEMORY, row), -memory) * HIGHEST
        cpu_now = cpu - cpu_free if cpu_free > 0 else cpu
        memory_now = memory - memory_free if memory_free > 0 else memory
        for fill, amount in zip(self._fills, (cpu_left, memory_left, cpu_now, memory_now), strict=True):
            fill(amount)
        self._now.fill(_evenness(cpu_now / cpu, memory_now / memory) - _NEUTRAL)
        above = cpu_left >= self._most_scored[_CPU] and memory_left >= self._most_scored[_MEMORY]
        total = self._totals(self._one, self._of_node, self._there, self._now, above=above)
        places = nodes.allowed_pods.item(row) > load.pod_count.item(row)
        if places and cpu_free >= self._most[_CPU] and memory_free >= self._most[_MEMORY]:
            return total, None
        if not places:
            return total, np.zeros(total.shape, np.bool_)
        return total, (self._least[_CPU] <= cpu_free) & (self._least[_MEMORY] <= memory_free)

    def _score_rows(self, load: Load, rows: Indices) -> tuple[NarrowScores, Mask | None]:
        nodes = self._nodes
        room = nodes.allocatable[:2, rows]
        used = load.requested[:2, rows]
        of_node = np.empty((4, 1, len(rows)))
        of_node[:2, 0] = np.maximum(room - load.scored[:, rows], -room) * HIGHEST
        of_node[2:, 0] = np.minimum(used, room)
        there = np.concatenate((room, room)).astype(np.float64).reshape(4, 1, len(rows))
        shares = of_node[2:, 0] / there[2:, 0]
        now = ((2.0 - np.abs(shares[0] - shares[1])) * (HIGHEST / 2)).astype(np.int16) - np.int16(_NEUTRAL)
        scratch = _Scratch(len(self._requests[0]), len(rows))
        total = self._totals(scratch, of_node, there, now, above=False)
        free = room - used
        passes: Mask = (self._least[_CPU] <= free[_CPU]) & (self._least[_MEMORY] <= free[_MEMORY])
        passes &= nodes.allowed_pods[rows] > load.pod_count[rows]
        return total, None if passes.all() else passes

    def _totals(
        self, scratch: _Scratch, of_node: WideFloats, there: WideFloats, now: NarrowScores, *, above: bool
    ) -> NarrowScores:
        """Compute the totals. With `above`, no free share falls below zero."""
        shares, even, other, whole, pair, left, both, evenness = scratch.parts
        total: NarrowScores = whole[0]
        np.add(self._requests, of_node, out=shares)
        np.divide(shares, there, out=shares)
        np.subtract(even, other, out=even)
        np.abs(even, out=even)
        np.subtract(scratch.twos, even, out=even)
        np.multiply(even, scratch.halves, out=even)
        np.copyto(whole, shares[:3], casting="unsafe")
        if not above:
            np.maximum(pair, 0, out=pair)
        np.add(left, total, out=left)
        np.subtract(evenness, now, out=evenness)
        np.right_shift(both, scratch.ones, out=both)
        if self._balance_is_scored is not None:
            np.multiply(evenness, self._balance_is_scored, out=evenness)
        if self._fit != 1:
            left *= np.int16(self._fit)
        if self._balanced != 1:
            evenness *= np.int16(self._balanced)
        np.add(left, evenness, out=total)
        return total


class _Scratch:
    """Buffers for this number of templates and rows."""

    __slots__ = ("halves", "ones", "parts", "twos")

    def __init__(self, templates: int, rows: int) -> None:
        shares = np.empty((4, templates, rows))
        whole = np.empty((3, templates, rows), np.int16)
        self.parts = shares, shares[2], shares[3], whole, whole[:2], whole[1], whole[1:], whole[2]
        self.twos = np.full((templates, rows), 2.0)
        self.halves = np.full((templates, rows), HIGHEST / 2)
        self.ones = np.ones((2, templates, rows), np.int16)


def _compute_columns(snapshot: Snapshot) -> ShortFloats:
    numbers = np.empty((_WIDTH, snapshot.count), np.float32)
    room = np.stack([snapshot.allocatable(column) for column in CPU_AND_MEMORY])
    used = np.stack([snapshot.requested(column) for column in CPU_AND_MEMORY])
    scored = np.stack([snapshot.scored_requested(column) for column in CPU_AND_MEMORY])
    numbers[_FREE] = np.where(snapshot.pod_count < snapshot.allowed_pods, room - used, _FULL)
    numbers[_LEFT] = np.maximum(room - scored, -room) * HIGHEST / room + _SLACK
    cpu, memory = np.minimum(used, room) / room
    numbers[_LEAN] = (cpu - memory) * (HIGHEST / 4)
    now = ((2.0 - np.abs(cpu - memory)) * (HIGHEST / 2)).astype(np.int16)
    numbers[_EVEN] = (HIGHEST + _NEUTRAL - now) / 2 + _SLACK
    numbers[_ROOM] = HIGHEST / room
    return numbers


def _compute_row(nodes: NodeTable, load: Load, row: int) -> tuple[float, ...]:
    room, requested, scored = nodes.allocatable, load.requested, load.scored
    cpu, memory = room.item(_CPU, row), room.item(_MEMORY, row)
    cpu_used, memory_used = requested.item(_CPU, row), requested.item(_MEMORY, row)
    full = load.pod_count.item(row) >= nodes.allowed_pods.item(row)
    cpu_share, memory_share = min(cpu_used, cpu) / cpu, min(memory_used, memory) / memory
    return (
        _FULL if full else cpu - cpu_used,
        _FULL if full else memory - memory_used,
        max(cpu - scored.item(_CPU, row), -cpu) * HIGHEST / cpu + _SLACK,
        max(memory - scored.item(_MEMORY, row), -memory) * HIGHEST / memory + _SLACK,
        (cpu_share - memory_share) * (HIGHEST / 4),
        (HIGHEST + _NEUTRAL - _evenness(cpu_share, memory_share)) / 2 + _SLACK,
    )


def _evenness(one: float, other: float) -> int:
    """Return `trunc((1 - |difference| / 2) * 100)`, computed as twice the half, which is exact."""
    return int((2.0 - abs(one - other)) * (HIGHEST / 2))


_LOWEST: Final = float(np.finfo(np.float32).min)

"""Evaluators of the resource plugins over derived columns (`situate.framework.snapshot.derived_columns`).

They give the results of the plugins' `filter` and `score`, with the same arithmetic on the same numbers:

- NodeResourcesFit compares the free amount, a column, with the Pod's request. Amounts below 2^53 are exact as floats.
- LeastAllocated is `(room - used - asked) * 100 // room`. With `100 * (room - used)` as a column it is one subtraction
  and one division. Both operands are integers below 2^53, and the error of the division is too small to cross an
  integer.
- NodeResourcesBalancedAllocation compares the node's evenness with the Pod and without it. The latter does not depend
  on the Pod and is a column. No share needs a limit of 1: if the Pod fits, its request brings no share above 1. A share
  that is above 1 without the Pod is limited in the column.

The plugins' own methods handle the other cases. These are nodes that lack a resource or exceed the exact floats, and
Pods that request so large a multiple of a node's capacity that it does not fit 16 bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import gt
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from situate.framework.plugin_api.plugin import HIGHEST
from situate.framework.results.verdict import Mask
from situate.framework.snapshot.derived_columns import ColumnDefinition, ColumnEvaluator, Load, Numbers
from situate.framework.snapshot.node_load import SCORED
from situate.framework.snapshot.node_table import NodeTable
from situate.framework.snapshot.snapshot import Snapshot

SmallScores: TypeAlias = NDArray[np.int16]
"""(nodes,): scores."""

_EXACT: Final = 2**53 // HIGHEST
_CPU, _MEMORY, _PLACES = range(3)
"""The first columns of `free_columns`."""
_LEFT: Final = 3
_PAIR: Final = 2
_EQUAL: Final = (1, 1)
"""Weights of two resources."""
_EVENNESS: Final = 2
_ROOM: Final = 3
"""Columns of `evenness_columns`."""
_WIDEST: Final = 250
"""Maximum ratio of a request to a node's capacity. Beyond it, percentages would come near 2^15."""
_ONE: Final = np.float64(1.0)
_TWO: Final = np.float64(2.0)
_HALF: Final = np.float64(HIGHEST / 2)
_SHIFT: Final = np.int16(1)
_NEUTRAL: Final = 150
"""Twice the score of NodeResourcesBalancedAllocation where a Pod changes nothing."""


@dataclass(frozen=True, slots=True, eq=False)
class Bounds:
    """The largest requests for which evaluators can score, on one table of nodes."""

    most: tuple[int, ...]
    """By resource; negative if evaluators cannot score on these nodes."""
    zeros: SmallScores
    """(resources, nodes)"""
    same: Numbers | None
    """(resources, 1): the common capacity, if all nodes have the same, so that it need not be read per node."""

    def allow_requests(self, asked: Sequence[int]) -> bool:
        return not any(map(gt, asked, self.most))


def bounds_of(nodes: NodeTable, columns: Sequence[int]) -> Bounds:
    """Return the bounds. Each node must have some of each resource, and no more than floats represent exactly."""
    ranges = [nodes.range_of(column) for column in columns]
    most = tuple(_WIDEST * least if least > 0 and most < _EXACT else -1 for least, most in ranges)
    same = None
    if all(least == most for least, most in ranges):
        same = np.array([(least,) for least, _ in ranges], dtype=np.float64)
    return Bounds(most, np.zeros((len(columns), len(nodes)), dtype=np.int16), same)


def free_columns(columns: tuple[int, ...]) -> ColumnDefinition:
    """Define the columns of free amounts.

    They are free cpu, free memory and free allowed Pods. For each scored resource, with the defaults of scores, 100
    times the free amount follows. The capacities are last.
    """
    width = _LEFT + 2 * len(columns)

    def of(snapshot: Snapshot) -> Numbers:
        numbers = np.empty((width, snapshot.count))
        numbers[_CPU] = snapshot.allocatable(_CPU) - snapshot.requested(_CPU)
        numbers[_MEMORY] = snapshot.allocatable(_MEMORY) - snapshot.requested(_MEMORY)
        numbers[_PLACES] = snapshot.allowed_pods - snapshot.pod_count
        for place, column in enumerate(columns, _LEFT):
            room = snapshot.allocatable(column)
            used = snapshot.scored_requested(column) if column < SCORED else snapshot.requested(column)
            numbers[place] = np.maximum(room - used, -room) * HIGHEST
            numbers[place + len(columns)] = room
        return numbers

    def of_row(nodes: NodeTable, load: Load, row: int) -> list[float]:
        room, requested, scored = nodes.allocatable, load.requested, load.scored
        numbers: list[float] = [
            room.item(_CPU, row) - requested.item(_CPU, row),
            room.item(_MEMORY, row) - requested.item(_MEMORY, row),
            nodes.allowed_pods.item(row) - load.pod_count.item(row),
        ]
        for column in columns:
            there = room.item(column, row)
            used = scored.item(column, row) if column < SCORED else requested.item(column, row)
            numbers.append(max(there - used, -there) * HIGHEST)
        return numbers

    return ColumnDefinition(("NodeResourcesFit", columns), of, of_row)


def fit_evaluator(derived: ColumnDefinition, amounts: tuple[tuple[int, int], ...]) -> ColumnEvaluator | None:
    """Check for a free Pod slot and for these amounts by column; None for resources other than cpu and memory."""
    if any(column > _MEMORY for column, _ in amounts):
        return None
    asked = tuple((column, np.float64(amount)) for column, amount in amounts)

    def read(numbers: Numbers) -> Mask:
        passes: Mask = numbers[_PLACES] >= _ONE
        for column, amount in asked:
            passes &= numbers[column] >= amount
        return passes

    return ColumnEvaluator(derived, read)


def least_allocated_evaluator(
    derived: ColumnDefinition, bounds: Bounds, asked: Sequence[int], weights: tuple[int, ...]
) -> ColumnEvaluator:
    """Score the weighted mean of `(room - used - asked) * 100 // room`, 0 if the request exceeds the capacity."""
    count, zeros, same = len(asked), bounds.zeros, bounds.same
    hundredfold = np.array([(amount * HIGHEST,) for amount in asked], dtype=np.float64)

    def read(numbers: Numbers) -> SmallScores:
        shares = numbers[_LEFT : _LEFT + count] - hundredfold
        shares /= numbers[_LEFT + count :] if same is None else same
        whole = shares.astype(np.int16)
        np.maximum(whole, zeros[:, : whole.shape[1]], out=whole)  # two arrays take a third of the time
        if weights == _EQUAL:
            first: SmallScores = whole[0]
            first += whole[1]
            first >>= _SHIFT
            return first
        each = np.array(weights, dtype=np.int32).reshape(-1, 1)
        scores: SmallScores = ((whole * each).sum(axis=0) // sum(weights)).astype(np.int16)
        return scores

    return ColumnEvaluator(derived, read)


def evenness_columns(one: int, other: int) -> ColumnDefinition:
    """Define the columns of use: the used amounts up to the capacities, evenness minus 150, and the capacities."""

    def of(snapshot: Snapshot) -> Numbers:
        numbers = np.empty((_ROOM + _PAIR, snapshot.count))
        for place, column in enumerate((one, other)):
            room = snapshot.allocatable(column)
            numbers[place] = np.minimum(snapshot.requested(column), room)
            numbers[place + _ROOM] = room
        numbers[_EVENNESS] = _evenness(numbers[:_PAIR] / numbers[_ROOM:]) - np.int16(_NEUTRAL)
        return numbers

    def of_row(nodes: NodeTable, load: Load, row: int) -> tuple[float, ...]:
        room, other_room = nodes.allocatable.item(one, row), nodes.allocatable.item(other, row)
        used = min(load.requested.item(one, row), room)
        other_used = min(load.requested.item(other, row), other_room)
        difference = abs(used / room - other_used / other_room)
        return used, other_used, int((2.0 - difference) * 50.0) - _NEUTRAL

    return ColumnDefinition(("NodeResourcesBalancedAllocation", one, other), of, of_row)


def balanced_allocation_evaluator(derived: ColumnDefinition, bounds: Bounds, one: int, other: int) -> ColumnEvaluator:
    """Score `(evenness with the pod - evenness now + 150) >> 1`."""
    same = bounds.same
    amounts = np.array(((one,), (other,)), dtype=np.float64)

    def read(numbers: Numbers) -> SmallScores:
        shares = numbers[:_PAIR] + amounts
        shares /= numbers[_ROOM:] if same is None else same
        scores = _evenness(shares)
        scores -= numbers[_EVENNESS].astype(np.int16)
        scores >>= _SHIFT
        return scores

    return ColumnEvaluator(derived, read, where_it_fits=True)


def _evenness(shares: Numbers) -> SmallScores:
    """Return `trunc((1 - |difference| / 2) * 100)`, computed as twice the half, which is exact; overwrites `shares`."""
    difference: NDArray[np.float64] = shares[0]
    difference -= shares[1]
    np.abs(difference, out=difference)
    np.subtract(_TWO, difference, out=difference)
    difference *= _HALF
    return difference.astype(np.int16)

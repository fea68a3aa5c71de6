"""What the plugins of resources say of a node, read off derived columns (`situate.framework.snapshot.derived_columns`).

They give what `filter` and `score` of the plugins give, in other words the same arithmetic on the same numbers:

- NodeResourcesFit compares what is free, a column, with what the pod asks for. Amounts below 2^53 are exact as floats.
- LeastAllocated is `(room - used - asked) * 100 // room`. With `100 * (room - used)` as a column that is a subtraction
  and a division; both parts are whole numbers below 2^53, and a division's error is too small to cross an integer.
- NodeResourcesBalancedAllocation compares how even a node is with the pod with how even it is now. The latter has
  nothing to do with the pod and is a column. No share has to be cut to 1: where the pod fits, what it asks for brings
  none above, and a share that is above without it is cut in the column.

Nodes that lack one of the resources, or have more than floats can tell, and pods that ask for many times what some node
has, which would not fit 16 bits, are left to the plugins' own methods.
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
from situate.framework.snapshot.derived_columns import Derived, Gauge, Load, Numbers
from situate.framework.snapshot.node_load import SCORED
from situate.framework.snapshot.node_table import NodeTable
from situate.framework.snapshot.snapshot import Snapshot

Small: TypeAlias = NDArray[np.int16]
"""(nodes,): scores."""

_EXACT: Final = 2**53 // HIGHEST
_CPU, _MEMORY, _PLACES = range(3)
"""The first columns of `room_left`."""
_LEFT: Final = 3
_PAIR: Final = 2
_EQUAL: Final = (1, 1)
"""Weights of two resources."""
_EVENNESS: Final = 2
_ROOM: Final = 3
"""Columns of `evenness_now`."""
_WIDEST: Final = 250
"""A pod that asks for more than so many times what a node has: its percentages would come near 2^15."""
_ONE: Final = np.float64(1.0)
_TWO: Final = np.float64(2.0)
_HALF: Final = np.float64(HIGHEST / 2)
_SHIFT: Final = np.int16(1)
_NEUTRAL: Final = 150
"""Twice what NodeResourcesBalancedAllocation gives where a pod changes nothing."""


@dataclass(frozen=True, slots=True, eq=False)
class Bounds:
    """What a pod may ask for so that scores can be read off columns, on one table of nodes."""

    most: tuple[int, ...]
    """By resource; negative if that cannot be done on these nodes at all."""
    zeros: Small
    """(resources, nodes)"""
    same: Numbers | None
    """(resources, 1): what each node has, where all have the same: that need not be read node by node."""

    def hold(self, asked: Sequence[int]) -> bool:
        return not any(map(gt, asked, self.most))


def bounds_of(nodes: NodeTable, columns: Sequence[int]) -> Bounds:
    """Every node must have some of each resource, and not more than floats can tell."""
    ranges = [nodes.range_of(column) for column in columns]
    most = tuple(_WIDEST * least if least > 0 and most < _EXACT else -1 for least, most in ranges)
    same = None
    if all(least == most for least, most in ranges):
        same = np.array([(least,) for least, _ in ranges], dtype=np.float64)
    return Bounds(most, np.zeros((len(columns), len(nodes)), dtype=np.int16), same)


def room_left(columns: tuple[int, ...]) -> Derived:
    """Free cpu, free memory, free places for pods; then of each resource, with the defaults that scores count with, 100
    times what is left, and what there is.
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

    return Derived(("NodeResourcesFit", columns), of, of_row)


def fit_gauge(derived: Derived, amounts: tuple[tuple[int, int], ...]) -> Gauge | None:
    """Whether there is a place, and room for these amounts, by column; None if there are others than cpu and memory."""
    if any(column > _MEMORY for column, _ in amounts):
        return None
    asked = tuple((column, np.float64(amount)) for column, amount in amounts)

    def read(numbers: Numbers) -> Mask:
        passes: Mask = numbers[_PLACES] >= _ONE
        for column, amount in asked:
            passes &= numbers[column] >= amount
        return passes

    return Gauge(derived, read)


def least_allocated_gauge(derived: Derived, bounds: Bounds, asked: Sequence[int], weights: tuple[int, ...]) -> Gauge:
    """The mean of `(room - used - asked) * 100 // room`, 0 beyond the room, by these weights."""
    count, zeros, same = len(asked), bounds.zeros, bounds.same
    hundredfold = np.array([(amount * HIGHEST,) for amount in asked], dtype=np.float64)

    def read(numbers: Numbers) -> Small:
        shares = numbers[_LEFT : _LEFT + count] - hundredfold
        shares /= numbers[_LEFT + count :] if same is None else same
        whole = shares.astype(np.int16)
        np.maximum(whole, zeros[:, : whole.shape[1]], out=whole)  # of arrays: a third of the time of array and number
        if weights == _EQUAL:
            first: Small = whole[0]
            first += whole[1]
            first >>= _SHIFT
            return first
        each = np.array(weights, dtype=np.int32).reshape(-1, 1)
        scores: Small = ((whole * each).sum(axis=0) // sum(weights)).astype(np.int16)
        return scores

    return Gauge(derived, read)


def evenness_now(one: int, other: int) -> Derived:
    """What is used of both resources, at most what there is; how even that is, less 150; and what there is."""

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

    return Derived(("NodeResourcesBalancedAllocation", one, other), of, of_row)


def balanced_gauge(derived: Derived, bounds: Bounds, one: int, other: int) -> Gauge:
    """`(evenness with the pod - evenness now + 150) >> 1`."""
    same = bounds.same
    amounts = np.array(((one,), (other,)), dtype=np.float64)

    def read(numbers: Numbers) -> Small:
        shares = numbers[:_PAIR] + amounts
        shares /= numbers[_ROOM:] if same is None else same
        scores = _evenness(shares)
        scores -= numbers[_EVENNESS].astype(np.int16)
        scores >>= _SHIFT
        return scores

    return Gauge(derived, read, where_it_fits=True)


def _evenness(shares: Numbers) -> Small:
    """`trunc((1 - |difference| / 2) * 100)`, twice and halved, which is exact; `shares` is written to."""
    difference: NDArray[np.float64] = shares[0]
    difference -= shares[1]
    np.abs(difference, out=difference)
    np.subtract(_TWO, difference, out=difference)
    difference *= _HALF
    return difference.astype(np.int16)

"""Shortens a failing history: delta debugging (Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing
Input", 2002) over its steps, one-minimal at the end, bounded by a number of tries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

Step = TypeVar("Step")


def shrink(
    steps: Sequence[Step], fails: Callable[[Sequence[Step]], bool], *, most_tries: int = 400
) -> tuple[Step, ...]:
    """The shortest sub-sequence found that still fails, in the original order.

    `steps` itself must fail. Without running out of tries, no single step of the result can be left out.
    """
    current = tuple(steps)
    pieces = 2
    tries = 0
    while len(current) >= 2:
        size = -(-len(current) // pieces)
        for start in range(0, len(current), size):
            if tries >= most_tries:
                return current
            tries += 1
            candidate = current[:start] + current[start + size :]
            if fails(candidate):
                current = candidate
                pieces = max(pieces - 1, 2)
                break
        else:
            if size == 1:
                break
            pieces = min(pieces * 2, len(current))
    return current

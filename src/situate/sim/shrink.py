"""Shorten a failing history by delta debugging over its steps.

The algorithm is that of Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", 2002. The result is
one-minimal, unless the number of tries runs out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

Step = TypeVar("Step")


def shrink(
    steps: Sequence[Step], fails: Callable[[Sequence[Step]], bool], *, most_tries: int = 400
) -> tuple[Step, ...]:
    """Return the shortest sub-sequence found that still fails, in the original order.

    `steps` itself must fail. If the tries suffice, removing any single step of the result makes it pass.
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

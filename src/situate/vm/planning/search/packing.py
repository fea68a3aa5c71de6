"""Assign several VMs to several nodes: check whether their targets fit together, and choose a target for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

MAX_CHECKS: Final = 5_000
"""Limit on the number of checks whether a VM fits on a node.

Beyond it, VMs count as not fitting, so that a plan takes bounded time. Four VMs with as many possible nodes never need
this many.
"""

NodeCapacities: TypeAlias = Mapping[int, Sequence[int]]
"""By node: its capacity for each resource."""


def assign_nodes(
    amounts: Sequence[Sequence[int]], wishes: Sequence[Sequence[int]], room: NodeCapacities
) -> tuple[int, ...] | None:
    """Return a node for each VM, its best one while all others also find a node. None: they do not fit together.

    `wishes` lists, for each VM, the nodes that have capacity for it alone, best first. The first VM chooses first.
    """
    left = {node: list(free) for node, free in room.items()}
    picky = [number for number, wished in enumerate(wishes) if len(wished) < len(wishes)]
    chosen: list[int] = []
    looks = 0

    def fits(number: int, node: int) -> bool:
        nonlocal looks
        looks += 1
        return all(wanted <= free for wanted, free in zip(amounts[number], left[node], strict=True))

    def take(number: int, node: int, sign: int) -> None:
        for resource, wanted in enumerate(amounts[number]):
            left[node][resource] -= sign * wanted

    def place(number: int) -> bool:
        if number == len(amounts):
            return True
        for node in wishes[number]:
            if looks > MAX_CHECKS:
                return False
            if not fits(number, node):
                continue
            take(number, node, 1)
            if all(any(fits(later, other) for other in wishes[later]) for later in picky if later > number):
                chosen.append(node)
                if place(number + 1):
                    return True
                chosen.pop()
            take(number, node, -1)
        return False

    return tuple(chosen) if place(0) else None


def fit_together(amounts: Sequence[Sequence[int]], wishes: Sequence[Sequence[int]], room: NodeCapacities) -> bool:
    """Return whether `assign_nodes` finds an assignment.

    A VM with at least as many nodes as there are VMs always finds one.
    """
    picky = sorted((len(wished), number) for number, wished in enumerate(wishes) if len(wished) < len(wishes))
    order = [number for _, number in picky]
    return assign_nodes([amounts[number] for number in order], [wishes[number] for number in order], room) is not None

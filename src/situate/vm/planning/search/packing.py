"""Several machines on several nodes at once: whether their targets fit together (B18), and which each one takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

MOST_LOOKS: Final = 5_000
"""At whether one fits on one node; beyond that they count as not fitting, so that a plan takes bounded time. Four
machines that have as many nodes to go to never need so many."""

Room: TypeAlias = Mapping[int, Sequence[int]]
"""By node: what it has room for, a resource each."""


def packed(amounts: Sequence[Sequence[int]], wishes: Sequence[Sequence[int]], room: Room) -> tuple[int, ...] | None:
    """A node for each, the one it likes best as far as all the others find one too; None: they do not fit together.

    `wishes`: for each the nodes that have room for it alone, best first. The first one chooses first.
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
            if looks > MOST_LOOKS:
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


def fit_together(amounts: Sequence[Sequence[int]], wishes: Sequence[Sequence[int]], room: Room) -> bool:
    """Whether `packed` finds a way. Who may go to as many nodes as there are machines always finds one."""
    picky = sorted((len(wished), number) for number, wished in enumerate(wishes) if len(wished) < len(wishes))
    order = [number for _, number in picky]
    return packed([amounts[number] for number in order], [wishes[number] for number in order], room) is not None

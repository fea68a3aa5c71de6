"""Names sorted by their keys, while single keys change."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Container, Iterator
from collections.abc import Set as AbstractSet
from typing import Final

Entry = tuple[float, int, str]
"""Load or usage, the turn in which the name was last chosen, and the name, which breaks all ties."""

_SMALL_SET_FACTOR: Final = 16  # a set smaller than the ranking by this factor is sorted instead of searched for


class Ranking:
    """A sorted list. A change costs some comparisons and a move of pointers: 2 µs for 5,000 names.

    A heap would suffice for the first name, but rules need the first allowed name, and therefore the order.
    """

    def __init__(self) -> None:
        self._entries: list[Entry] = []
        self._by_name: dict[str, Entry] = {}

    def put(self, name: str, key: float, turn: int) -> None:
        entry = (key, turn, name)
        before = self._by_name.get(name)
        if before == entry:
            return
        if before is not None:
            self._remove(before)
        insort(self._entries, entry)
        self._by_name[name] = entry

    def drop(self, name: str) -> None:
        """Remove a name, if it is present."""
        entry = self._by_name.pop(name, None)
        if entry is not None:
            self._remove(entry)

    def _remove(self, entry: Entry) -> None:
        del self._entries[bisect_left(self._entries, entry)]

    def __contains__(self, name: str) -> bool:
        return name in self._by_name

    def __len__(self) -> int:
        return len(self._entries)

    def entries(self, among: Container[str] | None = None) -> Iterator[Entry]:
        """Return the entries, the lowest first; with `among`, only those of these names."""
        if among is None:
            return iter(self._entries)
        if isinstance(among, AbstractSet) and len(among) * _SMALL_SET_FACTOR < len(self._entries):
            return iter(sorted(self._by_name[name] for name in among if name in self._by_name))
        return (entry for entry in self._entries if entry[2] in among)

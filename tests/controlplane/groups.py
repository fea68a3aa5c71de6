"""When control planes end: with the last test of the xdist group that started them, not with the session.

An idle one still takes a fortieth of a processor, and a session has ten of them. xdist gives a group to one worker
whole, so that worker knows when it is done; without groups, and for a group that is torn apart, nothing ends early.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable

import pytest


class Groups:
    """The tests that this process has still to run, by group, and what is to happen after the last of each."""

    def __init__(self, items: Iterable[pytest.Item]) -> None:
        self._left = Counter(map(group_of, items))
        self._running = ""
        self._afterwards: defaultdict[str, list[Callable[[], None]]] = defaultdict(list)

    def begin(self, item: pytest.Item) -> None:
        self._running = group_of(item)

    def afterwards(self, end: Callable[[], None]) -> None:
        """Calls `end` once the group that runs now is done; harmless when nothing belongs to a group."""
        if self._running:
            self._afterwards[self._running].append(end)

    def finish(self, item: pytest.Item, following: pytest.Item | None) -> None:
        """Call when a test and its fixtures are done; fixtures of its module may need what they use until that ends."""
        self._left[group_of(item)] -= 1
        if following is not None and following.path == item.path:
            return
        for group in [group for group in self._afterwards if self._left[group] <= 0]:
            for end in reversed(self._afterwards.pop(group)):
                end()


def group_of(item: pytest.Item) -> str:
    """Empty for a test without a group."""
    mark = item.get_closest_marker("xdist_group")
    return "" if mark is None else str(mark.kwargs.get("name", mark.args[0] if mark.args else ""))

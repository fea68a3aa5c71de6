from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from tests.controlplane.groups import Groups


class Item:
    """As much of a test as is asked of one."""

    def __init__(self, module: str, group: str = "") -> None:
        self.path = Path(module)
        self._mark = pytest.mark.xdist_group(group).mark if group else None

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        return self._mark if name == "xdist_group" else None


def ended(*tests: tuple[str, str], starts: int = 0, runs: int | None = None) -> list[int]:
    """After which of the tests, module and group each, ends what was started in the one numbered `starts`."""
    items = [cast("pytest.Item", Item(module, group)) for module, group in tests]
    groups, ends, found = Groups(items), list[None](), list[int]()
    for number, item in enumerate(items[:runs]):
        groups.begin(item)
        if number == starts:
            groups.afterwards(lambda: ends.append(None))
        groups.finish(item, items[number + 1] if number + 1 < len(items) else None)
        found += [number] * len(ends)
        ends.clear()
    return found


def test_it_ends_with_the_last_test_of_its_group() -> None:
    assert ended(("a", "x"), ("b", "x"), ("c", "y"), ("d", "")) == [1]


def test_fixtures_of_the_module_come_first() -> None:
    assert ended(("a", "x"), ("a", ""), ("a", "y"), ("b", "")) == [2]


def test_without_a_group_it_stays() -> None:
    assert ended(("a", ""), ("b", "x"), ("c", "")) == []


def test_while_a_test_of_the_group_is_left_it_stays() -> None:
    assert ended(("a", "x"), ("b", "y"), ("c", "x"), runs=2) == []


def test_nothing_is_ended_twice() -> None:
    assert ended(("a", "x"), ("b", "y"), ("c", "z"), ("d", "")) == [0]

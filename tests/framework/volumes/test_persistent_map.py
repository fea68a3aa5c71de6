from __future__ import annotations

from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from situate.framework.volumes.persistent_map import EMPTY_MAP, PersistentMap

KEYS = st.integers(0, 2**13)  # more than there are leaves, so that some are shared
STEPS = st.lists(st.tuples(KEYS, st.none() | st.integers()))
V = TypeVar("V")


def played(start: PersistentMap[int, V], steps: list[tuple[int, V | None]]) -> PersistentMap[int, V]:
    for key, value in steps:
        start = start.without_key(key) if value is None else start.with_entry(key, value)
    return start


@given(st.dictionaries(KEYS, st.integers()), STEPS)
def test_it_holds_what_a_dict_would(entries: dict[int, int], steps: list[tuple[int, int | None]]) -> None:
    start = PersistentMap.from_entries(entries.items())
    changed = played(start, steps)
    wanted = dict(entries)
    for key, value in steps:
        if value is None:
            wanted.pop(key, None)
        else:
            wanted[key] = value
    assert dict(changed) == wanted
    assert len(changed) == len(wanted)
    assert all(key in changed for key in wanted)
    assert dict(start) == entries, "the one before has not changed"


@given(st.dictionaries(KEYS, st.integers()), STEPS, STEPS)
def test_the_difference_of_any_two_is_found(
    entries: dict[int, int], one: list[tuple[int, int | None]], other: list[tuple[int, int | None]]
) -> None:
    start = PersistentMap.from_entries((key, str(value)) for key, value in entries.items())
    left, right = (
        played(start, [(key, None if value is None else str(value)) for key, value in steps]) for steps in (one, other)
    )
    wanted = {key for key in {*left, *right} if left.get(key) is not right.get(key)}
    assert left.differing_keys(right) == right.differing_keys(left) == wanted


def test_what_is_not_there() -> None:
    assert len(EMPTY_MAP) == 0
    assert EMPTY_MAP.without_key("a") is EMPTY_MAP
    assert "a" not in EMPTY_MAP
    with pytest.raises(KeyError):
        EMPTY_MAP["a"]

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from situate.vm.model.replace import replace_fields


@dataclass(frozen=True, slots=True)
class Entry:
    first: int
    second: str = ""


def test_it_is_what_replace_makes_and_leaves_the_former_as_it_was() -> None:
    former = Entry(1, "a")
    assert replace_fields(former, second="b") == replace(former, second="b")
    assert former == Entry(1, "a")


def test_a_field_that_there_is_not_is_a_mistake() -> None:
    with pytest.raises(KeyError):
        replace_fields(Entry(1), third=3)

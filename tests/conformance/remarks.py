"""Take the fields that are meant for people out of a case before it is run.

The README of the vectors names them: `note`, `why...`, `source`, `rule`, `anchor`, `trap`, `..._actual`, `title`,
`about`. The fields of the case itself stay, because some adapters read a `note` that states a fact.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tests.conformance.outcome import Case

Json = Any

EXPECTATIONS: Final = frozenset({"expected", "expect", "expect_by", "final", "after", "modern", "result"})
"""Keys whose values say how a case or a step of it must end."""
_OF_NAMES: Final = frozenset({"labels", "matchLabels", "annotations", "nodeSelector", "metadata"})
"""Keys whose values hold names that a user chose."""
_ABOUT: Final = frozenset({"source", "rule", "anchor", "trap", "title", "about"})


def is_remark(name: str) -> bool:
    """Whether a field of this name is for people wherever it stands."""
    return name == "note" or name.startswith("why") or name.endswith("_actual")


def is_for_people(name: str) -> bool:
    """Whether a field of this name in a case or in its expectations is for people."""
    return is_remark(name) or name in _ABOUT


def without_remarks(case: Case) -> Case:
    """Copy the case without the remarks inside it: in steps, in expectations, in whatever they hold."""
    return {name: _without(value, name in EXPECTATIONS) for name, value in case.items()}


def _without(value: Json, is_expectation: bool) -> Json:
    if isinstance(value, list):
        return [_without(each, is_expectation) for each in value]
    if not isinstance(value, Mapping):
        return value
    left_out = is_for_people if is_expectation else is_remark
    return {
        name: below if name in _OF_NAMES else _without(below, name in EXPECTATIONS)
        for name, below in value.items()
        if not left_out(name)
    }

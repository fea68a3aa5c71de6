"""What a case says to people changes nothing, and what it expects beyond the README fails by name; in every suite."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.conformance.outcome import Outcome, attempted
from tests.conformance.remarks import EXPECTATIONS, without_remarks
from tests.conformance.runner import NOT_A_TEST, SYSTEMS, VECTORS, _cases

_OUTAGE = "scheduling_of_other_objects_blocked_s_max"
FILES = [
    f"{system}/{file.name}"
    for system in SYSTEMS
    for file in sorted((VECTORS / system).glob("*.json"))
    if file.name not in NOT_A_TEST and file.name != "e2e_scenarios.json"
]


def first_of_each_shape(file: str) -> Iterator[dict[str, Any]]:
    """One case for each set of keys of an expectation that the file has."""
    name = file.partition("/")[2]
    document = json.loads((VECTORS / file).read_text())
    cases = _cases(document, name)
    seen = set()
    for case in cases:
        if _OUTAGE in case.get("final", ()):  # an hour of the shipped supervisor, which test_conformance plays
            continue
        shape = tuple(sorted({(*path, *at) for path in expectations(case) for at in at_path(case, path)}))
        if shape not in seen:
            seen.add(shape)
            yield case


def expectations(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every expectation that is a mapping, also of one step."""
    if isinstance(value, dict):
        for name, below in value.items():
            if name in EXPECTATIONS - {"modern", "result"} and isinstance(below, dict):
                yield (*path, name)
            else:
                yield from expectations(below, (*path, name))
    elif isinstance(value, list):
        for number, below in enumerate(value[:3]):
            yield from expectations(below, (*path, number))


def at_path(value: Any, path: tuple[Any, ...]) -> Any:
    for step in path:
        value = value[step]
    return value


def run(file: str, case: dict[str, Any]) -> Outcome:
    system, _, name = file.partition("/")
    return attempted(SYSTEMS[system][name], without_remarks(case))


@pytest.mark.finding("R1")
@pytest.mark.parametrize("file", FILES)
def test_remarks_change_nothing_and_an_unknown_expectation_fails_by_name(file: str) -> None:
    for case in first_of_each_shape(file):
        for path in list(expectations(case)):
            if path[-1] == "expect_by":  # it holds designs, each with an expectation of its own
                continue
            remarked, wondering = copy.deepcopy(case), copy.deepcopy(case)
            at_path(remarked, path).update(note="for people", why_it_is_so="because", reference_actual={"x": 1})
            at_path(wondering, path)["wonder"] = 1
            assert run(file, remarked).verdict == "passed", (path, run(file, remarked))
            outcome = run(file, wondering)
            assert (outcome.verdict, "wonder" in outcome.detail) == ("failed", True), (path, outcome)


@pytest.mark.finding("R1")
def test_names_that_users_chose_are_no_remarks() -> None:
    case = {
        "note": "the README lets adapters read this one",
        "input": {"labels": {"note": "a"}, "steps": [{"op": "get", "why": "b"}]},
        "expected": {"value": 1, "title": "c", "nested": {"title": "d", "note": "e"}},
    }
    assert without_remarks(case) == {
        "note": "the README lets adapters read this one",
        "input": {"labels": {"note": "a"}, "steps": [{"op": "get"}]},
        "expected": {"value": 1, "nested": {"title": "d"}},
    }

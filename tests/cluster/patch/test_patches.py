"""The laws of merge patches, and JSON patches where they do and do not apply."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from situate.cluster.errors.field_errors import Refused
from situate.cluster.patch.patches import MAX_OPERATIONS, json_patch, merge_patch

SCALARS = st.none() | st.booleans() | st.integers(-9, 9) | st.text("ab", max_size=2)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", min_size=1, max_size=2), inner, max_size=3)
    ),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text("abc", min_size=1, max_size=2), VALUES, max_size=4)


def without_nulls(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {key: without_nulls(item) for key, item in value.items() if item is not None}


@given(OBJECTS, OBJECTS)
def test_a_merge_patch_is_idempotent_and_changes_no_argument(document: dict[str, Any], patch: dict[str, Any]) -> None:
    before, given_patch = copy.deepcopy(document), copy.deepcopy(patch)
    once = merge_patch(document, patch)
    assert merge_patch(once, patch) == once
    assert (document, patch) == (before, given_patch)


@given(OBJECTS)
def test_an_empty_merge_patch_changes_nothing(document: dict[str, Any]) -> None:
    assert merge_patch(document, {}) == document


@given(VALUES, OBJECTS)
def test_a_merge_patch_of_nothing_gives_the_patch_without_nulls(document: Any, patch: dict[str, Any]) -> None:
    assert merge_patch(None, patch) == without_nulls(patch)
    if not isinstance(document, dict):
        assert merge_patch(document, patch) == without_nulls(patch)


@given(OBJECTS, OBJECTS)
def test_a_computed_merge_patch_reaches_its_target(source: dict[str, Any], target: dict[str, Any]) -> None:
    goal = without_nulls(target)
    assert merge_patch(source, difference(source, goal)) == goal


def difference(source: dict[str, Any], target: dict[str, Any]) -> dict[str, Any]:
    patch: dict[str, Any] = {key: None for key in source if key not in target}
    for key, value in target.items():
        old = source.get(key)
        if key not in source or old != value or type(old) is not type(value):
            patch[key] = difference(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
        elif isinstance(value, dict):
            patch[key] = difference(dict(old or {}), value)
    return patch


@pytest.mark.parametrize(
    ("document", "patch", "want"),
    [
        pytest.param({"a": "b"}, {"a": "c"}, {"a": "c"}, id="replaces"),
        pytest.param({"a": "b"}, {"a": None}, {}, id="null removes"),
        pytest.param({"a": ["b"]}, {"a": "c"}, {"a": "c"}, id="a list gives way"),
        pytest.param({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}, id="objects merge"),
        pytest.param(["a", "b"], ["c"], ["c"], id="lists are replaced whole"),
        pytest.param({"a": "foo"}, "bar", "bar", id="what is no object replaces the whole"),
        pytest.param({"e": None}, {"a": 1}, {"e": None, "a": 1}, id="a null that was there stays"),
        pytest.param({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}, id="nulls vanish below"),
    ],
)
def test_merge_patches_of_rfc_7386(document: Any, patch: Any, want: Any) -> None:
    assert merge_patch(document, patch) == want


DOCUMENT = {"data": {"a": "1"}, "list": ["x", "y"], "q/r": {"s~t": 1}}


@pytest.mark.parametrize(
    ("operations", "want"),
    [
        pytest.param([{"op": "add", "path": "/data/b", "value": 2}], {"data": {"a": "1", "b": 2}}, id="add"),
        pytest.param([{"op": "add", "path": "/list/1", "value": "z"}], {"list": ["x", "z", "y"]}, id="insert"),
        pytest.param([{"op": "add", "path": "/list/-", "value": "z"}], {"list": ["x", "y", "z"]}, id="append"),
        pytest.param([{"op": "remove", "path": "/list/0"}], {"list": ["y"]}, id="remove an item"),
        pytest.param(
            [{"op": "replace", "path": "/data/zz", "value": 1}], {"data": {"a": "1", "zz": 1}}, id="replace adds"
        ),
        pytest.param(
            [{"op": "move", "from": "/data/a", "path": "/list/0"}], {"data": {}, "list": ["1", "x", "y"]}, id="move"
        ),
        pytest.param([{"op": "copy", "from": "/nothing", "path": "/n"}], {"n": None}, id="copy of nothing"),
        pytest.param([{"op": "test", "path": "/data/zz", "value": None}], {}, id="test of an absent member for null"),
        pytest.param([{"op": "replace", "path": "/q~1r/s~0t", "value": 2}], {"q/r": {"s~t": 2}}, id="escapes"),
        pytest.param([{"op": "add", "path": "/data/n"}], {"data": {"a": "1", "n": None}}, id="no value is null"),
    ],
)
def test_json_patches_that_apply(operations: list[Any], want: dict[str, Any]) -> None:
    assert json_patch(DOCUMENT, operations) == {**DOCUMENT, **want}


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "test", "path": "/data/a", "value": "2"},
        {"op": "test", "path": "/data/a", "value": 1},
        {"op": "remove", "path": "/data/zz"},
        {"op": "add", "path": "/nothing/a", "value": 1},
        {"op": "add", "path": "/list/3", "value": 1},
        {"op": "add", "path": "/list/x", "value": 1},
        {"op": "remove", "path": "/list/2"},
        {"op": "replace", "path": "", "value": {}},
        {"op": "add", "path": "data", "value": 1},
        {"op": "turn", "path": "/data"},
        {"path": "/data/a"},
        {"op": "move", "from": "/data/zz", "path": "/b"},
    ],
)
def test_a_json_patch_that_does_not_apply_is_refused_and_changes_nothing(operation: dict[str, Any]) -> None:
    before = copy.deepcopy(DOCUMENT)
    outcome = json_patch(DOCUMENT, [{"op": "add", "path": "/data/new", "value": 1}, operation])
    assert isinstance(outcome, Refused)
    assert (outcome.code, outcome.reason) == (422, "Invalid")
    assert before == DOCUMENT


@pytest.mark.parametrize(
    ("operations", "code", "message"),
    [
        ({}, 400, "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"),
        ([1], 400, "error decoding patch: json: cannot unmarshal number into Go value of type handlers.jsonPatchOp"),
        ([{}] * (MAX_OPERATIONS + 1), 413, "The allowed maximum operations in a JSON patch is 10000, got 10001"),
    ],
)
def test_json_patches_that_are_none(operations: Any, code: int, message: str) -> None:
    outcome = json_patch(DOCUMENT, operations)
    assert isinstance(outcome, Refused)
    assert (outcome.code, outcome.message) == (code, message)


def test_copies_that_double_each_time_come_to_an_end() -> None:
    """2^40 values out of forty operations."""
    doubling = [{"op": "copy", "from": "/list", "path": "/list/-"}] * 40
    outcome = json_patch(DOCUMENT, doubling)
    assert isinstance(outcome, Refused)
    assert outcome.code == 422
    assert not isinstance(json_patch(DOCUMENT, doubling[:10]), Refused)

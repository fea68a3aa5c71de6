"""The view of an object, and the marks that placing, draining, releasing and revoking leave on it."""

from __future__ import annotations

import hashlib
import json
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from situate.cluster.patch.patches import json_patch
from situate.objects.selection.label_selectors import valid_label_value
from situate.sharding.model.field_paths import Content, FieldPaths
from situate.sharding.model.names import ARCHIVED, DRAIN, EPOCH, EXECUTOR, FINALIZER, LOSSES, PREFIX, REVOKED, TERM
from situate.sharding.model.object_view import (
    DrainRequest,
    Holder,
    Placement,
    Revocation,
    assigned_content,
    completed_content,
    content_without_finalizer,
    drain_requested_content,
    executor_label,
    released_content,
    revoked_content,
    view_of,
)
from situate.sharding.model.patches import guarded_patch
from tests.sharding.builders import WALL, report

ADAPTER = FieldPaths()
LATER = WALL + timedelta(seconds=30)
PLACEMENT = Placement(Holder("a", "ua"), 7, WALL, "new", FINALIZER)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.rule("sharding:S3", "sharding:K6")
def test_one_write_places_an_object() -> None:
    view = view_of(report(finalizers=("x/y",)), ADAPTER)
    after = view_of(assigned_content(view, ADAPTER, PLACEMENT), ADAPTER)
    assert after.holder == Holder("a", "ua")
    assert (after.epoch, after.term, after.why, after.assigned_at) == (1, 7, "new", WALL)
    assert after.finalizers == ("x/y", FINALIZER)
    assert after.labels[EXECUTOR] == "a"
    assert not after.faults
    assert not after.oddities


def test_placing_again_leaves_nothing_of_the_last_time() -> None:
    view = view_of(report(), ADAPTER)
    taken = view_of(
        revoked_content(view_of(assigned_content(view, ADAPTER, PLACEMENT), ADAPTER), ADAPTER, 7, "drain", (WALL,)),
        ADAPTER,
    )
    assert (taken.holder, taken.epoch, taken.losses) == (None, 2, (WALL,))
    assert taken.revoked == Revocation(2, "drain", "ua", "a")
    again = view_of(assigned_content(taken, ADAPTER, PLACEMENT), ADAPTER)
    assert (again.epoch, again.revoked, again.drain, again.losses) == (3, None, None, ())
    assert again.finalizers == (FINALIZER,), "the finalizer is there once"


def test_without_an_archive_there_is_no_finalizer() -> None:
    without = Placement(Holder("a", "ua"), 7, WALL, "new", None)
    assert view_of(assigned_content(view_of(report(), ADAPTER), ADAPTER, without), ADAPTER).finalizers == ()


@pytest.mark.rule("sharding:S3")
def test_a_release_keeps_the_epoch_and_takes_all_else_away() -> None:
    view = view_of(assigned_content(view_of(report(), ADAPTER), ADAPTER, PLACEMENT), ADAPTER)
    asked = view_of(drain_requested_content(view, DrainRequest(1, LATER, "drain")), ADAPTER)
    assert asked.drain == DrainRequest(1, LATER, "drain")
    given_up = view_of(released_content(asked.content, ADAPTER), ADAPTER)
    assert (given_up.holder, given_up.epoch, given_up.drain) == (None, 1, None)
    assert EXECUTOR not in given_up.labels


def test_a_drain_request_of_an_earlier_epoch_is_void() -> None:
    assert view_of(report(epoch=2, annotations={DRAIN: str(DrainRequest(1, LATER, "drain"))}), ADAPTER).drain is None
    assert view_of(report(epoch=2, annotations={REVOKED: "1 drain ua a"}), ADAPTER).revoked is None
    assert view_of(report(epoch=2, annotations={REVOKED: "2 drain  "}), ADAPTER).revoked == Revocation(
        2, "drain", "", ""
    )


def test_the_finalizer_goes_with_the_term_and_the_digest() -> None:
    view = view_of(report(ours=True, finalizers=("x/y",)), ADAPTER)
    after = view_of(content_without_finalizer(view, FINALIZER, 9, "sha256:1"), ADAPTER)
    assert (after.finalizers, after.term, after.archived) == (("x/y",), 9, "sha256:1")
    assert ARCHIVED not in view_of(content_without_finalizer(view, FINALIZER, 9), ADAPTER).annotations


def test_the_supervisor_completes_with_a_reason() -> None:
    after = view_of(completed_content(view_of(report(), ADAPTER), ADAPTER, WALL, False, "ExecutorLost"), ADAPTER)
    assert (after.completed, after.successful, after.reason) == (True, False, "ExecutorLost")


@pytest.mark.rule("sharding:S3")
class Hasty(FieldPaths):
    """An adapter of a user's, for objects that have all that it looks at."""

    def assigned_to(self, obj: Content) -> str | None:
        return str(obj["spec"]["worker"]["name"])

    def completed_at(self, obj: Content) -> datetime | None:
        raise ZeroDivisionError

    def successful(self, obj: Content) -> bool | None:
        raise RuntimeError("not yet")


@pytest.mark.rule("sharding:K6")
def test_an_adapter_that_raises_is_a_fault_of_that_object() -> None:
    """Raised further, it would keep the object from being known at all: nobody would hear of it."""
    view = view_of(report(), Hasty())
    assert view.faults == (
        "the adapter's assigned_to raised KeyError('worker'); correct the adapter",
        "the adapter's completed_at raised ZeroDivisionError(); correct the adapter",
    )
    assert view.oddities == ("the adapter's successful raised RuntimeError('not yet'); correct the adapter",)


@pytest.mark.parametrize(
    "annotations",
    [
        {EPOCH: "-1"},
        {EPOCH: "1.0"},
        {EPOCH: "٣"},
        {EPOCH: ""},
        {EPOCH: "9" * 19},
        {EPOCH: "9" * 200_000},
        {TERM: "one"},
    ],
)
def test_a_fence_that_cannot_be_read_is_a_fault(annotations: dict[str, str]) -> None:
    """Read as 0 it would give epochs out twice."""
    (fault,) = view_of(report(annotations=annotations), ADAPTER).faults
    assert "Report work/o1: annotation sharding.situate.dev/" in fault
    assert "allowed: whole numbers from 0" in fault
    assert len(fault) < 400


@pytest.mark.parametrize("name", ["assigned-at", "drain", "revoked", "losses", "archive-hold", "migratable"])
def test_advice_that_cannot_be_read_counts_as_absent(name: str) -> None:
    view = view_of(report(annotations={PREFIX + name: "¿"}), ADAPTER)
    assert not view.faults
    assert len(view.oddities) == 1
    assert (view.assigned_at, view.drain, view.revoked, view.losses, view.held, view.migratable) == (
        None,
        None,
        None,
        (),
        False,
        True,
    )


def test_a_status_that_cannot_be_read() -> None:
    view = view_of({**report(), "status": {"completedAt": "soon", "successful": "maybe"}}, ADAPTER)
    assert (len(view.faults), len(view.oddities), view.completed) == (1, 1, False)


@pytest.mark.parametrize("executor", ["a", "a-1.b", "A" * 63])
def test_an_id_that_a_label_may_hold_is_the_label(executor: str) -> None:
    assert executor_label(executor) == executor


@pytest.mark.parametrize("executor", ["north/a", "a" * 64, "-a", "ä", ""])
def test_any_other_id_is_hashed(executor: str) -> None:
    assert executor_label(executor) == hashlib.sha256(executor.encode()).hexdigest()[:32]
    assert valid_label_value(executor_label(executor))


def test_owner_hold_and_losses() -> None:
    marks = {PREFIX + "archive-hold": "true", PREFIX + "migratable": "false", LOSSES: "2026-01-01T00:00:00Z"}
    view = view_of(report(owner="boss", annotations=marks), ADAPTER)
    assert (view.owner_uid, view.held, view.migratable, view.losses) == ("boss", True, False, (WALL,))


@given(st.dictionaries(st.sampled_from(["metadata", "spec", "status", "kind"]), JSON, max_size=4))
def test_whatever_an_object_is_it_can_be_viewed(content: dict[str, Any]) -> None:
    view = view_of(content, ADAPTER)
    assert view.epoch >= 0
    if not view.faults:
        after = view_of(assigned_content(view, ADAPTER, PLACEMENT), ADAPTER)
        assert (after.epoch, after.holder) == (view.epoch + 1, PLACEMENT.holder)


@given(st.dictionaries(st.text(max_size=3), JSON, max_size=4), st.dictionaries(st.text(max_size=3), JSON, max_size=4))
def test_a_patch_makes_the_one_of_the_other(before: dict[str, Any], after: dict[str, Any]) -> None:
    metadata = {"metadata": {"uid": "u", "resourceVersion": "3"}}
    before, after = {**before, **metadata}, {**after, **metadata}
    patch = [dict(operation) for operation in guarded_patch(before, after)]
    assert json_patch(before, patch) == after
    assert bool(patch) is (_typed(before) != _typed(after))


def _typed(value: Any) -> str:
    """True is not 1 in JSON, and the order of members is nothing."""
    return json.dumps(value, sort_keys=True)


@pytest.mark.rule("sharding:S9")
def test_a_patch_lands_on_the_object_and_the_version_that_it_was_made_for() -> None:
    view = view_of(report(version=5), ADAPTER)
    uid, version, *_ = guarded_patch(view.content, assigned_content(view, ADAPTER, PLACEMENT))
    assert uid == {"op": "test", "path": "/metadata/uid", "value": "o1"}
    assert version == {"op": "replace", "path": "/metadata/resourceVersion", "value": "5"}
    patch = [dict(operation) for operation in guarded_patch(view.content, assigned_content(view, ADAPTER, PLACEMENT))]
    other = {**report(version=5), "metadata": {**report(version=5)["metadata"], "uid": "another"}}
    assert not isinstance(json_patch(other, patch), dict), "a successor of the same name is another object"
    assert guarded_patch(view.content, view.content) == ()

"""When objects are archived, and every step and failure on the way.

Every order of steps, failures, crashes and edits: tests/testing/sharding/test_exploration.py.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from situate.archive.records.equality import content_digest
from situate.cluster.patch.patches import json_patch
from situate.sharding.assignment.archive_steps import (
    REFUSED_CAP_S,
    RETRY_CAP_S,
    ArchiveProgress,
    ArchiveStep,
    Deleted,
    Finished,
    Gone,
    OutcomeContext,
    Read,
    ReadBack,
    RecordCorrupt,
    RecordMissing,
    Refused,
    Released,
    Retry,
    StepOutcome,
    Stored,
    Superseded,
    Unavailable,
    archive_due_s,
    completion_ranks,
    finalizer_removal_write,
    is_archived_unchanged,
    marks_of,
    next_progress,
)
from situate.sharding.model.names import ARCHIVE_HOLD, ARCHIVED
from situate.sharding.model.object_view import ObjectView, view_of
from situate.sharding.model.supervisor_config import ArchiveTtl, OnUnavailable, SupervisorConfig
from tests.sharding.builders import wall
from tests.sharding.deciding import ADAPTER, T, held, view

CONFIG = SupervisorConfig(archive_ttl=300)
MOMENT = OutcomeContext(T, wall(T), CONFIG)
DONE = view(completed=0, ours=True, version=7)


@pytest.mark.rule("sharding:K11", "sharding:K16")
@pytest.mark.parametrize(
    ("seen", "config", "rank", "expected"),
    [
        pytest.param(view(completed=T - 300), {"archive_ttl": 300}, None, 0, id="at the TTL"),
        pytest.param(view(completed=T - 301), {"archive_ttl": 300}, None, -1, id="over it"),
        pytest.param(view(completed=T + 5), {"archive_ttl": 0}, None, 5, id="by a clock that is ahead"),
        pytest.param(view(completed=0), {}, None, math.inf, id="no TTL"),
        pytest.param(view(), {"archive_ttl": 0}, None, math.inf, id="not completed"),
        pytest.param(
            view(completed=T - 100, successful=True), {"archive_ttl": ArchiveTtl(60, 86400)}, None, -40, id="successful"
        ),
        pytest.param(
            view(completed=T - 100, successful=False),
            {"archive_ttl": ArchiveTtl(60, None)},
            None,
            math.inf,
            id="failed",
        ),
        pytest.param(view(completed=T - 100), {"archive_ttl": ArchiveTtl(None, 100)}, None, 0, id="it does not say"),
        pytest.param(
            view(completed=0, annotations={ARCHIVE_HOLD: "true"}), {"archive_ttl": 0}, None, math.inf, id="held"
        ),
        pytest.param(
            view(completed=0), {"archive_ttl": 0, "keep_last_per_owner": 2}, 2, math.inf, id="one of the last"
        ),
        pytest.param(view(completed=T), {"archive_ttl": 0, "keep_last_per_owner": 2}, 3, 0, id="one before them"),
        pytest.param(view(completed=T), {"archive_ttl": 0, "keep_last_per_owner": 2}, None, 0, id="nobody's"),
        pytest.param(view(completed=0, created=T - 10), {"archive_ttl": 300}, None, 290, id="restored"),
        pytest.param(
            view(completed=0), {"archive_ttl": 0, "archive_when": lambda _: False}, None, math.inf, id="asked, and no"
        ),
    ],
)
def test_when(seen: ObjectView, config: dict[str, Any], rank: int | None, expected: float) -> None:
    assert archive_due_s(seen, SupervisorConfig(**config), wall(T), rank) == pytest.approx(expected)


def test_ranks_within_an_owner() -> None:
    views = [
        view("old", completed=1, owner="x"),
        view("new", completed=9, owner="x"),
        view("same", completed=1, owner="x"),
        view("open", owner="x"),
        view("other", completed=1, owner="y"),
        view("nobody", completed=1),
    ]
    assert completion_ranks(views) == {"new": 1, "same": 2, "old": 3, "other": 1}


def played(
    progress: ArchiveProgress, *outcomes: StepOutcome, moment: OutcomeContext = MOMENT
) -> ArchiveProgress | Retry | Finished:
    state: ArchiveProgress | Retry | Finished = progress
    for outcome in outcomes:
        state = state.progress if isinstance(state, Retry) else state
        assert isinstance(state, ArchiveProgress), f"{state} comes before {outcome}"
        state = next_progress(state, outcome, moment)
    return state


def step(state: ArchiveProgress | Retry | Finished) -> ArchiveStep:
    assert isinstance(state, ArchiveProgress), state
    return state.step


READ, STORED, BACK = Read(DONE), Stored("sha256:1"), ReadBack("sha256:1", "7")
AWAY = Unavailable("the archive is away", archive=True)


@pytest.mark.rule("sharding:S7", "sharding:S9")
def test_the_five_steps() -> None:
    start = ArchiveProgress("o1", delete=True)
    assert start.step is ArchiveStep.READ
    assert step(played(start, READ)) is ArchiveStep.PUT
    assert step(played(start, READ, STORED)) is ArchiveStep.VERIFY
    assert step(played(start, READ, STORED, BACK)) is ArchiveStep.RELEASE
    assert step(played(start, READ, STORED, BACK, Released(DONE))) is ArchiveStep.DELETE
    assert isinstance(played(start, READ, STORED, BACK, Released(DONE), Deleted()), Finished)


def test_a_users_delete_needs_no_delete_of_ours() -> None:
    deleting = Read(view(deleting=True, ours=True, version=7))
    assert isinstance(played(ArchiveProgress("o1", delete=True), deleting, STORED, BACK, Released(DONE)), Finished)


@pytest.mark.rule("sharding:S7")
@pytest.mark.parametrize(
    ("found", "alert"),
    [
        (ReadBack("sha256:2", "7"), True),
        (ReadBack("sha256:1", "6"), True),
        (RecordMissing(), False),
        (RecordCorrupt("torn"), True),
        (AWAY, False),
    ],
)
def test_what_is_not_read_back_lets_nothing_go(found: StepOutcome, alert: bool) -> None:
    state = played(ArchiveProgress("o1", delete=True), READ, STORED, found)
    assert isinstance(state, Retry)
    assert (state.alert, state.condition, state.cap_s) == (alert, True, RETRY_CAP_S)
    assert state.progress.step is ArchiveStep.READ
    assert state.progress.failures == 1


@pytest.mark.rule("sharding:S7")
@pytest.mark.parametrize("done", [(), (READ, STORED, BACK), (READ, STORED, BACK, Released(DONE))])
def test_a_conflict_leads_back_to_the_reading(done: tuple[StepOutcome, ...]) -> None:
    state = played(ArchiveProgress("o1", delete=True), *done, Superseded())
    assert step(state) is ArchiveStep.READ
    assert step(played(ArchiveProgress("o1", delete=True), READ, Superseded())) is ArchiveStep.READ, (
        "the archive had a newer one"
    )


@pytest.mark.rule("sharding:S9")
def test_a_successor_of_the_name_is_untouched() -> None:
    state = played(ArchiveProgress("o1", delete=True), Read(view("o2", completed=0, ours=True)))
    assert state == Finished("another object now has this name")
    assert isinstance(played(ArchiveProgress("o1", delete=True), READ, STORED, BACK, Gone()), Finished)


def test_failures_add_up_and_are_forgotten_with_the_first_success() -> None:
    outage = played(ArchiveProgress("o1", delete=True), READ, AWAY, READ, AWAY, READ, AWAY)
    assert isinstance(outage, Retry)
    assert outage.progress.failures == 3
    over = played(outage.progress, READ, STORED, BACK)
    assert isinstance(over, ArchiveProgress)
    assert (over.failures, over.failing_since) == (0, None)


def test_what_is_refused_is_tried_again_once_in_a_while() -> None:
    state = played(ArchiveProgress("o1", delete=True), READ, Refused("too large"))
    assert isinstance(state, Retry)
    assert (state.cap_s, state.condition, state.message) == (REFUSED_CAP_S, True, "too large")
    fenced = played(ArchiveProgress("o1", delete=True), READ, STORED, BACK, Refused("of an older term"))
    assert isinstance(fenced, Retry)
    assert (fenced.cap_s, fenced.condition) == (REFUSED_CAP_S, False), "it is not the archive that fails"


@pytest.mark.parametrize(
    ("policy", "deleting", "archive", "waited", "released"),
    [
        (OnUnavailable.RELEASE, True, True, 300.0, True),
        (OnUnavailable.RELEASE, True, True, 299.0, False),
        (OnUnavailable.RELEASE, False, True, 300.0, False),
        (OnUnavailable.RELEASE, True, False, 300.0, False),
        (OnUnavailable.WAIT, True, True, 1e6, False),
    ],
)
def test_a_users_delete_may_be_let_through(
    policy: OnUnavailable, deleting: bool, archive: bool, waited: float, released: bool
) -> None:
    config = replace(CONFIG, archive_on_unavailable=policy, release_after=300.0)
    seen, away = Read(view(completed=0, ours=True, deleting=deleting)), Unavailable("away", archive=archive)
    first = played(ArchiveProgress("o1", delete=False), seen, away, moment=replace(MOMENT, config=config))
    assert isinstance(first, Retry)
    late = played(
        first.progress, seen, away, moment=replace(MOMENT, now=T + waited, wall=wall(T + waited), config=config)
    )
    assert (isinstance(late, ArchiveProgress) and late.step is ArchiveStep.RELEASE and late.digest == "") is released
    assert isinstance(late, Retry) is not released


def test_what_is_not_wanted_any_longer_is_left() -> None:
    for seen in (view(completed=0, ours=True, annotations={ARCHIVE_HOLD: "true"}), view(ours=True)):
        assert isinstance(played(ArchiveProgress("o1", delete=True), Read(seen)), Finished)
    assert isinstance(
        played(ArchiveProgress("o1", delete=True), Read(view(deleting=True, finalizers=("x/y",)))), Finished
    )


@pytest.mark.rule("sharding:S8", "sharding:X10")
def test_after_a_crash_the_object_is_only_deleted() -> None:
    released = _patched(DONE, finalizer_removal_write(DONE, CONFIG, 3, archived=True))
    assert (released.finalizers, released.term, bool(released.archived)) == ((), 3, True)
    assert is_archived_unchanged(released, CONFIG)
    assert step(played(ArchiveProgress("o1", delete=True), Read(released))) is ArchiveStep.DELETE
    edited = view_of({**released.content, "spec": {"pages": 4}}, ADAPTER)
    assert step(played(ArchiveProgress("o1", delete=True), Read(edited))) is ArchiveStep.PUT, (
        "it is no longer what was archived"
    )
    copied = view_of({**released.content, "metadata": {**released.content["metadata"], "uid": "o2"}}, ADAPTER)
    assert not is_archived_unchanged(copied, CONFIG), "a copy with all its annotations was never archived"


def test_our_marks_are_no_part_of_what_is_archived() -> None:
    seen = held(completed=0, ours=True)
    bare = view_of({**seen.content, "metadata": {"name": "o1", "namespace": "work", "uid": "o1"}}, ADAPTER)
    assert content_digest(seen.content, marks_of(CONFIG)) == content_digest(bare.content, marks_of(CONFIG))


def test_let_through_without_a_copy_there_is_no_digest() -> None:
    assert ARCHIVED not in _patched(DONE, finalizer_removal_write(DONE, CONFIG, 3, archived=False)).annotations


def _patched(seen: ObjectView, write: Any) -> ObjectView:
    done = json_patch(dict(seen.content), [dict(each) for each in write.operations])
    assert isinstance(done, dict)
    return view_of(done, ADAPTER)


@given(
    st.lists(st.sampled_from([READ, STORED, BACK, AWAY, RecordMissing(), RecordCorrupt(""), Superseded(), Refused("")]))
)
def test_nothing_but_a_verified_copy_lets_the_finalizer_go(outcomes: list[StepOutcome]) -> None:
    state: ArchiveProgress | Retry | Finished = ArchiveProgress("o1", delete=True)
    last: list[StepOutcome] = []
    for outcome in outcomes:
        state = state.progress if isinstance(state, Retry) else state
        if isinstance(state, Finished):
            break
        if not _fits(state.step, outcome):
            continue
        state = next_progress(state, outcome, MOMENT)
        last.append(outcome)
        if isinstance(state, ArchiveProgress) and state.step is ArchiveStep.RELEASE:
            assert last[-3:] == [READ, STORED, BACK]


def _fits(at: ArchiveStep, outcome: StepOutcome) -> bool:
    """Whether the step can have that outcome."""
    special = {
        Read: ArchiveStep.READ,
        Stored: ArchiveStep.PUT,
        ReadBack: ArchiveStep.VERIFY,
        RecordMissing: ArchiveStep.VERIFY,
        RecordCorrupt: ArchiveStep.VERIFY,
    }
    return special.get(type(outcome), at) is at

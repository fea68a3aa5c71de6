"""The table of fencing, row by row (sharding.md, 8.2)."""

from __future__ import annotations

import pytest

from situate.sharding.fencing.admit import Refusal, Role, Writer, WriteRequest, admit
from situate.sharding.model.field_paths import Content
from situate.sharding.model.names import ASSIGNED_AT, EPOCH, EXECUTOR, EXECUTOR_UID, FINALIZER, REVOKED, TERM
from situate.sharding.model.object_view import (
    DrainRequest,
    Holder,
    completed_content,
    content_without_finalizer,
    drain_requested_content,
    view_of,
)
from tests.sharding.fencing.fenced_writes import (
    FENCE,
    HOLDER_A,
    HOLDER_B,
    NOW,
    PATHS,
    SUPERVISOR,
    USER,
    A,
    B,
    annotated,
    assigned,
    given_up,
    of_a,
    taken,
    with_spec,
    with_status,
    work,
)
from tests.sharding.fencing.token_checker import TokenChecker

DONE_BY_A = PATHS.complete(of_a(), NOW, True)
HALF = annotated(assigned(work(), Holder("a", "uid-a")), {EXECUTOR_UID: None})


def status(writer: Writer, stored: Content, epoch: int | None = None) -> WriteRequest:
    return WriteRequest(writer, with_status(stored, progress=2), "status", epoch)


def labelled(obj: Content, label: str) -> Content:
    return {**obj, "metadata": {**obj["metadata"], "labels": {EXECUTOR: label}}}


def requested_drain() -> DrainRequest:
    drain = view_of(of_a(drained=True), PATHS).drain
    assert drain is not None
    return drain


STATUS = [
    pytest.param(of_a(), status(A, of_a(), 1), None, id="the holder writes"),
    pytest.param(of_a(), WriteRequest(A, PATHS.complete(of_a(), NOW, True), "status"), None, id="the holder completes"),
    pytest.param(of_a(), status(A, of_a(), 0), Refusal.EPOCH, id="under an old epoch"),
    pytest.param(of_a(), status(A, of_a(), 2), Refusal.EPOCH, id="under an epoch that was guessed"),
    pytest.param(of_a(), status(B, of_a(), 1), Refusal.NOT_HOLDER, id="another executor"),
    pytest.param(of_a(), status(Writer(Role.EXECUTOR), of_a()), Refusal.NOT_HOLDER, id="credentials of no pod"),
    pytest.param(work(), status(A, work()), Refusal.NOT_HOLDER, id="of an object that nobody holds"),
    pytest.param(
        work(), status(Writer(Role.EXECUTOR), work()), Refusal.NOT_HOLDER, id="nobody's pod is not nobody's object"
    ),
    pytest.param(DONE_BY_A, status(A, DONE_BY_A, 1), Refusal.FINAL, id="after completion"),
    pytest.param(DONE_BY_A, status(USER, DONE_BY_A), Refusal.FINAL, id="a user after completion"),
    pytest.param(DONE_BY_A, WriteRequest(A, DONE_BY_A, "status"), Refusal.NOT_HOLDER, id="the same again"),
    pytest.param(of_a(), WriteRequest(B, of_a(), "status"), Refusal.NOT_HOLDER, id="nothing, but under false colours"),
    pytest.param(of_a(), status(USER, of_a()), None, id="a user while it is open"),
    *(
        pytest.param(
            with_status(of_a(), completedAt=wrong), WriteRequest(USER, of_a(), "status"), None, id=f"mends {wrong}"
        )
        for wrong in (True, "yesterday", {"at": "2026-01-01T00:00:00Z"})
    ),
    pytest.param(
        DONE_BY_A,
        WriteRequest(SUPERVISOR, with_status(DONE_BY_A, conditions=[{"type": "ArchiveFailed"}]), "status"),
        None,
        id="the supervisor tells what becomes of it",
    ),
    pytest.param(
        DONE_BY_A,
        WriteRequest(A, with_status(DONE_BY_A, conditions=[{"type": "X"}]), "status"),
        Refusal.FINAL,
        id="nobody else does",
    ),
    pytest.param(
        of_a(),
        WriteRequest(
            SUPERVISOR, completed_content(view_of(of_a(), PATHS), PATHS, NOW, False, "ExecutorLost"), "status"
        ),
        None,
        id="the supervisor fails what was lost",
    ),
]


@pytest.mark.rule("sharding:S2", "sharding:X4")
@pytest.mark.parametrize(("stored", "request_", "want"), STATUS)
def test_status(stored: Content, request_: WriteRequest, want: Refusal | None) -> None:
    assert admit(stored, request_, FENCE) == want


RELEASE = [
    pytest.param(of_a(drained=True), WriteRequest(A, given_up(of_a()), epoch=1), None, id="asked to"),
    pytest.param(of_a(), WriteRequest(A, given_up(of_a())), None, id="of its own accord"),
    pytest.param(of_a(), WriteRequest(B, given_up(of_a())), Refusal.NOT_RELEASED, id="by another"),
    pytest.param(DONE_BY_A, WriteRequest(A, given_up(DONE_BY_A)), Refusal.NOT_RELEASED, id="after completion"),
    pytest.param(given_up(of_a()), WriteRequest(A, given_up(of_a())), None, id="twice changes nothing"),
    pytest.param(
        of_a(), WriteRequest(A, annotated(given_up(of_a()), {EPOCH: "2"})), Refusal.NOT_RELEASED, id="with a new epoch"
    ),
    pytest.param(
        of_a(), WriteRequest(A, annotated(given_up(of_a()), {EPOCH: None})), Refusal.NOT_RELEASED, id="without epoch"
    ),
    pytest.param(
        of_a(), WriteRequest(A, annotated(given_up(of_a()), {REVOKED: "x"})), Refusal.NOT_RELEASED, id="with a note"
    ),
    pytest.param(
        of_a(), WriteRequest(A, labelled(given_up(of_a()), "a")), Refusal.NOT_RELEASED, id="but for the label"
    ),
    pytest.param(
        of_a(drained=True),
        WriteRequest(A, annotated(given_up(of_a()), dict(of_a(drained=True)["metadata"]["annotations"]))),
        Refusal.NOT_RELEASED,
        id="but for all of the annotations",
    ),
    pytest.param(of_a(), WriteRequest(A, PATHS.assign_to(of_a(), "b")), Refusal.NOT_RELEASED, id="to another executor"),
    pytest.param(of_a(), WriteRequest(A, assigned(of_a(), HOLDER_B)), Refusal.NOT_RELEASED, id="reassigning"),
    pytest.param(of_a(), WriteRequest(A, with_spec(of_a(), work=2)), None, id="an executor edits what is anybody's"),
]


@pytest.mark.rule("sharding:S2", "sharding:S5", "sharding:X4")
@pytest.mark.parametrize(("stored", "request_", "want"), RELEASE)
def test_release(stored: Content, request_: WriteRequest, want: Refusal | None) -> None:
    assert admit(stored, request_, FENCE) == want


REVOKED_OF_A = taken(of_a())


ASSIGNMENT = [
    pytest.param(work(), WriteRequest(SUPERVISOR, assigned(work(), HOLDER_A), epoch=0), None, id="first"),
    pytest.param(of_a(), WriteRequest(SUPERVISOR, assigned(work(), HOLDER_A), epoch=0), Refusal.EPOCH, id="repeated"),
    pytest.param(of_a(), WriteRequest(SUPERVISOR, assigned(of_a(), HOLDER_B)), None, id="of the lost"),
    pytest.param(given_up(of_a()), WriteRequest(SUPERVISOR, assigned(given_up(of_a()), HOLDER_B)), None, id="released"),
    pytest.param(REVOKED_OF_A, WriteRequest(SUPERVISOR, assigned(REVOKED_OF_A, HOLDER_B)), None, id="revoked"),
    pytest.param(of_a(), WriteRequest(SUPERVISOR, REVOKED_OF_A), None, id="revoking"),
    pytest.param(of_a(), WriteRequest(A, REVOKED_OF_A), Refusal.NOT_RELEASED, id="revoking by an executor"),
    pytest.param(of_a(), WriteRequest(USER, REVOKED_OF_A), Refusal.NOT_SUPERVISOR, id="revoking by a user"),
    pytest.param(work(), WriteRequest(USER, assigned(work(), HOLDER_A)), Refusal.NOT_SUPERVISOR, id="by a user"),
    pytest.param(None, WriteRequest(USER, of_a()), Refusal.NOT_SUPERVISOR, id="created so by a user"),
    pytest.param(None, WriteRequest(USER, work()), None, id="created"),
    pytest.param(
        of_a(),
        WriteRequest(SUPERVISOR, annotated(assigned(of_a(), HOLDER_B), {EPOCH: "1"})),
        Refusal.STEP,
        id="no step",
    ),
    pytest.param(
        of_a(), WriteRequest(SUPERVISOR, annotated(assigned(of_a(), HOLDER_B), {EPOCH: "3"})), Refusal.STEP, id="two"
    ),
    pytest.param(
        work(epoch="x"), WriteRequest(SUPERVISOR, assigned(work(), HOLDER_A)), Refusal.STEP, id="from what is no number"
    ),
    pytest.param(work(epoch="7"), WriteRequest(SUPERVISOR, work(epoch="0")), Refusal.STEP, id="epoch lowered"),
    pytest.param(work(), WriteRequest(SUPERVISOR, HALF), Refusal.HALF, id="without an incarnation"),
    pytest.param(DONE_BY_A, WriteRequest(SUPERVISOR, assigned(DONE_BY_A, HOLDER_B)), Refusal.AGAIN, id="completed"),
    pytest.param(
        work(completed=True),
        WriteRequest(SUPERVISOR, assigned(work(completed=True), HOLDER_B)),
        Refusal.AGAIN,
        id="completed without assignment",
    ),
    pytest.param(
        assigned(work(), HOLDER_A, term=4),
        WriteRequest(SUPERVISOR, assigned(assigned(work(), HOLDER_A, term=4), HOLDER_B, term=3)),
        Refusal.OLD_TERM,
        id="of an older term",
    ),
    pytest.param(
        work(),
        WriteRequest(SUPERVISOR, assigned(work(), HOLDER_A, term=3), leader_term=4),
        Refusal.STALE_LEADER,
        id="x",
    ),
    pytest.param(
        work(), WriteRequest(SUPERVISOR, assigned(work(), HOLDER_A, term=4), leader_term=4), None, id="by the leader"
    ),
    pytest.param(
        of_a(), WriteRequest(SUPERVISOR, taken(of_a(), term=3), leader_term=4), Refusal.STALE_LEADER, id="revoking late"
    ),
    pytest.param(
        DONE_BY_A,
        WriteRequest(
            SUPERVISOR, content_without_finalizer(view_of(DONE_BY_A, PATHS), FINALIZER, 3, "d"), leader_term=4
        ),
        Refusal.STALE_LEADER,
        id="letting go of an archived object late",
    ),
    pytest.param(
        DONE_BY_A,
        WriteRequest(
            SUPERVISOR, content_without_finalizer(view_of(DONE_BY_A, PATHS), FINALIZER, 4, "d"), leader_term=4
        ),
        None,
        id="letting go of an archived object",
    ),
    pytest.param(
        of_a(),
        WriteRequest(SUPERVISOR, drain_requested_content(view_of(of_a(), PATHS), requested_drain())),
        None,
        id="asking to drain",
    ),
    pytest.param(labelled(of_a(), "b"), WriteRequest(SUPERVISOR, of_a()), None, id="putting a label right"),
]


@pytest.mark.rule("sharding:S3", "sharding:S6", "sharding:S10", "sharding:X8")
@pytest.mark.parametrize(("stored", "request_", "want"), ASSIGNMENT)
def test_assignment(stored: Content | None, request_: WriteRequest, want: Refusal | None) -> None:
    assert admit(stored, request_, FENCE) == want


ROWS = (*STATUS, *RELEASE, *ASSIGNMENT)


@pytest.mark.parametrize(
    "edited",
    [
        pytest.param(with_spec(of_a(), work=2), id="spec"),
        pytest.param(annotated(of_a(), {"example.com/note": "x"}), id="annotation"),
        pytest.param({**of_a(), "metadata": {**of_a()["metadata"], "finalizers": []}}, id="finalizer"),
        pytest.param(
            {**of_a(), "metadata": {**of_a()["metadata"], "labels": {EXECUTOR: "a", "example.com/x": "y"}}}, id="label"
        ),
    ],
)
@pytest.mark.parametrize("writer", [USER, A, B, SUPERVISOR], ids=["user", "holder", "another", "supervisor"])
def test_what_is_anybodys(writer: Writer, edited: Content) -> None:
    assert admit(of_a(), WriteRequest(writer, edited), FENCE) is None


@pytest.mark.parametrize(
    "edited",
    [
        pytest.param(PATHS.assign_to(of_a(), "b"), id="executor"),
        pytest.param(PATHS.assign_to(of_a(), None), id="no executor"),
        pytest.param(labelled(of_a(), "b"), id="label"),
        *(
            pytest.param(annotated(of_a(), {key: value}), id=key.rpartition("/")[2])
            for key, value in [(EPOCH, "2"), (EPOCH, None), (TERM, "9"), (EXECUTOR_UID, "uid-b"), (ASSIGNED_AT, "x")]
        ),
        pytest.param(annotated(of_a(), {REVOKED: "1 uid-a a"}), id="revoked"),
    ],
)
@pytest.mark.parametrize(
    ("writer", "want"),
    [(USER, Refusal.NOT_SUPERVISOR), (A, Refusal.NOT_RELEASED), (B, Refusal.NOT_RELEASED)],
    ids=["user", "holder", "another"],
)
def test_what_is_the_supervisors(writer: Writer, want: Refusal, edited: Content) -> None:
    assert admit(of_a(), WriteRequest(writer, edited), FENCE) == want


@pytest.mark.rule("sharding:S2")
def test_a_sink_refuses_an_earlier_holder() -> None:
    sink = TokenChecker()
    assert sink.accepts("U1:3")
    assert sink.accepts("U1:3"), "a holder may call as often as it likes"
    assert sink.accepts("U2:1"), "objects are told apart"
    assert sink.accepts("U1:4")
    assert not sink.accepts("U1:3")
    assert (sink.highest("U1"), sink.highest("U3")) == ("U1:4", "U3:0")


@pytest.mark.parametrize("token", ["", "U1", "U1:", ":1", "U1:x", "U1:-1", "U1:+5", "U1: 5", "U1:" + "9" * 40])
def test_a_sink_refuses_what_is_no_token(token: str) -> None:
    assert not TokenChecker().accepts(token)

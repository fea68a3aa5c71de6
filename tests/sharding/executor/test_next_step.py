"""What an executor does next about one object, row by row."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from situate.sharding.executor.next_step import (
    ExecutorState,
    Fail,
    Forget,
    ForgoneEpochs,
    HandlerRetries,
    Incarnation,
    LocalState,
    Release,
    Start,
    Step,
    Stop,
    StopReason,
    Wait,
    next_step,
    owns,
)
from situate.sharding.model.field_paths import Content
from situate.sharding.model.names import EPOCH
from situate.sharding.model.object_view import ObjectView, view_of
from tests.sharding.fencing.fenced_writes import (
    HOLDER_A,
    HOLDER_B,
    NOW,
    PATHS,
    annotated,
    assigned,
    given_up,
    objects,
    of_a,
    taken,
    with_spec,
    work,
)

ME = Incarnation("a", "uid-a")
CALM = ExecutorState(ME, now=100.0, leased=True)
RUNNING = LocalState(running=1, running_uid="U")
UNLEASED, DRAINING = replace(CALM, leased=False), replace(CALM, draining=True)


def view(obj: Content) -> ObjectView:
    return view_of(obj, PATHS)


OURS, DRAINED, DONE = view(of_a()), view(of_a(drained=True)), view(PATHS.complete(of_a(), NOW, True))


@pytest.mark.rule("sharding:S11")
@pytest.mark.parametrize(
    ("obj", "want"),
    [
        pytest.param(of_a(), True, id="assigned to this incarnation"),
        pytest.param(work(), False, id="nobody's"),
        pytest.param(assigned(work(), HOLDER_B), False, id="another's"),
        pytest.param(assigned(work(), replace(HOLDER_A, uid="uid-z")), False, id="of an earlier incarnation"),
        pytest.param(PATHS.assign_to(of_a(), "b"), False, id="edited by a user"),
        pytest.param(PATHS.complete(of_a(), NOW, True), False, id="completed"),
        pytest.param(given_up(of_a()), False, id="released"),
        pytest.param(taken(of_a()), False, id="revoked"),
        pytest.param(annotated(of_a(), {EPOCH: "x"}), False, id="with an epoch that cannot be read"),
        pytest.param(annotated(of_a(), {EPOCH: None}), False, id="without epoch"),
        pytest.param(with_spec(of_a(), assignedTo=7), False, id="with an assignment of another type"),
    ],
)
def test_whose_it_is(obj: Content, want: bool) -> None:
    assert owns(view(obj), ME) is want


@pytest.mark.rule("sharding:S11", "sharding:X5")
@pytest.mark.parametrize(
    ("seen", "local", "situation", "want"),
    [
        pytest.param(OURS, LocalState(), CALM, Start(1), id="ours"),
        pytest.param(OURS, LocalState(), UNLEASED, Wait(), id="without a lease nothing is begun"),
        pytest.param(OURS, RUNNING, CALM, Wait(), id="at work"),
        pytest.param(OURS, RUNNING, UNLEASED, Stop(StopReason.LEASE_LOST), id="at work without a lease"),
        pytest.param(DRAINED, RUNNING, CALM, Stop(StopReason.DRAIN), id="asked to stop"),
        pytest.param(DRAINED, LocalState(), CALM, Release(), id="asked to release"),
        pytest.param(DRAINED, LocalState(), UNLEASED, Wait(), id="without a lease nothing is released"),
        pytest.param(OURS, RUNNING, DRAINING, Stop(StopReason.DRAIN), id="about to end"),
        pytest.param(OURS, LocalState(), DRAINING, Release(), id="about to end, nothing runs"),
        pytest.param(None, RUNNING, CALM, Stop(StopReason.NOT_OURS), id="gone"),
        pytest.param(None, LocalState(), CALM, Forget(), id="gone, nothing runs"),
        pytest.param(DONE, RUNNING, CALM, Stop(StopReason.NOT_OURS), id="completed by another"),
        pytest.param(DONE, LocalState(), CALM, Forget(), id="completed"),
        pytest.param(OURS, LocalState(running=7, running_uid="U"), CALM, Stop(StopReason.NOT_OURS), id="a new epoch"),
        pytest.param(OURS, LocalState(running=1, running_uid="V"), CALM, Stop(StopReason.NOT_OURS), id="a new object"),
        pytest.param(OURS, LocalState(forgone=1), CALM, Release(), id="given under a lease that was lost"),
        pytest.param(OURS, LocalState(forgone=0), CALM, Start(1), id="given after it was lost"),
        pytest.param(OURS, LocalState(resume_at=101), CALM, Wait(101), id="rests after a failure"),
        pytest.param(OURS, LocalState(resume_at=100), CALM, Start(1), id="has rested"),
        pytest.param(OURS, LocalState(failures=3), CALM, Start(1), id="may fail for ever"),
        pytest.param(
            OURS, LocalState(failures=3), replace(CALM, max_failures=4), Start(1), id="has not failed too often"
        ),
        pytest.param(OURS, LocalState(failures=3), replace(CALM, max_failures=3), Fail(), id="has failed too often"),
        pytest.param(OURS, LocalState(settled=5), CALM, Wait(), id="settled"),
        pytest.param(OURS, LocalState(settled=4), CALM, Start(1), id="changed since it was settled"),
    ],
)
def test_what_is_next(seen: ObjectView | None, local: LocalState, situation: ExecutorState, want: Step) -> None:
    assert next_step(seen, 5, local, situation) == want


_LOCALS = st.builds(
    LocalState,
    running=st.sampled_from([None, None, 1, 2]),
    running_uid=st.sampled_from(["U", "V"]),
    failures=st.integers(0, 4),
    resume_at=st.sampled_from([None, 99.0, 101.0]),
    settled=st.sampled_from([None, 5]),
    forgone=st.integers(0, 2),
)
_SITUATIONS = st.builds(
    ExecutorState,
    me=st.just(ME),
    now=st.just(100.0),
    leased=st.booleans(),
    draining=st.booleans(),
    max_failures=st.sampled_from([None, 2]),
)


@pytest.mark.rule("sharding:S1", "sharding:S5", "sharding:S11")
@given(objects(), _LOCALS, _SITUATIONS)
def test_whatever_comes(obj: Content, local: LocalState, situation: ExecutorState) -> None:
    seen = view(obj)
    step = next_step(seen, 5, local, situation)
    ours = owns(seen, ME)
    if local.running is not None:
        assert isinstance(step, Stop | Wait), "nothing else is done about an object while its handler runs"
        assert not (isinstance(step, Wait) and (not ours or not situation.leased)), "nor is it left running"
    if isinstance(step, Start | Release | Fail):
        assert ours, "only what is ours is begun or written"
        assert situation.leased, "and only under a lease"
    if isinstance(step, Start):
        assert seen.epoch > local.forgone


@pytest.mark.parametrize(
    ("failures", "asked", "want"),
    [(1, None, 1), (2, None, 2), (5, None, 16), (9, None, 60), (1000, None, 60), (1, 30.0, 30), (7, 30.0, 60)],
)
def test_retries(failures: int, asked: float | None, want: float) -> None:
    assert HandlerRetries(1.0, 60.0).delay_s(failures, asked) == want


def test_forgone() -> None:
    given_under_the_lost_lease = ForgoneEpochs().with_owned({"U": OURS, "V": DONE, "W": view(work())}, ME)
    assert [given_under_the_lost_lease.epoch_of(uid) for uid in "UVW"] == [1, 0, 0]

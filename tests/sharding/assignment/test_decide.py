"""What a supervisor does about one object: the rules of section 5, first match wins."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from situate.sharding.assignment.decide import decide, schedule_if_ready
from situate.sharding.assignment.holder_status import updated_memory
from situate.sharding.model.actions import (
    Action,
    Archive,
    Assign,
    Complete,
    Delete,
    RemoveFinalizer,
    ReportCompleted,
    RequestDrain,
    Revoke,
)
from situate.sharding.model.decision_inputs import INITIAL_MEMORY, ClusterView, Decision, Memory, Ownership
from situate.sharding.model.errors import NoCapacity, NoMetrics
from situate.sharding.model.executors import ExecutorStatus
from situate.sharding.model.names import EPOCH, FINALIZER, Reason
from situate.sharding.model.object_view import Holder, ObjectView
from situate.sharding.model.supervisor_config import SupervisorConfig
from tests.sharding.builders import wall
from tests.sharding.deciding import D, T, acked, after, executor, held, known, members, situation, view

A, B = executor("a"), executor("b")


def decided(seen: ObjectView | None, given: ClusterView, memory: Memory | None = None) -> Decision:
    if memory is None:
        memory = INITIAL_MEMORY if seen is None else known(seen, given)
    return decide(seen, memory, given)


def kinds(decision: Decision) -> list[type[Action]]:
    return [type(action) for action in decision.actions]


def target(decision: Decision) -> Holder:
    (order,) = [action for action in decision.actions if isinstance(action, Assign)]
    return order.placement.holder


def reason(decision: Decision) -> str:
    return "" if decision.verdict is None else decision.verdict.reason


@pytest.mark.rule("sharding:K10")
def test_rule_1_what_is_gone_or_not_ours_is_nothing_to_us() -> None:
    nothing = decided(None, situation(A))
    assert (nothing.actions, nothing.wake_at, nothing.waits) == ((), None, False)
    for seen in (view(), held("z"), view(ours=True, deleting=True), view(completed=0)):
        nothing = decided(seen, situation(A, ownership=Ownership.FOREIGN))
        assert (nothing.actions, nothing.wake_at, nothing.waits) == ((), None, False)


@pytest.mark.rule("sharding:X9", "sharding:X10", "sharding:X11")
@pytest.mark.parametrize(
    ("seen", "given", "expected"),
    [
        pytest.param(view(deleting=True), situation(A), [], id="never ours"),
        pytest.param(held(deleting=True, finalizers=("x/y",)), situation(A), [], id="another's finalizer"),
        pytest.param(view(deleting=True, ours=True), situation(A), [Archive], id="nobody has it"),
        pytest.param(held(deleting=True, ours=True), situation(A), [RequestDrain], id="its holder is asked first"),
        pytest.param(held(deleting=True, ours=True), situation(B, removed=("a",)), [Archive], id="its holder is dead"),
        pytest.param(held(deleting=True, ours=True, completed=0), situation(A), [Archive], id="completed: no ack"),
        pytest.param(
            held(deleting=True, ours=True), situation(A, has_archiver=False), [RemoveFinalizer], id="no archive"
        ),
        pytest.param(
            view(deleting=True, ours=True, completed=T - 1), situation(A, config={"archive_ttl": 500}), [Archive],
            id="a user's delete does not wait for the TTL",
        ),
    ],
)  # fmt: skip
def test_rule_2_being_deleted(seen: ObjectView, given: ClusterView, expected: list[type[Action]]) -> None:
    decision = decided(seen, given)
    assert kinds(decision) == expected
    assert all(action == Archive(delete=False) for action in decision.actions if isinstance(action, Archive))


@pytest.mark.rule("sharding:X9")
def test_rule_2_waits_for_the_ack_and_no_longer_than_a_drain_lasts() -> None:
    given = situation(A)
    first = decided(held(deleting=True, ours=True), given)
    (order,) = first.actions
    assert isinstance(order, RequestDrain)
    assert (order.request.epoch, order.request.cause) == (1, "delete")
    asked = after(held(deleting=True, ours=True), order)
    waiting = decided(asked, given, first.memory)
    assert (waiting.actions, waiting.wake_at) == ((), T + 30)
    late = decided(asked, replace(given, now=T + 30), waiting.memory)
    assert kinds(late) == [Revoke]
    taken = after(asked, *late.actions)
    fading = decided(taken, replace(given, now=T + 30), late.memory)
    assert (fading.actions, fading.wake_at) == ((), T + 45)
    assert kinds(decided(taken, replace(given, now=T + 45), fading.memory)) == [Archive]


@pytest.mark.rule("sharding:X9")
def test_rule_2_the_ack_ends_the_wait() -> None:
    given = situation(A)
    first = decided(held(deleting=True, ours=True), given)
    asked = after(held(deleting=True, ours=True), *first.actions)
    assert kinds(decided(acked(asked), given, first.memory)) == [Archive]


def test_rule_2_an_object_that_cannot_be_read_goes_when_its_holder_must_have_stopped() -> None:
    broken = held(deleting=True, ours=True, annotations={EPOCH: "rubbish"}, epoch=None)
    given = situation(A)
    waiting = decided(broken, given, INITIAL_MEMORY)
    assert (waiting.actions, waiting.wake_at) == ((), T + D)
    assert kinds(decided(broken, replace(given, now=T + D), waiting.memory)) == [Archive]


@pytest.mark.rule("sharding:S6", "sharding:X8")
@pytest.mark.parametrize("seen", [view(completed=0), held(completed=0), held("gone", completed=0)])
def test_rule_3_what_is_completed_is_never_placed(seen: ObjectView) -> None:
    decision = decided(seen, situation(A))
    assert kinds(decision) == [ReportCompleted]
    assert (decision.wake_at, decision.waits) == (None, True)
    again = decided(seen, situation(A), decision.memory)
    assert again.actions == (), "the strategy is told once"


@pytest.mark.rule("sharding:K11", "sharding:K16")
@pytest.mark.parametrize(
    ("age", "expected", "wake_in"),
    [(299.0, [], 1.0), (300.0, [Archive], None), (301.0, [Archive], None), (-5.0, [], 305.0), (0.0, [], 300.0)],
)
def test_rule_3_archives_at_the_ttl_and_wakes_for_it(
    age: float, expected: list[type[Action]], wake_in: float | None
) -> None:
    decision = decided(view(completed=T - age, ours=True), situation(A, config={"archive_ttl": 300}))
    assert kinds(decision)[1:] == expected
    assert decision.wake_at == (None if wake_in is None else pytest.approx(T + wake_in))
    assert all(action.delete for action in decision.actions if isinstance(action, Archive))


@pytest.mark.rule("sharding:X11")
def test_rule_3_without_an_archive_objects_are_kept_unless_they_may_be_deleted() -> None:
    seen = view(completed=0, ours=True)
    kept = decided(seen, situation(A, has_archiver=False, config={"archive_ttl": 1}))
    assert (kinds(kept), kept.wake_at) == ([ReportCompleted], None)
    config = {"archive_ttl": 1, "delete_without_archive": True}
    gone = decided(seen, situation(A, has_archiver=False, config=config))
    assert gone.actions[1:] == (RemoveFinalizer(FINALIZER, 3), Delete("o1"))
    assert kinds(decided(view(completed=0), situation(A, has_archiver=False, config=config)))[1:] == [Delete]


@pytest.mark.rule("sharding:K8", "sharding:K4", "sharding:S3")
def test_rule_4_a_lost_holders_object_goes_to_another_one() -> None:
    decision = decided(held("z"), situation(A, removed=("z",)))
    assert target(decision) == Holder("a", "ua")
    placed = after(held("z"), *decision.actions)
    assert (placed.epoch, placed.why, placed.losses, placed.finalizers) == (2, "lost", (wall(T),), (FINALIZER,))


@pytest.mark.rule("sharding:K8")
def test_rule_4_with_nobody_there_it_is_unassigned_and_placed_as_soon_as_somebody_joins() -> None:
    decision = decided(held("z"), situation(removed=("z",)))
    assert (kinds(decision), reason(decision)) == ([Revoke], Reason.NO_EXECUTORS)
    freed = after(held("z"), *decision.actions)
    assert (freed.holder, freed.epoch, freed.losses) == (None, 2, (wall(T),))
    waiting = decided(freed, situation(removed=("z",)), decision.memory)
    assert (waiting.actions, reason(waiting)) == ((), Reason.NO_EXECUTORS)
    placed = after(freed, *decided(freed, situation(A, removed=("z",)), waiting.memory).actions)
    assert (placed.executor, placed.epoch, placed.why, placed.losses) == ("a", 3, "lost", (wall(T),))


@pytest.mark.rule("sharding:X14", "sharding:S5")
def test_rule_4_a_holder_that_nobody_knows_expires_a_lease_after_the_sync() -> None:
    given = situation(A, members=members(A, synced_at=T, changed_at=0))
    early = decided(held("z"), given, INITIAL_MEMORY)
    assert (early.actions, early.wake_at) == ((), T + D)
    assert kinds(decided(held("z"), replace(given, now=T + D), early.memory)) == [Assign]
    unsynced = decided(held("z"), situation(members=members(A, synced_at=None)), INITIAL_MEMORY)
    assert (unsynced.actions, unsynced.wake_at, unsynced.waits) == ((), None, True)


@pytest.mark.rule("sharding:X4", "sharding:S5")
def test_rule_4_an_equal_name_of_another_incarnation_is_another_executor() -> None:
    """The old one may be at work: it is waited for, though an executor of its name is there and well."""
    again = executor("a", uid="ua2")
    first = decided(held("a"), situation(again), INITIAL_MEMORY)
    assert (first.actions, first.wake_at) == ((), T + D)
    late = decided(held("a"), situation(again, now=T + D), first.memory)
    assert target(late) == Holder("a", "ua2")
    assert target(decided(view(), situation(again))) == Holder("a", "ua2"), "it takes new work at once"


@pytest.mark.rule("sharding:X5")
def test_rule_5_a_living_holder_keeps_its_objects() -> None:
    for status in (ExecutorStatus.HEALTHY, ExecutorStatus.FULL, ExecutorStatus.UNHEALTHY):
        decision = decided(held(), situation(executor("a", status), B))
        assert (decision.actions, decision.wake_at, decision.waits) == ((), None, True)


@pytest.mark.rule("sharding:S2")
def test_rule_5_half_an_assignment_is_taken_back() -> None:
    """A user has changed it: who is at work on it may not have noticed."""
    for seen in (held("a", executor_uid="ub"), view(executor_uid="ua", epoch=4)):
        decision = decided(seen, situation(A, B))
        assert kinds(decision) == [Revoke]
        taken = after(seen, *decision.actions)
        assert taken.revoked is not None
        assert taken.revoked.cause == "edited"
        fading = decided(taken, situation(A, B), decision.memory)
        assert (fading.actions, fading.wake_at) == ((), T + D)
        assert kinds(decided(taken, situation(A, B, now=T + D), fading.memory)) == [Assign]


@pytest.mark.rule("sharding:S3")
def test_a_fence_that_cannot_be_read_quarantines() -> None:
    for seen in (held(epoch=None, annotations={EPOCH: "x"}), view(annotations={EPOCH: "x"})):
        decision = decided(seen, situation(A))
        assert (decision.actions, reason(decision)) == ((), Reason.QUARANTINED)
        assert decision.verdict is not None
        assert 'is "x", allowed: whole numbers' in decision.verdict.message


@pytest.mark.rule("sharding:K5", "sharding:K12")
def test_rule_6_places_with_one_write() -> None:
    decision = decided(view(), situation(A, B))
    placed = after(view(), *decision.actions)
    assert (placed.holder, placed.epoch, placed.term, placed.why) == (Holder("a", "ua"), 1, 3, "new")
    assert placed.finalizers == (FINALIZER,)
    assert after(view(), *decided(view(), situation(A, has_archiver=False)).actions).finalizers == ()


@pytest.mark.rule("sharding:K5")
def test_rule_6_what_is_not_ready_is_left_alone_until_it_changes() -> None:
    given = situation(A, config={"is_ready": lambda seen: seen.content["spec"]["pages"] > 3})
    decision = decided(view(), given)
    assert (decision.actions, decision.wake_at, decision.waits) == ((), None, True)
    assert kinds(decided(held("z"), replace(given, members=members(A, removed=("z",))))) == [Revoke]


@pytest.mark.rule("sharding:S4", "sharding:X7")
@pytest.mark.parametrize(
    ("statuses", "expected"),
    [
        ([], Reason.NO_EXECUTORS),
        ([ExecutorStatus.UNHEALTHY], Reason.NO_HEALTHY_EXECUTORS),
        ([ExecutorStatus.DRAINING, ExecutorStatus.FULL], Reason.NO_HEALTHY_EXECUTORS),
        ([ExecutorStatus.FULL, ExecutorStatus.FULL], Reason.NO_CAPACITY),
    ],
)
def test_rule_6_nobody_eligible(statuses: list[ExecutorStatus], expected: Reason) -> None:
    decision = decided(view(), situation(*(executor(f"e{n}", each) for n, each in enumerate(statuses))))
    assert (decision.actions, reason(decision), decision.wake_at, decision.waits) == ((), expected, T + 30, True)


@pytest.mark.rule("sharding:S4")
def test_rule_6_before_executors_are_listed_nobody_is_placed() -> None:
    assert decided(view(), situation(members=members(A, synced_at=None))).actions == ()


@pytest.mark.rule("sharding:S4", "sharding:K7")
@pytest.mark.parametrize("named", ["b", "nobody"])
def test_rule_6_a_strategy_cannot_choose_who_is_not_healthy(named: str) -> None:
    given = situation(A, executor("b", ExecutorStatus.UNHEALTHY))
    decision = decided(view(), replace(given, choose=lambda _view, _among: named))
    assert (decision.actions, reason(decision)) == ((), Reason.NO_HEALTHY_EXECUTORS)
    assert decision.verdict is not None
    assert f"chose '{named}'" in decision.verdict.message


@pytest.mark.parametrize(
    ("no", "expected"),
    [
        (NoCapacity(), Reason.NO_CAPACITY),
        (NoMetrics(), Reason.NO_HEALTHY_EXECUTORS),
        (NoCapacity("Tired", ValueError("of work")), Reason.NO_CAPACITY),
    ],
)
def test_rule_6_a_strategy_may_say_no(no: Exception, expected: Reason) -> None:
    def choose(_view: ObjectView, _among: object, /) -> str:
        raise no

    decision = decided(view(), replace(situation(A), choose=choose))
    assert (decision.actions, reason(decision)) == ((), expected)
    assert decision.verdict is not None
    assert decision.verdict.message == str(no)


@pytest.mark.rule("sharding:X6")
@pytest.mark.parametrize(("age", "expected"), [(0.49, False), (0.5, True), (0.51, True)])
def test_rule_6_waits_for_the_set_of_executors_to_settle(age: float, expected: bool) -> None:
    given = situation(members=members(A, changed_at=T - age))
    decision = decided(view(), given)
    assert bool(decision.actions) is expected
    if not expected:
        assert reason(decision) == Reason.JITTER
        assert decision.wake_at == pytest.approx(T - age + 0.5)


@pytest.mark.rule("sharding:X6", "sharding:L5")
def test_rule_6_under_changes_without_end_nobody_starves() -> None:
    memory, now = INITIAL_MEMORY, T
    for step in range(100):
        now = T + step * 0.1
        decision = decided(view(), situation(members=members(A, changed_at=now), now=now), memory)
        memory = decision.memory
        if decision.actions:
            break
        assert decision.wake_at is not None
        assert decision.wake_at <= T + 2
    assert now == pytest.approx(T + 2)


@pytest.mark.rule("sharding:L5")
def test_rule_6_the_waits_are_summed_and_the_time_with_nobody_is_none() -> None:
    jittery = situation(members=members(A, changed_at=T), now=T)
    nobody = situation(members=members(), now=T + 0.4)
    first = decided(view(), jittery)
    second = decided(view(), nobody, first.memory)
    assert second.memory.jittered_s == pytest.approx(0.4)
    later = T + 1000
    third = decided(view(), situation(members=members(A, changed_at=later), now=later), second.memory)
    assert third.wake_at == pytest.approx(later + 0.5)
    assert third.memory.jittered_s == pytest.approx(0.4)


@pytest.mark.rule("sharding:B2", "sharding:L3")
def test_rule_6_a_released_object_waits_for_one_change_of_the_set_and_no_longer() -> None:
    """Its holder says that it drains, and 0.4 s later gives its lease back: two changes, and a second to place it."""
    released = acked(held())
    first = decided(released, situation(members=members(B, changed_at=T), now=T), known(released, situation(B), T))
    assert first.wake_at == pytest.approx(T + 0.5)
    again = situation(members=members(B, changed_at=T + 0.4), now=T + 0.4)
    second = decided(released, again, first.memory)
    assert second.wake_at == pytest.approx(T + 0.5)
    assert kinds(decided(released, replace(again, now=T + 0.5), second.memory)) == [Assign]


def test_frozen_nobody_assigns_and_open_work_drains() -> None:
    frozen: dict[str, Any] = {"ownership": Ownership.FROZEN}
    assert decided(view(), situation(A, **frozen)).actions == ()
    (order,) = decided(held(), situation(A, **frozen)).actions
    assert isinstance(order, RequestDrain)
    assert order.request.cause == "rebalance"
    assert kinds(decided(held("z"), situation(A, removed=("z",), **frozen))) == [Revoke]


@pytest.mark.rule("sharding:S3", "sharding:S8")
def test_an_assignment_whose_answer_was_lost_is_not_repeated() -> None:
    given = situation(A, B)
    first = decided(view(), given)
    stored = after(view(), *first.actions)
    for memory in (first.memory, INITIAL_MEMORY):
        again = decided(stored, given, memory)
        assert (again.actions, reason(again)) == ((), Reason.ASSIGNED)


@pytest.mark.rule("sharding:L6", "sharding:S10")
def test_a_restarted_supervisor_decides_as_the_old_one_would_have() -> None:
    """Of whoever is known to be alive or removed, the memory says nothing that the listing does not."""
    given = situation(A, executor("b", ExecutorStatus.UNHEALTHY), removed=("z",), config={"archive_ttl": 10})
    for seen in (view(), held(), held("z"), view(completed=0, ours=True), held(deleting=True, ours=True)):
        old, new = decided(seen, given), decided(seen, given, INITIAL_MEMORY)
        assert (old.actions, old.wake_at) == (new.actions, new.wake_at)


def test_each_phase_is_a_step_of_its_own() -> None:
    given = situation(A)
    assert kinds(schedule_if_ready(view(), updated_memory(INITIAL_MEMORY, view(), given), given)) == [Assign]


STATUSES = st.sampled_from(list(ExecutorStatus))
VIEWS = st.builds(
    lambda by, uid, epoch, completed, deleting, ours, archived: view(
        executor=by,
        executor_uid=uid,
        epoch=epoch,
        completed=completed,
        deleting=deleting,
        ours=ours,
        annotations={"sharding.situate.dev/archived": "sha256:0"} if archived else None,
    ),
    st.sampled_from([None, "a", "b", "z"]),
    st.sampled_from([None, "ua", "ub", "uz", "u?"]),
    st.sampled_from([None, 0, 1, 7]),
    st.sampled_from([None, None, 0.0, T - 5]),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)


@pytest.mark.rule("sharding:S3", "sharding:S4", "sharding:S5", "sharding:S6", "sharding:S9")
@given(
    VIEWS,
    st.lists(st.tuples(st.sampled_from("abc"), STATUSES), max_size=3),
    st.lists(st.sampled_from("abz"), max_size=2),
    st.booleans(),
    st.sampled_from(list(Ownership)),
    st.floats(0, 40),
)
def test_whatever_the_situation_the_promises_hold(
    seen: ObjectView,
    there: list[tuple[str, ExecutorStatus]],
    gone: list[str],
    archiver: bool,
    ownership: Ownership,
    known_for: float,
) -> None:
    living = {id_: executor(id_, status) for id_, status in there if id_ not in gone}
    config = {"archive_ttl": 10}
    given = situation(*living.values(), removed=tuple(gone), has_archiver=archiver, ownership=ownership, config=config)
    decision = decided(seen, given, known(seen, given, T - known_for))
    for action in decision.actions:
        match action:
            case Assign(placement):
                assert not seen.completed
                assert not seen.deleting
                assert living[placement.holder.executor].status is ExecutorStatus.HEALTHY
                assert seen.executor_uid not in given.members.living, "whoever lives keeps it"
                assert after(seen, action).epoch == seen.epoch + 1
            case Revoke():
                assert after(seen, action).holder is None
            case Complete():
                assert not seen.completed
            case RemoveFinalizer():
                assert not archiver
                assert seen.deleting
            case Archive():
                assert archiver
                assert seen.deleting or (seen.completed_at is not None and wall(T) >= seen.completed_at)
            case Delete():
                raise AssertionError("nothing is deleted without an archive by default")
            case RequestDrain():
                assert seen.executor_uid in given.members.living
            case ReportCompleted():
                assert seen.completed
    if ownership is Ownership.FOREIGN:
        assert decision.actions == ()
    if not decision.actions and not seen.completed and not seen.deleting and ownership is Ownership.OURS:
        assert decision.waits, "an open object is never forgotten"


def test_the_defaults_are_those_of_the_reference() -> None:
    config = SupervisorConfig()
    assert (config.requeue_delay, config.scheduler_jitter, config.max_jitter_wait, config.archive_ttl) == (
        30,
        0.5,
        2,
        None,
    )
    assert (config.drain_timeout, config.max_parallel_drains, config.max_reassigns, config.reassign_window) == (
        30, 100, 3, 3600
    )  # fmt: skip
    assert (config.max_forced_moves_per_s, config.finalizer) == (200, "sharding.situate.dev/archive")

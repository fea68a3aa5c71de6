"""What becomes of the objects of an executor that is gone."""

from __future__ import annotations

import itertools
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from situate.objects.values.timestamps import rfc3339
from situate.sharding.assignment.decide import decide
from situate.sharding.assignment.lost_holders import lost_holder_decision
from situate.sharding.model.actions import Assign, Complete, Revoke
from situate.sharding.model.decision_inputs import INITIAL_MEMORY, MoveLimit
from situate.sharding.model.executors import ExecutorStatus
from situate.sharding.model.names import LOSSES, Reason
from situate.sharding.model.supervisor_config import OrphanPolicy
from tests.sharding.builders import wall
from tests.sharding.deciding import T, after, executor, held, known, situation

A, B = executor("a"), executor("b")


def losses(*ages: float) -> dict[str, str]:
    """So many seconds ago."""
    return {LOSSES: ",".join(rfc3339(wall(T - age)) for age in sorted(ages, reverse=True))}


@pytest.mark.rule("sharding:K8")
def test_the_policy_may_be_to_fail() -> None:
    given = situation(A, removed=("z",), config={"orphan_policy": OrphanPolicy.FAIL})
    (order,) = lost_holder_decision(held("z"), INITIAL_MEMORY, given).actions
    failed = after(held("z"), order)
    assert (failed.completed, failed.successful, failed.reason) == (True, False, "ExecutorLost")


@pytest.mark.rule("sharding:L2")
@pytest.mark.parametrize(
    ("earlier", "expected"),
    [
        pytest.param([], Assign, id="the first"),
        pytest.param([30, 20], Assign, id="the third of three"),
        pytest.param([30, 20, 10], Complete, id="the fourth"),
        pytest.param([3601, 20, 10], Assign, id="one was too long ago"),
        pytest.param([3600, 20, 10], Complete, id="and one just not"),
        pytest.param([-40, 20, 10], Complete, id="by a clock that is ahead"),
    ],
)
def test_an_object_that_takes_down_its_executors_is_quarantined(earlier: list[float], expected: type) -> None:
    decision = lost_holder_decision(
        held("z", annotations=losses(*earlier)), INITIAL_MEMORY, situation(A, removed=("z",))
    )
    (order,) = decision.actions
    assert isinstance(order, expected)
    if isinstance(order, Complete):
        assert order.reason == "ReassignLimit"
        assert decision.verdict is not None
        assert decision.verdict.reason is Reason.QUARANTINED
        assert decision.verdict.message == "the object lost its executor 4 times within 3600 s"


def test_the_losses_outlive_the_supervisor_on_the_object() -> None:
    seen, given = held("z"), situation(A, removed=("z", "a"), config={"max_reassigns": 1})
    first = after(
        seen,
        *lost_holder_decision(
            seen, INITIAL_MEMORY, replace(given, members=situation(A, removed=("z",)).members)
        ).actions,
    )
    assert first.losses == (wall(T),)
    (order,) = lost_holder_decision(first, INITIAL_MEMORY, given).actions
    assert isinstance(order, Complete)


def test_losses_are_forgotten_with_the_window() -> None:
    seen = held("z", annotations=losses(5000, 10))
    placed = after(seen, *lost_holder_decision(seen, INITIAL_MEMORY, situation(A, removed=("z",))).actions)
    assert placed.losses == (wall(T) - timedelta(seconds=10), wall(T))


@pytest.mark.rule("sharding:L2")
def test_moves_take_turns_and_none_is_dropped() -> None:
    """Six objects at two a second: all are moved within three seconds, each decided on three times at most."""
    limit, now, calls = MoveLimit(2), T, 0
    memories = {f"o{n}": INITIAL_MEMORY for n in range(6)}
    moved: dict[str, float] = {}
    while len(moved) < 6:
        wakes = []
        for uid in sorted(memories.keys() - moved.keys()):
            given = situation(A, removed=("z",), now=now, limit=limit)
            decision = lost_holder_decision(held("z", uid=uid), memories[uid], given)
            calls += 1
            memories[uid], limit = decision.memory, decision.limit
            if decision.actions:
                moved[uid] = now
            elif decision.wake_at is not None:
                wakes.append(decision.wake_at)
        now = min(wakes, default=now)
    assert sorted(moved.values()) == pytest.approx([T + n / 2 for n in range(6)])


@given(st.floats(0.5, 1000), st.lists(st.floats(0, 10), min_size=1, max_size=50))
def test_the_limit_gives_each_a_moment_of_its_own(per_s: float, pauses: list[float]) -> None:
    limit, now, given_out = MoveLimit(per_s), 0.0, []
    for pause in pauses:
        now += pause
        at, limit = limit.reserve_move(now)
        assert at >= now
        given_out.append(at)
    assert all(later - earlier >= 1 / per_s - 1e-6 for earlier, later in itertools.pairwise(given_out))
    assert given_out[-1] <= now + len(pauses) / per_s, "nobody waits longer than for all before it"


@pytest.mark.rule("sharding:B5")
def test_what_is_moved_prefers_the_newest_revision() -> None:
    old, new = executor("a", revision="1"), executor("b", revision="2")
    given = situation(old, new, removed=("z",))
    rollout = replace(given, members=replace(given.members, newest_revision="2"))
    (order,) = lost_holder_decision(held("z"), INITIAL_MEMORY, rollout).actions
    assert isinstance(order, Assign)
    assert order.placement.holder.executor == "b"
    full = structs.replace(new, status=ExecutorStatus.FULL)
    crowded = situation(old, full, removed=("z",))
    (order,) = lost_holder_decision(
        held("z"), INITIAL_MEMORY, replace(crowded, members=replace(crowded.members, newest_revision="2"))
    ).actions
    assert isinstance(order, Assign)
    assert order.placement.holder.executor == "a", "and takes what there is"


@pytest.mark.rule("sharding:S6")
def test_completed_before_the_loss_stays_completed() -> None:
    seen = held("z", completed=0, successful=True)
    given = situation(A, removed=("z",), config={"orphan_policy": OrphanPolicy.FAIL})
    assert not any(isinstance(each, Complete | Assign | Revoke) for each in decide(seen, INITIAL_MEMORY, given).actions)


@pytest.mark.rule("sharding:S5")
@pytest.mark.parametrize("age", [0.0, 14.9])
def test_nothing_is_done_before_the_holder_is_removed(age: float) -> None:
    seen, given = held(), situation(executor("a", ExecutorStatus.UNHEALTHY, expires_at=T + 15 - age), B)
    assert decide(seen, known(seen, given), given).actions == ()

"""How a holder is brought to give an object up."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from msgspec import structs

from situate.sharding.assignment.decide import decide
from situate.sharding.assignment.drain import is_draining
from situate.sharding.model.actions import Assign, RequestDrain, Revoke
from situate.sharding.model.decision_inputs import INITIAL_MEMORY, ClusterView, Decision, Memory
from situate.sharding.model.executors import ExecutorStatus, LiveExecutor
from situate.sharding.model.names import DRAIN
from situate.sharding.model.object_view import DrainRequest, Holder, ObjectView
from tests.sharding.builders import wall
from tests.sharding.deciding import D, T, acked, after, executor, held, known, members, situation, view

DRAINING = executor("a", ExecutorStatus.DRAINING)
B = executor("b")


def asked(deadline: float = T + 30, **said: Any) -> ObjectView:
    """An object of `a` that was asked to be released."""
    return held(**said, annotations={DRAIN: str(DrainRequest(said.get("epoch", 1), wall(deadline), "drain"))})


def order(decision: Decision) -> Any:
    (found,) = decision.actions
    return found


def begun(given: ClusterView) -> tuple[ObjectView, Memory]:
    """Asked just now, by this supervisor."""
    first = decide(held(), known(held(), given), given)
    return after(held(), *first.actions), decide(after(held(), *first.actions), first.memory, given).memory


@pytest.mark.rule("sharding:S5", "sharding:X5")
def test_the_holder_is_asked_and_told_until_when() -> None:
    request = order(decide(held(), known(held(), situation(DRAINING, B)), situation(DRAINING, B)))
    assert request == RequestDrain(DrainRequest(1, wall(T + 30), "drain"))
    asked_for = after(held(), request)
    assert asked_for.holder == Holder("a", "ua"), "it keeps the object until it acks"
    assert asked_for.drain == request.request


@pytest.mark.rule("sharding:B4", "sharding:S5")
def test_the_ack_frees_the_object_at_once() -> None:
    given = situation(DRAINING, B)
    seen, memory = begun(given)
    assert decide(seen, memory, replace(given, now=T + 29.9)).actions == ()
    placed = after(acked(seen), order(decide(acked(seen), memory, replace(given, now=T + 3))))
    assert (placed.executor, placed.epoch, placed.why) == ("b", 2, "drain")


@pytest.mark.rule("sharding:L3", "sharding:S5")
def test_without_an_ack_it_is_revoked_and_waits_for_a_lease() -> None:
    given = situation(DRAINING, B)
    seen, memory = begun(given)
    waiting = decide(seen, memory, replace(given, now=T + 29.999))
    assert (waiting.actions, waiting.wake_at) == ((), T + 30)
    revoke = decide(seen, waiting.memory, replace(given, now=T + 30))
    assert order(revoke) == Revoke(3, "drain")
    taken = after(seen, order(revoke))
    assert (taken.holder, taken.epoch) == (None, 2), "the old holder's writes fail at once"
    fading = decide(taken, revoke.memory, replace(given, now=T + 30.1))
    assert (fading.actions, fading.wake_at) == ((), T + 30.1 + D)
    assert isinstance(order(decide(taken, fading.memory, replace(given, now=T + 30.1 + D))), Assign)


@pytest.mark.rule("sharding:S5")
@pytest.mark.parametrize("before", ["drain", "revoke"])
def test_draining_and_then_silent_the_lease_ends_the_wait(before: str) -> None:
    given = situation(DRAINING, B)
    seen, memory = begun(given)
    if before == "revoke":
        revoke = decide(seen, memory, replace(given, now=T + 30))
        seen, memory = after(seen, order(revoke)), revoke.memory
    gone = situation(B, removed=("a",), now=T + 31)
    assert isinstance(order(decide(seen, memory, gone)), Assign)


@pytest.mark.rule("sharding:S5", "sharding:L3")
def test_after_a_restart_the_deadline_on_the_object_counts() -> None:
    """But not longer than a drain may last, should the last leader's clock have been ahead."""
    given = situation(DRAINING, B)
    assert decide(asked(T + 12), INITIAL_MEMORY, given).wake_at == T + 12
    assert decide(asked(T + 3000), INITIAL_MEMORY, given).wake_at == T + 30
    assert isinstance(order(decide(asked(T - 1), INITIAL_MEMORY, given)), Revoke)


@pytest.mark.rule("sharding:S5")
def test_after_a_restart_a_revocation_counts_from_when_it_is_seen() -> None:
    given = situation(DRAINING, B)
    taken = after(asked(T - 1), order(decide(asked(T - 1), INITIAL_MEMORY, given)))
    fading = decide(taken, INITIAL_MEMORY, replace(given, now=T + 10))
    assert (fading.actions, fading.wake_at) == ((), T + 10 + D)
    listed = replace(given, members=replace(given.members, synced_at=None))
    assert decide(taken, INITIAL_MEMORY, listed).wake_at is None, "before executors are listed nobody knows who lives"


def test_a_holder_with_a_longer_lease_is_given_longer() -> None:
    slow = structs.replace(DRAINING, lease_s=60.0)
    taken = after(asked(T - 1), order(decide(asked(T - 1), INITIAL_MEMORY, situation(slow, B))))
    assert decide(taken, INITIAL_MEMORY, situation(slow, B)).wake_at == T + 60


def test_only_so_many_are_asked_at_a_time() -> None:
    given = situation(DRAINING, B, drains=100)
    decision = decide(held(), known(held(), given), given)
    assert (decision.actions, decision.waits, decision.wake_at) == ((), True, T + 30)
    assert isinstance(order(decide(held(), decision.memory, replace(given, drains=99))), RequestDrain)
    deleted = held(deleting=True, ours=True)
    assert isinstance(order(decide(deleted, known(deleted, given), given)), RequestDrain), "a user's delete is no drain"


def test_how_many_are_under_way_is_in_the_listing() -> None:
    views = [held(), asked(), asked(completed=0.0), acked(asked()), view()]
    assert [is_draining(each) for each in views] == [False, True, False, False, False]


@pytest.mark.parametrize(
    ("since", "config", "expected", "wake_at"),
    [
        (T - 5, {}, False, None),
        (T - 5, {"drain_unhealthy": True}, True, None),
        (T - 4, {"drain_unhealthy": True}, False, T + 1),
        (T - 4, {"drain_unhealthy": True, "grace_unhealthy": 2}, True, None),
    ],
)
def test_the_unhealthy_are_drained_if_so_configured(
    since: float, config: dict[str, Any], expected: bool, wake_at: float | None
) -> None:
    given = situation(executor("a", ExecutorStatus.UNHEALTHY, unhealthy_since=since), B, config=config)
    decision = decide(held(), known(held(), given), given)
    assert (bool(decision.actions), decision.wake_at) == (expected, wake_at)
    stays = held(annotations={"sharding.situate.dev/migratable": "false"})
    assert not decide(stays, known(stays, given), given).actions


@pytest.mark.rule("sharding:B5")
def test_a_drained_object_waits_for_the_successor_of_its_holder() -> None:
    config = {"wait_for_successor": 20.0}
    given = situation(DRAINING, B, config=config)
    seen, memory = begun(given)
    free = acked(seen)
    waiting = decide(free, memory, given)
    assert (waiting.actions, waiting.wake_at) == ((), T + 20)
    assert order(decide(free, waiting.memory, replace(given, now=T + 20))).placement.holder.executor == "b"
    again = situation(executor("a", uid="ua2"), B, config=config, now=T + 5, removed=("a",))
    assert order(decide(free, waiting.memory, again)).placement.holder == Holder("a", "ua2")


@pytest.mark.rule("sharding:B5")
def test_an_executor_that_ends_releases_before_it_is_asked() -> None:
    config = {"wait_for_successor": 20.0}
    freed = acked(held())
    waiting = decide(freed, known(held(), situation(DRAINING, B)), situation(DRAINING, B, config=config))
    assert (waiting.actions, waiting.wake_at) == ((), T + 20)
    ended = decide(freed, known(held(), situation(B)), situation(B, removed=("a",), config=config))
    assert (ended.actions, ended.wake_at) == ((), T + 20)
    tired = decide(freed, known(held(), situation(executor("a"), B)), situation(executor("a"), B, config=config))
    assert (tired.actions, tired.wake_at) == ((), T + 0.5), "it may be seen later that it ends"
    late = decide(freed, tired.memory, situation(DRAINING, B, config=config, now=T + 0.3))
    assert (late.actions, late.wake_at) == ((), T + 20)
    stays = situation(executor("a"), B, config=config, now=T + 0.5)
    assert isinstance(order(decide(freed, tired.memory, stays)), Assign), "a handler gave it up: that is no restart"


@pytest.mark.rule("sharding:B5")
def test_during_a_rollout_an_executor_of_the_newest_revision_is_a_successor() -> None:
    def rollout(*there: LiveExecutor, now: float = T) -> ClusterView:
        found = members(*there, newest_revision="2")
        return situation(members=found, now=now, config={"wait_for_successor": 20.0})

    old, other = structs.replace(DRAINING, revision="1"), executor("b", revision="1")
    seen, memory = begun(rollout(old, other))
    waiting = decide(acked(seen), memory, rollout(old, other))
    assert waiting.actions == ()
    new = executor("c", revision="2")
    assert order(decide(acked(seen), waiting.memory, rollout(old, other, new))).placement.holder.executor == "c"


def test_a_request_stands_until_it_is_withdrawn() -> None:
    """Also when the executor is cordoned no longer, or when a rebalancing has asked."""
    given = situation(executor("a"), B)
    assert decide(asked(), INITIAL_MEMORY, given).wake_at == T + 30
    assert isinstance(order(decide(asked(T - 1), INITIAL_MEMORY, given)), Revoke)


def test_the_deadline_is_told_to_the_microsecond() -> None:
    request = DrainRequest(1, wall(0.25) + timedelta(microseconds=1), "drain")
    assert held(annotations={DRAIN: str(request)}).drain == request

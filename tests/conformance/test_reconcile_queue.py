"""The reconcile queue."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from situate.vm.controller.backoff import LONGEST_NS, NO_FAILURE
from tests.conformance.reconcile_queue import ImpossibleEvents, Kind, ReconcileQueue, merged

ADDED, MODIFIED, DELETED, EPHEMERAL = Kind.ADDED, Kind.MODIFIED, Kind.DELETED, Kind.EPHEMERAL


@pytest.mark.rule("vm:C23")
@pytest.mark.parametrize(
    ("first", "then", "wanted"),
    [
        (ADDED, MODIFIED, ADDED),
        (MODIFIED, ADDED, ADDED),
        (MODIFIED, DELETED, DELETED),
        (DELETED, MODIFIED, DELETED),
        (MODIFIED, MODIFIED, MODIFIED),
        (ADDED, DELETED, EPHEMERAL),
        (DELETED, ADDED, EPHEMERAL),
    ],
)
def test_two_events_come_to_one(first: Kind, then: Kind, wanted: Kind) -> None:
    assert merged(first, then) is wanted


@pytest.mark.rule("vm:C23")
@pytest.mark.parametrize(
    ("first", "then"), [(ADDED, ADDED), (DELETED, DELETED), *((EPHEMERAL, k) for k in Kind), (MODIFIED, EPHEMERAL)]
)
def test_events_that_no_watch_gives_are_our_own_fault(first: Kind, then: Kind) -> None:
    with pytest.raises(ImpossibleEvents):
        merged(first, then)


@pytest.mark.rule("vm:C24")
def test_a_failure_waits_longer_than_the_one_before_and_at_most_a_minute() -> None:
    backoff, waits = NO_FAILURE, []
    for _ in range(12):
        backoff, wait = backoff.after_failure()
        waits.append(wait)
    assert waits[:3] == [100_000_000, 202_999_999, 412_089_997]
    assert waits[-1] == LONGEST_NS == 60_000_000_000
    assert backoff.failures == 12


@pytest.mark.rule("vm:C24")
def test_a_handler_s_own_time_is_waited_and_caps_what_is_stored() -> None:
    backoff = NO_FAILURE
    for _ in range(8):
        backoff, _ = backoff.after_failure()
    backoff, wait = backoff.after_failure(200_000_000)
    assert wait == 200_000_000
    assert backoff.after_failure()[1] == 405_999_999
    assert NO_FAILURE.after_failure(5_000_000_000)[1] == 5_000_000_000


@pytest.mark.rule("vm:C23")
def test_an_event_for_a_running_object_is_parked() -> None:
    queue: ReconcileQueue[str, int] = ReconcileQueue()
    queue.add("a", ADDED, 1, 0)
    assert queue.next(0) is not None
    queue.add("a", MODIFIED, 2, 0)
    assert (queue.next(9), queue.due_at, len(queue)) == (None, None, 0)
    queue.finish("a")
    work = queue.next(9)
    assert work is not None
    assert (work.kind, work.object) == (MODIFIED, 2)


@pytest.mark.rule("vm:C23")
def test_an_earlier_event_brings_a_queued_one_forward() -> None:
    queue: ReconcileQueue[str, int] = ReconcileQueue()
    queue.add("a", ADDED, 1, 50)
    queue.add("b", ADDED, 1, 20)
    queue.add("a", MODIFIED, 2, 10)
    queue.add("a", MODIFIED, 3, 70)
    assert queue.due_at == 10
    order = [work.key for _ in range(3) if (work := queue.next(100)) is not None]
    assert order == ["a", "b"]


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 20)), max_size=30), st.integers(0, 3))
def test_each_object_runs_once_at_a_time_and_nothing_is_lost(events: list[tuple[str, int]], hold: int) -> None:
    """The plain twin: the newest object of each key, at the earliest time since it was last begun."""
    queue: ReconcileQueue[str, int] = ReconcileQueue()
    newest: dict[str, int] = {}
    running: list[str] = []
    begun: dict[str, int] = {}
    for number, (key, due) in enumerate(events):
        queue.add(key, MODIFIED, number, due)
        newest[key] = number
        work = queue.next(10)
        if work is not None:
            assert work.key not in running
            assert work.due <= 10
            running.append(work.key)
            begun[work.key] = work.object
        if len(running) > hold:
            queue.finish(running.pop(0))
    while running or len(queue):
        while running:
            queue.finish(running.pop(0))
        work = queue.next(100)
        if work is not None:
            running.append(work.key)
            begun[work.key] = work.object
    assert begun == newest

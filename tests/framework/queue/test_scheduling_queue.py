"""The queue against framework.md section 7; times are seconds of its clock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from situate.framework.plugin_api.events import Change, ClusterEvent, EventHint, Hint, Subject
from situate.framework.pod.pods import PodInfo
from situate.framework.profile.profile import profile_of
from situate.framework.queue.queued_pod import QueueState, WaitingPod
from situate.framework.queue.scheduling_queue import ANYTHING, QueueSettings, SchedulingQueue
from situate.framework.results.status import SUCCESS, Status, unresolvable_status
from situate.framework.results.verdict import Verdict, pass_all
from situate.plugins.priority_sort import PrioritySort
from situate.plugins.scheduling_gates import SchedulingGates
from tests.framework.pods import SCHEDULER, pod_info

NODE_ADDED = ClusterEvent(Subject.NODE, Change.ADD)
POD_DELETED = ClusterEvent(Subject.ASSIGNED_POD, Change.DELETE)


class Rejector:
    """Wants to hear of new nodes, and of pods that go if `hint` says so."""

    def __init__(self, name: str, hint: Callable[[PodInfo, Any, Any], Hint] | None = None) -> None:
        self.name = name
        self.asked: list[str] = []
        self._hint = hint

    def filter(self, state: Any, pod: PodInfo, snapshot: Any) -> Verdict:
        return pass_all(snapshot.count)

    def events(self) -> tuple[EventHint, ...]:
        return (
            EventHint(Subject.NODE, Change.ADD, self._after_node),
            EventHint(Subject.ASSIGNED_POD, Change.DELETE, self._hint),
        )

    def _after_node(self, pod: PodInfo, old: Any, new: Any) -> Hint:
        self.asked.append(pod.name)
        return Hint.QUEUE


def skip(pod: PodInfo, old: Any, new: Any) -> Hint:
    return Hint.SKIP


def broken(pod: PodInfo, old: Any, new: Any) -> Hint:
    raise ZeroDivisionError


def queue_of(*plugins: Any, **settings: Any) -> SchedulingQueue:
    profile = profile_of(SCHEDULER, [(SchedulingGates(), 0), (PrioritySort(), 0), *((each, 0) for each in plugins)])
    return SchedulingQueue({SCHEDULER: profile}, QueueSettings(**settings))


def rejected(queue: SchedulingQueue, name: str, now: float, *plugins: str, **flags: Any) -> WaitingPod:
    """A pod of that name, added, popped and put back with these rejectors."""
    if name not in queue:
        queue.add(pod_info(name), now)
        queue.tick(now)
    pod = queue.pop()
    assert pod is not None
    assert pod.info.name == name
    queue.put_back(pod, now, frozenset(plugins), **flags)
    return pod


def drained(queue: SchedulingQueue) -> list[str]:
    names = []
    while (pod := queue.pop()) is not None:
        names.append(pod.info.name)
    return names


def test_the_highest_priority_goes_first_then_who_waits_longest() -> None:
    queue = queue_of()
    for name, priority, now in (("low", 0, 1), ("late", 5, 3), ("early", 5, 2)):
        queue.add(pod_info(name, priority=priority), now)
    assert drained(queue) == ["early", "late", "low"]


def test_a_gate_holds_a_pod_without_back_off_until_it_opens() -> None:
    queue = queue_of()
    queue.add(pod_info("held", gates=("quota",)), 0)
    held = queue.get("held")
    assert held is not None
    assert (queue.pop(), held.gate, held.gate_reasons) == (
        None,
        "SchedulingGates",
        ("waiting for scheduling gates: [quota]",),
    )
    assert queue.counts() == {"active": 0, "backoff": 0, "unschedulable": 0, "gated": 1}
    queue.on_event(NODE_ADDED, 1)
    queue.on_event(ANYTHING, 1)
    assert queue.pop() is None
    old, new = held.info, pod_info("held")
    queue.update(new, [ClusterEvent(Subject.POD, Change.GATES_ELIMINATED, old, new)], 2)
    assert drained(queue) == ["held"]


def test_only_those_who_rejected_a_pod_are_asked_about_events() -> None:
    one, other = Rejector("One"), Rejector("Other")
    queue = queue_of(one, other)
    rejected(queue, "a", 0, "One")
    rejected(queue, "b", 0, "Other")
    assert queue.on_event(NODE_ADDED, 100) == 2
    assert (one.asked, other.asked) == (["a"], ["b"])


def test_a_pod_stays_while_every_hint_says_skip() -> None:
    queue = queue_of(Rejector("One", skip))
    pod = rejected(queue, "a", 0, "One")
    assert queue.on_event(POD_DELETED, 100) == 0
    assert pod.place is QueueState.UNSCHEDULABLE
    assert queue.pop() is None


def test_a_hint_that_fails_counts_as_one_that_helps() -> None:
    queue = queue_of(Rejector("One", broken))
    rejected(queue, "a", 0, "One")
    assert queue.on_event(POD_DELETED, 100) == 1


def test_a_plugin_without_hints_is_woken_by_everything() -> None:
    class Silent:
        name = "Silent"

        def filter(self, state: Any, pod: PodInfo, snapshot: Any) -> Verdict:
            return pass_all(snapshot.count)

    queue = queue_of(Silent())
    rejected(queue, "a", 0, "Silent")
    assert queue.on_event(ClusterEvent(Subject.STORAGE_CLASS, Change.ADD), 100) == 1


def test_a_helpful_event_leads_over_the_back_off_unless_that_is_over() -> None:
    queue = queue_of(Rejector("One"), pop_from_backoff=False)
    early, late = rejected(queue, "early", 0, "One"), rejected(queue, "late", 0, "One")
    queue.on_event(NODE_ADDED, 0.5)
    assert early.place is QueueState.BACKOFF
    rejected(queue, "other", 0.5, "One")
    queue.tick(2.0)
    assert (early.place, late.place) == (QueueState.ACTIVE, QueueState.ACTIVE)
    queue.on_event(NODE_ADDED, 50)
    assert drained(queue) == ["early", "late", "other"]


def test_a_pending_rejector_leads_straight_to_the_active_queue() -> None:
    queue = queue_of(Rejector("One"))
    pod = rejected(queue, "a", 0, pending=frozenset({"One"}))
    queue.on_event(NODE_ADDED, 0.1)
    assert pod.place is QueueState.ACTIVE


@pytest.mark.parametrize("by_error", [False, True])
def test_the_back_off_doubles_up_to_its_most(by_error: bool) -> None:
    queue = queue_of(Rejector("One"), pop_from_backoff=False)
    now = 0.0
    waited: list[float] = []
    queue.add(pod_info("a"), now)
    for _ in range(6):
        pod = queue.pop()
        assert pod is not None
        queue.put_back(pod, now, frozenset() if by_error else frozenset({"One"}))
        queue.on_event(NODE_ADDED, now)
        assert pod.place is QueueState.BACKOFF
        since = now
        while pod.place is QueueState.BACKOFF:
            now += 0.25
            queue.tick(now)
        waited.append(now - since)
    # the whole window of the expiry has to pass: up to a second more
    assert [round(seconds) - 1 for seconds in waited] == [1, 2, 4, 8, 10, 10]


def test_errors_are_counted_since_the_last_rejection() -> None:
    queue = queue_of(Rejector("One"))
    pod = rejected(queue, "a", 0)
    assert (pod.errors, pod.rejections) == (1, 0)
    queue.tick(10)
    rejected(queue, "a", 10, "One")
    assert (pod.errors, pod.rejections) == (0, 1)


def test_with_nothing_else_to_do_a_pod_leaves_its_back_off_early_but_not_after_an_error() -> None:
    queue = queue_of(Rejector("One"))
    refused, failed = rejected(queue, "refused", 0, "One"), rejected(queue, "failed", 0)
    queue.on_event(NODE_ADDED, 0)
    assert {refused.place, failed.place} == {QueueState.BACKOFF}
    assert drained(queue) == ["refused"]


def test_what_happens_during_the_flight_counts_when_the_pod_comes_back() -> None:
    queue = queue_of(Rejector("One", skip), pop_from_backoff=False)
    queue.add(pod_info("a"), 0)
    queue.add(pod_info("b"), 0)
    first, second = queue.pop(), queue.pop()
    assert first is not None
    assert second is not None
    queue.on_event(NODE_ADDED, 1)
    queue.put_back(first, 1, frozenset({"One"}))
    assert first.place is QueueState.BACKOFF
    queue.on_event(POD_DELETED, 1)
    queue.put_back(second, 1, frozenset({"One"}))
    assert second.place is QueueState.BACKOFF  # for the node: the pod's going alone would not have helped


def test_an_update_during_the_flight_counts_for_that_pod_alone() -> None:
    queue = queue_of(SelfHelp())
    queue.add(pod_info("a"), 0)
    queue.add(pod_info("b"), 0)
    first, second = queue.pop(), queue.pop()
    assert first is not None
    assert second is not None
    old, new = first.info, pod_info("a", requests={"cpu": "1m"})
    queue.update(new, [ClusterEvent(Subject.POD, Change.SCALE_DOWN, old, new)], 1)
    queue.put_back(first, 1, frozenset({"SelfHelp"}))
    queue.put_back(second, 1, frozenset({"SelfHelp"}))
    assert (first.place, second.place) == (QueueState.BACKOFF, QueueState.UNSCHEDULABLE)
    assert first.info is new


class SelfHelp:
    name = "SelfHelp"

    def filter(self, state: Any, pod: PodInfo, snapshot: Any) -> Verdict:
        return pass_all(snapshot.count)

    def events(self) -> tuple[EventHint, ...]:
        return (EventHint(Subject.POD, Change.SCALE_DOWN),)


def test_a_pod_that_is_deleted_in_flight_does_not_come_back() -> None:
    queue = queue_of(Rejector("One"))
    queue.add(pod_info("a"), 0)
    pod = queue.pop()
    assert pod is not None
    queue.delete("a")
    queue.put_back(pod, 1)
    assert "a" not in queue
    queue.tick(100)
    assert queue.pop() is None


def test_a_pod_whose_binding_fails_comes_back_after_its_cycle_was_done() -> None:
    queue = queue_of()
    queue.add(pod_info("a"), 0)
    pod = queue.pop()
    assert pod is not None
    queue.record_placement("a")
    assert "a" not in queue
    queue.put_back(pod, 1)
    queue.tick(10)
    assert drained(queue) == ["a"]


def test_nobody_is_forgotten_longer_than_five_minutes() -> None:
    queue = queue_of(Rejector("One"))
    rejected(queue, "a", 0, "One")
    queue.tick(299)
    assert queue.pop() is None
    queue.tick(329)
    assert drained(queue) == ["a"]


def test_an_activated_pod_is_tried_at_once_also_when_it_was_in_flight() -> None:
    queue = queue_of(Rejector("One"))
    waiting = rejected(queue, "a", 0, "One")
    queue.add(pod_info("b"), 0)
    flying = queue.pop()
    assert flying is not None
    queue.activate(["a", "b", "nobody"], 0)
    assert waiting.place is QueueState.ACTIVE
    queue.put_back(flying, 0, frozenset({"One"}))
    assert flying.place is QueueState.ACTIVE


def test_a_changed_priority_changes_the_order() -> None:
    queue = queue_of()
    queue.add(pod_info("a"), 0)
    queue.add(pod_info("b"), 1)
    queue.update(pod_info("b", priority=9), (), 2)
    assert drained(queue) == ["b", "a"]


def test_the_plugin_that_held_a_pod_is_asked_first_the_next_time() -> None:
    asked: list[str] = []

    class Gate:
        def __init__(self, name: str, says: Status) -> None:
            self.name = name
            self._says = says

        def pre_enqueue(self, pod: PodInfo) -> Status:
            asked.append(self.name)
            return self._says

    queue = queue_of(Gate("Open", SUCCESS), Gate("Shut", unresolvable_status("shut")))
    queue.add(pod_info("a"), 0)
    assert asked == ["Open", "Shut"]
    asked.clear()
    queue.on_event(NODE_ADDED, 1)  # neither says which events concern it
    assert asked == ["Shut"]


def test_events_are_forgotten_when_no_pod_in_flight_may_need_them() -> None:
    queue = queue_of(Rejector("One"))
    queue.add(pod_info("a"), 0)
    pod = queue.pop()
    assert pod is not None
    for _ in range(100):
        queue.on_event(NODE_ADDED, 0)
    assert queue.remembered_events == 100
    queue.put_back(pod, 0, frozenset({"One"}))
    assert queue.remembered_events == 0


def test_it_says_when_time_will_move_something() -> None:
    queue = queue_of(Rejector("One"), pop_from_backoff=False)
    assert queue.next_tick(0) is None
    pod = rejected(queue, "a", 0.0, "One")
    queue.on_event(NODE_ADDED, 0.0)
    when = queue.next_tick(0.0)
    assert when == 2.0
    queue.tick(when)
    assert pod.place is QueueState.ACTIVE

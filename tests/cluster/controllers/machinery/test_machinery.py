"""The queue, the runs of writes, late answers and Events."""

from __future__ import annotations

from random import Random

import pytest

from situate.cluster.controllers import Machinery, MachinerySettings, WriteAnswer
from situate.cluster.controllers.machinery.actions import Create, EventTemplate, Patch, Write, merge_patch
from situate.cluster.controllers.machinery.queue import WorkQueue
from situate.cluster.controllers.machinery.recorder import Recorder
from situate.cluster.storage.builtin_resources import BUILT_IN
from situate.cluster.storage.resources import Catalog
from situate.cluster.storage.store import Store
from tests.cluster.controllers.world import START, World, merged, replica_set, stateful_set

ITEM = ("c", ("ns", "n"))


def test_the_queue_holds_an_item_once() -> None:
    queue = WorkQueue()
    queue.add(ITEM)
    queue.add(ITEM)
    assert queue.pop(0) == ITEM
    assert queue.pop(0) is None


def test_a_delayed_item_comes_at_its_earliest_time() -> None:
    queue = WorkQueue()
    queue.add_at(ITEM, 10)
    queue.add_at(ITEM, 5)
    queue.add_at(ITEM, 7)
    assert queue.next_due() == 5
    assert queue.pop(4) is None
    assert queue.pop(5) == ITEM
    assert queue.next_due() is None


def test_back_off_doubles_until_forgotten() -> None:
    queue = WorkQueue()
    delays = []
    for _ in range(20):
        queue.add_rate_limited(ITEM, 0)
        delays.append(queue.next_due())
        queue.pop(2000)
    assert delays[:4] == [0.005, 0.01, 0.02, 0.04]
    assert delays[-1] == 1000
    queue.forget(ITEM)
    queue.add_rate_limited(ITEM, 0)
    assert queue.next_due() == 0.005


def test_the_same_seed_gives_the_same_writes() -> None:
    def history() -> list[tuple[str, str, str, str]]:
        world = World(seed=7)
        world.create("statefulsets.apps", stateful_set(replicas=3))
        world.create("replicasets.apps", replica_set("other", 4))
        world.run(30)
        return world.log

    assert history() == history()


def test_a_switched_off_controller_does_nothing() -> None:
    world = World(MachinerySettings(disabled=frozenset({"scheduler", "kubelet"})))
    world.create("replicasets.apps", replica_set(replicas=1))
    world.run(5)
    (pod,) = world.list("pods")
    assert "nodeName" not in pod["spec"]
    assert not {"scheduler", "kubelet"} & set(world.machinery.names)


def test_an_unknown_controller_cannot_be_switched_off() -> None:
    settings = MachinerySettings(disabled=frozenset({"schedular"}))
    with pytest.raises(ValueError, match=r"schedular.*scheduler"):
        World(settings)


class Late:
    """An API whose answers come when the test says."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.waiting: list[tuple[Write, str, str, int]] = []

    def perform(self, action: Write, user: str, manager: str, ticket: int) -> WriteAnswer | None:
        if isinstance(action, Create) and action.resource == "pods":
            self.waiting.append((action, user, manager, ticket))
            return None
        return self.world.perform(action, user, manager, ticket)


def test_answers_may_come_later_and_batches_wait_for_them() -> None:
    world = World(node_count=0)
    late = Late(world)
    store = world.store
    machinery = Machinery(late, store, Catalog(BUILT_IN), MachinerySettings(), Random(0))
    store.subscribe(machinery.observe)
    world.create("replicasets.apps", replica_set(replicas=7))
    sizes = []
    while True:
        machinery.step(START)
        if not late.waiting:
            break
        sizes.append(len(late.waiting))
        batch, late.waiting = late.waiting, []
        for action, user, manager, ticket in batch:
            answer = world.perform(action, user, manager, ticket)
            assert answer is not None
            machinery.settle(ticket, answer)
    assert sizes[:3] == [1, 2, 4]
    assert len(world.pods()) == 7


def test_a_step_is_bounded_and_the_rest_is_due_at_once() -> None:
    world = World(MachinerySettings(reconciles_per_step=5))
    world.create("replicasets.apps", replica_set(replicas=20))
    world.machinery.step(world.now)
    assert world.machinery.next_due() == float("-inf")
    world.run(1)
    assert len(world.pods()) == 20


def test_a_new_machinery_over_an_old_store_goes_on() -> None:
    """What controllers remember can be rebuilt from a listing."""
    first = World()
    first.create("statefulsets.apps", stateful_set(replicas=3))
    first.run(10)
    second = World(node_count=0)
    second.store = Store()
    second.machinery = Machinery(second, second.store, Catalog(BUILT_IN), MachinerySettings(), Random(0))
    second.store.subscribe(second.machinery.observe)
    second.now = first.now
    for table in list(first.store.tables()):
        for stored in table.sorted_objects():
            second.store.put(table.resource, stored.object())
    second.run(5)
    assert [entry for entry in second.log if entry[1] in ("pods", "statefulsets.apps")] == []
    second.patch("statefulsets.apps", "web", {"spec": {"replicas": 1}})
    second.run(10)
    assert second.pods() == ["web-0"]


def note(message: str = "m") -> EventTemplate:
    return EventTemplate(
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "ns", "uid": "u"}}, "R", message
    )


def test_a_repeated_event_is_counted() -> None:
    recorder = Recorder()
    first = recorder.event_write(note(), "c", START)
    second = recorder.event_write(note(), "c", START + 1)
    assert isinstance(first, Create)
    assert isinstance(second, Patch)
    assert second.name == first.body["metadata"]["name"]
    assert second.body["count"] == 2


def test_similar_events_are_joined_and_floods_cut_off() -> None:
    recorder = Recorder()
    events = [recorder.event_write(note(f"m{number}"), "c", START) for number in range(40)]
    created = [event for event in events if isinstance(event, Create)]
    assert len(created) == 10
    assert created[-1].body["message"] == "(combined from similar events): m9"
    assert sum(event is not None for event in events) == 25
    assert recorder.event_write(note("later"), "c", START + 301) is not None


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, {"a": 1}),
        ({"a": 1, "b": {"c": 1, "d": 2}}, {"b": {"c": 2}}),
        ({"a": [1, 2]}, {"a": [2]}),
        ({"a": {"b": 1}}, {"a": 1}),
    ],
)
def test_merge_patch_turns_one_into_the_other(before: dict[str, object], after: dict[str, object]) -> None:
    assert merged(before, merge_patch(before, after)) == after

"""The life of a pod in the engine: what is counted where, and what brings a pod back (framework.md sections 4, 5)."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

from situate.framework.engine.decisions import Failed, Placed, Refused, Waiting
from situate.framework.engine.engine import Engine
from situate.framework.plugin_api.actions import Action, Bind, Evict
from situate.framework.plugin_api.plugin import Reads, Reserved
from situate.framework.pod.pods import PodInfo, PodTemplate
from situate.framework.profile.profile import profile_of
from situate.framework.queue.scheduling_queue import QueueSettings
from situate.framework.results.status import SUCCESS, Code, Status, unschedulable_status
from situate.framework.results.verdict import Mask, Verdict, pass_all
from situate.framework.snapshot.derived_columns import ColumnDefinition, ColumnEvaluator, Numbers
from situate.framework.snapshot.node_table import NodeTable
from situate.framework.snapshot.snapshot import Snapshot
from situate.objects.kinds.meta import ObjectMeta
from situate.objects.kinds.nodes import Node, NodeStatus
from situate.objects.kinds.pods import Container, Pod, PodSpec, PodStatus, ResourceRequirements
from situate.objects.values.quantity import parse_quantity
from situate.plugins.default_preemption import DefaultPreemption
from situate.plugins.node_resources_fit import NodeResourcesFit
from situate.plugins.priority_sort import PrioritySort


class Binder:
    name = "Binder"

    def bind(self, pod: PodInfo, node: str) -> tuple[Action, ...]:
        return (Bind(pod.key, pod.uid, node),)


class Recorder:
    """Tells what it was asked, and answers as it is told."""

    def __init__(self, name: str, reserve: Status = SUCCESS, permit: Status = SUCCESS, timeout_s: float = 60) -> None:
        self.name = name
        self.asked: list[str] = []
        self._reserve = reserve
        self._permit = permit
        self._timeout_s = timeout_s

    def reserve(self, pod: PodInfo, node: str, snapshot: Snapshot) -> Reserved:
        self.asked.append("reserve")
        return Reserved(self._reserve)

    def unreserve(self, pod: PodInfo, node: str) -> None:
        self.asked.append("unreserve")

    def permit(self, pod: PodInfo, node: str, now: float) -> tuple[Status, float]:
        self.asked.append("permit")
        return self._permit, self._timeout_s


WAIT = Status(Code.WAIT)


def engine_of(*plugins: Any) -> Engine:
    members = [PrioritySort(), NodeResourcesFit(), *plugins, Binder()]
    profile = profile_of("here", [(each, 1) for each in members])
    return Engine([profile], QueueSettings(pop_from_backoff=False))


def node(name: str, cpu: str = "1") -> Node:
    room = {"cpu": parse_quantity(cpu), "memory": parse_quantity("1Gi"), "pods": parse_quantity("10")}
    return Node(ObjectMeta(name=name), status=NodeStatus(allocatable=room))


def pod(name: str, cpu: str = "600m", *, on: str = "", phase: str = "", scheduler: str = "here") -> Pod:
    requests = ResourceRequirements(requests={"cpu": parse_quantity(cpu)})
    spec = PodSpec(scheduler_name=scheduler, node_name=on, containers=(Container(resources=requests),))
    return Pod(ObjectMeta(name=name, namespace="default", uid=name), spec, PodStatus(phase=phase))


def important(name: str) -> Pod:
    each = pod(name)
    return msgspec.structs.replace(each, spec=msgspec.structs.replace(each.spec, priority=10))


def used(engine: Engine) -> dict[str, int]:
    """Milli-CPU in use, by node."""
    snapshot = engine.snapshot
    return {snapshot.name(index): int(value) for index, value in enumerate(snapshot.requested(0))}


def test_a_placed_pod_counts_before_it_is_confirmed_and_is_bound_by_the_actions() -> None:
    engine = engine_of()
    engine.set_node(node("a"), 0)
    engine.set_pod(pod("p"), 0)
    placed = engine.schedule(0)
    assert isinstance(placed, Placed)
    assert used(engine) == {"a": 600}
    assert engine.binding(placed).bind == (Bind(("default", "p"), "p", "a"),)
    engine.binding_succeeded(placed)
    engine.set_pod(pod("p", on="a"), 1)
    assert used(engine) == {"a": 600}
    assert engine.schedule(1) is None


def test_a_refused_pod_waits_for_room_and_takes_it() -> None:
    engine = engine_of()
    engine.set_node(node("a"), 0)
    engine.set_pod(pod("first"), 0)
    engine.set_pod(pod("second"), 0)
    assert isinstance(engine.schedule(0), Placed)
    refused = engine.schedule(0)
    assert isinstance(refused, Refused)
    assert refused.diagnosis.rejectors == {"NodeResourcesFit"}
    assert engine.schedule(100) is None
    engine.set_pod(pod("first", on="a"), 100)
    engine.remove_pod("first", 100)
    assert isinstance(engine.schedule(100), Placed)


def test_a_stale_event_does_not_bring_back_a_pod_that_has_a_node() -> None:
    engine = engine_of()
    engine.set_node(node("a"), 0)
    engine.set_pod(pod("p"), 0)
    assert isinstance(engine.schedule(0), Placed)
    engine.set_pod(pod("p"), 1)  # its nodeName has not reached the watch yet
    assert engine.schedule(1) is None


def test_a_pod_confirmed_elsewhere_moves_there() -> None:
    engine = engine_of()
    for name in ("a", "b"):
        engine.set_node(node(name), 0)
    engine.set_pod(pod("p"), 0)
    assert isinstance(engine.schedule(0), Placed)
    engine.set_pod(pod("p", on="b"), 1)
    assert used(engine) == {"a": 0, "b": 600}


def test_a_failed_binding_gives_the_room_back_and_tries_again() -> None:
    other = Recorder("Other")
    engine = engine_of(other)
    engine.set_node(node("a"), 0)
    engine.set_pod(pod("p"), 0)
    placed = engine.schedule(0)
    assert isinstance(placed, Placed)
    engine.binding_failed(placed, 1)
    assert used(engine) == {"a": 0}
    assert other.asked == ["reserve", "permit", "unreserve"]
    assert engine.schedule(1) is None  # it backs off
    engine.tick(4)
    assert isinstance(engine.schedule(4), Placed)


def test_a_binding_that_fails_for_a_pod_that_is_gone_brings_nothing_back() -> None:
    engine = engine_of()
    engine.set_node(node("a"), 0)
    engine.set_pod(pod("p"), 0)
    placed = engine.schedule(0)
    assert isinstance(placed, Placed)
    engine.remove_pod("p", 1)
    engine.binding_failed(placed, 1)
    engine.tick(100)
    assert engine.schedule(100) is None
    assert used(engine) == {"a": 0}


def test_a_pod_that_ended_frees_its_room() -> None:
    engine = engine_of()
    engine.set_node(node("a"), 0)
    engine.set_pod(pod("done", on="a"), 0)
    engine.set_pod(pod("done", on="a", phase="Succeeded"), 1)
    assert used(engine) == {"a": 0}


def test_pods_of_nodes_that_are_not_known_yet_count_once_they_are() -> None:
    engine = engine_of()
    engine.set_pod(pod("early", on="a"), 0)
    engine.set_node(node("a"), 1)
    assert used(engine) == {"a": 600}
    engine.remove_node("a", 2)
    engine.set_pod(pod("meanwhile", on="a", cpu="100m"), 2)
    engine.set_node(node("a"), 3)
    assert used(engine) == {"a": 700}


def test_pods_of_other_schedulers_are_left_alone() -> None:
    engine = engine_of()
    engine.set_node(node("a"), 0)
    engine.set_pod(pod("p", scheduler="elsewhere"), 0)
    assert engine.schedule(0) is None


def test_without_nodes_the_message_says_so() -> None:
    engine = engine_of()
    engine.set_pod(pod("p"), 0)
    refused = engine.schedule(0)
    assert isinstance(refused, Refused)
    assert refused.diagnosis.status is not None
    assert refused.diagnosis.status.message == "no nodes available to schedule pods"
    engine.set_node(node("a"), 1)
    engine.tick(4)
    assert isinstance(engine.schedule(4), Placed)


def test_a_rejection_in_reserve_takes_back_all_of_it() -> None:
    first, second, third = Recorder("First"), Recorder("Second", reserve=unschedulable_status("no")), Recorder("Third")
    engine = engine_of(first, second, third)
    engine.set_node(node("a"), 0)
    engine.set_pod(pod("p"), 0)
    refused = engine.schedule(0)
    assert isinstance(refused, Refused)
    assert refused.diagnosis.rejectors == {"Second"}
    assert used(engine) == {"a": 0}
    assert [first.asked, second.asked, third.asked] == [
        ["reserve", "unreserve"],
        ["reserve", "unreserve"],
        ["unreserve"],
    ]


@pytest.mark.parametrize("point", ["reserve", "permit"])
def test_an_error_in_a_plugin_fails_the_pod_alone_and_names_the_plugin(point: str) -> None:
    class Broken(Recorder):
        def reserve(self, pod: PodInfo, node: str, snapshot: Snapshot) -> Reserved:
            if point == "reserve":
                raise ZeroDivisionError("oh")
            return super().reserve(pod, node, snapshot)

        def permit(self, pod: PodInfo, node: str, now: float) -> tuple[Status, float]:
            raise ZeroDivisionError("oh")

    engine = engine_of(Broken("Broken"))
    engine.set_node(node("a"), 0)
    engine.set_pod(pod("p"), 0)
    failed = engine.schedule(0)
    assert isinstance(failed, Failed)
    assert failed.plugin == "Broken"
    assert failed.error == f'running {point.title()} plugin "Broken": ZeroDivisionError: oh'
    assert used(engine) == {"a": 0}


def test_a_held_pod_goes_on_when_every_plugin_has_allowed_it() -> None:
    engine = engine_of(Recorder("One", permit=WAIT), Recorder("Two", permit=WAIT))
    engine.set_node(node("a"), 0)
    engine.set_pod(pod("p"), 0)
    held = engine.schedule(0)
    assert isinstance(held, Waiting)
    assert used(engine) == {"a": 600}
    assert engine.allow("p", "One") is None
    placed = engine.allow("p", "Two")
    assert isinstance(placed, Placed)
    assert placed.node == "a"


@pytest.mark.parametrize(("asked_s", "held_s"), [(60, 60), (3600, 900)])
def test_the_first_permit_to_run_out_rejects_the_pod(asked_s: float, held_s: float) -> None:
    engine = engine_of(Recorder("One", permit=WAIT, timeout_s=7200), Recorder("Two", permit=WAIT, timeout_s=asked_s))
    engine.set_node(node("a"), 0)
    engine.set_pod(pod("p"), 0)
    assert isinstance(engine.schedule(0), Waiting)
    assert engine.tick(held_s - 1) == []
    (refused,) = engine.tick(held_s)
    assert refused.diagnosis.rejectors <= {"One", "Two"}
    assert used(engine) == {"a": 0}


def test_a_held_pod_may_be_rejected_or_deleted() -> None:
    engine = engine_of(Recorder("One", permit=WAIT))
    engine.set_node(node("a"), 0)
    for name in ("rejected", "deleted"):
        engine.set_pod(pod(name, cpu="100m"), 0)
        assert isinstance(engine.schedule(0), Waiting)
    assert isinstance(engine.reject("rejected", "One", "no", 1), Refused)
    engine.remove_pod("deleted", 1)
    assert used(engine) == {"a": 0}
    assert engine.allow("deleted", "One") is None
    assert engine.reject("deleted", "One", "no", 1) is None


def test_a_preemptor_waits_until_its_evictions_are_sent_and_takes_the_room_they_make() -> None:
    engine = engine_of(DefaultPreemption())
    engine.set_node(node("a"), 0)
    engine.set_pod(pod("victim", on="a"), 0)
    engine.set_pod(important("urgent"), 0)
    refused = engine.schedule(0)
    assert isinstance(refused, Refused)
    assert [action.uid for action in refused.actions if isinstance(action, Evict)] == ["victim"]
    assert refused.post_filter is not None
    assert engine.nominations.node_of("urgent") == refused.post_filter.nominate == "a"
    engine.remove_pod("victim", 50)
    assert engine.schedule(50) is None
    waiting = engine.queue.get("urgent")
    assert waiting is not None
    assert waiting.gate_reasons == ("waiting for the preemption for this pod to be finished",)
    engine.evictions_sent(refused, 51)
    placed = engine.schedule(51)
    assert isinstance(placed, Placed)
    assert placed.pod.info.name == "urgent"


def test_the_room_that_is_promised_to_a_pod_is_not_given_to_a_lesser_one() -> None:
    engine = engine_of(DefaultPreemption())
    engine.set_node(node("a"), 0)
    engine.set_pod(pod("victim", on="a"), 0)
    engine.set_pod(important("urgent"), 0)
    refused = engine.schedule(0)
    assert isinstance(refused, Refused)
    engine.remove_pod("victim", 1)
    engine.set_pod(pod("lesser"), 1)
    assert isinstance(engine.schedule(1), Refused)
    engine.evictions_sent(refused, 10)
    placed = engine.schedule(10)
    assert isinstance(placed, Placed)
    assert placed.pod.info.name == "urgent"


def test_a_pod_of_more_importance_takes_a_promise_away() -> None:
    engine = engine_of(DefaultPreemption())
    engine.set_node(node("a"), 0)
    engine.set_pod(pod("victim", on="a"), 0)
    engine.set_pod(important("urgent"), 0)
    assert isinstance(engine.schedule(0), Refused)
    more = important("more")
    engine.set_pod(msgspec.structs.replace(more, spec=msgspec.structs.replace(more.spec, priority=20)), 1)
    assert isinstance(engine.schedule(1), Refused)
    assert engine.nominations.node_of("urgent") == ""
    assert engine.nominations.node_of("more") == "a"


def test_what_was_reserved_is_taken_back_in_reverse() -> None:
    order: list[str] = []

    class Noting(Recorder):
        def unreserve(self, pod: PodInfo, node: str) -> None:
            order.append(self.name)

    engine = engine_of(Noting("One"), Noting("Two"), Noting("Three", reserve=unschedulable_status("no")))
    engine.set_node(node("a"), 0)
    engine.set_pod(pod("p"), 0)
    assert isinstance(engine.schedule(0), Refused)
    assert order == ["Three", "Two", "One"]


def test_a_binding_that_was_said_to_have_failed_takes_nothing_from_a_pod_that_is_there() -> None:
    engine = engine_of()
    engine.set_node(node("a"), 0)
    engine.set_pod(pod("p"), 0)
    placed = engine.schedule(0)
    assert isinstance(placed, Placed)
    engine.set_pod(pod("p", on="a"), 1)
    engine.binding_failed(placed, 2)
    assert used(engine) == {"a": 600}
    engine.tick(100)
    assert engine.schedule(100) is None


def test_no_pod_counts_on_two_nodes() -> None:
    engine = engine_of()
    for name in ("a", "b"):
        engine.set_node(node(name), 0)
    info = engine.cache.reader.read(pod("p"))
    engine.cache.assume(info, "a")
    with pytest.raises(ValueError, match="pod default/p is already placed, on node a"):
        engine.cache.assume(info, "b")
    assert used(engine) == {"a": 600, "b": 0}


class Breaking:
    """A filter whose evaluator breaks when three pods are on a node."""

    name = "Breaking"
    reads = Reads.LOAD

    def filter(self, state: Any, pod: PodInfo, snapshot: Snapshot) -> Verdict:
        return pass_all(snapshot.count)

    def filter_evaluator(self, template: PodTemplate, nodes: NodeTable) -> ColumnEvaluator:
        counted = ColumnDefinition(
            ("Breaking",),
            lambda snapshot: snapshot.pod_count[np.newaxis].astype(np.float64),
            lambda _, load, row: (float(load.pod_count[row]),),
        )

        def read(numbers: Numbers) -> Mask:
            if numbers[0].max() > 2:
                raise RuntimeError("too many pods")
            return np.ones(numbers.shape[1], dtype=np.bool_)

        return ColumnEvaluator(counted, read)


def test_what_breaks_in_an_evaluator_ends_that_pods_cycle_with_the_plugins_name() -> None:
    engine = engine_of(Breaking())
    engine.set_node(node("a", cpu="10"), 0.0)
    decided = []
    for number in range(4):
        engine.set_pod(pod(f"p{number}", "1m"), float(number))
        decided.append(engine.schedule(float(number)))
    assert [type(each) for each in decided] == [Placed, Placed, Placed, Failed]
    assert isinstance(decided[3], Failed)
    assert decided[3].error == 'running Filter plugin "Breaking": RuntimeError: too many pods'

"""What it means for others that a node is promised to a pod, and that a promise is taken back."""

from __future__ import annotations

import msgspec
import pytest

from situate.framework.engine.decisions import Placed, Refused
from situate.framework.engine.engine import Engine
from situate.framework.profile.profile import profile_of
from situate.framework.queue.scheduling_queue import QueueSettings
from situate.objects.kinds.meta import ObjectMeta
from situate.objects.kinds.nodes import Node, NodeStatus
from situate.objects.kinds.pods import Container, Pod, PodSchedulingGate, PodSpec, PodStatus, ResourceRequirements
from situate.objects.values.quantity import parse_quantity
from situate.plugins.default_binder import DefaultBinder
from situate.plugins.default_preemption import DefaultPreemption
from situate.plugins.node_resources_fit import NodeResourcesFit
from situate.plugins.priority_sort import PrioritySort
from situate.plugins.scheduling_gates import SchedulingGates


def cluster() -> Engine:
    plugins = (SchedulingGates(), PrioritySort(), NodeResourcesFit(), DefaultPreemption(), DefaultBinder())
    profile = profile_of("here", [(each, 1) for each in plugins])
    engine = Engine([profile], QueueSettings(pop_from_backoff=False))
    room = {"cpu": parse_quantity("1"), "memory": parse_quantity("1Gi"), "pods": parse_quantity("10")}
    engine.set_node(Node(ObjectMeta(name="a"), status=NodeStatus(allocatable=room)), 0)
    return engine


def pod(name: str, priority: int = 0, nominated: str = "", *, gated: bool = False, on: str = "") -> Pod:
    requests = ResourceRequirements(requests={"cpu": parse_quantity("600m")})
    spec = PodSpec(
        scheduler_name="here",
        priority=priority,
        node_name=on,
        containers=(Container(resources=requests),),
        scheduling_gates=(PodSchedulingGate("wait"),) if gated else (),
    )
    meta = ObjectMeta(name=name, namespace="default", uid=name)
    return Pod(meta, spec, PodStatus(nominated_node_name=nominated))


def holding(holder: int, other: int) -> Engine:
    """A gated pod has been promised the node, and another one has been refused for it."""
    engine = cluster()
    engine.set_pod(pod("holder", holder, "a", gated=True), 0)
    engine.set_pod(pod("other", other), 0)
    assert isinstance(engine.schedule(0), Refused)
    assert engine.schedule(50) is None
    return engine


@pytest.mark.parametrize("how", ["taken back", "taken back by ourselves", "deleted"])
@pytest.mark.parametrize("other", [0, 5])
def test_a_promise_that_is_taken_back_wakes_those_who_had_to_heed_it(how: str, other: int) -> None:
    engine = holding(5, other)
    if how == "deleted":
        engine.remove_pod("holder", 100)
    else:
        if how == "taken back by ourselves":
            engine.nominations.remove("holder")
        engine.set_pod(pod("holder", 5, gated=True), 100)
    assert isinstance(engine.schedule(100), Placed)


def test_it_wakes_nobody_who_did_not_have_to_heed_it() -> None:
    engine = cluster()
    engine.set_pod(pod("there", 9, on="a"), 0)
    engine.set_pod(pod("holder", 5, "a", gated=True), 0)
    engine.set_pod(pod("more-important", 8), 0)
    assert isinstance(engine.schedule(0), Refused)
    engine.set_pod(pod("holder", 5, gated=True), 100)
    assert engine.schedule(100) is None


def test_a_promise_that_is_not_written_yet_outlives_what_the_watch_says() -> None:
    engine = cluster()
    engine.set_pod(pod("victim", 0, on="a"), 0)
    urgent = pod("urgent", 10)
    engine.set_pod(urgent, 0)
    refused = engine.schedule(0)
    assert isinstance(refused, Refused)
    assert engine.nominations.node_of("urgent") == "a"
    labelled = msgspec.structs.replace(urgent, metadata=ObjectMeta("urgent", "default", "urgent", labels={"x": "y"}))
    engine.set_pod(labelled, 1)
    assert engine.nominations.node_of("urgent") == "a"
    (promised,) = engine.nominations.pods_on("a")
    assert promised.labels == {"x": "y"}, "the pod as it is now is counted"
    engine.set_pod(pod("urgent", 10, "a"), 2)
    engine.set_pod(pod("urgent", 10), 3)
    assert engine.nominations.node_of("urgent") == "", "somebody has cleared it"

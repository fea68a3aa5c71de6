from __future__ import annotations

from situate.framework.cycle.handle import Handle, HandlePlugin
from situate.framework.engine.decisions import Placed, Refused, Waiting
from situate.framework.engine.engine import Engine
from situate.framework.plugin_api.actions import Evict, Patch
from situate.framework.pod.pods import PodInfo
from situate.framework.profile.profile import profile_of
from situate.framework.results.status import SUCCESS, Code, Status
from situate.objects.kinds.meta import ObjectMeta
from situate.objects.kinds.nodes import Node, NodeStatus
from situate.objects.values.quantity import parse_quantity
from situate.plugins.node_resources_fit import NodeResourcesFit
from situate.plugins.priority_sort import PrioritySort
from tests.framework.clusters import a_node
from tests.framework.pods import SCHEDULER, pod_info


class Pairs:
    """Holds each pod until its partner has a node as well; asks for room where the next pod would not fit."""

    name = "Pairs"

    def __init__(self, handle: Handle | None = None) -> None:
        self.handle = handle

    def with_handle(self, handle: Handle) -> Pairs:
        return Pairs(handle)

    def permit(self, pod: PodInfo, node: str, now: float) -> tuple[Status, float]:
        assert self.handle is not None
        partner = pod.labels.get("partner", "")
        if partner == "nobody":
            self.handle.reject("first", "its partner stays alone")
            return SUCCESS, 0.0
        if partner and partner in self.handle.snapshot.placed:
            self.handle.allow(partner)
            self.handle.activate(["late"])
            return SUCCESS, 0.0
        if partner:
            return Status(Code.WAIT), 60.0
        after = self.handle.snapshot  # the pod counts there already
        if not self.handle.what_if(pod, after).best_node:
            self.handle.ask(Patch("deployments.apps", ("default", "web"), {"spec": {"replicas": 3}}, "scale"))
        return SUCCESS, 0.0


def pairing(*nodes: Node) -> Engine:
    engine = Engine([profile_of(SCHEDULER, [(PrioritySort(), 0), (NodeResourcesFit(), 1), (Pairs(), 0)])])
    for node in nodes:
        engine.set_node(node, 0.0)
    return engine


def add(engine: Engine, name: str, partner: str = "", cpu: str = "1") -> None:
    made = pod_info(name, requests={"cpu": cpu}, labels={"partner": partner} if partner else {})
    engine.set_pod(made.pod, 0.0)


def test_a_plugin_lets_another_pod_go() -> None:
    engine = pairing(a_node("a"))
    add(engine, "first", "second")
    assert isinstance(engine.schedule(0.0), Waiting)
    add(engine, "second", "first")
    told = [engine.schedule(0.0), engine.schedule(0.0), engine.schedule(0.0)]
    assert [each.pod.info.name if isinstance(each, Placed) else each for each in told] == ["second", "first", None]


def test_a_plugin_rejects_a_pod_that_is_held() -> None:
    engine = pairing(a_node("a"))
    add(engine, "first", "second")
    assert isinstance(engine.schedule(0.0), Waiting)
    add(engine, "third", "nobody")
    (placed,) = engine.schedule_run(0.0, 10)
    assert isinstance(placed, Placed)
    (refused,) = engine.schedule_run(0.0, 10)
    assert isinstance(refused, Refused)
    assert refused.diagnosis.status == Status(Code.UNSCHEDULABLE, ("its partner stays alone",), "Pairs")
    assert "first" not in engine.snapshot.placed


def test_a_plugin_calls_a_pod_that_nothing_would_have_called() -> None:
    engine = pairing(a_node("a"))
    add(engine, "late", cpu="64")
    assert isinstance(engine.schedule(0.0), Refused)
    add(engine, "first", "second")
    add(engine, "second", "first")
    told = [engine.schedule(0.0) for _ in range(5)]
    names = [each.pod.info.name if each is not None else "" for each in told]
    assert names == ["first", "second", "first", "late", ""]


def test_a_plugin_asks_for_something_beside_its_placement() -> None:
    engine = pairing(a_node("a", cpu="2"))
    add(engine, "web", cpu="2")
    assert isinstance(engine.schedule(0.0), Placed)
    (asked,) = engine.take_requested_actions()
    assert asked == Patch("deployments.apps", ("default", "web"), {"spec": {"replicas": 3}}, "scale")
    assert engine.take_requested_actions() == ()


def test_on_a_branch_a_plugin_cannot_reach_the_engine_at_work() -> None:
    engine = pairing(a_node("a"))
    add(engine, "first", "second")
    assert isinstance(engine.schedule(0.0), Waiting)
    branch = engine.branch()
    add(branch, "second", "first")
    assert isinstance(branch.schedule(0.0), Placed)
    assert engine.schedule(0.0) is None
    assert "first" in engine.permits


def test_what_a_plugin_makes_of_its_snapshot_is_its_own() -> None:
    handles: list[Handle] = []

    class Keeps:
        name = "Keeps"

        def with_handle(self, handle: Handle) -> Keeps:
            handles.append(handle)
            return self

        def post_bind(self, pod: PodInfo, node: str) -> tuple[Evict, ...]:
            return ()

    assert isinstance(Keeps(), HandlePlugin)
    engine = Engine([profile_of(SCHEDULER, [(PrioritySort(), 0), (NodeResourcesFit(), 1), (Keeps(), 0)])])
    room = {"cpu": parse_quantity("4"), "pods": parse_quantity("10")}
    engine.set_node(Node(ObjectMeta(name="a"), status=NodeStatus(allocatable=room)), 0.0)
    (handle,) = handles
    newest = engine.snapshot
    info = engine.cache.reader.read(pod_info("web", requests={"cpu": "1"}).pod)
    assert handle.snapshot.assume(info, 0).pod_count[0] == 1
    assert engine.snapshot is newest
    assert newest.pod_count[0] == 0

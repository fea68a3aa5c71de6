from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

import msgspec
import pytest

from situate.framework.engine.decisions import Placed, Refused
from situate.framework.engine.engine import Engine
from situate.framework.explain.compare import Agreement
from situate.framework.plugin_api.actions import Evict
from situate.framework.plugin_api.configuration import KubeSchedulerConfiguration, PluginConfig, SchedulerProfile
from situate.framework.profile.profiles import profiles_of
from situate.objects.kinds.nodes import Node, Taint
from situate.objects.kinds.pods import Pod, PodSpec
from situate.objects.resources import NODES, PODS
from situate.plugins.registry import registry
from situate.scheduler.recordings.format import BindingEntry, Entry, EntryType, ObjectEntry, SyncedEntry
from situate.scheduler.recordings.replay import Replay, replay
from tests.framework.clusters import a_node, a_pod, default_profile


@dataclass
class Cluster:
    """A cluster with a scheduler of its own, and what a recorder would have written of it."""

    engine: Engine = field(default_factory=lambda: Engine([default_profile()]))
    entries: list[Entry] = field(default_factory=list)
    pods: dict[str, Pod] = field(default_factory=dict)
    now: float = 0.0

    def node(self, node: Node, type_: EntryType = "ADDED") -> None:
        self.entries.append(ObjectEntry(self.now, type_, NODES, node))
        self.engine.set_node(node, self.now)

    def node_gone(self, node: Node) -> None:
        self.entries.append(ObjectEntry(self.now, "DELETED", NODES, node))
        self.engine.remove_node(node.metadata.name, self.now)

    def pod(self, pod: Pod, type_: EntryType = "ADDED") -> None:
        self.entries.append(ObjectEntry(self.now, type_, PODS, pod))
        self.pods[pod.metadata.uid] = pod
        self.engine.set_pod(pod, self.now)

    def pod_gone(self, uid: str) -> None:
        self.entries.append(ObjectEntry(self.now, "DELETED", PODS, self.pods.pop(uid)))
        self.engine.remove_pod(uid, self.now)

    def synced(self) -> None:
        self.entries.append(SyncedEntry(self.now))

    def wait(self, seconds: float) -> None:
        """The scheduler does all that can be done now, and then whatever falls due before the time is over."""
        until = self.now + seconds
        self.schedule()
        while (later := self.engine.queue.next_tick(self.now)) is not None and later < until:
            self.now = later
            self.schedule()
        self.now = until

    def schedule(self) -> None:
        self.engine.tick(self.now)
        while (decision := self.engine.schedule(self.now)) is not None:
            if isinstance(decision, Placed):
                self.bound(decision.pod.info.pod, decision.node)
                self.engine.binding_succeeded(decision)
            elif isinstance(decision, Refused):
                for action in decision.actions:
                    if isinstance(action, Evict) and action.uid in self.pods:
                        self.pod_gone(action.uid)
                self.engine.evictions_sent(decision, self.now)

    def bound(self, pod: Pod, node: str) -> None:
        meta = pod.metadata
        self.entries.append(BindingEntry(self.now, f"{meta.namespace}/{meta.name}", meta.uid, node))
        self.pod(msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=node)), "MODIFIED")


class Complaints:
    def __init__(self) -> None:
        self.told: list[str] = []

    def bad_object(self, each: object, problem: str) -> None:
        self.told.append(problem)

    def bad_selector(self, resource: object, each: object, problem: str) -> None:
        self.told.append(problem)

    def good_object(self, resource: str, uid: str) -> None:
        pass


def played(cluster: Cluster, make: Callable[[], Engine] = lambda: Engine([default_profile()])) -> Replay:
    complaints = Complaints()
    result = replay(cluster.entries, make, complaints)
    assert complaints.told == []
    return result


def packing() -> Engine:
    """Fills nodes instead of spreading over them."""
    args = {"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}]}}
    profile = SchedulerProfile(plugin_config=(PluginConfig("NodeResourcesFit", args),))
    configuration = KubeSchedulerConfiguration(percentage_of_nodes_to_score=100, profiles=(profile,))
    profiles, mistakes = profiles_of(configuration, registry(())[0])
    assert not mistakes
    return Engine(profiles)


def a_day(seed: int) -> Cluster:
    """Nodes and pods that come and go, some of which never fit, and some that push out others."""
    random = Random(seed)
    cluster = Cluster()
    nodes = [a_node(f"n{number}", cpu=random.choice("248")) for number in range(random.randrange(1, 6))]
    for node in nodes:
        cluster.node(node, "LISTED")
    cluster.pod(a_pod("fixed", "1", node="n0"), "LISTED")
    cluster.synced()
    cluster.wait(1.0)
    for number in range(30):
        match random.randrange(8):
            case 0:
                cluster.node(a_node(f"late-{number}", cpu="2"))
            case 1 if len(cluster.pods) > 3:
                cluster.pod_gone(random.choice(sorted(cluster.pods)))
            case 2:
                taint = (Taint("k", "v", "NoSchedule"),) if random.random() < 0.5 else ()
                cluster.node(a_node(random.choice(nodes).metadata.name, cpu="4", taints=taint), "MODIFIED")
            case _:
                spec = PodSpec(priority=random.choice((0, 0, 0, 10)))
                cluster.pod(a_pod(f"pod-{number}", random.choice(("500m", "1", "3", "16")), spec=spec))
        cluster.wait(random.choice((0.1, 1.3, 5.2, 20.7)))
    return cluster


def test_under_the_same_profile_every_placement_is_the_same() -> None:
    placed = waited = 0
    for seed in range(15):
        cluster = a_day(seed)
        result = played(cluster)
        assert [(each.pod, each.here) for each in result.stories if not each.preempted] == [
            (each.pod, each.there) for each in result.stories if not each.preempted
        ], f"seed {seed}"
        placed += sum(bool(each.here) for each in result.stories)
        waited += sum(not each.here for each in result.stories)
        assert result.there.requested == result.here.requested
        assert result.averages.nodes_there == result.averages.nodes_here
    assert placed > 100
    assert waited > 20


def test_another_profile_is_compared_placement_by_placement() -> None:
    cluster = Cluster()
    for number in range(4):
        cluster.node(a_node(f"n{number}"), "LISTED")
    cluster.synced()
    for number in range(4):
        cluster.wait(10.0)
        cluster.pod(a_pod(f"web-{number}", "1"))
    cluster.wait(10.0)
    result = played(cluster, packing)
    assert [each.here for each in result.stories] == ["n0"] * 4
    assert [each.there for each in result.stories] == ["n0", "n1", "n2", "n3"]
    assert result.counts()[Agreement.SAME] == 1
    assert result.counts()[Agreement.OTHER] == 3
    second = result.stories[1]
    assert second.comparison is not None
    assert second.comparison.shares["NodeResourcesFit"] == (50, 25)
    assert second.difference.startswith("n0 has ")
    assert (result.there.nodes_used, result.here.nodes_used) == (4, 1)
    assert result.there.spread == 0.0
    assert result.here.spread == pytest.approx(0.433, abs=0.001)
    assert result.averages.nodes_here < result.averages.nodes_there


def test_a_pod_that_waits_on_one_side_alone_says_why() -> None:
    cluster = Cluster()
    cluster.node(a_node("small", cpu="1"), "LISTED")
    cluster.synced()
    cluster.now = 1.0
    waits = a_pod("there", "2")
    cluster.entries.append(ObjectEntry(1.0, "ADDED", PODS, waits))
    cluster.entries.append(BindingEntry(2.0, "default/there", "there", "small"))  # by somebody who overcommits
    fits = a_pod("here", "1")
    cluster.entries.append(ObjectEntry(3.0, "ADDED", PODS, fits))
    result = played(cluster)
    assert [(each.agreement, each.difference) for each in result.stories] == [
        (Agreement.REFUSED_HERE, "small: NodeResourcesFit: Insufficient cpu"),
        (Agreement.REFUSED_THERE, "small is feasible here"),
    ]
    assert (result.averages.most_pending_there, result.averages.most_pending_here) == (1, 1)


def test_what_came_with_a_node_is_where_it_was_recorded() -> None:
    cluster = Cluster()
    cluster.node(a_node("a"), "LISTED")
    cluster.node(a_node("b"), "LISTED")
    cluster.pod(a_pod("static", "3", node="a"), "LISTED")
    cluster.synced()
    cluster.wait(1.0)
    cluster.pod(a_pod("web", "2"))
    cluster.wait(1.0)
    result = played(cluster)
    assert [(each.pod, each.here) for each in result.stories] == [("default/web", "b")]


def test_times_are_those_of_the_recording() -> None:
    cluster = Cluster()
    cluster.node(a_node("small", cpu="500m"), "LISTED")
    cluster.synced()
    cluster.wait(5.0)
    cluster.pod(a_pod("web", "1"))
    cluster.wait(20.0)
    cluster.node(a_node("a"))
    cluster.wait(1.0)
    (story,) = played(cluster).stories
    assert (story.arrived, story.here_at, story.there_at) == (5.0, 25.0, 25.0)


def test_a_long_recording_is_added_up_and_some_moments_are_kept() -> None:
    cluster = Cluster()
    cluster.node(a_node("a", pods="9000", cpu="64"), "LISTED")
    cluster.synced()
    cluster.wait(10.0)
    for number in range(1500):
        cluster.pod(a_pod(f"web-{number}"))
        cluster.wait(1.0)
    cluster.pod(a_pod("huge", "65"))
    cluster.wait(1500.0)
    cluster.node(a_node("b"))
    result = played(cluster)
    assert result.seconds == 3010.0
    assert result.averages.pending_there == result.averages.pending_here
    assert result.averages.pending_here == pytest.approx(0.5, abs=0.01)
    assert 500 <= len(result.samples) <= 1001
    assert (result.samples[0].at, result.samples[-1].at) == (0.0, 3010.0)

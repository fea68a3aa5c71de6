"""What comes of a pod that fits nowhere: a promise and the end of others, or the sentence why nothing helps."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from situate.framework.cycle.cycle import find_feasible
from situate.framework.plugin_api.actions import Evict, Nominate
from situate.framework.plugin_api.plugin import PostFiltered
from situate.framework.preemption.nominations import Nominations
from situate.framework.preemption.post_filter import run_post_filter
from situate.framework.profile.profile import profile_of
from situate.framework.results.status import Code
from situate.objects.kinds.meta import ObjectMeta
from situate.objects.kinds.nodes import Node, NodeStatus
from situate.objects.kinds.pods import Container, Pod, PodSpec, ResourceRequirements
from situate.objects.values.quantity import parse_quantity
from situate.plugins.default_preemption import DefaultPreemption, DefaultPreemptionArgs
from situate.plugins.node_affinity import NodeAffinity
from situate.plugins.node_resources_fit import NodeResourcesFit
from situate.plugins.priority_sort import PrioritySort
from tests.plugins.twins.world import World
from tests.plugins.vector import Vectors

EVERY_NODE = DefaultPreemptionArgs()


def node(name: str, cpu: str = "2") -> Node:
    room = {"cpu": parse_quantity(cpu), "pods": parse_quantity("10")}
    return Node(ObjectMeta(name=name, labels={"name": name}), status=NodeStatus(allocatable=room))


def pod(name: str, cpu: str, on: str = "", priority: int = 0, selector: str = "", ended: bool = False) -> Pod:
    container = Container(resources=ResourceRequirements({"cpu": parse_quantity(cpu)}))
    return Pod(
        ObjectMeta(
            name=name, namespace="ns", uid=name, deletion_timestamp=datetime(2026, 1, 1, tzinfo=UTC) if ended else None
        ),
        PodSpec(
            node_name=on,
            scheduler_name="mine",
            priority=priority,
            containers=(container,),
            node_selector={"name": selector} if selector else {},
        ),
    )


def decide(
    new: Pod,
    nodes: Sequence[Node],
    pods: Sequence[Pod],
    promised: Sequence[tuple[Pod, str]] = (),
    arguments: DefaultPreemptionArgs = EVERY_NODE,
) -> PostFiltered:
    plugins = (PrioritySort(), NodeAffinity(), NodeResourcesFit(), DefaultPreemption(arguments))
    profile = profile_of("mine", [(plugin, 1) for plugin in plugins])
    vectors = Vectors.of(World(tuple(nodes), tuple(pods)))
    nominations = Nominations()
    for each, at in promised:
        nominations.nominate(vectors.read(each), at)
    info = vectors.read(new)
    against = nominations.competing_pods(info, vectors.snapshot.nodes.index)
    found = find_feasible(profile, info, vectors.snapshot, against)
    assert not found.passes.any()
    result = run_post_filter(profile, found, info, found.diagnosis(), nominations)
    assert result is not None
    return result


def test_the_cheapest_node_is_promised_and_its_victims_are_ended() -> None:
    pods = [
        pod("a", "2", "dear", priority=5),
        pod("b", "1", "cheap", priority=1),
        pod("c", "1", "cheap", priority=2),
    ]
    result = decide(pod("new", "1", priority=9), [node("dear"), node("cheap")], pods)
    assert (result.status.code, result.nominate) == (Code.SUCCESS, "cheap")
    message = "mine: preempting to accommodate a higher priority pod"
    assert result.actions == (Evict(("ns", "b"), "b", "PreemptionByScheduler", message),)


def test_a_victim_that_is_leaving_is_not_ended_again() -> None:
    result = decide(pod("new", "2", priority=9), [node("n")], [pod("a", "2", "n", ended=True)])
    assert (result.nominate, result.actions) == ("n", ())


def test_lower_pods_that_were_promised_the_node_lose_it() -> None:
    promised = [(pod("low", "100m", priority=3), "n"), (pod("other", "100m", priority=3), "elsewhere")]
    result = decide(pod("new", "2", priority=9), [node("n")], [pod("a", "2", "n")], promised)
    assert result.actions[1:] == (Nominate(("ns", "low"), "low", ""),)


def test_room_promised_to_a_pod_of_its_own_priority_is_not_taken() -> None:
    promised = [(pod("first", "1500m", priority=9), "n")]
    result = decide(pod("new", "1", priority=9), [node("n")], [pod("a", "500m", "n")], promised)
    assert result.nominate == ""
    assert result.status.message == "preemption: 0/1 nodes are available: 1 Insufficient cpu."


def test_why_nothing_helps_is_said_in_upstreams_words() -> None:
    nodes = [node("full"), node("high"), node("other"), node("small", "500m")]
    pods = [
        pod("a", "1", "full", priority=9),
        pod("b", "1500m", "full", priority=9),
        pod("c", "2", "high", priority=10),
    ]
    result = decide(pod("new", "1", priority=9), [nodes[1], nodes[3]], [pods[2]])
    assert result.status.code is Code.UNSCHEDULABLE
    assert result.status.message == (
        "preemption: 0/2 nodes are available: "
        "1 No preemption victims found for incoming pod, 1 Preemption is not helpful for scheduling."
    )
    pods = [pod("a", "1500m", "full", priority=9), pod("b", "500m", "full")]
    result = decide(pod("new", "1", priority=9), [nodes[0]], pods)
    assert result.status.message == "preemption: 0/1 nodes are available: 1 Insufficient cpu."


def test_a_pod_that_must_not_preempt_says_so_and_keeps_its_promise() -> None:
    new = pod("new", "1", priority=9)
    never = Pod(new.metadata, PodSpec(priority=9, preemption_policy="Never", containers=new.spec.containers))
    result = decide(never, [node("n")], [pod("a", "2", "n")])
    assert result.status.message == "preemption: not eligible due to preemptionPolicy=Never."
    assert result.nominate is None


@pytest.mark.parametrize(
    ("arguments", "nodes", "enough"),
    [
        pytest.param(DefaultPreemptionArgs(), 5000, None, id="every node"),
        pytest.param(DefaultPreemptionArgs(10), 5000, 500, id="a tenth"),
        pytest.param(DefaultPreemptionArgs(None, 7), 20, 7, id="seven, more than a tenth"),
    ],
)
def test_the_search_is_cut_short_only_if_asked(
    arguments: DefaultPreemptionArgs, nodes: int, enough: int | None
) -> None:
    assert arguments.candidates_limit(nodes) == enough


def test_with_a_cut_off_another_node_may_be_taken() -> None:
    nodes = [node(f"n{number}") for number in range(6)]
    pods = [pod(f"p{number}", "2", f"n{number}") for number in range(6)]
    arguments = DefaultPreemptionArgs(0, 1)
    chosen = {
        decide(pod(f"new-{number}", "2", priority=1), nodes, pods, arguments=arguments).nominate for number in range(20)
    }
    assert len(chosen) > 1, "every search began at the same node"

"""Room by kube-scheduler's filters (3.7)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from situate.cluster.controllers.scheduler.scheduler import default_profile
from situate.framework.snapshot.cache import Cache
from situate.objects.kinds.nodes import Node
from situate.objects.kinds.pods import NodeSelectorRequirement, Pod
from situate.objects.values.quantity import decode_quantity
from situate.spot.capacity.scheduler_capacity import SchedulerCapacity, unclassified_copy
from situate.spot.nodes.known_signals import SIGNALS, on_demand_requirement, pool_tolerations
from situate.spot.nodes.node_signals import node_facts
from situate.spot.workloads.owners import pod_facts
from tests.spot.builders import NOW, OD, SPOT

OURS = on_demand_requirement(SIGNALS)
CAPACITY = "node.kubernetes.io/capacity"


def node(name: str, capacity: str, cpu: str = "2", **spec: Any) -> Node:
    labels = {CAPACITY: capacity, "node.kubernetes.io/instance-type": f"type-{name}"}
    amounts = {"cpu": cpu, "memory": "8Gi", "pods": "10"}
    wire = {"metadata": {"name": name, "labels": labels}, "spec": spec, "status": {"allocatable": amounts}}
    return msgspec.convert(wire, Node, dec_hook=decode_quantity)


def pod(
    name: str, cpu: str = "1", node: str = "", uid: str = "", labels: dict[str, str] | None = None, **spec: Any
) -> Pod:
    container = {"name": "main", "resources": {"requests": {"cpu": cpu}}}
    wire = {
        "metadata": {"name": name, "namespace": "shop", "uid": uid or f"uid-{name}", "labels": labels or {}},
        "spec": {"nodeName": node, "containers": [container], **spec},
        "status": {"phase": "Running" if node else "Pending"},
    }
    return msgspec.convert(wire, Pod, dec_hook=decode_quantity)


def classed(name: str, node: str, *values: str) -> Pod:
    terms = [{"matchExpressions": [{"key": CAPACITY, "operator": "In", "values": list(values)}]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return pod(name, node=node, affinity={"nodeAffinity": required})


def room(nodes: list[Node], pods: list[Pod]) -> SchedulerCapacity:
    cache = Cache()
    for each in nodes:
        cache.set_node(each)
    for one in pods:
        if one.spec.node_name:
            cache.set_pod(cache.reader.read(one), one.spec.node_name)
    facts = {each.metadata.name: node_facts(each, SIGNALS, NOW) for each in nodes}
    by_uid = {one.metadata.uid: one for one in pods}
    return SchedulerCapacity(cache, default_profile(), facts, by_uid.get, OURS, pool_tolerations(SIGNALS))


@pytest.mark.rule("spot:D17", "spot:P35", "spot:S10")
def test_a_pod_is_asked_about_as_if_it_had_not_been_classed() -> None:
    moved = classed("a", "od", "on-demand")
    asked = room([node("od", "on-demand"), node("spot", "spot")], [moved, pod("b", node="od")])
    assert asked.fits(pod_facts(moved), SPOT)
    assert not asked.fits(pod_facts(moved), OD), "on demand is full"
    assert asked.fits(pod_facts(moved), OD, without=pod_facts(pod("b", node="od")))
    assert not asked.fits(pod_facts(moved), SPOT, pools={"another"})
    assert asked.fits(pod_facts(moved), SPOT, pools={"type-spot"})
    assert not asked.fits(pod_facts(pod("nobody")), SPOT)


@pytest.mark.rule("spot:S10", "spot:S24")
def test_the_users_own_constraints_hold() -> None:
    pinned = pod("a", nodeSelector={"disk": "ssd"})
    assert not room([node("spot", "spot")], [pinned]).fits(pod_facts(pinned), SPOT)
    large = pod("a", cpu="3")
    assert not room([node("spot", "spot")], [large]).fits(pod_facts(large), SPOT)


@pytest.mark.rule("spot:I14", "spot:B22")
def test_nodes_that_end_or_take_no_pods_are_no_room_and_tainted_pools_are() -> None:
    asked = pod("a")
    itn = [{"key": "aws-node-termination-handler/rebalance-recommendation", "effect": "PreferNoSchedule"}]
    assert not room([node("spot", "spot", taints=itn)], [asked]).fits(pod_facts(asked), SPOT)
    assert not room([node("spot", "spot", unschedulable=True)], [asked]).fits(pod_facts(asked), SPOT)
    azure = [{"key": "kubernetes.azure.com/scalesetpriority", "value": "spot", "effect": "NoSchedule"}]
    assert room([node("spot", "spot", taints=azure)], [asked]).fits(pod_facts(asked), SPOT)


def test_only_our_own_expression_is_taken_out() -> None:
    both = classed("a", "", "on-demand")
    terms = both.spec.affinity.node_affinity
    assert terms is not None
    assert unclassified_copy(both, OURS, ()).spec.affinity.node_affinity == msgspec.structs.replace(
        terms, required=None
    )
    theirs = classed("a", "", "on-demand", "spot")
    assert unclassified_copy(theirs, OURS, ()).spec.affinity == theirs.spec.affinity
    assert NodeSelectorRequirement(CAPACITY, "In", ("on-demand",)) == OURS


@pytest.mark.rule("spot:B31")
def test_what_has_moved_takes_room_where_it_would_be_placed_and_leaves_room_where_it_was() -> None:
    nodes = [node("od-1", "on-demand"), node("od-2", "on-demand", cpu="4"), node("spot", "spot")]
    pods = [pod(name, node="spot") for name in ("a", "b")]
    facts = {each.metadata.name: pod_facts(each) for each in pods}
    asked = room(nodes, pods)
    assert not asked.fits(facts["a"], SPOT)
    first, where = asked.after_move(facts["a"], "a2", OD)
    assert where == "od-2", "the emptier one has the better score"
    assert first.fits(facts["b"], SPOT)
    again, back = first.after_move(pod_facts(pod("a2", node="od-2", uid="a2")), "a3", SPOT)
    assert back == "spot"
    assert not again.fits(facts["b"], SPOT)
    assert again.fits(facts["b"], SPOT, without=pod_facts(pod("a3", node="spot", uid="a3")))
    assert not asked.fits(facts["a"], SPOT), "the room that was asked stays as it was"
    large = pod("large", cpu="9", node="spot")
    left, nowhere = room(nodes, [large]).after_move(pod_facts(large), "x", OD)
    assert nowhere == ""
    assert left.fits(facts["a"], SPOT) is False, "a pod that is not known fits nowhere"


def test_a_pod_that_no_node_holds_leaves_nothing_behind() -> None:
    lost = pod("lost", node="gone")
    asked = room([node("od", "on-demand")], [lost])
    assert asked.fits(pod_facts(lost), OD, without=pod_facts(lost))
    assert asked.after_move(pod_facts(lost), "new", OD)[1] == "od"


@pytest.mark.rule("spot:S24", "spot:D17")
def test_a_pod_does_not_stand_in_its_own_way() -> None:
    """One pod of a kind in each zone: the only one may go to its zone's on-demand node, where another one may not."""
    zone = "topology.kubernetes.io/zone"
    term = {"topologyKey": zone, "labelSelector": {"matchLabels": {"app": "web"}}}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    nodes = [zoned(node("od", "on-demand"), "a"), zoned(node("spot", "spot"), "a"), zoned(node("far", "spot"), "b")]
    alone = labelled(pod("a", node="spot", affinity=apart))
    other = labelled(pod("b", node="far", affinity=apart))
    asked = room(nodes, [alone, other])
    assert asked.fits(pod_facts(alone), OD)
    assert not asked.fits(pod_facts(other), OD)


def zoned(of: Node, zone: str) -> Node:
    labels = {**of.metadata.labels, "topology.kubernetes.io/zone": zone}
    return msgspec.structs.replace(of, metadata=msgspec.structs.replace(of.metadata, labels=labels))


def labelled(of: Pod) -> Pod:
    return msgspec.structs.replace(of, metadata=msgspec.structs.replace(of.metadata, labels={"app": "web"}))

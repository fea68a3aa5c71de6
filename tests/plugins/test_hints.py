"""Who wakes on what: a pod that a plugin refused comes back to the queue only for events that may help it."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import pytest

from situate.framework.plugin_api.changes import node_change, pod_change
from situate.framework.plugin_api.events import Change, ClusterEvent, Subject
from situate.framework.pod.pods import PodInfo, PodReader
from situate.framework.profile.profile import profile_of
from situate.framework.queue.queued_pod import QueueState
from situate.framework.queue.scheduling_queue import SchedulingQueue
from situate.framework.snapshot.node_table import Vocabulary
from situate.objects.kinds.meta import ObjectMeta
from situate.objects.kinds.nodes import Node, NodeSpec, NodeStatus, Taint
from situate.objects.kinds.pods import (
    Affinity,
    Container,
    ContainerPort,
    ContainerRestartRule,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodSchedulingGate,
    PodSpec,
    ResourceRequirements,
    Toleration,
    TopologySpreadConstraint,
)
from situate.objects.kinds.selectors import LabelSelector
from situate.objects.values.quantity import parse_quantity
from situate.plugins import node_affinity
from situate.plugins.default_preemption import DefaultPreemption
from situate.plugins.inter_pod_affinity import InterPodAffinity
from situate.plugins.node_declared_features import NodeDeclaredFeatures
from situate.plugins.node_name import NodeName
from situate.plugins.node_ports import NodePorts
from situate.plugins.node_resources_fit import NodeResourcesFit, NodeResourcesFitArgs
from situate.plugins.node_unschedulable import NodeUnschedulable
from situate.plugins.pod_topology_spread import PodTopologySpread
from situate.plugins.pod_topology_spread_args import PodTopologySpreadArgs
from situate.plugins.priority_sort import PrioritySort
from situate.plugins.scheduling_gates import SchedulingGates
from situate.plugins.taint_toleration import TaintToleration

READER = PodReader(Vocabulary.create().resources)
ZONE = "topology.kubernetes.io/zone"
WEB, DB = {"app": "web"}, {"app": "db"}
CORDON = Toleration("node.kubernetes.io/unschedulable", "Exists")
TAINT, OTHER_TAINT = Taint("k", "v", "NoSchedule"), Taint("l", "v", "NoSchedule")


def pod(
    labels: Mapping[str, str] | None = None,
    *,
    name: str = "waiting",
    namespace: str = "ns",
    requests: Mapping[str, str] | None = None,
    port: int = 0,
    uses: str = "",
    **spec: Any,
) -> PodInfo:
    """`uses`: a feature of the node that the container's restart rule needs."""
    container = Container(
        resources=ResourceRequirements({key: parse_quantity(text) for key, text in (requests or {}).items()}),
        ports=(ContainerPort(host_port=port),) if port else (),
        restart_policy_rules=(ContainerRestartRule(uses),) if uses else (),
    )
    meta = ObjectMeta(name=name, namespace=namespace, uid=name, labels=labels or {})
    return READER.read(Pod(meta, PodSpec(scheduler_name="mine", containers=(container,), **spec)))


def placed(labels: Mapping[str, str] | None = None, **fields: Any) -> PodInfo:
    return pod(labels, **{"name": "placed", "node_name": "n", **fields})


def node(labels: Mapping[str, str] | None = None, *taints: Taint, cordoned: bool = False, **status: Any) -> Node:
    room = {"cpu": parse_quantity("4"), "pods": parse_quantity("10"), **status.pop("room", {})}
    return Node(
        ObjectMeta(name="n", labels=labels or {}),
        NodeSpec(unschedulable=cordoned, taints=taints),
        NodeStatus(allocatable=room, **status),
    )


def node_event(old: Node | None, new: Node | None) -> ClusterEvent:
    return ClusterEvent(Subject.NODE, Change.DELETE if new is None else node_change(old, new), old, new)


def came(new: PodInfo) -> ClusterEvent:
    return ClusterEvent(Subject.ASSIGNED_POD, Change.ADD, None, new)


def went(old: PodInfo) -> ClusterEvent:
    return ClusterEvent(Subject.ASSIGNED_POD, Change.DELETE, old, None)


def became(old: PodInfo, new: PodInfo) -> ClusterEvent:
    return ClusterEvent(Subject.ASSIGNED_POD, pod_change(old, new), old, new)


def itself(new: PodInfo) -> PodInfo:
    """The waiting pod has changed to this."""
    return new


def cpu(text: str) -> dict[str, Any]:
    return {"room": {"cpu": parse_quantity(text)}}


def in_zone(value: str) -> Affinity:
    term = NodeSelectorTerm((NodeSelectorRequirement(ZONE, "In", (value,)),))
    return Affinity(NodeAffinity(NodeSelector((term,))))


def near(labels: Mapping[str, str], key: str = ZONE, **more: Any) -> Affinity:
    return Affinity(pod_affinity=PodAffinity((PodAffinityTerm(key, LabelSelector(labels), **more),)))


def far(labels: Mapping[str, str], key: str = ZONE, **more: Any) -> Affinity:
    return Affinity(pod_anti_affinity=PodAffinity((PodAffinityTerm(key, LabelSelector(labels), **more),)))


def even(labels: Mapping[str, str], **more: Any) -> tuple[TopologySpreadConstraint, ...]:
    return (
        TopologySpreadConstraint(
            max_skew=1,
            topology_key=ZONE,
            when_unsatisfiable="DoNotSchedule",
            label_selector=LabelSelector(labels),
            **more,
        ),
    )


GPU = "example.com/gpu"
IGNORING = NodeResourcesFit(NodeResourcesFitArgs(ignored_resources=(GPU,)))
DEFAULTED = PodTopologySpread(
    PodTopologySpreadArgs(
        (TopologySpreadConstraint(max_skew=1, topology_key=ZONE, when_unsatisfiable="DoNotSchedule"),), "List"
    )
)
A, B = node({ZONE: "a"}), node({ZONE: "b"})
RESTART = "RestartAllContainersOnContainerExits"

Case = tuple[Any, PodInfo, ClusterEvent | PodInfo]
"""A plugin, the pod that it refused, and what happens then."""

WAKES: dict[str, Case] = {
    # NodeUnschedulable
    "an open node": (NodeUnschedulable(), pod(), node_event(None, node())),
    "a node that is uncordoned": (NodeUnschedulable(), pod(), node_event(node(cordoned=True), node())),
    "it tolerates cordons now": (NodeUnschedulable(), pod(), itself(pod(tolerations=(CORDON,)))),
    # TaintToleration
    "a node without taints": (TaintToleration(), pod(), node_event(None, node())),
    "the last bad taint goes": (TaintToleration(), pod(), node_event(node({}, TAINT), node())),
    "it tolerates more": (TaintToleration(), pod(), itself(pod(tolerations=(Toleration("k", "Exists"),)))),
    # NodeName
    "the node that it names": (NodeName(), pod(node_name="n"), node_event(None, node())),
    # NodeAffinity
    "a node that it wants": (node_affinity.NodeAffinity(), pod(affinity=in_zone("a")), node_event(None, A)),
    "a node moves to where it wants": (node_affinity.NodeAffinity(), pod(affinity=in_zone("a")), node_event(B, A)),
    # NodePorts
    "a wanted port is given back": (NodePorts(), pod(port=80), went(placed(port=80))),
    "a node with all ports free": (NodePorts(), pod(port=80), node_event(None, node())),
    # NodeResourcesFit
    "a pod goes": (NodeResourcesFit(), pod(requests={"cpu": "1"}), went(placed())),
    "a pod shrinks": (
        NodeResourcesFit(),
        pod(requests={"cpu": "1"}),
        became(placed(requests={"cpu": "2"}), placed(requests={"cpu": "1"})),
    ),
    "it asks for less": (NodeResourcesFit(), pod(requests={"cpu": "2"}), itself(pod(requests={"cpu": "1"}))),
    "a node with room": (NodeResourcesFit(), pod(requests={"cpu": "1"}), node_event(None, node())),
    "a node grows enough": (NodeResourcesFit(), pod(requests={"cpu": "3"}), node_event(node(**cpu("2")), node())),
    "what it lacks is ignored": (IGNORING, pod(requests={GPU: "1"}), node_event(None, node())),
    # InterPodAffinity
    "whom it wants near comes": (InterPodAffinity(), pod(affinity=near(WEB)), came(placed(WEB))),
    "a pod becomes whom it wants": (InterPodAffinity(), pod(affinity=near(WEB)), became(placed(DB), placed(WEB))),
    "whom it avoids goes": (InterPodAffinity(), pod(affinity=far(WEB)), went(placed(WEB))),
    "a pod ceases to be whom it avoids": (InterPodAffinity(), pod(affinity=far(WEB)), became(placed(WEB), placed(DB))),
    "who avoids it goes": (InterPodAffinity(), pod(WEB), went(placed(DB, affinity=far(WEB)))),
    "it is not avoided any more": (InterPodAffinity(), pod(WEB), itself(pod(DB))),
    "a node with the key that it needs": (InterPodAffinity(), pod(affinity=near(WEB)), node_event(None, A)),
    "a node away from whom it avoids": (InterPodAffinity(), pod(affinity=far(WEB)), node_event(None, node())),
    "a node gets the key that it needs": (InterPodAffinity(), pod(affinity=near(WEB)), node_event(node(), A)),
    "a node leaves the domain that it avoids": (InterPodAffinity(), pod(affinity=far(WEB)), node_event(A, B)),
    "a node loses the key of what it avoids": (InterPodAffinity(), pod(affinity=far(WEB)), node_event(A, node())),
    "one of a selected namespace comes": (
        InterPodAffinity(),
        pod(affinity=near(WEB, namespace_selector=LabelSelector())),
        came(placed(WEB, namespace="another")),
    ),
    # PodTopologySpread
    "one more counts": (PodTopologySpread(), pod(topology_spread_constraints=even(WEB)), came(placed(WEB))),
    "one less counts": (PodTopologySpread(), pod(topology_spread_constraints=even(WEB)), went(placed(WEB))),
    "a pod begins to count": (
        PodTopologySpread(),
        pod(topology_spread_constraints=even(WEB)),
        became(placed(DB), placed(WEB)),
    ),
    "it does not count itself any more": (
        PodTopologySpread(),
        pod(WEB, topology_spread_constraints=even(WEB)),
        itself(pod(DB, topology_spread_constraints=even(WEB))),
    ),
    "it tolerates more, and taints decide who counts": (
        PodTopologySpread(),
        pod(topology_spread_constraints=even(WEB, node_taints_policy="Honor")),
        itself(
            pod(topology_spread_constraints=even(WEB, node_taints_policy="Honor"), tolerations=(CORDON,)),
        ),
    ),
    "a node in a domain": (PodTopologySpread(), pod(topology_spread_constraints=even(WEB)), node_event(None, A)),
    "a domain's node goes": (PodTopologySpread(), pod(topology_spread_constraints=even(WEB)), node_event(A, None)),
    "a node changes its domain": (PodTopologySpread(), pod(topology_spread_constraints=even(WEB)), node_event(A, B)),
    "a domain's node has other taints": (
        PodTopologySpread(),
        pod(topology_spread_constraints=even(WEB)),
        node_event(A, node({ZONE: "a"}, TAINT)),
    ),
    "a default constraint may count anybody": (DEFAULTED, pod(), came(placed(WEB))),
    # NodeDeclaredFeatures
    "a node with the feature": (
        NodeDeclaredFeatures(),
        pod(uses="RestartAllContainers"),
        node_event(None, node(declared_features=(RESTART,))),
    ),
    "a node gets the feature": (
        NodeDeclaredFeatures(),
        pod(uses="RestartAllContainers"),
        node_event(node(), node(declared_features=(RESTART,))),
    ),
}

SLEEPS: dict[str, Case] = {
    "a cordoned node": (NodeUnschedulable(), pod(), node_event(None, node(cordoned=True))),
    "a node is cordoned": (NodeUnschedulable(), pod(), node_event(node(), node(cordoned=True))),
    "a toleration of something else": (
        NodeUnschedulable(),
        pod(),
        itself(pod(tolerations=(Toleration("k", "Exists"),))),
    ),
    "a node with a bad taint": (TaintToleration(), pod(), node_event(None, node({}, TAINT))),
    "one of two bad taints goes": (TaintToleration(), pod(), node_event(node({}, TAINT, OTHER_TAINT), node({}, TAINT))),
    "another node than it names": (NodeName(), pod(node_name="m"), node_event(None, node())),
    "a node that it does not want": (node_affinity.NodeAffinity(), pod(affinity=in_zone("a")), node_event(None, B)),
    "a node that it wants gets a label": (
        node_affinity.NodeAffinity(),
        pod(affinity=in_zone("a")),
        node_event(A, node({ZONE: "a", "x": "y"})),
    ),
    "another port is given back": (NodePorts(), pod(port=80), went(placed(port=81))),
    "a pod comes": (NodePorts(), pod(port=80), came(placed())),
    "a pod gives up what it does not want": (
        NodeResourcesFit(),
        pod(requests={"cpu": "1"}),
        became(placed(requests={"memory": "2"}), placed(requests={"memory": "1"})),
    ),
    "a node that is too small": (NodeResourcesFit(), pod(requests={"cpu": "5"}), node_event(None, node())),
    "a node grows too little": (NodeResourcesFit(), pod(requests={"cpu": "5"}), node_event(node(**cpu("2")), node())),
    "a node grows by what it does not want": (
        NodeResourcesFit(),
        pod(requests={"cpu": "1"}),
        node_event(node(), node(room={"memory": parse_quantity("1Gi")})),
    ),
    "a node's label changes": (NodeResourcesFit(), pod(requests={"cpu": "1"}), node_event(A, B)),
    "somebody else comes": (InterPodAffinity(), pod(affinity=near(WEB)), came(placed(DB))),
    "one of another namespace comes": (
        InterPodAffinity(),
        pod(affinity=near(WEB)),
        came(placed(WEB, namespace="other")),
    ),
    "whom it wants goes": (InterPodAffinity(), pod(affinity=near(WEB)), went(placed(WEB))),
    "whom it avoids comes": (InterPodAffinity(), pod(affinity=far(WEB)), came(placed(WEB))),
    "a pod that it does not mind goes": (InterPodAffinity(), pod(affinity=far(WEB)), went(placed(DB))),
    "a node without the key that it needs": (InterPodAffinity(), pod(affinity=near(WEB)), node_event(None, node())),
    "a node gets the key of what it avoids": (InterPodAffinity(), pod(affinity=far(WEB)), node_event(node(), A)),
    "a label that is no key of its": (
        InterPodAffinity(),
        pod(affinity=near(WEB)),
        node_event(A, node({ZONE: "a", "x": "y"})),
    ),
    "one that does not count comes": (
        PodTopologySpread(),
        pod(topology_spread_constraints=even(WEB)),
        came(placed(DB)),
    ),
    "one of another namespace goes": (
        PodTopologySpread(),
        pod(topology_spread_constraints=even(WEB)),
        went(placed(WEB, namespace="other")),
    ),
    "a label that no selector reads": (
        PodTopologySpread(),
        pod(topology_spread_constraints=even(WEB)),
        became(placed(WEB), placed({**WEB, "x": "y"})),
    ),
    "its own label that no selector reads": (
        PodTopologySpread(),
        pod(WEB, topology_spread_constraints=even(WEB)),
        itself(pod({**WEB, "x": "y"}, topology_spread_constraints=even(WEB))),
    ),
    "it tolerates more, and taints do not matter": (
        PodTopologySpread(),
        pod(topology_spread_constraints=even(WEB)),
        itself(pod(topology_spread_constraints=even(WEB), tolerations=(CORDON,))),
    ),
    "a node without the key": (
        PodTopologySpread(),
        pod(topology_spread_constraints=even(WEB)),
        node_event(None, node()),
    ),
    "a node without the feature": (
        NodeDeclaredFeatures(),
        pod(uses="RestartAllContainers"),
        node_event(None, node(declared_features=("another",))),
    ),
    "its victim goes, which others tell": (DefaultPreemption(), pod(), went(placed())),
}


def wakes(plugin: Any, waiting: PodInfo, event: ClusterEvent | PodInfo) -> bool:
    """Whether a pod that the plugin refused leaves the unschedulable ones for this event."""
    queue = SchedulingQueue({"mine": profile_of("mine", [(PrioritySort(), 1), (plugin, 1)])})
    queue.add(waiting, 0.0)
    entry = queue.pop()
    assert entry is not None
    queue.put_back(entry, 0.0, frozenset((plugin.name,)))
    assert entry.place is QueueState.UNSCHEDULABLE
    if isinstance(event, PodInfo):
        change = pod_change(waiting, event)
        assert change, "the pod has not changed"
        queue.update(event, (ClusterEvent(Subject.POD, change, waiting, event),), 100.0)
    else:
        assert event.change, "nothing has happened"
        queue.on_event(event, 100.0)
    return entry.place is not QueueState.UNSCHEDULABLE


@pytest.mark.parametrize("case", WAKES)
def test_it_may_help(case: str) -> None:
    assert wakes(*WAKES[case])


@pytest.mark.parametrize("case", SLEEPS)
def test_a_skip_from_all_hints_moves_nothing(case: str) -> None:
    assert not wakes(*SLEEPS[case])


@pytest.mark.parametrize("case", WAKES)
def test_only_the_plugins_that_rejected_it_are_asked(case: str) -> None:
    plugin, waiting, event = WAKES[case]
    other = SchedulingGates()
    queue = SchedulingQueue({"mine": profile_of("mine", [(PrioritySort(), 1), (plugin, 1), (other, 1)])})
    queue.add(waiting, 0.0)
    entry = queue.pop()
    assert entry is not None
    queue.put_back(entry, 0.0, frozenset((other.name,)))
    if isinstance(event, PodInfo):
        queue.update(event, (ClusterEvent(Subject.POD, pod_change(waiting, event), waiting, event),), 100.0)
    else:
        queue.on_event(event, 100.0)
    assert entry.place is QueueState.UNSCHEDULABLE


def test_the_last_gate_goes() -> None:
    def gated(*names: str) -> PodInfo:
        return pod(scheduling_gates=tuple(map(PodSchedulingGate, names)))

    queue = SchedulingQueue({"mine": profile_of("mine", [(PrioritySort(), 1), (SchedulingGates(), 1)])})
    stages = [gated("one", "two"), gated("two"), gated()]
    queue.add(stages[0], 0.0)
    for now, (old, new) in enumerate(pairwise(stages)):
        assert queue.pop() is None
        queue.update(new, (ClusterEvent(Subject.POD, pod_change(old, new), old, new),), float(now))
    assert queue.pop() is not None

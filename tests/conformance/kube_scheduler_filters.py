"""Cases of filters: the code of each node, by plugin and by twin."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from situate.framework.pod.pods import BadPod
from situate.framework.pod.resources import PODS
from situate.objects.kinds.nodes import Node
from situate.objects.kinds.pods import Pod
from situate.objects.selection.label_selectors import BadSelector
from situate.plugins.inter_pod_affinity import InterPodAffinity
from situate.plugins.node_affinity import NodeAffinity, NodeAffinityArgs
from situate.plugins.node_name import NodeName
from situate.plugins.node_ports import NodePorts
from situate.plugins.node_resources_fit import NodeResourcesFit, NodeResourcesFitArgs
from situate.plugins.node_unschedulable import NodeUnschedulable
from situate.plugins.pod_topology_spread import PodTopologySpread
from situate.plugins.pod_topology_spread_args import PodTopologySpreadArgs
from situate.plugins.taint_toleration import TaintToleration
from tests.conformance.kube_scheduler_cases import arguments, codes_expected, incoming, pod, world
from tests.conformance.outcome import PASSED, Case, CaseRunner, Outcome, failed
from tests.plugins.twins import (
    inter_pod_affinity,
    node_affinity,
    node_name,
    node_ports,
    node_resources_fit,
    node_unschedulable,
    pod_topology_spread,
    requests,
    taint_toleration,
)
from tests.plugins.twins.world import UNRESOLVABLE, Answer, World
from tests.plugins.vector import Vectors

Twin = Callable[[Pod, Node, World], Answer]


def both_ways(case: Case, subject: Pod, plugin: Any, twin: Twin) -> Outcome:
    """Codes of plugin and twin against the expected ones, and their reasons against each other."""
    given, expected = world(case), codes_expected(case)
    by_twin = {each.metadata.name: _refused_whole(partial(twin, subject, each, given)) for each in given.nodes}
    everywhere = {each.metadata.name: Answer(UNRESOLVABLE) for each in given.nodes}
    vectors = Vectors.of(given)
    try:
        by_plugin = vectors.filter(plugin, subject)
    except BadPod:
        by_plugin = everywhere
    for form, answers in (("vector", by_plugin), ("twin", by_twin)):
        codes = {name: answers[name].code if name in answers else "Success" for name in expected}
        if codes != expected:
            return failed(f"{form}: expected {expected}, got {codes}")
    reasons = {name: answer.reasons for name, answer in by_twin.items()}
    if by_plugin and {name: answer.reasons for name, answer in by_plugin.items()} != reasons:
        return failed(f"vector gives {by_plugin}, twin {by_twin}")
    return PASSED


def _refused_whole(ask: Callable[[], Answer]) -> Answer:
    """A pod that cannot be read fits nowhere."""
    try:
        return ask()
    except BadSelector:
        return Answer(UNRESOLVABLE)


def fit(case: Case) -> Outcome:
    args = arguments(case.get("args") or {}, NodeResourcesFitArgs)
    subject = incoming(case)

    def twin(subject: Pod, node: Node, given: World) -> Answer:
        ignored = args.ignored_resources, args.ignored_resource_groups
        return node_resources_fit.filter_node(subject, node, given, *ignored)

    outcome = both_ways(case, subject, NodeResourcesFit(args), twin)
    wanted = case["expected"].get("insufficient")
    if outcome.verdict != "passed" or wanted is None:
        return outcome
    return _insufficient(case, subject, NodeResourcesFit(args), wanted)


def _insufficient(case: Case, subject: Pod, plugin: NodeResourcesFit, wanted: list[Mapping[str, Any]]) -> Outcome:
    """What is short, in which order, and by how much."""
    given = world(case)
    (node,) = given.nodes
    found = []
    for reason in Vectors.of(given).filter(plugin, subject)[node.metadata.name].reasons:
        name = PODS if reason == "Too many pods" else reason.removeprefix("Insufficient ")
        pods = given.on(node)
        found.append(
            {
                "resource": name,
                "reason": reason,
                "requested": 1 if name == PODS else requests.request(subject, name),
                "used": len(pods) if name == PODS else sum(requests.request(each, name) for each in pods),
                "capacity": requests.room(node, name),
            }
        )
    return PASSED if found == wanted else failed(f"insufficient: expected {wanted}, got {found}")


def affinity(case: Case) -> Outcome:
    args = arguments(case.get("args") or {}, NodeAffinityArgs)
    added = args.added_affinity
    return both_ways(
        case,
        incoming(case),
        NodeAffinity(args),
        lambda subject, node, _given: node_affinity.filter_node(subject, node, added),
    )


def name(case: Case) -> Outcome:
    return both_ways(case, pod(case["pod"]), NodeName(), lambda each, node, _given: node_name.filter_node(each, node))


def spread(case: Case) -> Outcome:
    wire = dict(case.get("args") or {})
    if wire.get("defaultConstraints"):
        wire.setdefault("defaultingType", "List")
    args = arguments(wire, PodTopologySpreadArgs)
    defaults = pod_topology_spread.SYSTEM if args.defaulting_type == "System" else args.default_constraints
    return both_ways(
        case,
        incoming(case),
        PodTopologySpread(args),
        lambda subject, node, given: pod_topology_spread.filter_node(subject, node, given, defaults),
    )


def _plain(plugin: Any, twin: Twin) -> CaseRunner:
    """A plugin without arguments."""
    return lambda case: both_ways(case, incoming(case), plugin, twin)


RUNNERS: Mapping[str, CaseRunner] = {
    "fit_filter.json": fit,
    "inter_pod_affinity_filter.json": _plain(InterPodAffinity(), inter_pod_affinity.filter_node),
    "node_affinity_filter.json": affinity,
    "node_name_filter.json": name,
    "node_ports_filter.json": _plain(NodePorts(), node_ports.filter_node),
    "node_unschedulable_filter.json": _plain(
        NodeUnschedulable(), lambda each, node, _given: node_unschedulable.filter_node(each, node)
    ),
    "pod_topology_spread_filter.json": spread,
    "pod_topology_spread_filter_modern.json": spread,
    "taint_toleration_filter.json": _plain(
        TaintToleration(), lambda each, node, _given: taint_toleration.filter_node(each, node)
    ),
}

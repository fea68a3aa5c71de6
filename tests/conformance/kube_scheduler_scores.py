"""Cases of scores and of the functions that scores are made with, by plugin and by twin."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

import numpy as np

from situate.framework.cycle.cycle import PluginFailed
from situate.framework.cycle.node_sampling import feasible_nodes_to_find
from situate.framework.plugin_api.plugin import Scores
from situate.framework.pod.pods import BadPod, PodInfo
from situate.framework.snapshot.snapshot import Snapshot
from situate.objects.kinds.nodes import Node
from situate.objects.kinds.pods import Pod
from situate.objects.selection.label_selectors import BadSelector
from situate.plugins.broken_line import BrokenLine
from situate.plugins.image_locality import ImageLocality
from situate.plugins.inter_pod_affinity import InterPodAffinity, InterPodAffinityArgs
from situate.plugins.node_affinity import NodeAffinity, NodeAffinityArgs
from situate.plugins.node_resources_balanced_allocation import (
    NodeResourcesBalancedAllocation,
    NodeResourcesBalancedAllocationArgs,
    evenness,
)
from situate.plugins.node_resources_fit import NodeResourcesFit, NodeResourcesFitArgs
from situate.plugins.normalization import default_normalize
from situate.plugins.pod_topology_spread import PodTopologySpread
from situate.plugins.pod_topology_spread_args import PodTopologySpreadArgs
from situate.plugins.priority_sort import PrioritySort
from situate.plugins.resource_use import ScoredRequests
from situate.plugins.taint_toleration import TaintToleration
from tests.conformance.kube_scheduler_cases import arguments, feasible, incoming, pod, scores_expected, world
from tests.conformance.outcome import PASSED, Case, CaseRunner, Outcome, UnknownOperationError, failed, optional
from tests.plugins.twins import (
    image_locality,
    inter_pod_affinity,
    node_affinity,
    node_resources_balanced_allocation,
    node_resources_fit,
    normalizing,
    pod_topology_spread,
    taint_toleration,
)
from tests.plugins.twins.world import World
from tests.plugins.vector import Vectors

Twin = Callable[[Pod, Sequence[Node], World], list[int] | None]


def both_ways(case: Case, plugin: Any, twin: Twin) -> Outcome:
    """Scores of the nodes that passed, or what PreScore said instead."""
    given = world(case)
    nodes = given.nodes[: len(feasible(case))]
    subject = incoming(case)

    def by_plugin() -> list[int] | None:
        return Vectors.of(given).scores(plugin, subject, feasible(case))

    def by_twin() -> list[int] | None:
        return twin(subject, nodes, given)

    for form, ask in (("vector", by_plugin), ("twin", by_twin)):
        try:
            scores = ask()
        except (BadPod, BadSelector, PluginFailed):
            found: Any = "Error"
        else:
            names = [node.metadata.name for node in nodes]
            found = "Skip" if scores is None else dict(zip(names, scores, strict=True))
        difference = _difference(case, found)
        if difference:
            return failed(f"{form}: {difference}")
    return PASSED


def _difference(case: Case, found: Any) -> str:
    before = case["expected"].get("prescore")
    code = before["code"] if isinstance(before, Mapping) else before
    if code is not None and (code != "Success" or "scores" not in case["expected"]):
        wanted: Any = code
        if code == "Success" and isinstance(found, Mapping):  # there are scores, whatever they are
            found = code
    else:
        wanted = scores_expected(case)
        if found == "Skip":  # a plugin that is skipped adds nothing to any node
            found = dict.fromkeys(wanted, 0)
    return "" if found == wanted else f"expected {wanted}, got {found}"


def _fit(strategy: str) -> CaseRunner:
    """A strategy of NodeResourcesFit."""

    def run(case: Case) -> Outcome:
        given = case.get("args") or {}
        wire: dict[str, Any] = {"type": strategy}
        if unknown := given.keys() - {"resources", "shape", "scoringStrategy"}:
            raise UnknownOperationError(f"args with {', '.join(sorted(unknown))}; known: resources, shape")
        wire |= given.get("scoringStrategy") or {}
        if given.get("resources") is not None:
            wire["resources"] = given["resources"]
        if given.get("shape") is not None:
            wire["requestedToCapacityRatio"] = {"shape": given["shape"]}
        args = arguments({"scoringStrategy": wire}, NodeResourcesFitArgs)
        resources = [(each.name, each.weight) for each in args.scoring_strategy.resources]
        ratio = args.scoring_strategy.requested_to_capacity_ratio
        shape = [(point.utilization, point.score) for point in ratio.shape] if ratio else []
        plain = {
            "LeastAllocated": node_resources_fit.least_allocated,
            "MostAllocated": node_resources_fit.most_allocated,
        }

        def twin(subject: Pod, nodes: Sequence[Node], given: World) -> list[int]:
            if shape:
                return [node_resources_fit.score_by_ratio(subject, node, given, resources, shape) for node in nodes]
            chosen = plain[strategy]
            return [node_resources_fit.score_node(subject, node, given, resources, chosen) for node in nodes]

        return both_ways(case, NodeResourcesFit(args), twin)

    return run


class _Evenness(NodeResourcesBalancedAllocation):
    """How even a node is with the pod: the whole score up to Kubernetes 1.35, of which the cases are.

    Since 1.36 the score is what the pod changes about it; the tests of the twins and the differential test show that.
    """

    def score(self, state: ScoredRequests | None, pod: PodInfo, snapshot: Snapshot) -> Scores:
        assert state is not None
        scores: Scores = evenness(state, snapshot)[1]
        return scores


def balanced(case: Case) -> Outcome:
    args = arguments(case.get("args") or {}, NodeResourcesBalancedAllocationArgs)
    names = [each.name for each in args.resources]

    def twin(subject: Pod, nodes: Sequence[Node], given: World) -> list[int] | None:
        if node_resources_balanced_allocation.skips(subject, names):
            return None
        return [node_resources_balanced_allocation.evenness(subject, node, given, names) for node in nodes]

    return both_ways(case, _Evenness(args), twin)


def balanced_of_old(case: Case) -> Outcome:
    """A pod that asks for nothing is skipped now, which the recomputed values of these rows do not say."""
    if node_resources_balanced_allocation.skips(incoming(case)):
        return PASSED
    return balanced(case)


def spread(case: Case) -> Outcome:
    wire = dict(case.get("args") or {})
    if wire.get("defaultConstraints"):
        wire.setdefault("defaultingType", "List")
    args = arguments(wire, PodTopologySpreadArgs)
    system = args.defaulting_type == "System"
    defaults = pod_topology_spread.SYSTEM if system else args.default_constraints
    return both_ways(
        case,
        PodTopologySpread(args),
        lambda subject, nodes, given: pod_topology_spread.score_nodes(subject, nodes, given, defaults, system=system),
    )


def affinity(case: Case) -> Outcome:
    args = arguments(case.get("args") or {}, InterPodAffinityArgs)
    weight, ignore = args.hard_pod_affinity_weight, args.ignore_preferred_terms_of_existing_pods
    return both_ways(
        case,
        InterPodAffinity(args),
        lambda subject, nodes, given: inter_pod_affinity.score_nodes(subject, nodes, given, weight, ignore),
    )


def node_preferences(case: Case) -> Outcome:
    args = arguments(case.get("args") or {}, NodeAffinityArgs)
    added = args.added_affinity
    return both_ways(
        case, NodeAffinity(args), lambda subject, nodes, _given: node_affinity.score_nodes(subject, nodes, added)
    )


def taints(case: Case) -> Outcome:
    return both_ways(
        case, TaintToleration(), lambda subject, nodes, _given: taint_toleration.score_nodes(subject, nodes)
    )


def images(case: Case) -> Outcome:
    return both_ways(
        case,
        ImageLocality(),
        lambda subject, nodes, given: [image_locality.score_node(subject, node, given) for node in nodes],
    )


def broken_line(case: Case) -> Outcome:
    points = tuple((each["utilization"], each["score"]) for each in case["args"]["shape"])
    found = {
        "vector": int(BrokenLine(points).values_at(np.array([case["input"]], dtype=np.int64))[0]),
        "twin": normalizing.broken_line(list(points), case["input"]),
    }
    return _each(found, case["expected"]["value"])


def normalize(case: Case) -> Outcome:
    given = case["input"]
    scores, reverse, most = given.get("scores") or [], given.get("reverse", False), given.get("max", 100)
    vector = default_normalize(np.array(scores, dtype=np.int64), reverse=reverse, most=most)
    found = {"vector": vector.tolist(), "twin": normalizing.default_normalize(scores, reverse, most)}
    return _each(found, case["expected"]["scores"] or [])


def number_of_nodes(case: Case) -> Outcome:
    nodes, percentage = case["input"]["numAllNodes"], case["input"].get("percentageOfNodesToScore") or 0
    plain = nodes if nodes < 100 else max(100, nodes * (percentage or max(5, 50 - nodes // 125)) // 100)
    found = {"vector": feasible_nodes_to_find(nodes, percentage), "twin": plain}
    return _each(found, case["expected"]["numNodes"])


def sorting(case: Case) -> Outcome:
    def key(wire: Mapping[str, Any]) -> Any:
        queued = datetime.fromisoformat(wire["timestamp"]).timestamp()
        return PrioritySort().sort_key(Vectors.of(World(())).read(pod({}, priority=wire["priority"])), queued)

    one, other = ({"priority": 0, "timestamp": "0001-01-01T00:00:00Z", **case[each]} for each in ("p1", "p2"))
    earlier = datetime.fromisoformat(one["timestamp"]) < datetime.fromisoformat(other["timestamp"])
    plain = one["priority"] > other["priority"] or (one["priority"] == other["priority"] and earlier)
    return _each({"vector": key(one) < key(other), "twin": plain}, case["expected"]["p1_less_p2"])


def _each(found: Mapping[str, Any], wanted: Any) -> Outcome:
    wrong = {form: value for form, value in found.items() if value != wanted}
    return failed(f"expected {wanted}, got {wrong}") if wrong else PASSED


RUNNERS: Mapping[str, CaseRunner] = {
    "balanced_allocation_score.json": balanced,
    "balanced_allocation_score_v1_20.json": optional(balanced_of_old),
    "broken_linear_function.json": broken_line,
    "default_normalize_score.json": normalize,
    "image_locality_score.json": images,
    "inter_pod_affinity_score.json": affinity,
    "least_allocated_score.json": _fit("LeastAllocated"),
    "most_allocated_score.json": _fit("MostAllocated"),
    "node_affinity_score.json": node_preferences,
    "num_feasible_nodes_to_find.json": number_of_nodes,
    "pod_topology_spread_score.json": spread,
    "pod_topology_spread_score_v1_20.json": optional(spread),
    "queue_sort.json": sorting,
    "requested_to_capacity_ratio_score.json": _fit("RequestedToCapacityRatio"),
    "taint_toleration_score.json": taints,
}

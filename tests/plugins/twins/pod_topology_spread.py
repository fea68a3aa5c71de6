from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from situate.objects.kinds.nodes import Node
from situate.objects.kinds.pods import Pod, TopologySpreadConstraint
from situate.objects.selection.label_selectors import Requirement, Selector, selector_of
from tests.plugins.twins import node_affinity, taint_toleration
from tests.plugins.twins.normalizing import rounded
from tests.plugins.twins.world import PASS, UNRESOLVABLE, UNSCHEDULABLE, Answer, World

HOSTNAME = "kubernetes.io/hostname"
SYSTEM = (
    TopologySpreadConstraint(max_skew=3, topology_key=HOSTNAME, when_unsatisfiable="ScheduleAnyway"),
    TopologySpreadConstraint(
        max_skew=5, topology_key="topology.kubernetes.io/zone", when_unsatisfiable="ScheduleAnyway"
    ),
)
HARD, SOFT = "DoNotSchedule", "ScheduleAnyway"


@dataclass(frozen=True)
class Rule:
    wire: TopologySpreadConstraint
    selector: Selector


def group_selector(pod: Pod, world: World) -> Selector | None:
    """Of the pod's services and owner."""
    found: dict[str, str] = {}
    for service in world.services.get(pod.metadata.namespace, ()):
        if all(pod.metadata.labels.get(key) == value for key, value in service.items()):
            found.update(service)
    requirements = [Requirement(key, "=", frozenset([value])) for key, value in found.items()]
    owner = pod.metadata.controller
    versions = {"ReplicationController": "v1", "ReplicaSet": "apps/v1", "StatefulSet": "apps/v1"}
    if owner is not None and versions.get(owner.kind) == owner.api_version:
        wire = world.owners.get((owner.kind, pod.metadata.namespace, owner.name))
        if wire is not None:
            requirements += selector_of(wire).requirements
    return Selector(tuple(requirements)) if requirements else None


def rules(pod: Pod, world: World, action: str, defaults: Sequence[TopologySpreadConstraint]) -> list[Rule]:
    if pod.spec.topology_spread_constraints:
        return [
            Rule(wire, with_own_labels(wire, pod.metadata.labels))
            for wire in pod.spec.topology_spread_constraints
            if wire.when_unsatisfiable == action
        ]
    selector = group_selector(pod, world)
    if selector is None:
        return []
    return [Rule(wire, selector) for wire in defaults if wire.when_unsatisfiable == action]


def with_own_labels(wire: TopologySpreadConstraint, labels: Mapping[str, str]) -> Selector:
    selector = selector_of(wire.label_selector)
    own = [Requirement(key, "=", frozenset([labels[key]])) for key in wire.match_label_keys if key in labels]
    return selector if selector.nothing or not own else Selector((*selector.requirements, *own))


def has_keys(node: Node, listed: Sequence[Rule]) -> bool:
    return all(rule.wire.topology_key in node.metadata.labels for rule in listed)


def counts_here(rule: Rule, pod: Pod, node: Node) -> bool:
    """The inclusion policies."""
    if rule.wire.node_affinity_policy == "Honor" and not node_affinity.wants(pod, node):
        return False
    return rule.wire.node_taints_policy != "Honor" or not taint_toleration.keeps_away(pod, node)


def count_on(rule: Rule, pod: Pod, node: Node, world: World) -> int:
    if not rule.selector.requirements:
        return 0
    return sum(
        other.metadata.namespace == pod.metadata.namespace
        and other.metadata.deletion_timestamp is None
        and rule.selector.matches(other.metadata.labels)
        for other in world.on(node)
    )


def pair_counts(
    pod: Pod, world: World, defaults: Sequence[TopologySpreadConstraint] = SYSTEM
) -> list[tuple[Rule, dict[str, int]]]:
    """Each hard rule with the count of each eligible domain."""
    hard = rules(pod, world, HARD, defaults)
    found = []
    for rule in hard:
        counts: dict[str, int] = {}
        for node in world.nodes:
            if has_keys(node, hard) and counts_here(rule, pod, node):
                domain = node.metadata.labels[rule.wire.topology_key]
                counts[domain] = counts.get(domain, 0) + count_on(rule, pod, node, world)
        found.append((rule, counts))
    return found


def filter_node(pod: Pod, node: Node, world: World, defaults: Sequence[TopologySpreadConstraint] = SYSTEM) -> Answer:
    for rule, counts in pair_counts(pod, world, defaults):
        domain = node.metadata.labels.get(rule.wire.topology_key)
        if domain is None:
            text = "node(s) didn't match pod topology spread constraints (missing required label)"
            return Answer(UNRESOLVABLE, (text,))
        enough = len(counts) >= (rule.wire.min_domains or 1)
        least = min(counts.values()) if enough else 0
        own = rule.selector.matches(pod.metadata.labels)
        if counts.get(domain, 0) + own - least > rule.wire.max_skew:
            return Answer(UNSCHEDULABLE, ("node(s) didn't match pod topology spread constraints",))
    return PASS


def score_nodes(
    pod: Pod,
    feasible: Sequence[Node],
    world: World,
    defaults: Sequence[TopologySpreadConstraint] = SYSTEM,
    *,
    system: bool = True,
) -> list[int] | None:
    """None is Skip. `system`: the defaults are the built-in ones, which do not ask for keys."""
    soft = rules(pod, world, SOFT, defaults)
    if not soft:
        return None
    strict = bool(pod.spec.topology_spread_constraints) or not system
    scored = [node for node in feasible if not strict or has_keys(node, soft)]
    counts: list[dict[str, int]] = []
    weights = []
    for rule in soft:
        key = rule.wire.topology_key
        domains = {node.metadata.labels.get(key, "") for node in scored}
        size = len(scored) if key == HOSTNAME else len(domains)
        weights.append(math.log(size + 2))
        total = dict.fromkeys(domains, 0)
        for node in world.nodes:
            domain = node.metadata.labels.get(key, "")
            if (not strict or has_keys(node, soft)) and counts_here(rule, pod, node) and domain in total:
                total[domain] += count_on(rule, pod, node, world)
        counts.append(total)
    raw = [raw_score(pod, node, world, soft, counts, weights) for node in scored]
    lowest, highest = min(raw, default=0), max(raw, default=0)
    scores = [100 if highest == 0 else 100 * (highest + lowest - each) // highest for each in raw]
    by_node = {node.metadata.name: score for node, score in zip(scored, scores, strict=True)}
    return [by_node.get(node.metadata.name, 0) for node in feasible]


def raw_score(
    pod: Pod,
    node: Node,
    world: World,
    soft: Sequence[Rule],
    counts: Sequence[Mapping[str, int]],
    weights: Sequence[float],
) -> int:
    total = 0.0
    for rule, of_domain, weight in zip(soft, counts, weights, strict=True):
        key = rule.wire.topology_key
        domain = node.metadata.labels.get(key)
        if domain is not None:
            count = count_on(rule, pod, node, world) if key == HOSTNAME else of_domain[domain]
            total += count * weight + (rule.wire.max_skew - 1)
    return rounded(total)

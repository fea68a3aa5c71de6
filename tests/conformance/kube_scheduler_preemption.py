"""Cases of preemption: dry runs, the choice among candidates, who may preempt, and where it might help.

Upstream's rows tell pods apart by start times that differ in nanoseconds, which the vectors cut off. So pods of one
priority and one start time stand for each other here, and of nodes that are equally good without those nanoseconds
one must be the expected one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import msgspec
import numpy as np

from situate.framework.cycle.cycle import prepare
from situate.framework.plugin_api.plugin import Plugin
from situate.framework.pod.pods import PodInfo
from situate.framework.preemption import preemption
from situate.framework.profile.profile import Profile, profile_of
from situate.framework.results.status import Code
from situate.framework.results.verdict import Verdict, pass_all, refuse, refuse_all
from situate.framework.snapshot.snapshot import Snapshot
from situate.framework.volumes.catalog import Budget, Catalog
from situate.objects.kinds.meta import Condition
from situate.objects.kinds.nodes import Node
from situate.objects.kinds.pods import Pod
from situate.objects.kinds.selectors import LabelSelector
from situate.objects.selection.label_selectors import selector_of
from situate.plugins.default_preemption import DefaultPreemptionArgs
from situate.plugins.inter_pod_affinity import InterPodAffinity
from situate.plugins.node_affinity import NodeAffinity
from situate.plugins.node_name import NodeName
from situate.plugins.node_ports import NodePorts
from situate.plugins.node_resources_fit import NodeResourcesFit
from situate.plugins.node_unschedulable import NodeUnschedulable
from situate.plugins.pod_topology_spread import PodTopologySpread
from situate.plugins.priority_sort import PrioritySort
from situate.plugins.taint_toleration import TaintToleration
from tests.conformance.kube_scheduler_cases import arguments, pod, world
from tests.conformance.outcome import PASSED, Case, CaseRunner, Outcome, UnknownOperationError, compared, failed
from tests.plugins.twins import (
    inter_pod_affinity,
    node_affinity,
    node_name,
    node_ports,
    node_resources_fit,
    node_unschedulable,
    pod_topology_spread,
    taint_toleration,
)
from tests.plugins.twins import preemption as twins
from tests.plugins.twins.world import PASS, UNSCHEDULABLE, Answer, World
from tests.plugins.vector import Vectors

Json = Any
Twin = Callable[[Pod, Node, World], Answer]

REAL: Mapping[str, tuple[Callable[[], Plugin], Twin]] = {
    "InterPodAffinity": (InterPodAffinity, inter_pod_affinity.filter_node),
    "NodeAffinity": (NodeAffinity, lambda each, node, _world: node_affinity.filter_node(each, node)),
    "NodeName": (NodeName, lambda each, node, _world: node_name.filter_node(each, node)),
    "NodePorts": (NodePorts, node_ports.filter_node),
    "NodeResourcesFit": (NodeResourcesFit, node_resources_fit.filter_node),
    "NodeUnschedulable": (NodeUnschedulable, lambda each, node, _world: node_unschedulable.filter_node(each, node)),
    "PodTopologySpread": (PodTopologySpread, pod_topology_spread.filter_node),
    "TaintToleration": (TaintToleration, lambda each, node, _world: taint_toleration.filter_node(each, node)),
}
OFFSETS = (4, 1, 3)
"""Where the dry run of each cycle starts."""


class FakeFilter:
    """Counts its calls; passes unless it is told another code."""

    name: ClassVar[str] = "FakeFilter"

    def __init__(self, code: Code) -> None:
        self.calls = 0
        self._code = code

    def filter(self, state: Any, pod: PodInfo, snapshot: Snapshot) -> Verdict:
        self.calls += 1
        if self._code is Code.SUCCESS:
            return pass_all(snapshot.count)
        return refuse_all(snapshot.count, "injecting failure", self._code)


class TrueFilter:
    name: ClassVar[str] = "TrueFilter"

    def filter(self, state: Any, pod: PodInfo, snapshot: Snapshot) -> Verdict:
        return pass_all(snapshot.count)


class FalseFilter:
    name: ClassVar[str] = "FalseFilter"

    def filter(self, state: Any, pod: PodInfo, snapshot: Snapshot) -> Verdict:
        return refuse_all(snapshot.count, "FalseFilter", Code.UNSCHEDULABLE)


class MatchFilter:
    """Passes only a node that is called like the pod."""

    name: ClassVar[str] = "MatchFilter"

    def filter(self, state: Any, pod: PodInfo, snapshot: Snapshot) -> Verdict:
        others = np.array([snapshot.name(index) != pod.name for index in range(snapshot.count)], dtype=np.bool_)
        return refuse(others, "MatchFilter", Code.UNSCHEDULABLE)


def _plugins(case: Case) -> tuple[Profile, FakeFilter]:
    fake = FakeFilter(_code(case.get("fake_filter_code", Code.SUCCESS.title)))
    made: list[tuple[Plugin, int]] = [(PrioritySort(), 1)]
    for name in case.get("filter_plugins") or ():
        match name:
            case "FakeFilter":
                made.append((fake, 1))
            case "TrueFilter":
                made.append((TrueFilter(), 1))
            case "FalseFilter":
                made.append((FalseFilter(), 1))
            case "MatchFilter":
                made.append((MatchFilter(), 1))
            case _ if name in REAL:
                made.append((REAL[name][0](), 1))
            case _:
                raise UnknownOperationError(f"filter plugin {name!r}")
    return profile_of("default-scheduler", made), fake


def _twin(case: Case) -> twins.Fits:
    """Whether all filters let the pod onto the node."""
    asked: list[Twin] = []
    for name in case.get("filter_plugins") or ():
        if name in REAL:
            asked.append(REAL[name][1])
        elif name == "FalseFilter" or (name == "FakeFilter" and case.get("fake_filter_code", "Success") != "Success"):
            asked.append(lambda _pod, _node, _world: Answer(UNSCHEDULABLE))
        elif name == "MatchFilter":
            asked.append(lambda each, node, _world: PASS if each.metadata.name == node.metadata.name else Answer("no"))
    return lambda each, node, given: all(twin(each, node, given) == PASS for twin in asked)


def _vectors(given: World, budgets: Sequence[twins.Budget]) -> Vectors:
    vectors = Vectors.of(given)
    by_namespace: dict[str, tuple[Budget, ...]] = {}
    for number, each in enumerate(budgets):
        made = Budget(f"pdb-{number}", selector_of(each.selector), each.allowed, each.disrupted)
        by_namespace[each.namespace] = (*by_namespace.get(each.namespace, ()), made)
    return Vectors(vectors.snapshot.with_catalog(Catalog(budgets=by_namespace)), vectors.reader)


def _budgets(case: Case, given: World) -> list[twins.Budget]:
    """One that names no namespace is there in each one that has pods."""
    found = []
    for wire in case.get("pdbs") or ():
        selector = msgspec.convert(wire["selector"], LabelSelector) if wire.get("selector") is not None else None
        disrupted = frozenset(wire.get("disruptedPods") or ())
        named = wire.get("namespace")
        namespaces = {each.metadata.namespace for each in given.pods} if named is None else {named}
        allowed = wire.get("disruptionsAllowed", 0)
        found += [twins.Budget(namespace, selector, allowed, disrupted) for namespace in sorted(namespaces)]
    return found


def dry_run(case: Case) -> Outcome:
    given = world(case)
    budgets = _budgets(case, given)
    profile, fake = _plugins(case)
    vectors = _vectors(given, budgets)
    count = len(given.nodes)
    wire = case.get("args")
    limits = arguments(wire or {}, DefaultPreemptionArgs)
    enough = limits.candidates_limit(count) or count
    by_plugin, calls, by_twin = [], [], []
    for cycle, each in enumerate(case["incoming_pods"]):
        offset = OFFSETS[cycle % len(OFFSETS)] % count if wire else 0
        subject = pod(each, nodeName="")
        info = vectors.read(subject)
        fake.calls = 0
        found = preemption.find_candidates(
            profile,
            info,
            prepare(profile.pre_filter, info, vectors.snapshot),
            vectors.snapshot,
            np.arange(count),
            offset=offset,
            enough=enough,
        )
        calls.append(fake.calls)
        listed = [
            (vectors.snapshot.name(one.node), [victim.name for victim in one.victims], one.violations)
            for one in found.candidates
        ]
        by_plugin.append(_candidates_json(listed))
        by_twin.append(_candidates_json(_by_twin(case, subject, given, budgets, offset, enough)))
    wanted = case["expected"]["candidates_per_incoming_pod"]
    for form, candidates in (("vector", by_plugin), ("twin", by_twin)):
        if _by_importance(candidates, given) != _by_importance(wanted, given):
            return failed(f"{form}: expected {wanted}, got {candidates}")
    counted = case["expected"].get("num_filter_called", calls)
    return PASSED if calls == counted else failed(f"vector: filters called {calls} times, expected {counted}")


def _by_twin(
    case: Case, subject: Pod, given: World, budgets: list[twins.Budget], offset: int, enough: int
) -> list[tuple[str, list[str], int]]:
    harmless: list[twins.Candidate] = []
    violating: list[twins.Candidate] = []
    for number in range(len(given.nodes)):
        node = given.nodes[(offset + number) % len(given.nodes)]
        one = twins.dry_run(subject, node, given, _twin(case), budgets)
        if one is not None and len(violating if one.violations else harmless) < enough:
            (violating if one.violations else harmless).append(one)
        if harmless and len(harmless) + len(violating) >= enough:
            break
    return [
        (one.node, [victim.metadata.name for victim in one.victims], one.violations) for one in harmless + violating
    ]


def _candidates_json(found: list[tuple[str, list[str], int]]) -> list[Json]:
    return [
        {"node": node, "victims": victims, "num_pdb_violations": violations}
        for node, victims, violations in sorted(found)
    ]


def _by_importance(cycles: list[list[Json]], given: World) -> list[list[Json]]:
    """With what matters of the victims in place of their names."""
    importance = {each.metadata.name: twins.importance(each) for each in given.pods}
    return [
        [
            {**candidate, "victims": sorted(str(importance.get(name, name)) for name in candidate["victims"])}
            for candidate in cycle
        ]
        for cycle in cycles
    ]


def select(case: Case) -> Outcome:
    given, subject = world(case), pod(case["pod"], nodeName="")
    budgets = _budgets(case, given)
    profile, _ = _plugins(case)
    vectors = _vectors(given, budgets)
    info = vectors.read(subject)
    prepared = prepare(profile.pre_filter, info, vectors.snapshot)
    nodes = np.arange(len(given.nodes))
    candidates = preemption.find_candidates(profile, info, prepared, vectors.snapshot, nodes).candidates
    runs = (twins.dry_run(subject, node, given, _twin(case), budgets) for node in given.nodes)
    chosen = preemption.cheapest_candidate(candidates)
    equal = [one.node for one in candidates if preemption.cost(one) == preemption.cost(chosen)]
    found = {
        "vector": [vectors.snapshot.name(node) for node in equal],
        "twin": twins.best([one for one in runs if one is not None]),
    }
    wanted = set(case["expected"]["any_of"])
    started = {each.status.start_time for each in given.pods}
    for form, names in found.items():
        if not (set(names) <= wanted or (len(started) == 1 and wanted.intersection(names))):
            return failed(f"{form}: expected one of {sorted(wanted)}, got {names}")
    return PASSED


def eligible(case: Case) -> Outcome:
    """Terminating pods count as ended by preemption."""
    given = world(case)
    condition = Condition(type="DisruptionTarget", status="True", reason="PreemptionByScheduler")
    ended = tuple(
        each
        if each.metadata.deletion_timestamp is None
        else msgspec.structs.replace(each, status=msgspec.structs.replace(each.status, conditions=(condition,)))
        for each in given.pods
    )
    subject = pod(case["pod"], nodeName="")
    status = case.get("nominated_node_status") or {}
    code = status if isinstance(status, str) else status.get("code", Code.SUCCESS.title)
    vectors = Vectors.of(World(given.nodes, ended))
    reason = preemption.ineligibility_reason(vectors.read(subject), vectors.snapshot, _code(code))
    wanted = case["expected"]["eligible"]
    found = {"vector": not reason, "twin": twins.eligible(subject, code, given)}
    return PASSED if set(found.values()) == {wanted} else failed(f"expected {wanted}, got {found}")


def might_help(case: Case) -> Outcome:
    """Nodes that no status speaks of are unresolvable today, so they are dropped from what is expected."""
    names = case["all_nodes"]
    status = {
        name: {"code": said} if isinstance(said, str) else said
        for name, said in (case.get("node_status") or {}).items()
    }
    codes = np.array(
        [_code(status[name]["code"]) if name in status else Code.UNRESOLVABLE for name in names], dtype=np.uint8
    )
    found = [names[index] for index in preemption.nodes_that_might_help(codes).tolist()]
    plain = [name for name in names if status.get(name, {}).get("code") == UNSCHEDULABLE]
    wanted = [name for name in case["expected"]["nodes"] if name in status]
    return compared({"vector": {*found}, "twin": {*plain}}, {"vector": {*wanted}, "twin": {*wanted}})


def _code(title: str) -> Code:
    known = {code.title: code for code in Code}
    if title not in known:
        raise UnknownOperationError(f"code {title!r}")
    return known[title]


RUNNERS: Mapping[str, CaseRunner] = {
    "preemption_dry_run.json": dry_run,
    "preemption_nodes_that_might_help.json": might_help,
    "preemption_pod_eligible.json": eligible,
    "preemption_select_candidate.json": select,
}

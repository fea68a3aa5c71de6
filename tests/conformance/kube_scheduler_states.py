"""Cases of what PreFilter works out, and of pods added to and removed from that, by plugin and by twin."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from situate.framework.snapshot.labels import Domains
from situate.framework.snapshot.snapshot import Snapshot
from situate.objects.kinds.pods import Pod
from situate.plugins.inter_pod_affinity import AffinityState, ByKey, InterPodAffinity
from situate.plugins.pod_topology_spread import PodTopologySpread, SpreadState
from situate.plugins.pod_topology_spread_args import PodTopologySpreadArgs
from tests.conformance.kube_scheduler_cases import arguments, incoming, pod, world
from tests.conformance.outcome import PASSED, Case, CaseRunner, Outcome, compared, failed
from tests.plugins.twins import inter_pod_affinity, pod_topology_spread
from tests.plugins.twins.world import World
from tests.plugins.vector import Vectors, pre_filtered

Json = Any
_NONE = {"value": "", "match_num": 2**31 - 1}
Counts = list[tuple[str, dict[str, int]]]
"""Of each constraint: its topology key, and the count of each eligible domain."""


def spread(case: Case) -> Outcome:
    wire = dict(case.get("args") or {})
    if wire.get("defaultConstraints"):
        wire.setdefault("defaultingType", "List")
    args = arguments(wire, PodTopologySpreadArgs)
    given, subject = world(case), incoming(case)
    defaults = pod_topology_spread.SYSTEM if args.defaulting_type == "System" else args.default_constraints
    afterwards = given
    if "add_pod" in case:
        afterwards = given.with_pods(pod(case["add_pod"], nodeName=_op_node(case)))
    if "remove_pod" in case:
        gone = _named(given, case["remove_pod"])
        afterwards = given.without(gone) if gone is not None else given
    twin = [
        (rule.wire.topology_key, counts)
        for rule, counts in pod_topology_spread.pair_counts(subject, afterwards, defaults)
    ]
    vector = _spread_by_plugin(case, given, subject, PodTopologySpread(args))
    for form, counts in (("vector", vector), ("twin", twin)):
        found = _spread_json(counts)
        wanted = {key: none if value is None else value for key, value, none in _filled(case["expected"])}
        outcome = compared(found, wanted)
        if outcome.verdict != "passed":
            return failed(f"{form}: {outcome.detail}")
    return PASSED


def _filled(expected: Mapping[str, Json]) -> Iterator[tuple[str, Json, Json]]:
    """Each expectation, and what stands for it where it is null."""
    nothing = {"critical_paths": {}, "pair_to_match_num": [], "n_constraints": 0}
    for key, value in expected.items():
        yield key, _in_order(value) if key == "pair_to_match_num" else value, nothing.get(key)


def _in_order(pairs: Json) -> Json:
    """By key and value, as the answers are; what is no list of pairs is compared as it is."""
    if not isinstance(pairs, list) or not all(isinstance(pair, Mapping) for pair in pairs):
        return pairs
    return sorted(pairs, key=lambda pair: (str(pair.get("key")), str(pair.get("value"))))


def _spread_by_plugin(case: Case, given: World, subject: Pod, plugin: PodTopologySpread) -> Counts:
    vectors = Vectors.of(given)
    info = vectors.read(subject)
    state, skipped = pre_filtered(plugin, info, vectors.snapshot)
    if skipped:
        return []
    for op, change in (("add_pod", plugin.add_pod), ("remove_pod", plugin.remove_pod)):
        if op in case:
            other = vectors.read(pod(case[op], nodeName=_op_node(case)))
            index = vectors.snapshot.nodes.index[_op_node(case)]
            state = change(state, info, other, index, vectors.snapshot)
    return _spread_counts(state)


def _op_node(case: Case) -> str:
    """Where the pod is added or removed: as the case says, else where the pod itself is."""
    wire = case.get("add_pod") or case.get("remove_pod") or {}
    named: str = case.get("op_node") or (wire.get("spec") or {}).get("nodeName", "")
    return named


def _spread_counts(state: SpreadState) -> Counts:
    found = []
    for rule, counts in zip(state.rules, state.counts, strict=True):
        eligible = [True] * rule.domains.count if rule.eligible is None else rule.eligible.tolist()
        pairs = zip(rule.domains.values, counts.tolist(), eligible, strict=True)
        found.append((rule.constraint.topology_key, {value: count for value, count, there in pairs if there}))
    return found


def _spread_json(counts: Counts) -> dict[str, Json]:
    together: Counter[tuple[str, str]] = Counter()
    critical = {}
    for key, by_value in counts:
        together.update({(key, value): count for value, count in by_value.items()})
        smallest = sorted(by_value.items(), key=lambda pair: (pair[1], pair[0]))[:2]
        listed = [{"value": value, "match_num": count} for value, count in smallest]
        critical[key] = listed + [_NONE] * (2 - len(listed))
    return {
        "critical_paths": critical,
        "pair_to_match_num": [
            {"key": key, "value": value, "match_num": together[key, value]} for key, value in sorted(together)
        ],
        "n_constraints": len(counts),
    }


def _named(given: World, wire: Mapping[str, Json]) -> Pod | None:
    """The pod of the world that is meant."""
    name = (wire.get("metadata") or {}).get("name", "")
    return next((each for each in given.pods if each.metadata.name == name), None)


def affinity(case: Case) -> Outcome:
    """After a pod was added; taking it away again restores what was before."""
    given, subject, added = world(case), incoming(case), pod(case["add_pod"], nodeName=_op_node(case))
    _, attracted, disliked = inter_pod_affinity.pairs(subject, given.with_pods(added))
    twin = {"affinity": _pairs_json(attracted), "anti_affinity": _pairs_json(disliked)}
    vectors = Vectors.of(given)
    info, other = vectors.read(subject), vectors.read(added)
    plugin = InterPodAffinity()
    before, skipped = pre_filtered(plugin, info, vectors.snapshot)
    vector: dict[str, Json] = {"affinity": [], "anti_affinity": []}
    if not skipped:
        index = vectors.snapshot.nodes.index[added.spec.node_name]
        after = plugin.add_pod(before, info, other, index, vectors.snapshot)
        vector = _neighbours_json(after, vectors.snapshot)
        restored = plugin.remove_pod(after, info, other, index, vectors.snapshot)
        for field in ("affinity", "anti_affinity", "repelled"):
            one, two = (_pairs(getattr(each, field), vectors.snapshot) for each in (before, restored))
            if one != two:
                return failed(f"vector: {field} was {one}, and is {two} once the pod was removed again")
    wanted = {key: _in_order(value or []) for key, value in case["expected"].items()}
    for form, found in (("vector", vector), ("twin", twin)):
        outcome = compared(found, wanted)
        if outcome.verdict != "passed":
            return failed(f"{form}: {outcome.detail}")
    return PASSED


def _neighbours_json(state: AffinityState, snapshot: Snapshot) -> dict[str, Json]:
    return {
        "affinity": _pairs_json(_pairs(state.affinity, snapshot)),
        "anti_affinity": _pairs_json(_pairs(state.anti_affinity, snapshot)),
    }


def _pairs(by_key: ByKey, snapshot: Snapshot) -> Counter[tuple[str, str]]:
    found: Counter[tuple[str, str]] = Counter()
    for key, counts in by_key:
        domains: Domains = snapshot.domains(key)
        found.update(
            {(key, value): count for value, count in zip(domains.values, counts.tolist(), strict=True) if count}
        )
    return found


def _pairs_json(pairs: Mapping[tuple[str, str], int]) -> list[dict[str, Json]]:
    return [{"key": key, "value": value, "count": pairs[key, value]} for key, value in sorted(pairs)]


RUNNERS: Mapping[str, CaseRunner] = {
    "inter_pod_affinity_prefilter_add_remove.json": affinity,
    "pod_topology_spread_prefilter_state.json": spread,
}

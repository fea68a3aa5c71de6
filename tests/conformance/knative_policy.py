"""Adapters for the cases of knative's policy mode (v0.43.0): a case in, a list of differences out, empty if it passes.

The fields are described in the README beside the vectors. Which file goes to which adapter stands in `RUNNERS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from situate.vpod.knative_era.scale import era_compaction, era_replicas
from situate.vpod.knative_era.schedule import (
    EraDecision,
    MaxFillUp,
    PredicatesAndPriorities,
    era_decision,
    updated_reservations,
)
from situate.vpod.knative_era.state import EraCluster, EraState, Reservations, era_state
from situate.vpod.model.options import Options, PolicyName, Profile
from situate.vpod.model.pod_classes import NodeFacts, PodFacts
from situate.vpod.model.vpod import Key, Placement, PlainVPod, ordinal_of, total_vreplicas
from situate.vpod.placement.decide import Decision, commit, decide
from situate.vpod.policy.registry import Policy, Predicate, Priority, filter_plugin, score_plugin
from situate.vpod.policy.status import Code, Status, merge_statuses
from situate.vpod.policy.view import UNKNOWN_DOMAIN, Domains, PolicyView
from situate.vpod.state.state import State
from tests.conformance.knative_main import as_json, replicas, without_empty
from tests.conformance.outcome import (
    PASSED,
    Case,
    CaseRunner,
    Outcome,
    UnknownOperationError,
    by_action,
    compared,
    failed,
    optional,
)
from tests.vpod.policy.evenspread import SpreadOver, even_spread

Json = Mapping[str, Any]
_REQUEUE_S = 5


def differences(**pairs: tuple[object, object]) -> list[str]:
    """What was found against what was expected, one line a name."""
    return [
        f"{name}: {found!r}, expected {expected!r}" for name, (found, expected) in pairs.items() if found != expected
    ]


def against(expected: Json, found: Mapping[str, object]) -> list[str]:
    """What was found against every key that is expected; a key that nobody knows is a difference too."""
    unknown = [f"unknown expectation {name!r}" for name in expected if name not in found]
    return unknown + differences(**{name: (found[name], expected[name]) for name in expected if name in found})


def placements(entries: Iterable[Json] | None) -> tuple[Placement, ...]:
    return tuple(Placement(entry["pod"], entry.get("vreplicas", 0)) for entry in entries or ())


def expected_placements(entries: Iterable[Json] | None) -> list[Placement]:
    """The placements of an expectation; one with a key that nobody knows is refused."""
    for entry in entries or ():
        if unknown := entry.keys() - {"pod", "vreplicas"}:
            raise UnknownOperationError(f"expected placement with {', '.join(sorted(unknown))}")
    return list(placements(entries))


def vpod(entry: Json) -> PlainVPod:
    return PlainVPod(Key.parse(entry["key"]), entry.get("vreplicas", 0), placements(entry.get("placements")))


def policy(entry: Json | None) -> Policy | None:
    if entry is None:
        return None
    return Policy(
        tuple(Predicate(p["name"], p.get("args")) for p in entry.get("predicates") or ()),
        tuple(Priority(p["name"], p["weight"], p.get("args")) for p in entry.get("priorities") or ()),
    )


def mode(case: Case) -> MaxFillUp | PredicatesAndPriorities:
    kind = case.get("scheduler_policy_type")
    if kind == "MAXFILLUP":
        return MaxFillUp()
    if kind:
        raise UnknownOperationError(f" scheduler_policy_type {kind!r}")
    return PredicatesAndPriorities(policy(case.get("scheduler_policy")), policy(case.get("descheduler_policy")))


def cluster(case: Case) -> EraCluster:
    pods = case.get("pods") or ()
    names = [pod["name"] for pod in pods]
    default = names[0].rpartition("-")[0] if names else "statefulset-name"
    return EraCluster(
        case.get("statefulset", default),
        replicas(case),
        case.get("capacity", 10),
        tuple(
            PodFacts(pod["name"], pod.get("node") or "", None if pod.get("schedulable", True) else "true")
            for pod in pods
        ),
        nodes(case.get("nodes") or ()),
    )


def nodes(entries: Iterable[Json]) -> tuple[NodeFacts, ...]:
    def unreachable(entry: Json) -> bool:
        return any(
            taint["key"] == "node.kubernetes.io/unreachable" and taint["effect"] in ("NoExecute", "NoSchedule")
            for taint in entry.get("taints") or ()
        )

    return tuple(
        NodeFacts(entry["name"], entry.get("zone"), entry.get("unschedulable", False), unreachable=unreachable(entry))
        for entry in entries
    )


def reservations(entry: Mapping[str, Mapping[str, int]] | None) -> Reservations:
    return {Key.parse(key): dict(by_pod or {}) for key, by_pod in (entry or {}).items()}


def build_state(case: Case) -> list[str]:
    given, expected = case["input"], case["expected"]
    state, _ = era_state(cluster(given), map(vpod, given.get("vpods") or ()), reservations(given.get("reserved")))
    return against(expected, state_json(state))


def state_json(state: EraState) -> dict[str, object]:
    keys = list(state.pod_spread)

    def by_name(key: Key) -> dict[str, int]:
        return {f"{state.cluster.statefulset}-{ordinal}": n for ordinal, n in state.pod_spread[key].items()}

    return {
        "free_cap": [state.free_at(ordinal) for ordinal in range(state.last_ordinal + 1)],
        "schedulable_pods": list(state.schedulable_pods),
        "last_ordinal": state.last_ordinal,
        "capacity": state.cluster.capacity,
        "replicas": state.cluster.replicas,
        "num_nodes": len(state.zone_of_node),
        "num_zones": len(set(state.zone_of_node.values())),
        "node_to_zone": dict(state.zone_of_node),
        "pod_spread": {str(key): by_name(key) for key in keys},
        "node_spread": {str(key): state.node_spread(key) for key in keys},
        "zone_spread": {str(key): state.zone_spread(key) for key in keys},
        "pending": {str(key): n for key, n in state.pending.items()},
        "expected_vreplicas": {str(key): n for key, n in state.expected.items()},
        "free_capacity": state.free_capacity(),
    }


def schedule(case: Case) -> list[str]:
    given, expected = case["input"], case["expected"]
    subject = vpod(given["vpod"])
    vpods = [subject, *map(vpod, given.get("other_vpods") or ())]
    decision = era_decision(cluster(given), vpods, reservations(given.get("reserved")), subject, mode(given))
    more = {
        "requeue_after_seconds": _REQUEUE_S if decision.left else None,
        "reserved": {str(key): by_pod for key, by_pod in decision.reserved.items() if by_pod},
    }
    return _outcome(decision, expected, more)


def _outcome(
    decision: EraDecision | Decision, expected: Json, more: Mapping[str, object] = MappingProxyType({})
) -> list[str]:
    found = {"placements": list(decision.placements), "error": decision.left > 0, "left": decision.left, **more}
    wanted = {name: value for name, value in expected.items() if name != "reserved" or value is not None}
    if wanted.get("reserved"):
        wanted["reserved"] = {key: by_pod for key, by_pod in wanted["reserved"].items() if by_pod}
    return against(_with_placements(wanted), found)


def _with_placements(expected: Json) -> dict[str, Any]:
    """The expectation with its list of placements as values."""
    listed = {"placements": expected_placements(expected["placements"])} if "placements" in expected else {}
    return {**expected, **listed}


def trace(case: Case) -> list[str]:
    """The shipped `decide`, exact up to the first step that upstream gets wrong, from there on only totals."""
    how = mode(case)
    if not isinstance(how, PredicatesAndPriorities):
        raise UnknownOperationError("a trace of policy mode with scheduler_policy_type MAXFILLUP")
    over = cluster(case)
    options = Options(
        "ns",
        over.statefulset,
        over.capacity,
        policy=PolicyName.POLICY,
        profile=Profile.REFERENCE,
        placing=how.placing or Policy((), ()),
        removing=how.removing or Policy((), ()),
    )
    listed = {entry["key"]: vpod(entry) for entry in case.get("vpods") or ()}
    state = State.rebuild(options, over.replicas, over.pods, listed.values(), 0.0, over.nodes, reserved={})
    exact = True
    for number, step in enumerate(case["steps"]):
        if step["op"] != "schedule":
            raise UnknownOperationError(f"op {step['op']!r}")
        before = listed[step["vpod"]]
        wanted = step.get("vreplicas", before.vreplicas)
        subject = listed[step["vpod"]] = PlainVPod(before.key, wanted, before.placements)
        state.observe_vpod(subject, 0.0)
        decision = decide(state, subject, 0.0)
        commit(state, decision)
        exact = exact and not step.get("reference_total_wrong")
        if exact:
            found = _outcome(decision, step["expected"])
        else:
            found = [] if decision.left else differences(total=(total_vreplicas(decision.placements), wanted))
        if found:
            return [f"step {number}: {line}" for line in found]
        if step.get("commit_status") and not decision.left:
            listed[step["vpod"]] = PlainVPod(subject.key, subject.vreplicas, decision.placements)
            state.observe_vpod(listed[step["vpod"]], 0.0)
    return []


def autoscale(case: Case) -> list[str]:
    given, expected = case["input"], case["expected"]
    state, _ = era_state(cluster(given), map(vpod, given.get("vpods") or ()), reservations(given.get("reserved")))
    wanted = era_replicas(state, mode(given), may_shrink=bool(given.get("attempt_scale_down")))
    return against(expected, {"replicas": wanted if given.get("is_leader", True) else given["replicas"]})


def compact(case: Case) -> list[str]:
    given, expected = case["input"], case["expected"]
    vpods = [vpod(entry) for entry in given.get("vpods") or ()]
    state, _ = era_state(cluster(given), vpods, {})
    evictions: dict[str, list[Placement]] = {}
    if given.get("is_leader", True):
        for key, placement in era_compaction(state, vpods, mode(given)):
            evictions.setdefault(str(key), []).append(placement)
    wanted = {key: expected_placements(entries) for key, entries in without_empty(expected.get("evictions")).items()}
    return against({**expected, "evictions": wanted}, {"evictions": evictions})


def compact_v0_43_1(case: Case) -> list[str]:
    """The same rule as MAXFILLUP's; the cases name no nodes, so every pod's node is healthy."""
    given = case["input"]
    hosts = [{"name": node} for node in {pod.get("node") for pod in given.get("pods") or ()} if node]
    return compact({**case, "input": {**given, "nodes": hosts, "scheduler_policy_type": "MAXFILLUP"}})


def reserved(case: Case) -> dict[str, int]:
    """Reserve each list of the sequence as if it were the result of a schedule."""
    found: dict[str, int] = {}
    for entries in case["input"].get("reserve_sequence") or ():
        found = updated_reservations(found, placements(entries))
    return found


def plugin(case: Case) -> list[str]:
    given, expected = case["input"], case["expected"]
    name, args = case["plugin"], given.get("args")
    view = plugin_view(given)
    index = int(np.flatnonzero(view.ordinals == given["pod_id"])[0])
    if case["kind"] == "filter":
        subject = filter_plugin(Predicate(name, args))
        passes = bool(subject.passes(view)[index])
        status = Status() if passes else Status(Code.UNSCHEDULABLE, (subject.reason,))
        found: dict[str, object] = {}
    elif case["kind"] == "score":
        scores = score_plugin(Priority(name, 1, args)).scores(view)
        status = Status(scores.code, (scores.reason,)) if bool(scores.failed[index]) else Status()
        number = int(scores.as_uint64()[index])
        minus = 2**64 - 1 - number if expected.get("score_is_max_minus") is not None else None
        found = {"score_uint64": str(number), "score_is_max_minus": minus}
    else:
        raise UnknownOperationError(f" kind {case['kind']!r}")
    found |= {"code": status.code.name.lower(), "reasons": list(status.reasons)}
    return against({**expected, **({"reasons": expected["reasons"] or []} if "reasons" in expected else {})}, found)


def plugin_view(given: Json) -> PolicyView:
    """The pods that the state names in any way, with the asked one among them."""
    state = given["state"]
    statefulset, key = state.get("statefulset", ""), given.get("vpod")
    spread: dict[int, int] = {}
    for name, vreplicas in ((state.get("pod_spread") or {}).get(key) or {}).items():
        ordinal = ordinal_of(name, statefulset)
        if ordinal is None:
            raise ValueError(f"pod_spread names {name!r}, which is no pod of {statefulset!r}")
        spread[ordinal] = vreplicas
    schedulable = set(state.get("schedulable_pods") or ())
    ordinals = sorted({given["pod_id"], *schedulable, *spread})
    free = state.get("free_cap") or []
    zone_of_node = {node["name"]: node.get("zone") or "unknown" for node in given.get("nodes") or ()}
    node_of_pod = {pod["name"]: pod["node"] for pod in given.get("pods") or ()}
    pod_nodes = [node_of_pod.get(f"{statefulset}-{ordinal}", "") for ordinal in ordinals]
    return PolicyView(
        replicas=state["replicas"],
        ordinals=np.array(ordinals, dtype=np.int64),
        schedulable=np.array([ordinal in schedulable for ordinal in ordinals], dtype=np.bool_),
        free=np.array([free[o] if o < len(free) else state["capacity"] for o in ordinals], dtype=np.int64),
        own=np.array([spread.get(ordinal, 0) for ordinal in ordinals], dtype=np.int64),
        in_spread=np.array([ordinal in spread for ordinal in ordinals], dtype=np.bool_),
        nodes=_domains(pod_nodes, sorted(zone_of_node), (state.get("node_spread") or {}).get(key)),
        zones=_domains(
            [zone_of_node.get(node, "") for node in pod_nodes],
            sorted(set(zone_of_node.values())),
            (state.get("zone_spread") or {}).get(key),
        ),
        free_known=bool(free),
    )


def _domains(of_pod: list[str], names: list[str], own: Mapping[str, int] | None) -> Domains:
    own = own or {}
    return Domains(
        np.array([names.index(name) if name in names else UNKNOWN_DOMAIN for name in of_pod], dtype=np.int64),
        np.array([own.get(name, 0) for name in names], dtype=np.int64),
        np.array([name in own for name in names], dtype=np.bool_),
    )


def merge(case: Case) -> list[str]:
    given, expected = case["input"], case["expected"]
    listed = given.get("statuses") or {}
    named = listed.values() if isinstance(listed, Mapping) else listed
    return against(expected, {"code": merge_statuses(Status(_code(name)) for name in named).code.name.lower()})


def status(case: Case) -> list[str]:
    given, expected = case["input"], case["expected"]
    found = Status(_code(given.get("code")), tuple(given.get("reasons") or ()))
    return against(
        expected,
        {
            "code": found.code.name.lower(),
            "reasons": list(found.reasons),
            "is_success": found.is_success,
            "is_unschedulable": found.is_unschedulable,
            "is_error": found.is_error,
            "message": found.message,
        },
    )


def _code(name: str | None) -> Code:
    """A status that is not there is a success."""
    return Code[(name or "success").upper()]


def even_spread_case(case: Case) -> list[str]:
    given, expected = case["input"], case["expected"]
    over = {"EVENSPREAD": SpreadOver.ZONES, "EVENSPREAD_BYNODE": SpreadOver.NODES}[given["scheduler_policy_type"]]
    found, left = even_spread(cluster(given), vpod(given["vpod"]), over, reservations(given.get("reserved")))
    return against(_with_placements(expected), {"placements": list(found), "error": left > 0, "left": left})


def divergence(case: Case) -> Outcome:
    """A scenario of v0.43.0 as the safe profile answers it: each call by itself, on healthy pods."""
    given = case["input"]
    policies = {
        name: read
        for name, key in (("placing", "scheduler_policy"), ("removing", "descheduler_policy"))
        if (read := policy(given.get(key))) is not None
    }
    decisions = [_decided(given, policies, call) for call in given.get("cases") or [given]]
    results = [as_json(decision.placements) for decision in decisions]
    left = sum(decision.left for decision in decisions)
    found = {
        "total": sum(total_vreplicas(decision.placements) for decision in decisions),
        "placements": results if "cases" in given else results[0],
        "left": left,
        "error": left > 0,
        "panic": False,
    }
    return compared(found, case["expected"])


def _decided(given: Json, policies: Mapping[str, Any], call: Json) -> Decision:
    """One call. What the vpod holds is given as `placements` or `status_before`, in the call or in a `vpod`."""
    own = {**(given.get("vpod") or {}), **(call.get("vpod") or {}), **call}
    statefulset = given.get("statefulset", "statefulset-name")
    held = placements(own.get("placements") or own.get("status_before"))
    highest = max((ordinal_of(each.pod_name, statefulset) or 0 for each in held), default=0)
    count = given.get("replicas", highest + 1)
    options = Options("ns", statefulset, given.get("capacity", 10), policy=PolicyName.POLICY, **policies)
    if given.get("pods") is None:
        pods = [PodFacts(f"{statefulset}-{ordinal}", f"node-{ordinal}") for ordinal in range(count)]
    else:
        pods = list(cluster({**given, "replicas": count}).pods)
    listed = nodes(given["nodes"]) if given.get("nodes") is not None else None
    subject = PlainVPod(Key("ns", "v"), own["vreplicas"], held)
    others = map(vpod, given.get("other_vpods") or ())
    state = State.rebuild(options, count, pods, [subject, *others], 0.0, listed)
    return decide(state, subject, 0.0)


def _runner(adapter: Callable[[Case], list[str]]) -> CaseRunner:
    def run(case: Case) -> Outcome:
        found = adapter(case)
        return failed("; ".join(found)) if found else PASSED

    return run


RUNNERS: Mapping[str, CaseRunner] = {
    "autoscaler_policy.json": by_action({"autoscale": _runner(autoscale)}),
    "compactor_policy.json": by_action({"may_compact": _runner(compact)}),
    "compactor_v0_43_1.json": by_action({"may_compact": optional(_runner(compact_v0_43_1))}),
    "evenspread_legacy.json": by_action({"schedule": optional(_runner(even_spread_case))}),
    "golden_policy_traces.json": _runner(trace),
    "plugin_status.json": by_action({"merge": _runner(merge), "status": _runner(status)}),
    "plugins.json": by_action({"filter": _runner(plugin), "score": _runner(plugin)}),
    "scheduler_policy.json": by_action({"schedule": _runner(schedule)}),
    "state_nodes_zones.json": by_action({"build_state": _runner(build_state)}),
}

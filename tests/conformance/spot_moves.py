"""Evictions, scale-down, merging, signals and cost of spot's vectors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from situate.framework.pod.node_selection import Term
from situate.objects.kinds.nodes import Node
from situate.objects.kinds.pods import NodeSelectorTerm, Toleration
from situate.objects.values.quantity import decode_quantity
from situate.objects.values.timestamps import parse_time
from situate.plugins.taint_toleration import untolerated_taint
from situate.spot.admission.patch import DecisionMarks, PlacementTerms, class_patch
from situate.spot.admission.patch_check import apply_operations
from situate.spot.model.counts import counted_pods, effective_on_demand_count
from situate.spot.model.misplaced_pods import Workload, blocking_reason, find_misplaced_pods
from situate.spot.model.pods_nodes_workloads import Capacity, Owner, PodFacts, PodKey
from situate.spot.nodes import savings
from situate.spot.nodes.known_signals import SIGNALS, on_demand_requirement, pool_tolerations, spot_requirement
from situate.spot.nodes.node_signals import node_facts
from situate.spot.workloads.constraints import PREFERRED, as_mapping, capacity_constraint, required_terms
from situate.spot.workloads.deletion_cost import Subset, free_slots, removal_candidates, subset_costs
from situate.spot.workloads.on_demand_policy import BadPolicy, parse_policy
from tests.conformance.outcome import PASSED, Case, Outcome, UnknownOperationError, compared, failed
from tests.conformance.spot_cases import LONG_AGO, NOW, UID, nodes, policy_text, workload

Json = Any


def evictions(case: Case) -> Outcome:
    after = _policy_after(case)
    if policy_text(after) is None:
        return _compare_moves(case, (), 0, 0)
    try:
        last = parse_policy(policy_text(case.get("policy_before", after)) or "default")
    except BadPolicy:
        last = None
    found = workload(case, after, last)
    moves = find_misplaced_pods(found, nodes())
    to_spot = moves.need < 0
    room = case.get("spot_capacity", "available")
    if room not in ("available", "none"):
        raise UnknownOperationError(f"spot_capacity {room!r}")
    if to_spot and room == "none":
        return _compare_moves(case, (), 0, 0)
    budget = case.get("pdb") or {}
    ending = {pod.uid for pod in found.live_pods if pod.node.endswith("doomed")}
    blocked = blocking_reason(found, NOW, disruptions_allowed=budget.get("disruptions_allowed"))
    now = int(blocked is None) if moves.total else 0
    if any(pod.uid in ending for pod in moves.victims):
        now = max(now, 1)  # what stands on an ending node is evacuated at once
    return _compare_moves(case, moves.candidates, moves.total, now)


def _policy_after(case: Case) -> Mapping[str, Json]:
    """The policy in force; one that does not change may stand alone."""
    found: Mapping[str, Json] = case.get("policy_after", case.get("policy", case.get("policy_before"))) or {}
    return found


def _compare_moves(case: Case, candidates: Sequence[PodFacts], total: int, now: int) -> Outcome:
    expected = dict(case["expect"])
    admitted = expected.pop("then_admit", None)
    for prose in ("wait", "forbid"):
        expected.pop(prose, None)
    may_be_first, never = expected.pop("candidates", None), expected.pop("never", None) or ()
    actual: dict[str, Json] = {"total": total, "now": now, "class": None}
    if total:
        actual["class"] = _class(case, candidates[0])
    if expected.pop("may_defer", case.get("may_defer")) and now == 0:
        expected.pop("now", None)
    outcome = compared(actual, expected)
    if outcome.verdict != "passed":
        return outcome
    names = [pod.key.name for pod in candidates[:total]]
    if may_be_first is not None and names and names[0] not in may_be_first:
        return failed(f"first to go is {names[0]}, expected one of {may_be_first}")
    if touched := set(names) & set(never):
        return failed(f"would move {sorted(touched)}")
    return _admits(case, admitted) if admitted is not None else PASSED


def _class(case: Case, pod: PodFacts) -> str:
    """Of a pod that was never classed, the one of its node."""
    wire = next(each for each in case["pods"] if each["name"] == pod.key.name)
    return str(wire.get("intent") or wire.get("on"))


def _admits(case: Case, expected: Mapping[str, str] | Sequence[str] | str) -> Outcome:
    """By name for a StatefulSet. Else the classes, in order, of those that come for the pods that are moved."""
    found = workload(case, _policy_after(case))
    if not isinstance(expected, Mapping):
        listed = [expected] if isinstance(expected, str) else list(expected)
        return compared({"then_admit": _classes_of_successors(found, len(listed))}, {"then_admit": listed})
    actual = {}
    for name in expected:
        ordinal = found.owner.ordinal(name)
        below = ordinal is not None and ordinal < found.target
        actual[name] = "on-demand" if below else "spot"
    return compared(actual, expected)


def _classes_of_successors(found: Workload, count: int) -> list[str]:
    """The class of each pod that comes when one more of the victims has gone, or is missing already."""
    moved = [pod.uid for pod in find_misplaced_pods(found, nodes()).candidates]
    classes: list[str] = []
    for number in range(count):
        left = [pod for pod in found.live_pods if pod.uid not in moved[: number + 1]]
        held = effective_on_demand_count(counted_pods(left), nodes()) + classes.count("on-demand")
        classes.append("on-demand" if held < found.target else "spot")
    return classes


def scaledown_cases(document: Mapping[str, Json]) -> list[Case]:
    cases: list[Case] = [{**each, "op": "victims"} for each in document.get("victims", ())]
    for number, each in enumerate(document.get("workloadspread_costs", ())):
        cases.append({**each, "op": "costs", "id": f"costs {number}", "level": "choice"})
    if "workloadspread_versions" in document:
        cases.append({**document["workloadspread_versions"], "op": "versions", "id": "versions", "level": "choice"})
    return cases


def scaledown(case: Case) -> Outcome:
    match case["op"]:
        case "victims":
            return _victims(case)
        case "costs":
            return _costs(case)
        case _:
            return _versions(case)


def _victims(case: Case) -> Outcome:
    before, after = case["replicas"]
    newest = case.get("revision", max((wire.get("rev", "") for wire in case["pods"]), default=""))
    name = case["pods"][0]["name"].rpartition("-")[0] if case["pods"] else "db"
    of = Owner(case["kind"], "shop", name, UID, after, stateful=case["kind"] == "StatefulSet", revision=newest)
    pods = [
        PodFacts(
            PodKey("shop", wire["name"]),
            wire["name"],
            revision=wire.get("rev", newest),
            pod_class=Capacity(wire["class"]),
            node=("spot" if wire["class"] == "spot" else "on-demand") + (" doomed" if wire.get("node_doomed") else "")
            if wire.get("bound", True)
            else "",
            phase=wire.get("phase", "Running"),
            ready=wire.get("ready", True),
            ready_since=LONG_AGO + 1 if wire.get("ready", True) else None,
            created=LONG_AGO + 1,
        )
        for wire in case["pods"]
    ]
    # each pod on a node of its own: how many share one is not told
    alone = {}
    for number, pod in enumerate(pods):
        if pod.node:
            alone[f"{number}"] = replace(nodes()[pod.node], name=f"{number}")
            pods[number] = replace(pod, node=f"{number}")
    gone = removal_candidates(Workload(of, case.get("target_after", 0), pods), before - after, alone, NOW)
    names = [pod.key.name for pod in gone]
    for group in case["expect"]:
        if unknown := group.keys() - {"count", "among"}:
            raise UnknownOperationError(f"group with {', '.join(sorted(unknown))}; known: count, among")
        taken, names = names[: group["count"]], names[group["count"] :]
        if len(taken) != group["count"] or not set(taken) <= set(group["among"]):
            return failed(f"expected {group['count']} of {group['among']}, got {taken}")
    return PASSED


def _costs(case: Case) -> Outcome:
    pods = tuple(_cost_pod(wire) for wire in case["pods"])
    others = [Subset((), None)] * case["subsets"]
    others[case["subset_index"]] = Subset(pods, case["max_replicas"])
    return compared({"costs": subset_costs(others)[case["subset_index"]]}, {"costs": case["expect_cost"]})


def _cost_pod(wire: Mapping[str, Json]) -> PodFacts:
    return PodFacts(
        PodKey("shop", wire["name"]),
        wire["name"],
        node="n" if wire.get("bound", True) else "",
        phase=wire.get("phase", "Running"),
        terminating=bool(wire.get("terminating")),
    )


def _versions(case: Case) -> Outcome:
    counts = {"a": 3, "b": 2}
    costs: dict[str, Json] = {}
    missing: dict[str, Json] = {}
    everyone: dict[str, list[PodFacts]] = {"a": [], "b": []}
    for version in ("new", "old"):
        subsets = {}
        for (name, count), most in zip(counts.items(), case["max_replicas"], strict=True):
            pods = [_cost_pod({"name": f"{version}-{name}{number}"}) for number in range(count)]
            everyone[name] += pods
            subsets[name] = Subset(pods, most)
        rows = subset_costs(list(subsets.values()), old_revision=version == "old")
        costs[version] = {name: row[0] for name, row in zip(subsets, rows, strict=True)}
        missing[version] = {name: free_slots(subset) for name, subset in subsets.items()}
    total = dict(zip(everyone, case["max_replicas"], strict=True))
    missing["all"] = {name: free_slots(Subset(pods, total[name])) for name, pods in everyone.items()}
    missing["all"]["a_replicas"] = len(everyone["a"])
    return compared(
        {"cost": costs, "missing": missing}, {"cost": case["expect_cost"], "missing": case["expect_missing"]}
    )


def merge_cases(document: Mapping[str, Json]) -> list[Case]:
    shared = {
        "nodes": document.get("nodes") or {},
        "capacity_label": document.get("capacity_label", "node.kubernetes.io/capacity"),
    }
    return [{**shared, **case} for case in document.get("cases", ())]


def merge(case: Case) -> Outcome:
    if case.get("capacity_label", "node.kubernetes.io/capacity") != "node.kubernetes.io/capacity":
        raise UnknownOperationError(f"capacity label {case['capacity_label']!r}")
    wanted = Capacity(case["class"])
    pod_spec = case.get("pod_spec") or {}
    tainted = {taint["key"] for node in case["nodes"].values() for taint in node.get("taints") or ()}
    pools = tuple(each for each in pool_tolerations(SIGNALS) if each.key in tainted)
    tolerations = pools if case.get("inject_spot_toleration") else ()
    placing = PlacementTerms(on_demand_requirement(SIGNALS), spot_requirement(SIGNALS), tolerations)
    pod = {"metadata": {"name": "p"}, "spec": pod_spec}
    known = {name: node_facts(_node(name, node), SIGNALS, NOW) for name, node in case["nodes"].items()}
    own = capacity_constraint(pod_spec, SIGNALS, known)
    final = own.capacity or wanted

    def mutated(given: Mapping[str, Json]) -> dict[str, Json]:
        if not own.placeable:
            return dict(given)
        marks = DecisionMarks("{}", 100)
        return apply_operations(given, class_patch(given, final, placing, marks, touch_affinity=final is wanted))

    once = mutated(pod)
    if mutated(once) != once:
        return failed("applied twice is not applied once")
    spec = once["spec"]
    feasible = sorted(name for name, node in case["nodes"].items() if _feasible(spec, name, node))
    actual: dict[str, Json] = {
        "feasible_nodes": feasible,
        "preferred_nodes": _preferred(spec, feasible, case["nodes"]),
        "conflict": not own.placeable or (wanted is Capacity.ON_DEMAND and final is Capacity.SPOT),
        "counted_as": str(final) if own.placeable else None,
    }
    expected = dict(case["expect"])
    for field in expected.pop("unchanged", None) or ():
        if spec.get(field) != pod_spec.get(field):
            return failed(f"{field} has changed")
    for field in expected.pop("superset", None) or ():
        if not _covers(spec.get(field), pod_spec.get(field)):
            return failed(f"{field} has lost something")
    path = expected.pop("keep_path", None)
    if path and (_at(spec, path) is None or _at(spec, path) != _at(pod_spec, path)):
        return failed(f"{path} is gone")
    for key in ("feasible_nodes", "preferred_nodes"):
        if key in expected:
            expected[key] = sorted(expected[key])
    return compared(actual, expected)


def _feasible(spec: Mapping[str, Json], name: str, node: Mapping[str, Json]) -> bool:
    labels = node.get("labels") or {}
    if any(labels.get(key) != value for key, value in as_mapping(spec.get("nodeSelector")).items()):
        return False
    terms = required_terms(spec)
    if terms is not None and not any(_admits_node(term, labels, name) for term in terms):
        return False
    tolerations = tuple(msgspec.convert(each, Toleration) for each in spec.get("tolerations") or ())
    return untolerated_taint(_node(name, node).spec.taints, tolerations) is None


def _node(name: str, given: Mapping[str, Json]) -> Node:
    wire = {
        "metadata": {"name": name, "labels": given.get("labels") or {}},
        "spec": {"taints": given.get("taints") or []},
    }
    return msgspec.convert(wire, Node, dec_hook=decode_quantity)


def _admits_node(wire: Mapping[str, Json], labels: Mapping[str, str], name: str) -> bool:
    """As a node selector term, but that fields may have several values, which the API server would not admit."""
    term = _term(wire)
    if not term.expressions and not term.fields:
        return False
    named = all((name in field.values) == (field.operator == "In") for field in term.fields)
    return named and term.matches_labels(labels)


def _term(wire: Mapping[str, Json]) -> Term:
    return Term.from_selector_term(msgspec.convert(wire, NodeSelectorTerm))


def _preferred(spec: Mapping[str, Json], feasible: Iterable[str], given: Mapping[str, Json]) -> list[str]:
    wishes = as_mapping(as_mapping(spec.get("affinity")).get("nodeAffinity")).get(PREFERRED) or ()
    sums = {
        name: sum(
            wish["weight"]
            for wish in wishes
            if _term(wish["preference"]).matches(given[name].get("labels") or {}, name)
        )
        for name in feasible
    }
    most = max(sums.values(), default=0)
    return [name for name, total in sums.items() if total == most]


def _covers(after: Json, before: Json) -> bool:
    if isinstance(before, Mapping):
        return isinstance(after, Mapping) and all(_covers(after.get(key), value) for key, value in before.items())
    if isinstance(before, list):
        return isinstance(after, list) and all(any(_covers(other, each) for other in after) for each in before)
    return before is None or after == before


def _at(value: Json, path: str) -> Json:
    for step in path.strip("/").replace("/", ".").removeprefix("spec.").split("."):
        if isinstance(value, list):
            value = value[int(step)] if step.isdecimal() and int(step) < len(value) else None
        else:
            value = as_mapping(value).get(step)
    return value


def signals(case: Case) -> Outcome:
    wire = case["node"]
    metadata = {"name": "n", "labels": wire.get("labels") or {}, "annotations": wire.get("annotations") or {}}
    if wire.get("deletionTimestamp"):
        metadata["deletionTimestamp"] = wire["deletionTimestamp"]
    spec = {"taints": wire.get("taints") or [], "unschedulable": bool(wire.get("unschedulable"))}
    status = {"conditions": wire.get("conditions") or []}
    node = msgspec.convert({"metadata": metadata, "spec": spec, "status": status}, Node, dec_hook=decode_quantity)
    now = parse_time(case["now"]).timestamp() if case.get("now") is not None else NOW
    facts = node_facts(node, SIGNALS, now)
    expected = dict(case["expect"])
    left = None if facts.deadline is None else facts.deadline - now
    actual: dict[str, Json] = {"capacity": str(facts.capacity), "state": str(facts.state)}
    if "deadline_s_max" in expected:
        most = expected.pop("deadline_s_max")
        if (most is None) != (left is None) or (most is not None and left is not None and left > most):
            return failed(f"seconds left: expected at most {most}, got {left}")
    stated = expected.pop("expect_deadline", case.get("expect_deadline"))
    if stated is not None and facts.deadline != parse_time(stated).timestamp():
        return failed(f"deadline: expected {stated}, got {facts.deadline}")
    return compared(actual, expected)


def cost(case: Case) -> Outcome:
    given, expected, tolerance = case["input"], case["expect"], case.get("tolerance", 0.001)
    actual = _figures(given)
    for name, wanted in expected.items():
        key = name if name in actual else next((each for word, each in _FIGURES.items() if word in name), name)
        if key not in actual:
            raise UnknownOperationError(f"figure {name!r}; what can be worked out: {', '.join(sorted(actual))}")
        if isinstance(wanted, bool):
            if actual[key] is not wanted:
                return failed(f"{key}: expected {wanted}, got {actual[key]}")
        elif abs(actual[key] - wanted) > tolerance * max(abs(wanted), 1e-9):
            return failed(f"{key}: expected {wanted}, got {actual[key]}")
    return PASSED


_MORE_PODS = ("additional_on_demand", "extra_on_demand", "more_on_demand", "extra_pods", "on_demand_pods", "pods", "k")
"""What may say how many more on-demand pods a premium is for."""
_FIGURES = {
    "interruptions": "interruptions_per_month",
    "probab": "probability",
    "p_any": "probability",
    "at_least_one": "probability",
    "any_interrupt": "probability",
    "chance": "probability",
    "premium": "premium_per_month",
    "outage_cost": "outage_cost_per_month",
    "hazard": "hazard_per_hour",
    "lambda": "hazard_per_hour",
    "break_even": "hours",
    "ratio": "cost_ratio",
}
"""By a word in the name of a figure that is expected: what it is called here."""


def _figures(given: Mapping[str, Json]) -> dict[str, Json]:
    """Everything that can be worked out of what is given."""
    found: dict[str, Json] = {}

    def has(*keys: str) -> bool:
        return all(key in given for key in keys)

    if has("replicas", "on_demand", "discount"):
        share = savings.cost_share(given["replicas"], given["on_demand"], given["discount"])
        found |= {"cost_ratio": share, "savings": 1 - share}
    monthly = given.get("monthly_frequency", given.get("probability"))
    if monthly is not None:
        hazard = savings.hazard_per_hour(monthly, given.get("hours_per_month", savings.HOURS_PER_MONTH))
        found |= {
            "hazard_per_hour": hazard,
            "mean_hours_between": savings.mean_hours_between(hazard),
            "p_interrupt_24h": savings.interruption_probability(hazard, 24),
        }
        if has("spot_pods"):
            found["probability"] = savings.any_interruption_probability(monthly, given["spot_pods"])
            found["interruptions_per_month"] = savings.expected_interruptions(monthly, given["spot_pods"])
    if has("restart_cost", "on_demand_price_h", "discount", "pod_share_of_node"):
        found["hours"] = savings.break_even_hours(
            given["restart_cost"], given["on_demand_price_h"], given["discount"], given["pod_share_of_node"]
        )
    if has("on_demand_price_h", "discount", "pod_share_of_node"):
        found["premium_per_month"] = savings.premium_per_month(
            given["on_demand_price_h"],
            given["discount"],
            given["pod_share_of_node"],
            next((given[key] for key in _MORE_PODS if key in given), 1),
        )
    if has("waves_per_month", "outage_s_per_wave", "value_per_outage_minute"):
        outage = savings.outage_cost_per_month(
            given["waves_per_month"], given["outage_s_per_wave"], given["value_per_outage_minute"]
        )
        found["outage_cost_per_month"] = outage
    cost_, premium = (given.get(key, found.get(key)) for key in ("outage_cost_per_month", "premium_per_month"))
    if cost_ is not None and premium is not None:
        found["worth_it"] = savings.outages_exceed_premium(cost_, premium)
    return found

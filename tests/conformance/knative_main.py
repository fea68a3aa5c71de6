"""Adapters for the vectors of Knative's main: scheduling, state, autoscaler, compactor and the recorded traces."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from situate.vpod.model.options import Options, Profile, ReferenceVersion
from situate.vpod.model.pod_classes import NodeFacts, PodFacts
from situate.vpod.model.vpod import (
    Key,
    Placement,
    Placements,
    PlainVPod,
    ordinal_of,
    placement_for_pod,
    pod_count,
    total_vreplicas,
)
from situate.vpod.placement.decide import commit, decide
from situate.vpod.scaling import autoscaler
from situate.vpod.scaling.autoscaler import AutoscalerMemory
from situate.vpod.state.knative_json import free_capacity, pod_spread, schedulable_pods, to_json
from situate.vpod.state.state import State
from tests.conformance.outcome import Case, Outcome, compared

Json = Any


def placements(listed: Json) -> Placements:
    return tuple(Placement(each["pod"], each.get("vreplicas", 0)) for each in listed or ())


def as_json(listed: Iterable[Placement]) -> list[dict[str, Json]]:
    return [{"pod": each.pod_name, "vreplicas": each.vreplicas} for each in listed]


def vpod(given: Mapping[str, Json]) -> PlainVPod:
    return PlainVPod(Key.parse(given["key"]), given.get("vreplicas", 0), placements(given.get("placements")))


def pod_facts(given: Mapping[str, Json]) -> PodFacts:
    annotations = given.get("annotations") or {}
    annotation = annotations.get("eventing.knative.dev/unschedulable")
    if given.get("schedulable", True) is False:
        annotation = "true"
    return PodFacts(
        given["name"],
        given.get("node") or "",
        annotation,
        phase=given.get("phase", "Running"),
        ready=given.get("ready"),
        deleting=given.get("deletion_timestamp") is not None,
    )


def replicas(given: Mapping[str, Json]) -> int:
    """As the case says; else so many that every pod it lists is one of them."""
    if "replicas" in given:
        return int(given["replicas"])
    listed = [ordinal_of(each["name"], each["name"].rpartition("-")[0]) for each in given.get("pods") or ()]
    return max((ordinal + 1 for ordinal in listed if ordinal is not None), default=0)


def statefulset(given: Mapping[str, Json]) -> str:
    """As the case says; else the one whose pods it names first."""
    if given.get("statefulset"):
        return str(given["statefulset"])
    vpods = [given.get("vpod"), *_listed(given.get("vpods")), *_listed(given.get("other_vpods"))]
    entries = [*_listed(given.get("pods")), *(e for each in vpods if each for e in _listed(each.get("placements")))]
    entries += [entry for each in _listed(given.get("reserve_sequence")) for entry in _listed(each)]
    entries += [e for each in (given, *_listed(given.get("cases"))) for e in _listed(each.get("placements"))]
    entries += _listed(given.get("status_before"))
    names = (entry.get("name") or entry.get("pod") or "" for entry in entries)
    return next((prefix for prefix, dash, _ in (name.rpartition("-") for name in names) if dash), "statefulset-name")


def _listed(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []


def options(given: Mapping[str, Json], **others: Json) -> Options:
    return Options(
        statefulset_namespace="knative-eventing",
        statefulset_name=statefulset(given),
        capacity=given.get("capacity", 10),
        min_replicas=given.get("min_replicas") or 0,
        # Knative has no ceiling
        **{"profile": Profile.REFERENCE, "max_replicas": None, "max_scale_up_step": None, **others},
    )


def version_of(case: Case) -> ReferenceVersion:
    """What the reference profile has to answer like: main, unless the case is about v0.43.1 alone."""
    named = {str(each).partition(" ")[0] for each in case.get("applies_to") or ()}
    return ReferenceVersion.V0_43_1 if "v0.43.1" in named and "main" not in named else ReferenceVersion.MAIN


def without_empty(evictions: Mapping[str, Json] | None) -> dict[str, Json]:
    """Evictions by vpod; one of which nothing is evicted may be listed or not."""
    return {key: listed for key, listed in (evictions or {}).items() if listed}


def reserved_json(state: State) -> dict[str, dict[str, int]]:
    """Reservations as the vectors write them, without empty inner maps."""
    name = state.options.statefulset_name
    return {
        str(key): {f"{name}-{ordinal}": vreplicas for ordinal, vreplicas in places.items()}
        for key, places in state.reservations().items()
    }


def load_reserved(state: State, given: Mapping[str, Mapping[str, int] | None] | None) -> None:
    for key, pods in (given or {}).items():
        places = {state.ordinal(pod): vreplicas for pod, vreplicas in (pods or {}).items()}
        state.reserve(Key.parse(key), {o: n for o, n in places.items() if o is not None})


def schedule(case: Case) -> Outcome:
    """One call of the scheduler, starting from the reservations that the case names."""
    given, expected = case["input"], dict(case["expected"])
    ours = vpod(given["vpod"])
    vpods = [ours, *map(vpod, given.get("other_vpods") or ())]
    settings = options(given, version=version_of(case))
    state = State.rebuild(settings, replicas(given), map(pod_facts, given.get("pods") or ()), vpods, 0.0, reserved={})
    if given.get("effective_reserved") is not None:
        load_reserved(state, given["effective_reserved"])
    elif given.get("initial_reserved") is not None:
        load_reserved(state, given["initial_reserved"])
    else:
        state.reserve_from_status()
    decision = decide(state, ours, 0.0)
    commit(state, decision)
    actual = {
        "placements": as_json(decision.placements),
        "error": decision.left > 0,
        "left": decision.left,
        "requeue_after_seconds": 5 if decision.left else None,
        "reserved": reserved_json(state),
    }
    if "placements" in expected:
        expected["placements"] = expected["placements"] or []
    if expected.get("reserved") is None:
        expected.pop("reserved", None)
    else:
        expected["reserved"] = {key: pods for key, pods in expected["reserved"].items() if pods}
    return compared(actual, expected)


def total(case: Case) -> Outcome:
    return compared({"value": total_vreplicas(placements(case["input"].get("placements")))}, case["expected"])


def for_pod(case: Case) -> Outcome:
    found = placement_for_pod(placements(case["input"].get("placements")), case["input"]["pod"])
    actual = None if found is None else {"pod": found.pod_name, "vreplicas": found.vreplicas}
    return compared({"value": actual}, case["expected"])


def count_pods(case: Case) -> Outcome:
    return compared({"value": pod_count(placements(case["input"].get("placements")))}, case["expected"])


def nodes(listed: Json) -> list[NodeFacts]:
    return [
        NodeFacts(
            each["name"],
            each.get("zone"),
            unschedulable=bool(each.get("unschedulable")),
            unreachable=any(
                taint["key"] == "node.kubernetes.io/unreachable" and taint["effect"] in ("NoExecute", "NoSchedule")
                for taint in each.get("taints") or ()
            ),
        )
        for each in listed or ()
    ]


def state_json(state: State) -> dict[str, Json]:
    """The fields of `build_state`."""
    document = to_json(state)
    return {
        "free_cap": document["freeCap"],
        "schedulable_pods": schedulable_pods(state),
        "capacity": state.options.capacity,
        "replicas": state.replicas,
        "pod_spread": pod_spread(state),
        "pending": document["pending"],
        "expected_vreplicas": document["expectedVReplicaByVPod"],
        "free_capacity": free_capacity(state),
        "last_ordinal_v0431": len(document["freeCap"]) - 1,
    }


def build_state(case: Case) -> Outcome:
    given = case["input"]
    vpods, pods = map(vpod, given.get("vpods") or ()), map(pod_facts, given.get("pods") or ())
    state = State.rebuild(options(given), replicas(given), pods, vpods, 0.0, reserved={})
    return compared(state_json(state), case["expected"])


def autoscale(case: Case) -> Outcome:
    """One beat; a process that is not the leader makes none."""
    given = case["input"]
    state = State.rebuild(options(given), replicas(given), (), map(vpod, given.get("vpods") or ()), 0.0, reserved={})
    load_reserved(state, given.get("reserved"))
    if not given.get("is_leader", True):
        return compared({"replicas": state.replicas}, case["expected"])
    beat = autoscaler.decide_round(state, AutoscalerMemory(), 0.0, bool(given.get("attempt_scale_down")))
    return compared({"replicas": beat.replicas}, case["expected"])


def constants(case: Case) -> Outcome:
    actual = {"namespace": autoscaler.LEADER_NAMESPACE, "name": autoscaler.LEADER_NAME}
    return compared(actual, case["expected"])


def may_compact(case: Case) -> Outcome:
    """Compaction alone, the period since the last one being over."""
    given = case["input"]
    pods, vpods = map(pod_facts, given.get("pods") or ()), map(vpod, given.get("vpods") or ())
    settings = options(given, version=version_of(case))
    state = State.rebuild(settings, replicas(given), pods, vpods, 0.0, reserved={})
    evictions: dict[str, list[dict[str, Json]]] = {}
    if given.get("is_leader", True):
        for eviction in autoscaler.compaction_evictions(state):
            evictions.setdefault(str(eviction.key), []).extend(as_json([eviction.placement]))
    expected = dict(case["expected"])
    if "evictions" in expected:
        expected["evictions"] = without_empty(expected["evictions"])
    return compared({"evictions": evictions}, expected)

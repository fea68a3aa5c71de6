"""Reading spot's cases: workloads, pods, nodes, policies, and the branches of the designs that are ours."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from situate.spot.model.misplaced_pods import Workload
from situate.spot.model.pods_nodes_workloads import ON_DEMAND, Capacity, NodeFacts, NodeState, Owner, PodFacts, PodKey
from situate.spot.workloads.on_demand_policy import Policy
from situate.spot.workloads.on_demand_target import Namespace, Target, TargetRules, resolve_target
from tests.conformance.outcome import Case, CaseRunner, Outcome, UnknownOperationError, attempted, skipped

Json = Any
NOW: Final = 1_000_000.0
LONG_AGO: Final = 0.0
UID: Final = "uid-of-the-workload"
NAMESPACE: Final = Namespace("shop")
DESIGNS: Final = frozenset({"ordinal", "per_revision", "effective", "unsupported", "anded", "spot_first"})
"""The branches that are ours, over all files."""
MANAGED: Final = ("Deployment", "StatefulSet")
_NODES: Final = {"on-demand": Capacity.ON_DEMAND, "spot": Capacity.SPOT, "unlabelled": Capacity.UNKNOWN}
_PHASES: Final = {"failed": "Failed", "succeeded": "Succeeded", "pending": "Pending"}


def leveled(runner: CaseRunner) -> CaseRunner:
    """Cases that must pass count; `should` and `choice` are printed apart."""

    def run(case: Case) -> Outcome:
        level = case.get("level", "must")
        if level not in ("must", "should", "choice"):
            raise UnknownOperationError(f"level {level!r}")
        branch = ours(case)
        if branch is None:
            return skipped(f"none of the designs {', '.join(case['expect_by'])} is ours").as_optional()
        outcome = attempted(runner, {**case, "expect": branch})
        return outcome if level == "must" else outcome.as_optional()

    return run


def ours(case: Case) -> Json:
    """What is expected of our design; None if the case has no branch for it."""
    if "expect_by" not in case:
        return case.get("expect", {})
    return next((branch for design, branch in case["expect_by"].items() if design in DESIGNS), None)


def nodes() -> dict[str, NodeFacts]:
    """One of each capacity, and its doomed twin."""
    found = {}
    for name, capacity in _NODES.items():
        found[name] = NodeFacts(name, capacity)
        found[f"{name} doomed"] = NodeFacts(name, capacity, NodeState.DOOMED)
    return found


def owner(case: Case) -> Owner:
    wire = case.get("workload") or {}
    return Owner(
        kind=wire.get("kind") or "",
        namespace=NAMESPACE.name,
        name=wire.get("name", "web"),
        uid=wire.get("uid", UID),
        replicas=wire.get("replicas", 1),
        stateful=wire.get("kind") == "StatefulSet",
        ordinals_start=wire.get("ordinals_start", 0),
        revision=wire.get("revision", ""),
        rolling=_rollout(wire),
    )


def _rollout(wire: Mapping[str, Json]) -> bool:
    said = wire.get("rollout")
    if said not in (None, "progressing"):
        raise UnknownOperationError(f"rollout {said!r}")
    return said is not None


def policy_text(policy: Mapping[str, Json]) -> str | None:
    """The annotation; None if the workload is switched off."""
    if policy.get("enabled") is False:
        return None
    if unknown := policy.keys() - {"mode", "on_demand", "enabled"}:
        raise UnknownOperationError(f"policy {sorted(unknown)}")
    return str(policy.get("on_demand", policy.get("mode", "default")))


def target(of: Owner, policy: Mapping[str, Json], last: Policy | None = None) -> Target:
    text = policy_text(policy)
    annotated = Owner(
        of.kind,
        of.namespace,
        of.name,
        of.uid,
        of.replicas,
        stateful=of.stateful,
        annotations={} if text is None else {ON_DEMAND: text},
    )
    return resolve_target(annotated, NAMESPACE, TargetRules(), last)


def pod(wire: Mapping[str, Json], of: Owner) -> PodFacts:
    state = wire.get("state", "ready")
    if state not in ("ready", "running", "pending", "terminating", "failed", "succeeded"):
        raise UnknownOperationError(f"state {state!r}")
    place = wire.get("on")
    if place is not None and place not in _NODES:
        raise UnknownOperationError(f"on {place!r}")
    ready = state == "ready"
    return PodFacts(
        PodKey(of.namespace, wire["name"]),
        f"uid of {wire['name']}",
        revision=wire.get("rev", of.revision),
        pod_class=Capacity(wire["intent"]) if wire.get("intent") else None,
        token=wire.get("token", ""),
        node="" if place is None else place + (" doomed" if wire.get("node_doomed") else ""),
        phase=_PHASES.get(state, "Running"),
        ready=ready,
        ready_since=LONG_AGO + 1 if ready else None,
        created=LONG_AGO + 1,
        terminating=state == "terminating",
        labels=wire.get("labels") or {},
    )


def pods(wires: Iterable[Mapping[str, Json]], of: Owner) -> list[PodFacts]:
    """Those whose controller is the workload, by its uid."""
    return [pod(wire, of) for wire in wires if wire.get("owner_uid", of.uid) == of.uid]


def workload(case: Case, policy: Mapping[str, Json], last: Policy | None = None) -> Workload:
    of = owner(case)
    return Workload(of, target(of, policy, last).on_demand, pods(case.get("pods") or (), of))

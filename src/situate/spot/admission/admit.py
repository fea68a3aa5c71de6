"""Answer to the creation of a pod: its class, and the patch that writes the class.

`admit` is one uninterrupted step: it decides and reserves. If the view cannot be right, it asks for a live read, and
the caller calls it again with the result. If the object is doubtful, there is no patch. If the count is doubtful, the
pod is on demand. `admission_review` reads reviews; the server checks leadership and sends answers. Rules: P2, P3, P7,
P17 to P20, P27, G1, K2.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from situate.objects.selection.label_selectors import NOTHING, Selector
from situate.spot.admission.classify import Classification, ClassReason, Demand, ReplicaSetView, StaleView, classify
from situate.spot.admission.ledger import Ledger, Reservation, Slot
from situate.spot.admission.patch import DecisionMarks, Operation, PlacementTerms, class_patch
from situate.spot.admission.patch_check import DoesNotApply, apply_operations, patch_faults
from situate.spot.model.pods_nodes_workloads import (
    CLASS,
    DECISION,
    GATE,
    MIRROR,
    SPREAD_POOLS,
    WEBHOOK_CHECK,
    Capacity,
    Owner,
    PodFacts,
)
from situate.spot.model.pools import crowded_pools
from situate.spot.nodes.known_signals import SIGNALS
from situate.spot.nodes.node_signals import Signal
from situate.spot.workloads.cluster_objects import NO_MEMORY, Cluster, WorkloadMemory, target_of
from situate.spot.workloads.constraints import Json, as_list, as_mapping, capacity_constraint
from situate.spot.workloads.deletion_cost import admission_cost
from situate.spot.workloads.on_demand_target import TargetRules, participation
from situate.spot.workloads.owners import (
    DEFAULT_KINDS,
    KINDS,
    Controller,
    OwnerKind,
    ReplicaSetFacts,
    controller_of,
    is_intermediate_controller,
    kind_of,
    read_decision,
    revision_of,
)

_CHECK_ANSWERED: Final[Operation] = {
    "op": "add",
    "path": f"/metadata/annotations/{WEBHOOK_CHECK.replace('/', '~1')}",
    "value": "answered",
}
SYSTEM_NAMESPACES: Final = frozenset({"kube-system"})


@dataclass(frozen=True, slots=True)
class AdmissionSettings:
    """Settings that admission uses besides the cluster."""

    placement_terms: PlacementTerms
    rules: TargetRules = field(default_factory=TargetRules)
    table: Sequence[Signal] = SIGNALS
    kinds: tuple[OwnerKind, ...] = tuple(KINDS[kind] for kind in DEFAULT_KINDS)
    own_namespace: str = ""
    strict: Selector = NOTHING
    """Namespaces whose pods wait behind a gate, selected by their labels."""
    epoch: int = 0
    """Leadership epoch, for the decision annotation."""


@dataclass(frozen=True, slots=True)
class PodRequest:
    """The creation of a pod."""

    namespace: str
    pod: Json
    dry_run: bool = False

    @property
    def name(self) -> str:
        """The pod's name; empty if the API server generates it later."""
        return str(as_mapping(self.pod.get("metadata")).get("name") or "")


@dataclass(frozen=True, slots=True)
class LiveRead:
    """Objects read from the API server itself; all empty if the read failed."""

    owner: Owner | None = None
    replica_set: ReplicaSetFacts | None = None
    """None for pods that the workload controls directly."""
    pods: tuple[PodFacts, ...] = ()
    """The pods of the ReplicaSet, or of the workload if no ReplicaSet is between them."""
    began_at: float = math.inf
    """Time at which the read began, by the ledger's clock; infinite if no pod can have been in flight."""


UNREADABLE: Final = LiveRead()


@dataclass(frozen=True, slots=True)
class NeedsRead:
    """A request to read the controller, its pods and its workload live, then to call `admit` again."""

    namespace: str
    controller: Controller
    not_before: float = -math.inf
    """Earliest time of a conclusive read, by the ledger's clock. Earlier, a view is conclusive only if it shows every
    missing pod."""


@dataclass(frozen=True, slots=True)
class AdmissionAnswer:
    """Result for the pod; the pod is always allowed."""

    why: str
    pod_class: Capacity | None = None
    """None if spot leaves the pod alone, or has not classified it yet."""
    operations: tuple[Operation, ...] = ()
    warnings: tuple[str, ...] = ()
    owner: str = ""
    """Uid of the workload; empty if none was found."""
    target: int = 0
    on_demand: int = 0
    """On-demand pods counted before this pod."""
    gated: bool = False
    surge: tuple[Slot, str] | None = None
    """For the ledger: the slot, and the deleted pod in whose place this pod may be spot (B17)."""


@dataclass(frozen=True, slots=True)
class AdmissionView:
    """All inputs of an answer besides the pod and the ledger."""

    cluster: Cluster
    settings: AdmissionSettings
    memories: Mapping[str, WorkloadMemory]
    """By uid of the workload."""
    live: LiveRead | None = None
    """Result of the read that `admit` asked for."""


def admit(
    request: PodRequest, view: AdmissionView, ledger: Ledger, now: float, token: str, asked_at: float = math.inf
) -> tuple[AdmissionAnswer, Ledger] | NeedsRead:
    """Return the answer and the ledger after it; the ledger is unchanged for dry runs and for pods left alone.

    `token` is new and unique to this pod. `requested_at`: when the webhook first received the request, by the ledger's
    clock; infinite means now.
    """
    settings = view.settings
    metadata = as_mapping(request.pod.get("metadata"))
    if request.dry_run and as_mapping(metadata.get("annotations")).get(WEBHOOK_CHECK) == "asked":
        return AdmissionAnswer("webhook check", operations=(_CHECK_ANSWERED,)), ledger
    excluded = _exclusion_reason(request, settings)
    controller = controller_of(metadata)
    if excluded or controller is None:
        return AdmissionAnswer(excluded or "the pod has no controller"), ledger
    chain = _resolve_controller_chain(request, controller, view)
    if not isinstance(chain, _ControllerChain):
        return (chain, ledger) if isinstance(chain, AdmissionAnswer) else chain
    owner = chain.owner
    taking_part = participation(
        owner, view.cluster.namespace(owner.namespace), settings.rules, as_mapping(metadata.get("labels"))
    )
    if not taking_part.enabled:
        return AdmissionAnswer(f"disabled by the {taking_part.source}", owner=owner.uid), ledger
    if settings.strict.matches(view.cluster.namespace(request.namespace).labels):
        return _answer_with_gate(request.pod, owner), ledger
    return _answer_with_class(request, chain, view, ledger, now, token, asked_at)


def _exclusion_reason(request: PodRequest, settings: AdmissionSettings) -> str:
    """Return why spot ignores the pod whatever controls it; empty if there is no reason."""
    if not request.pod:
        return "the request has no pod"
    if request.namespace in SYSTEM_NAMESPACES or request.namespace == settings.own_namespace:
        return f"spot ignores pods in namespace {request.namespace}"
    if as_mapping(request.pod.get("spec")).get("nodeName"):
        return "the pod has a node already"
    if MIRROR in as_mapping(as_mapping(request.pod.get("metadata")).get("annotations")):
        return "the pod is the mirror of a static pod"
    if as_mapping(request.pod.get("status")).get("phase") in ("Succeeded", "Failed"):
        return "the pod has ended"
    return ""


@dataclass(frozen=True, slots=True)
class _ControllerChain:
    """The controller chain of a pod."""

    owner: Owner
    controller: Controller
    replica_set: ReplicaSetFacts | None
    pods: Sequence[PodFacts]
    """Pods of the workload; pods of a live read replace those that the watch shows."""


def _resolve_controller_chain(
    request: PodRequest, controller: Controller, view: AdmissionView
) -> _ControllerChain | AdmissionAnswer | NeedsRead:
    settings, cluster, live = view.settings, view.cluster, view.live
    needs = NeedsRead(request.namespace, controller)
    replica_set: ReplicaSetFacts | None = None
    last = controller
    if is_intermediate_controller(controller, settings.kinds):
        replica_set = live.replica_set if live is not None and live.replica_set else None
        replica_set = replica_set or cluster.replica_sets.get(controller.uid)
        if replica_set is None:
            return needs if live is None else AdmissionAnswer(f"{controller.kind} {controller.name} was not found")
        if replica_set.controller is None:
            return AdmissionAnswer(f"{controller.kind} {controller.name} has no controller")
        last = replica_set.controller
    if kind_of(last, settings.kinds) is None:
        return AdmissionAnswer(f"spot ignores pods of a {last.kind}")
    owner = live.owner if live is not None and live.owner is not None else cluster.owners.get(last.uid)
    if owner is None:
        return needs if live is None else AdmissionAnswer(f"{last.kind} {last.name} was not found")
    pods = cluster.pods.get(owner.uid, ())
    if live is not None and live is not UNREADABLE:
        pods = (*(pod for pod in pods if pod.controller != controller.uid), *live.pods)
    return _ControllerChain(owner, controller, replica_set, pods)


def _answer_with_gate(pod: Json, owner: Owner) -> AdmissionAnswer:
    """Add the gate of strict mode: the leader classifies the pod once its name and uid are known."""
    spec = as_mapping(pod.get("spec"))
    gates = as_list(spec.get("schedulingGates"))
    if any(as_mapping(gate).get("name") == GATE for gate in gates):
        return AdmissionAnswer("gated", owner=owner.uid, gated=True)
    path, value = ("/spec/schedulingGates/-", {"name": GATE}) if gates else ("/spec/schedulingGates", [{"name": GATE}])
    return AdmissionAnswer(
        "gated", operations=({"op": "add", "path": path, "value": value},), owner=owner.uid, gated=True
    )


def _answer_with_class(
    request: PodRequest,
    chain: _ControllerChain,
    view: AdmissionView,
    ledger: Ledger,
    now: float,
    token: str,
    asked_at: float,
) -> tuple[AdmissionAnswer, Ledger] | NeedsRead:
    owner, settings = chain.owner, view.settings
    memory = view.memories.get(owner.uid, NO_MEMORY)
    target = target_of(view.cluster, owner, settings.rules, memory)
    own = capacity_constraint(as_mapping(request.pod.get("spec")), settings.table, view.cluster.nodes)
    if not own.placeable:
        warning = f"{owner}: {own.field} allows neither on-demand nor spot nodes; spot does not change the pod"
        return AdmissionAnswer("unplaceable", warnings=(warning,), owner=owner.uid, target=target.on_demand), ledger
    demand = _build_demand(request, chain, memory, max(0, target.on_demand - memory.debt), view.live)
    answered = memory.surged != "" and ledger.surges.get(demand.slot) == memory.surged
    demand = replace(demand, requested_at=asked_at, surge_as_spot=demand.surge_as_spot and not answered)
    before = ledger
    if view.live is not None and view.live.replica_set is not None:
        ledger = ledger.without_absent_pods(demand.slot, chain.controller.uid, view.live.pods, view.live.began_at)
    earlier = _find_earlier_decision(request.pod, demand, ledger, now)
    if earlier is not None:
        found = earlier.classified
    else:
        classified = classify(demand, view.cluster.nodes, ledger, now)
        if isinstance(classified, StaleView):
            return NeedsRead(request.namespace, chain.controller, classified.not_before)
        found = classified
    wanted = found.pod_class
    pod_class = own.capacity or wanted
    degraded = found.why is ClassReason.TARGET_MET and found.on_demand < target.on_demand and memory.debt > 0
    why = ClassReason.PINNED if pod_class is not wanted else ClassReason.DEGRADED if degraded else found.why
    token = earlier.token if earlier is not None and earlier.token else token
    placing = settings.placement_terms
    if degraded:
        placing = replace(placing, spot=placing.on_demand)
    if owner.annotations.get(SPREAD_POOLS) == "true":
        placing = replace(placing, crowded_pools=crowded_pools(chain.pods, view.cluster.nodes))
    decision = earlier.decision if earlier is not None and earlier.decision else ""
    marks = DecisionMarks(
        decision
        or _encode_decision(token, owner, demand.revision, pod_class, target.on_demand, found, why, settings.epoch),
        None if owner.stateful or owner.template_cost else admission_cost(pod_class),
    )
    operations = _valid_patch(request.pod, pod_class, placing, marks, owner, touch_affinity=pod_class is wanted)
    if operations is None:
        return AdmissionAnswer(
            "the patch of spot does not apply; spot does not change the pod", owner=owner.uid
        ), before
    answer = AdmissionAnswer(
        str(why),
        pod_class,
        tuple(operations),
        _floor_warnings(owner, own.field, wanted, pod_class),
        owner.uid,
        target.on_demand,
        found.on_demand,
        surge=(demand.slot, memory.surged) if found.why is ClassReason.SURGE_AS_SPOT else None,
    )
    if request.dry_run or owner.stateful:
        return answer, before
    if answer.surge is not None:
        ledger = ledger.with_surge(*answer.surge)
    entry = Reservation(token, pod_class, now, request.name, chain.controller.uid)
    return answer, ledger.with_reservation(demand.slot, entry)


def _build_demand(
    request: PodRequest, chain: _ControllerChain, memory: WorkloadMemory, target: int, live: LiveRead | None
) -> Demand:
    owner, replica_set = chain.owner, chain.replica_set
    labels = as_mapping(as_mapping(request.pod.get("metadata")).get("labels"))
    known = replica_set.revision if replica_set is not None else ""
    revision = revision_of(labels, owner.revision_label) if owner.revision_label in labels else known
    view = None
    if replica_set is not None:
        was_read = live is not None and live.replica_set is not None
        view = ReplicaSetView(replica_set.uid, replica_set.replicas, live=was_read)
    return Demand(
        owner,
        target,
        revision,
        chain.pods,
        view,
        request.name,
        surge_as_spot=bool(memory.surge_revision) and memory.surge_revision == revision,
        unreadable=live is UNREADABLE,
    )


@dataclass(frozen=True, slots=True)
class _EarlierDecision:
    """An earlier decision for this same pod."""

    classified: Classification
    token: str = ""
    """Empty if the pod does not carry it yet."""
    decision: str = ""


def _find_earlier_decision(pod: Json, demand: Demand, ledger: Ledger, now: float) -> _EarlierDecision | None:
    """Find an earlier decision by the token on the object, or by the pod's name.

    A token of another workload, or of a pod that exists already, is a copy and is ignored. Rule: P18.
    """
    metadata = as_mapping(pod.get("metadata"))
    annotations = {str(key): str(value) for key, value in as_mapping(metadata.get("annotations")).items()}
    decision = read_decision(annotations)
    token = str(decision.get("token") or "")
    label = as_mapping(metadata.get("labels")).get(CLASS)
    carried = any(other.token == token for other in demand.pods)
    if token and not carried and decision.get("owner") == demand.owner.uid and label in tuple(Capacity)[:2]:
        have = decision.get("od")
        classified = Classification(Capacity(label), ClassReason.RESERVED, have if isinstance(have, int) else 0)
        return _EarlierDecision(classified, token, annotations[DECISION])
    entry = ledger.find_reservation(demand.slot, demand.name, "", now)
    if entry is not None and not demand.owner.stateful:
        have = ledger.open_on_demand_count(demand.slot, demand.pods_of_revision(), now)
        return _EarlierDecision(Classification(entry.pod_class, ClassReason.RESERVED, have))
    return None


def _encode_decision(
    token: str,
    owner: Owner,
    revision: str,
    pod_class: Capacity,
    target: int,
    found: Classification,
    why: ClassReason,
    epoch: int,
) -> str:
    """Encode the decision annotation as compact JSON."""
    content = {
        "token": token,
        "owner": owner.uid,
        "rev": revision,
        "class": str(pod_class),
        "target": target,
        "od": found.on_demand,
        "why": str(why),
        "epoch": epoch,
    }
    return json.dumps(content, separators=(",", ":"))


def _valid_patch(
    pod: Json, pod_class: Capacity, placing: PlacementTerms, marks: DecisionMarks, owner: Owner, *, touch_affinity: bool
) -> list[Operation] | None:
    """Return the patch if it applies and leaves the pod valid, else None."""
    operations = class_patch(pod, pod_class, placing, marks, owner.tolerated, touch_affinity=touch_affinity)
    try:
        after = apply_operations(pod, operations)
    except DoesNotApply:
        return None
    return None if any(patch_faults(pod, after)) else operations


def _floor_warnings(owner: Owner, field: str, wanted: Capacity, pod_class: Capacity) -> tuple[str, ...]:
    """Return a warning for the creator of the pod, only if the floor suffers."""
    if wanted is Capacity.ON_DEMAND and pod_class is Capacity.SPOT:
        return (f"{owner}: the workload needs an on-demand pod, but {field} allows only spot nodes",)
    return ()

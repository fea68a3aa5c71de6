"""Strict mode: the leader classifies the pods behind the gate, then removes the gate.

The pod's name, its uid and the real count are known, so nothing is reserved. One patch writes the class and the
affinity and removes the gate. Kubernetes lets a gated pod's required terms grow and its preferred terms change; the
patch does no more (KEP-3838). Rules: P7 to P9.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from situate.objects.selection.label_selectors import NOTHING
from situate.spot.admission.admit import AdmissionAnswer, AdmissionView, NeedsRead, PodRequest, admit
from situate.spot.admission.ledger import Ledger
from situate.spot.admission.patch import Operation
from situate.spot.model.pods_nodes_workloads import GATE, Capacity, PodFacts
from situate.spot.workloads.constraints import Json, as_mapping
from situate.spot.workloads.owners import controller_of


@dataclass(frozen=True, slots=True)
class GatedPodAnswer:
    """The answer for a gated pod and its patch."""

    answer: AdmissionAnswer
    operations: tuple[Operation, ...]
    """A JSON Patch that applies only to this pod; it removes the gate whatever the answer is."""


def classify_gated_pod(
    pod: Json, view: AdmissionView, sent: Mapping[str, Capacity], now: float, token: str, ledger: Ledger | None = None
) -> GatedPodAnswer | NeedsRead:
    """Classify one pod in its current state. `sent`: classes by uid that were patched and are not in the watch yet.

    `ledger`: holds only the surges that were answered.
    """
    metadata = as_mapping(pod.get("metadata"))
    uid, namespace = str(metadata.get("uid", "")), str(metadata.get("namespace", ""))
    cluster, controller = view.cluster, controller_of(metadata)
    owner = cluster.owner_of(controller.uid) if controller is not None else None
    if owner is not None:
        others = tuple(_other_pods(cluster.pods.get(owner.uid, ()), uid, sent))
        cluster = replace(cluster, pods=ChainMap({owner.uid: others}, cluster.pods))  # type: ignore[arg-type]  # read only
    live = view.live
    if live is not None and live.replica_set is not None:
        live = replace(live, pods=tuple(_other_pods(live.pods, uid, sent)))
    open_view = replace(view, cluster=cluster, settings=replace(view.settings, strict=NOTHING), live=live)
    answered = admit(PodRequest(namespace, pod, dry_run=True), open_view, ledger or Ledger.empty(), now, token)
    if isinstance(answered, NeedsRead):
        return answered
    answer, _ = answered
    return GatedPodAnswer(answer, (*_identity_tests(pod), *answer.operations, *_gate_removal_operations(pod)))


def gated_pods_in_order(pods: Iterable[PodFacts]) -> list[PodFacts]:
    """Return the gated pods in the order in which the gate is removed: the oldest first."""
    gated = [pod for pod in pods if pod.gated and pod.active]
    return sorted(gated, key=lambda pod: (pod.created, pod.key))


def gate_removal_patch(pod: Json) -> tuple[Operation, ...]:
    """Return the patch that removes the gate of an unclassified pod, for `situate spot ungate` and an uninstall."""
    return (*_identity_tests(pod), *_gate_removal_operations(pod))


def overdue_gated_pods(pods: Iterable[PodFacts], now: float, after_s: float = 15.0) -> list[PodFacts]:
    """Return the pods that have been gated for at least `after_s` seconds."""
    return [pod for pod in gated_pods_in_order(pods) if now - pod.created >= after_s]


def _other_pods(pods: Sequence[PodFacts], uid: str, sent: Mapping[str, Capacity]) -> Iterable[PodFacts]:
    """Yield the other pods, each with the class that was already sent for it."""
    for pod in pods:
        if pod.uid == uid:
            continue
        yield replace(pod, pod_class=sent[pod.uid]) if pod.pod_class is None and pod.uid in sent else pod


def _identity_tests(pod: Json) -> Iterable[Operation]:
    """Yield tests that fail the patch for another pod of the same name, and for this pod after another change."""
    metadata = as_mapping(pod.get("metadata"))
    yield {"op": "test", "path": "/metadata/uid", "value": str(metadata.get("uid", ""))}
    if version := metadata.get("resourceVersion"):
        yield {"op": "test", "path": "/metadata/resourceVersion", "value": version}


def _gate_removal_operations(pod: Json) -> tuple[Operation, ...]:
    gates = as_mapping(pod.get("spec")).get("schedulingGates")
    for number, gate in enumerate(gates if isinstance(gates, list) else ()):
        if as_mapping(gate).get("name") == GATE:
            path = f"/spec/schedulingGates/{number}"
            return (
                {"op": "test", "path": f"{path}/name", "value": GATE},
                {"op": "remove", "path": path},
            )
    return ()

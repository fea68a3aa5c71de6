"""Facts of a pod that controllers need, extracted once for each change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from sys import intern
from typing import Any

import msgspec

from situate.cluster.controllers.machinery.tables import Key, Obj
from situate.cluster.errors.times import parse_seconds as parse_time
from situate.cluster.errors.times import timestamp
from situate.cluster.storage.stored_object import StoredObject

POD_NAME_LABEL = "statefulset.kubernetes.io/pod-name"
POD_INDEX_LABEL = "apps.kubernetes.io/pod-index"


class PodFacts(msgspec.Struct, frozen=True, gc=False):
    """The part of a pod that workload controllers, kubelets and node controllers base their decisions on."""

    namespace: str
    name: str
    uid: str
    node: str
    """Empty while unassigned."""
    labels: Mapping[str, str]
    owner_uid: str
    """Uid of the controlling owner; empty if the pod has none."""
    owner_kind: str
    owner_name: str
    phase: str
    ready: bool
    """Condition Ready is True."""
    ready_since: float
    """Seconds since 1970 of the last change of Ready; 0 if there is none."""
    created: float
    terminating: bool
    delete_by: float
    """deletionTimestamp, or 0."""
    generation: int
    restarts: int
    deletion_cost: int
    index: int
    """For a StatefulSet's pod: the number at the end of its name; -1 without one or with another name."""
    named: bool
    """Whether it has the labels that identify a StatefulSet's pod by name and index."""

    @property
    def key(self) -> Key:
        return self.namespace, self.name

    @property
    def finished(self) -> bool:
        return self.phase in ("Succeeded", "Failed")

    @property
    def active(self) -> bool:
        """True if it counts as a replica of a ReplicaSet (upstream: controller.IsPodActive)."""
        return not self.terminating and not self.finished

    @property
    def running_and_ready(self) -> bool:
        return self.ready and self.phase == "Running"

    def is_available(self, min_ready_seconds: int, now: float) -> bool:
        """Return whether the pod is available (upstream: podutil.IsPodAvailable)."""
        return self.ready and (min_ready_seconds == 0 or 0 < self.ready_since <= now - min_ready_seconds)


def pod_facts(stored: StoredObject, pod: Obj) -> PodFacts:
    """Return the facts of a stored pod, also passed in decoded form. Text that many pods have in common is shared."""
    metadata = pod["metadata"]
    spec = pod.get("spec") or {}
    status = pod.get("status") or {}
    owner = controller_of(pod)
    ready = condition(pod, "Ready")
    deleted = metadata.get("deletionTimestamp")
    since = ready.get("lastTransitionTime") if ready else None
    labels = stored.labels
    index = _ordinal(metadata["name"], owner)
    return PodFacts(
        namespace=intern(stored.namespace),
        name=stored.name,
        uid=stored.uid,
        node=intern(spec.get("nodeName", "")),
        labels=labels,
        owner_uid=intern(owner["uid"]) if owner else "",
        owner_kind=intern(owner["kind"]) if owner else "",
        owner_name=intern(owner["name"]) if owner else "",
        phase=intern(status.get("phase", "")),
        ready=ready is not None and ready.get("status") == "True",
        ready_since=parse_time(since) if since else 0.0,
        created=parse_time(metadata["creationTimestamp"]) if metadata.get("creationTimestamp") else 0.0,
        terminating=deleted is not None,
        delete_by=parse_time(deleted) if deleted else 0.0,
        generation=metadata.get("generation", 0),
        restarts=max((c.get("restartCount", 0) for c in status.get("containerStatuses") or ()), default=0),
        deletion_cost=_deletion_cost(metadata.get("annotations")),
        index=index,
        named=index >= 0
        and labels.get(POD_NAME_LABEL) == metadata["name"]
        and labels.get(POD_INDEX_LABEL) == str(index),
    )


def _ordinal(name: str, owner: Obj | None) -> int:
    if owner is None or owner["kind"] != "StatefulSet":
        return -1
    parent, _, digits = name.rpartition("-")
    plain = digits.isascii() and digits.isdigit() and str(int(digits)) == digits
    return int(digits) if plain and parent == owner["name"] else -1


def controller_of(obj: Obj) -> Obj | None:
    """Return the owner reference with `controller: true`, or None."""
    for reference in obj["metadata"].get("ownerReferences") or ():
        if reference.get("controller"):
            return reference  # type: ignore[no-any-return]  # decoded JSON
    return None


def condition(obj: Obj, kind: str) -> Obj | None:
    """Return the condition of that type in the status, or None."""
    for entry in (obj.get("status") or {}).get("conditions") or ():
        if entry.get("type") == kind:
            return entry  # type: ignore[no-any-return]  # decoded JSON
    return None


def with_condition(conditions: list[dict[str, Any]], new: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the list with one condition set. lastTransitionTime stays unless the status changed."""
    kept: list[dict[str, Any]] = []
    found = False
    for entry in conditions:
        if entry.get("type") != new["type"]:
            kept.append(entry)
            continue
        found = True
        if entry.get("status") == new.get("status") and "lastTransitionTime" in entry:
            new = {**new, "lastTransitionTime": entry["lastTransitionTime"]}
        kept.append(new)
    return kept if found else [*kept, new]


def conditions_with(obj: Obj, new: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the conditions in the status of an object, with one condition set."""
    return with_condition(list((obj.get("status") or {}).get("conditions") or ()), new)


def disruption_target(reason: str, message: str, now: float) -> dict[str, Any]:
    """Return the condition that gives controllers the reason of a pod's deletion."""
    return {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": reason,
        "message": message,
        "lastTransitionTime": timestamp(now),
    }


def next_availability(pods: Iterable[PodFacts], min_ready_seconds: int, now: float) -> float | None:
    """Return when the next ready pod becomes available; None if none is waited for."""
    if not min_ready_seconds:
        return None
    due = (pod.ready_since + min_ready_seconds for pod in pods if pod.ready)
    return min((when for when in due if when > now), default=None)


def _deletion_cost(annotations: Mapping[str, str] | None) -> int:
    """Return the annotation controller.kubernetes.io/pod-deletion-cost; 0 if it cannot be parsed, as upstream."""
    text = (annotations or {}).get("controller.kubernetes.io/pod-deletion-cost", "")
    digits = text[1:] if text[:1] in "+-" else text
    return int(text) if digits.isascii() and digits.isdigit() and (text == "0" or digits[0] != "0") else 0

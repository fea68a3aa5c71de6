"""Decide on the resize of a running pod as a kubelet does, and report it: allocated, deferred or infeasible.

After Kubernetes 1.36's pkg/kubelet/allocation. A pod keeps its allocation until its node has capacity for the whole
request. A request that exceeds the whole node is infeasible. Only CPU and memory of containers and sidecars count.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from situate.cluster.controllers.machinery.tables import Obj
from situate.cluster.controllers.node.pods import with_condition
from situate.objects.values.quantity import BadQuantity, parse_quantity

PENDING: Final = "PodResizePending"
IN_PROGRESS: Final = "PodResizeInProgress"
DEFERRED: Final = "Deferred"
INFEASIBLE: Final = "Infeasible"
_RESOURCES: Final = ("cpu", "memory")
_STATUSES: Final = ("containerStatuses", "initContainerStatuses")


@dataclass(frozen=True, slots=True)
class PendingResize:
    """A resize that is not carried out."""

    reason: str
    """`Deferred` or `Infeasible`."""
    message: str


def needs_resize(pod: Obj) -> bool:
    """Return whether a running pod requests other amounts than its containers were last reported to have.

    False for amounts that cannot be parsed. Only another version of the server can have stored such amounts.
    """
    if not _has_valid_amounts(pod):
        return False
    statuses = _container_statuses(pod)
    for container in _running_containers(pod):
        reported = statuses.get(container["name"], {}).get("resources")
        if reported is not None and _amounts_differ(reported, container.get("resources") or {}):
            return True
    return False


def check_resize(pod: Obj, others: Iterable[Obj], allocatable: Mapping[str, Any]) -> PendingResize | None:
    """Return the reason to defer or refuse the resize; None if it is allocated.

    `others`: the other pods on the node.
    """
    asked = requested_amounts(pod)
    rows = [(name, amount, _milli_value(allocatable[name])) for name, amount in asked.items() if name in allocatable]
    for name, amount, most in rows:
        if amount > most:
            return PendingResize(
                INFEASIBLE, f"Node didn't have enough capacity: {name}, requested: {amount}, capacity: {most}"
            )
    before = allocated_amounts(pod)
    held = [allocated_amounts(each) for each in others if _has_valid_amounts(each)]
    for name, amount, most in rows:
        used = sum(each.get(name, 0) for each in held)
        if amount > before.get(name, 0) and used + amount > most:
            return PendingResize(
                DEFERRED,
                f"Node didn't have enough resource: {name}, requested: {amount}, used: {used}, capacity: {most}",
            )
    return None


def requested_amounts(pod: Obj) -> dict[str, int]:
    """Return the requests in the pod's spec, in thousandths."""
    return _sum_amounts((each.get("resources") or {}).get("requests") or {} for each in _running_containers(pod))


def allocated_amounts(pod: Obj) -> dict[str, int]:
    """Return the allocation in the pod's status, in thousandths; before it runs, the requests in its spec."""
    statuses = _container_statuses(pod)
    return _sum_amounts(
        statuses.get(each["name"], {}).get("allocatedResources") or (each.get("resources") or {}).get("requests") or {}
        for each in _running_containers(pod)
    )


def with_resize_state(pod: Obj, status: Obj, pending: PendingResize | None, *, acting: bool, at: str) -> dict[str, Any]:
    """Return the pod's status with the state of its resize.

    `status` is the status as if the containers had the requested amounts. `acting`: the containers do not have the
    allocated amounts yet.
    """
    statuses = _container_statuses(pod)
    kept = ("resources", "allocatedResources") if pending is not None else ("resources",) if acting else ()
    containers: dict[str, Any] = {
        field: [{**each, **_select_keys(kept, statuses.get(each["name"], {}))} for each in status[field]]
        for field in _STATUSES
        if field in status
    }
    conditions = [each for each in status["conditions"] if each["type"] not in (PENDING, IN_PROGRESS)]
    known = [each for each in status["conditions"] if each["type"] in (PENDING, IN_PROGRESS)]
    new: dict[str, Any] = {
        "status": "True",
        "lastTransitionTime": at,
        "observedGeneration": pod["metadata"].get("generation", 0),
    }
    if pending is not None:
        new |= {"type": PENDING, "reason": pending.reason, "message": pending.message}
        conditions += [each for each in with_condition(known, new) if each["type"] == PENDING]
    elif acting:
        conditions += [
            each for each in with_condition(known, {**new, "type": IN_PROGRESS}) if each["type"] == IN_PROGRESS
        ]
    return {**status, **containers, "conditions": conditions}


def _select_keys(keys: Iterable[str], of: Obj) -> dict[str, Any]:
    return {key: of[key] for key in keys if key in of}


def _has_valid_amounts(pod: Obj) -> bool:
    try:
        requested_amounts(pod)
        allocated_amounts(pod)
    except BadQuantity:
        return False
    return True


def _running_containers(pod: Obj) -> Iterator[Obj]:
    """Yield the containers, and the init containers that run next to them (sidecars)."""
    yield from pod["spec"]["containers"]
    yield from (each for each in pod["spec"].get("initContainers") or () if each.get("restartPolicy") == "Always")


def _container_statuses(pod: Obj) -> dict[str, Obj]:
    return {each["name"]: each for field in _STATUSES for each in (pod.get("status") or {}).get(field) or ()}


def _amounts_differ(one: Obj, other: Obj) -> bool:
    return any((one.get(part) or {}) != (other.get(part) or {}) for part in ("requests", "limits"))


def _sum_amounts(each: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for requests in each:
        for name in _RESOURCES:
            if name in requests:
                total[name] = total.get(name, 0) + _milli_value(requests[name])
    return total


def _milli_value(text: Any) -> int:
    return parse_quantity(str(text)).milli_value

"""Resource amounts as integers, and the requests of Pods (upstream component-helpers resource/helpers.go).

CPU counts in thousandths of a core, rounded up. Other resources count in units, rounded up. Each resource has a column.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from situate.objects.kinds.pods import Container, ContainerStatus, Pod, PodSpec
from situate.objects.values.quantity import Quantity

CPU: Final = "cpu"
MEMORY: Final = "memory"
EPHEMERAL: Final = "ephemeral-storage"
PODS: Final = "pods"
HUGE_PAGES: Final = "hugepages-"

DEFAULT_MILLI_CPU: Final = 100
DEFAULT_MEMORY: Final = 200 * 2**20
"""Scores count these amounts for a container without a request (upstream util/pod_resources.go)."""

_DEFAULTS: Final = {CPU: DEFAULT_MILLI_CPU, MEMORY: DEFAULT_MEMORY}

LARGEST_AMOUNT: Final = 2**53
"""Upper limit of any amount, so that sums over the Pods of a node cannot overflow: 8 PiB, or 9 billion cores."""

Amounts = Mapping[str, int]
"""By resource name; CPU in thousandths."""


def amount(name: str, quantity: Quantity) -> int:
    """Convert a quantity to the unit of the resource's column."""
    value = quantity.milli_value if name == CPU else quantity.value
    return value if -LARGEST_AMOUNT <= value <= LARGEST_AMOUNT else max(-LARGEST_AMOUNT, min(value, LARGEST_AMOUNT))


def amounts(quantities: Mapping[str, Quantity]) -> dict[str, int]:
    """Convert quantities to the units of their columns."""
    return {name: amount(name, quantity) for name, quantity in quantities.items()}


class PodRequest(msgspec.Struct, frozen=True, gc=False):
    """The requests of a Pod."""

    amounts: Amounts
    """Without zeros, and without `pods`."""
    scored_cpu: int
    """For a placed Pod. Containers without a request count a default (upstream NonMissingContainerRequests)."""
    scored_memory: int
    wanted_cpu: int
    """The same for a Pod to place, without pod-level requests.

    Upstream does not pass pod-level requests to the scorers of NodeResourcesFit (fit.go NewFit). It does pass them to
    the scorer of NodeResourcesBalancedAllocation.
    """
    wanted_memory: int

    def amount_of(self, name: str) -> int:
        return self.amounts.get(name, 0)


def pod_request(pod: Pod) -> PodRequest:
    """Return the sum over containers and sidecars, plus overhead.

    The sum is at least each init container's request plus the sidecars started before it. Pod-level requests replace
    those of the containers (KEP-2837). During an in-place resize a container counts the largest of its requested,
    allocated and actual amounts (KEP-1287).
    """
    if _counts_containers_only(pod):
        return _sum_of(pod.spec.containers)
    asked = _requested_amounts(pod, {})
    defaults = _DEFAULTS
    if _pod_level_requests(pod.spec):
        defaults = {name: value for name, value in defaults.items() if name not in asked}
    scored = _requested_amounts(pod, defaults) if defaults else asked
    wanted = _requested_amounts(pod, _DEFAULTS, as_a_whole=False) if _pod_level_requests(pod.spec) else scored
    return PodRequest(
        {name: value for name, value in asked.items() if value and name != PODS},
        scored.get(CPU, 0),
        scored.get(MEMORY, 0),
        wanted.get(CPU, 0),
        wanted.get(MEMORY, 0),
    )


def _counts_containers_only(pod: Pod) -> bool:
    """Return whether only container requests count. This holds for nearly every pending Pod."""
    spec, status = pod.spec, pod.status
    return not (
        spec.init_containers
        or spec.overhead
        or spec.resources.requests
        or status.container_statuses
        or status.init_container_statuses
    )


def _sum_of(containers: Iterable[Container]) -> PodRequest:
    """Return the result of `_requested_amounts` for such a Pod, with and without defaults, in one pass."""
    total: dict[str, int] = {}
    cpu = memory = 0
    for container in containers:
        asked = amounts(container.resources.requests)
        if total:
            _add(total, asked)
        else:
            total = asked
        cpu += asked.get(CPU, DEFAULT_MILLI_CPU)
        memory += asked.get(MEMORY, DEFAULT_MEMORY)
    return PodRequest(
        {name: value for name, value in total.items() if value and name != PODS}, cpu, memory, cpu, memory
    )


def _requested_amounts(pod: Pod, defaults: Amounts, *, as_a_whole: bool = True) -> dict[str, int]:
    """Return the requested amounts.

    `defaults` replace amounts that a container does not name. `as_a_whole` includes pod-level requests.
    """
    spec = pod.spec
    reported = {status.name: status for status in (*pod.status.container_statuses, *pod.status.init_container_statuses)}
    infeasible = bool(reported) and _resize_is_infeasible(pod)

    def asked_by(container: Container, *, running: bool = True) -> dict[str, int]:
        status = reported.get(container.name) if running else None
        own = _amounts_during_resize(container, status, infeasible=infeasible) if status is not None else None
        return {**defaults, **(amounts(container.resources.requests) if own is None else own)}

    total: dict[str, int] = {}
    for container in spec.containers:
        _add(total, asked_by(container))
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in spec.init_containers:
        asked = asked_by(container, running=container.restart_policy == "Always")
        if container.restart_policy == "Always":
            _add(total, asked)
            _add(sidecars, asked)
            asked = sidecars
        else:
            _add(asked, sidecars)
        _raise_to(peak, asked)
    _raise_to(total, peak)
    if as_a_whole:
        total.update(amounts(_pod_level_requests(spec)))
    _add(total, amounts(spec.overhead))
    return total


def _pod_level_requests(spec: PodSpec) -> Mapping[str, Quantity]:
    """Return the pod-level requests, limited to the resources that support them."""
    return {
        name: quantity
        for name, quantity in spec.resources.requests.items()
        if name in (CPU, MEMORY) or name.startswith(HUGE_PAGES)
    }


def _amounts_during_resize(container: Container, status: ContainerStatus, *, infeasible: bool) -> dict[str, int] | None:
    """Return the amounts counted for a container that may be resizing.

    None until the kubelet has reported the container's actual resources.
    """
    if status.resources is None:
        return None
    counted = amounts(status.resources.requests)
    _raise_to(counted, amounts(status.allocated_resources))
    if not infeasible:  # an amount that the node can never provide is not reserved
        _raise_to(counted, amounts(container.resources.requests))
    return counted


def _resize_is_infeasible(pod: Pod) -> bool:
    condition = pod.condition("PodResizePending")
    return condition is not None and condition.status == "True" and condition.reason == "Infeasible"


def _add(total: dict[str, int], more: Amounts) -> None:
    for name, value in more.items():
        total[name] = total.get(name, 0) + value


def _raise_to(total: dict[str, int], least: Amounts) -> None:
    for name, value in least.items():
        if name not in total or value > total[name]:
            total[name] = value


class ResourceColumns:
    """The column of each resource: cpu, memory and ephemeral-storage first, the others in order of first use."""

    def __init__(self) -> None:
        self._columns: dict[str, int] = {}
        for name in (CPU, MEMORY, EPHEMERAL):
            self.column(name)

    def column(self, name: str) -> int:
        """Return the resource's column; a new resource gets a new column."""
        return self._columns.setdefault(name, len(self._columns))

    def existing_column(self, name: str) -> int | None:
        """Return the resource's column; None if no node and no Pod has named the resource."""
        return self._columns.get(name)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

"""What pods ask for, as plain sums; of pods that are not being resized."""

from __future__ import annotations

from collections.abc import Mapping

from situate.objects.kinds.nodes import Node
from situate.objects.kinds.pods import Pod
from situate.objects.values.quantity import Quantity

DEFAULTS = {"cpu": 100, "memory": 200 * 2**20}


def amount(name: str, quantity: Quantity) -> int:
    return quantity.milli_value if name == "cpu" else quantity.value


def room(node: Node, name: str) -> int:
    quantity = node.status.allocatable.get(name)
    return amount(name, quantity) if quantity is not None else 0


def request(pod: Pod, name: str, missing: int = 0, *, as_a_whole: bool = True) -> int:
    """Of one resource; `missing` stands for a container that does not name it.

    `as_a_whole`: what the pod asks for as a whole goes before the sum of its containers.
    """

    def of(requests: Mapping[str, Quantity]) -> int:
        return amount(name, requests[name]) if name in requests else missing

    spec = pod.spec
    total = sum(of(container.resources.requests) for container in spec.containers)
    sidecars = 0
    peak = 0
    for container in spec.init_containers:
        own = of(container.resources.requests)
        if container.restart_policy == "Always":
            sidecars += own
            total += own
            peak = max(peak, sidecars)
        else:
            peak = max(peak, sidecars + own)
    total = max(total, peak)
    if as_a_whole and name in spec.resources.requests and (name in DEFAULTS or name.startswith("hugepages-")):
        total = amount(name, spec.resources.requests[name])
    return total + (amount(name, spec.overhead[name]) if name in spec.overhead else 0)


def wanted_request(pod: Pod, name: str) -> int:
    """Of a pod to place: with the defaults for containers that do not name cpu or memory, without more."""
    return request(pod, name, DEFAULTS.get(name, 0), as_a_whole=name not in DEFAULTS)


def scored_request(pod: Pod, name: str) -> int:
    """Of a pod in place: with the defaults for containers that do not name cpu or memory.

    Where the pod asks for something as a whole, they stand in only for what nobody in it names.
    """
    if pod.spec.resources.requests and name in names(pod):
        return request(pod, name)
    return request(pod, name, DEFAULTS.get(name, 0))


def names(pod: Pod) -> list[str]:
    """All resources that the pod names."""
    spec = pod.spec
    lists = [container.resources.requests for container in (*spec.containers, *spec.init_containers)]
    found = {name for each in (*lists, spec.overhead, spec.resources.requests) for name in each}
    return sorted(found - {"pods"})


def is_extended(name: str) -> bool:
    return "/" in name and "kubernetes.io/" not in name and not name.startswith("requests.")

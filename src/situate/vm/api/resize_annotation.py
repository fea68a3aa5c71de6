"""Resize requests of Pods: parts that can be resized in place, and reasons to refuse a request (B34 to B36).

It reads the object alone. The queue of the node decides whether the node has the capacity, now or ever
(`situate.vm.ledger.grants.wait_queue`). `situate.vm.model.events.Written` and the Pod itself show the responses of the
API server and the kubelet.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from situate.framework.pod.resources import amounts, pod_request
from situate.objects.kinds.pods import Container, Pod, PodStatus
from situate.objects.values.quantity import Quantity
from situate.vm.api.parse_errors import ParseError, Place
from situate.vm.api.quantities import ContainerResizeRequest
from situate.vm.api.well_known import RESIZE_REQUESTED
from situate.vm.model.pods_and_nodes import Refusal, Resize
from situate.vm.model.policy import Rules
from situate.vm.model.resource_amounts import CPU, RESOURCES, Amounts

MIRROR: Final = "kubernetes.io/config.mirror"
"""On the mirror Pod of a static Pod. Only the files of its kubelet change a static Pod."""
PENDING: Final = "PodResizePending"
INFEASIBLE: Final = "Infeasible"
GUARANTEED: Final = "Guaranteed"
SIDECAR: Final = "Always"
"""Restart policy of a sidecar: an init container that runs next to the containers."""


def named_container(pod: Pod, name: str) -> Container | ParseError:
    """Return the named container, or the only one if none is named. Init containers must be named."""
    running = [*pod.spec.containers, *(each for each in pod.spec.init_containers if each.name == name)]
    found = [each for each in running if each.name == (name or each.name)]
    if len(found) == 1:
        return found[0]
    about = f"pod {pod.metadata.namespace}/{pod.metadata.name}"
    sidecars = (each for each in pod.spec.init_containers if each.restart_policy == SIDECAR)
    allowed = "one of " + ", ".join(each.name for each in (*pod.spec.containers, *sidecars))
    return Place.annotation(about, RESIZE_REQUESTED).child("container").parse_error(name, allowed)


def build_resize(pod: Pod, counts: Amounts, wish: ContainerResizeRequest, rules: Rules) -> Resize | ParseError:
    """Return the request as the ledger holds it. `counts`: the amounts that the Pod counts for now."""
    container = named_container(pod, wish.container)
    if isinstance(container, ParseError):
        return container
    has = amounts(container.resources.requests)
    own = [has.get(name, 0) for name in rules.resources]
    for place, amount in enumerate((wish.cpu, wish.memory)):
        own[place] = own[place] if amount is None else amount
    wanted = _request_with_container(pod, container, own, rules)
    steps = (wish.cpu_step, wish.memory_step)
    missing = (wanted - counts).positive_part()
    return Resize(
        container=container.name,
        own=Amounts(tuple(own)),
        wanted=wanted,
        counts=counts,
        step=Amounts((*(by or most for by, most in zip(steps, missing, strict=False)), *missing.values[len(steps) :])),
        done=all(has.get(name, 0) == amount for name, amount in zip(RESOURCES, own, strict=False)),
        text=pod.metadata.annotations.get(RESIZE_REQUESTED, ""),
        guaranteed=pod.status.qos_class == GUARANTEED,
        refusal=first_refusal(pod, container, wish, rules),
    )


def _request_with_container(pod: Pod, container: Container, own: Sequence[int], rules: Rules) -> Amounts:
    """Return the whole request of the Pod if the container requested `own`, from the spec alone."""
    requests = dict(container.resources.requests)
    for name, amount in zip(rules.resources, own, strict=True):
        if name in requests or amount:
            requests[name] = Quantity(amount * (10**6 if name == RESOURCES[CPU] else 10**9), "binary")
    resources = msgspec.structs.replace(container.resources, requests=requests)
    changed = msgspec.structs.replace(container, resources=resources)
    spec = msgspec.structs.replace(
        pod.spec,
        containers=tuple(changed if each is container else each for each in pod.spec.containers),
        init_containers=tuple(changed if each is container else each for each in pod.spec.init_containers),
    )
    asked = pod_request(msgspec.structs.replace(pod, spec=spec, status=PodStatus())).amounts
    return Amounts(tuple(max(0, asked.get(name, 0)) for name in rules.resources))


def resizable_requests(pod: Pod, rules: Rules) -> Amounts | None:
    """Return the requests of a runner Pod if they may grow and shrink with its VM (B47), else None.

    They are those of its first container with a request, unless a rule forbids to resize it.
    """
    container = next((each for each in pod.spec.containers if each.resources.requests), None)
    if container is None or rules.compat or not rules.grows_pods or next(pod_refusals(pod, rules), None) is not None:
        return None
    has = amounts(container.resources.requests)
    if next(_container_refusals(container, RESOURCES, rules), None) is not None:
        return None
    return Amounts(tuple(has.get(name, 0) for name in rules.resources))


def first_refusal(pod: Pod, container: Container, wish: ContainerResizeRequest, rules: Rules) -> Refusal | None:
    """Return the first reason of B36 in the Pod itself; None: the resize is attempted."""
    return next(_refusals(pod, container, wish, rules), None)


def _refusals(pod: Pod, container: Container, wish: ContainerResizeRequest, rules: Rules) -> Iterator[Refusal]:
    yield from pod_refusals(pod, rules)
    if (once := init_container_refusal(pod, container)) is not None:
        yield once
    if (others := other_resources_refusal(wish)) is not None:
        yield others
    has = amounts(container.resources.requests)
    wished = {name: amount for name, amount in zip(RESOURCES, (wish.cpu, wish.memory), strict=True) if amount}
    yield from _container_refusals(
        container, [name for name, amount in wished.items() if has.get(name) != amount], rules
    )
    yield from _qos_refusals(pod, container, wish)
    if (
        all(has.get(name) == amount for name, amount in wished.items())
        and (pending := infeasible_refusal(pod)) is not None
    ):
        yield pending


def other_resources_refusal(wish: ContainerResizeRequest) -> Refusal | None:
    if not wish.others:
        return None
    allowed = " and ".join(RESOURCES)
    return Refusal("OtherResource", f"{', '.join(wish.others)} cannot be resized in place; only {allowed} can")


def init_container_refusal(pod: Pod, container: Container) -> Refusal | None:
    """Return the refusal for an init container that is no sidecar."""
    if container.restart_policy == SIDECAR or all(each is not container for each in pod.spec.init_containers):
        return None
    return Refusal(
        "InitContainer", f"init container {container.name} ends before the containers start, so it is not resized"
    )


def pod_refusals(pod: Pod, rules: Rules) -> Iterator[Refusal]:
    """Yield the reasons that forbid every resize of the Pod."""
    if not rules.server_resizes:
        yield Refusal("ServerTooOld", "the API server does not support pods/resize; Kubernetes 1.33 or later does")
    if pod.metadata.deletion_timestamp is not None:
        yield Refusal("PodTerminating", "the pod is being deleted")
    if pod.finished:
        yield Refusal("PodEnded", f"the pod has ended: its phase is {pod.status.phase}")
    if pod.spec.scheduling_gates:
        yield Refusal("PodGated", "the pod has scheduling gates")
    if not pod.spec.node_name:
        yield Refusal("PodUnbound", "the pod is not bound to a node yet; its requests count when it is scheduled")
    if MIRROR in pod.metadata.annotations:
        yield Refusal("StaticPod", "a file on the node defines the static pod; change the requests there")
    if pod.spec.resources.requests or pod.spec.resources.limits:
        yield Refusal("PodLevelResources", "the pod has pod-level resources (spec.resources), which vm does not resize")


def _container_refusals(container: Container, changed: Iterable[str], rules: Rules) -> Iterator[Refusal]:
    for name in changed:
        if name not in container.resources.requests:
            message = f"container {container.name} has no {name} request, and only an existing request can be resized"
            yield Refusal("NoRequest", message)
        policies = {each.resource_name: each.restart_policy for each in container.resize_policy}
        if policies.get(name) == "RestartContainer" and not rules.resize_with_restart:
            message = f"container {container.name} restarts if its {name} changes (resizePolicy)"
            yield Refusal("RestartNeeded", f"{message}, and vm.resizeWithRestart does not allow this")


def _qos_refusals(pod: Pod, container: Container, wish: ContainerResizeRequest) -> Iterator[Refusal]:
    """Yield the refusal for a changed QoS class. Limits change with requests, so only a first request causes it."""
    all_of_it = [*pod.spec.containers, *pod.spec.init_containers]
    has = [(amounts(each.resources.requests), amounts(each.resources.limits)) for each in all_of_it]
    place = all_of_it.index(container)
    requests, limits = (dict(each) for each in has[place])
    for name, amount in zip(RESOURCES, (wish.cpu, wish.memory), strict=True):
        if amount is not None:
            if name in limits:
                limits[name] += amount - requests.get(name, 0)
            requests[name] = amount
    before, after = qos_class(has), qos_class([*has[:place], (requests, limits), *has[place + 1 :]])
    if before != after:
        yield Refusal("QOSClassWouldChange", f"the QoS class of the pod would change from {before} to {after}")


def qos_class(containers: Sequence[tuple[Mapping[str, int], Mapping[str, int]]]) -> str:
    """Return the QoS class by requests and limits of all containers (upstream: ComputePodQOS)."""
    asked = [[amount for name in RESOURCES for amount in (each[0].get(name), each[1].get(name))] for each in containers]
    if not any(amount for each in asked for amount in each):
        return "BestEffort"
    whole = all(cpu and memory and cpu == most and memory == top for cpu, most, memory, top in asked)
    return GUARANTEED if whole else "Burstable"


def infeasible_refusal(pod: Pod) -> Refusal | None:
    """Return the refusal if the kubelet can never fulfil the current spec (B35).

    Conditions for an earlier spec are ignored.
    """
    pending = pod.condition(PENDING)
    if pending is None or pending.status != "True" or pending.reason != INFEASIBLE:
        return None
    if pending.observed_generation and pending.observed_generation < pod.metadata.generation:
        return None
    return Refusal(INFEASIBLE, pending.message or "the node can never provide the requested amount")

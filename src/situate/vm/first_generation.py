"""The bookkeeping of the reference's first generation (C41, C42), one resource at a time.

Until 2024-12 the scheduler kept in memory what it granted: a buffer for what a machine may hold without having said so,
and pressure for what it was denied. Nothing here is used by decisions of today; it is what agents of then were told.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class NodeResource:
    total: int
    watermark: int
    reserved: int
    buffer: int = 0
    """The part of `reserved` that is not known to be used."""
    pressure: int = 0
    """What was denied."""
    accounted: int = 0
    """Pressure that machines which are leaving take away."""


@dataclass(frozen=True, slots=True)
class PodResource:
    reserved: int
    buffer: int = 0
    pressure: int = 0
    minimum: int = 0
    maximum: int = 0


def reserved(node: NodeResource, pod: PodResource) -> tuple[NodeResource, bool]:
    """With a new pod, which is always booked; and whether the node is over its budget then."""
    booked = replace(node, reserved=node.reserved + pod.reserved, buffer=node.buffer + pod.buffer)
    return booked, booked.reserved > booked.total


def requested(
    node: NodeResource, pod: PodResource, wanted: int, last_permit: int | None, factor: int, *, starting: bool = False
) -> tuple[NodeResource, PodResource]:
    """What an agent's request comes to; `starting` a migration it grows by nothing."""
    known = replace(pod, reserved=pod.reserved - pod.buffer, buffer=0)
    if wanted <= known.reserved:
        after = replace(known, reserved=wanted, pressure=0)
        return _followed(node, pod, after), after
    free = max(0, node.total - (node.reserved - pod.buffer))
    most = 0 if starting else max(free // factor * factor, (last_permit or 0) - known.reserved, 0)
    grown = min(most, wanted - known.reserved)
    after = replace(known, reserved=known.reserved + grown, pressure=wanted - known.reserved - grown)
    return _followed(node, pod, after), after


def migration_started(node: NodeResource, pod: PodResource) -> tuple[NodeResource, PodResource]:
    after = replace(pod, reserved=pod.reserved - pod.buffer, buffer=0, pressure=0)
    followed = _followed(node, pod, after)
    return replace(followed, accounted=followed.accounted + after.reserved), after


def deleted(node: NodeResource, pod: PodResource, *, migrating: bool) -> NodeResource:
    gone = pod.reserved + pod.pressure if migrating else 0
    followed = _followed(node, pod, PodResource(0))
    return replace(followed, accounted=followed.accounted - gone)


def autoscaling_disabled(node: NodeResource, pod: PodResource) -> tuple[NodeResource, PodResource]:
    after = replace(pod, reserved=pod.reserved - pod.buffer, buffer=0, pressure=0)
    return _followed(node, pod, after), after


def bounds_changed(
    node: NodeResource, pod: PodResource, minimum: int, maximum: int
) -> tuple[NodeResource, PodResource]:
    """A machine that has not been heard of yet may hold its new maximum; of one that has, only the bounds change."""
    after = replace(pod, minimum=minimum, maximum=maximum)
    if pod.buffer and maximum != pod.maximum:
        using = pod.reserved - pod.buffer
        booked = max(maximum, using)
        after = replace(after, reserved=booked, buffer=booked - using)
    return _followed(node, pod, after), after


def too_much_pressure(cpu: NodeResource, memory: NodeResource) -> bool:
    """C42; at its watermark CPU is not over it, memory is."""
    if cpu.reserved <= cpu.watermark and memory.reserved < memory.watermark:
        return False
    return any(
        max(0, each.reserved - each.watermark) + each.pressure
        > each.accounted + each.buffer + max(0, each.watermark - each.reserved)
        for each in (cpu, memory)
    )


def _followed(node: NodeResource, before: PodResource, after: PodResource) -> NodeResource:
    """The node with what changed of the pod."""
    return replace(
        node,
        reserved=node.reserved + after.reserved - before.reserved,
        buffer=node.buffer + after.buffer - before.buffer,
        pressure=node.pressure + after.pressure - before.pressure,
    )

"""Accounting of upstream's first generation, one resource at a time.

neondatabase/autoscaling before 2024-12 kept its state in memory (C41, C42). The buffer is the amount that a VM may use
before its agent has reported. The pressure is the amount that was denied. No current decision uses this module.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class NodeResource:
    total: int
    watermark: int
    reserved: int
    buffer: int = 0
    """The part of `reserved` that is not known to be in use."""
    pressure: int = 0
    """The denied amount."""
    accounted: int = 0
    """The pressure that VMs migrating away already cover (PressureAccountedFor)."""


@dataclass(frozen=True, slots=True)
class PodResource:
    reserved: int
    buffer: int = 0
    pressure: int = 0
    minimum: int = 0
    maximum: int = 0


def reserved(node: NodeResource, pod: PodResource) -> tuple[NodeResource, bool]:
    """Add a new Pod, always accepted. Return the node and whether it is over budget."""
    booked = replace(node, reserved=node.reserved + pod.reserved, buffer=node.buffer + pod.buffer)
    return booked, booked.reserved > booked.total


def requested(
    node: NodeResource, pod: PodResource, wanted: int, last_permit: int | None, factor: int, *, starting: bool = False
) -> tuple[NodeResource, PodResource]:
    """Apply an agent's request. A VM with a `starting` migration gets no increase."""
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
    """Apply new bounds. Before the first contact, a VM reserves its new maximum; later only the bounds change."""
    after = replace(pod, minimum=minimum, maximum=maximum)
    if pod.buffer and maximum != pod.maximum:
        using = pod.reserved - pod.buffer
        booked = max(maximum, using)
        after = replace(after, reserved=booked, buffer=booked - using)
    return _followed(node, pod, after), after


def too_much_pressure(cpu: NodeResource, memory: NodeResource) -> bool:
    """Return whether a node has too much pressure (C42).

    CPU at its watermark is not over it; memory at its watermark is.
    """
    if cpu.reserved <= cpu.watermark and memory.reserved < memory.watermark:
        return False
    return any(
        max(0, each.reserved - each.watermark) + each.pressure
        > each.accounted + each.buffer + max(0, each.watermark - each.reserved)
        for each in (cpu, memory)
    )


def _followed(node: NodeResource, before: PodResource, after: PodResource) -> NodeResource:
    """Return the node with the change of one Pod applied."""
    return replace(
        node,
        reserved=node.reserved + after.reserved - before.reserved,
        buffer=node.buffer + after.buffer - before.buffer,
        pressure=node.pressure + after.pressure - before.pressure,
    )

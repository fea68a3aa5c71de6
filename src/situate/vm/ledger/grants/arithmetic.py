"""How much of what a pod asks for it gets: the arithmetic of section 2.4, resource by resource, and jointly (B30).

Which room there is for it is the caller's to say; who is served first is `situate.vm.ledger.step`'s.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from situate.vm.model.node_accounting import with_pod
from situate.vm.model.pods_and_nodes import NO_OVERCOMMIT, Node, Pod
from situate.vm.model.resource_amounts import Amounts


@dataclass(frozen=True, slots=True)
class Grant:
    """What a pod is booked with after it was tried, and its node with it."""

    pod: Pod
    node: Node
    done: bool
    """Whether nothing is left wanting."""


def granted(node: Node, pod: Pod, room: Amounts | None = None, *, joint: bool = False) -> Grant:
    """The pod, which is on the node, with as much of its request as there is room for.

    `room` counts as the node's sums do (`State.avail`); None is all that the node has, Total - Reserved (2.4). `joint`
    grants resources that grow together as many whole units of each as there is room for of all (B30). The watermark
    does not matter (C11).
    """
    free = (node.total - node.reserved if room is None else room).positive()
    grown = pod_within(pod, free, joint=joint)
    return Grant(grown, node if grown is pod else with_pod(node, grown), grown.reserved == grown.requested)


def pod_within(pod: Pod, room: Amounts, *, joint: bool = False) -> Pod:
    """The pod with what 2.4 makes of its booking; the same object if that changes nothing."""
    booked = joint_booking(pod, room) if joint else booking(pod, room)
    return pod if booked == pod.reserved else replace(pod, reserved=booked)


def pod_with_all(pod: Pod, room: Amounts) -> Pod:
    """Jointly, and again once it has all that it wants of one resource: that holds up the others no longer (B30)."""
    grown = pod_within(pod, room, joint=True)
    if grown is pod:
        return pod
    return pod_with_all(grown, room - (grown.counted(grown.reserved) - pod.counted(pod.reserved)))


def booking(pod: Pod, room: Amounts) -> Amounts:
    """Each resource by itself."""
    rows = zip(pod.reserved, pod.requested, pod.factor, pod.overcommit, room, strict=True)
    return Amounts(tuple(booked(*row) for row in rows))


def booked(reserved: int, requested: int, factor: int, overcommit: int, room: int) -> int:
    """One resource: a decrease at once, an increase in whole steps or all of it. A step of zero counts as one."""
    if requested <= reserved:
        return requested
    return reserved + min(units(factor, overcommit, room) * (factor or 1), requested - reserved)


def units(factor: int, overcommit: int, room: int) -> int:
    """So many whole steps fit into room that counts after overcommit."""
    return max(0, room) * overcommit // NO_OVERCOMMIT // (factor or 1)


def joint_booking(pod: Pod, room: Amounts) -> Amounts:
    """The same number of units of all that increase: the largest for which all have room (B30)."""
    rows = list(zip(pod.reserved, pod.requested, pod.factor, pod.overcommit, room, strict=True))
    possible = [
        units(factor, overcommit, free)
        for reserved, requested, factor, overcommit, free in rows
        if requested > reserved
    ]
    most = min(possible, default=0)
    return Amounts(
        tuple(
            requested if requested <= reserved else reserved + min(most * (factor or 1), requested - reserved)
            for reserved, requested, factor, _, _ in rows
        )
    )

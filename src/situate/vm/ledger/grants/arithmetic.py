"""Compute the part of a request that fits: for each resource alone, or jointly.

The caller says how much capacity is free. `situate.vm.ledger.grants.wait_queue` decides the order of the requests.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from situate.vm.model.node_accounting import with_pod
from situate.vm.model.pods_and_nodes import NO_OVERCOMMIT, Node, Pod
from situate.vm.model.resource_amounts import Amounts


@dataclass(frozen=True, slots=True)
class Grant:
    """The result of trying a grant: the Pod with its new reserved amount, and its node."""

    pod: Pod
    node: Node
    done: bool
    """Whether the whole request is granted."""


def try_grant(node: Node, pod: Pod, room: Amounts | None = None, *, joint: bool = False) -> Grant:
    """Grant the Pod as much of its request as fits. The Pod must be on the node.

    `room` is in the units of the node's amounts (`State.avail`). None means all free capacity of the node, Total -
    Reserved. With `joint`, all resources that grow get the same number of whole units (B30). The watermark plays no
    part (C11).
    """
    free = (node.total - node.reserved if room is None else room).positive_part()
    grown = pod_after_grant(pod, free, joint=joint)
    return Grant(grown, node if grown is pod else with_pod(node, grown), grown.reserved == grown.requested)


def pod_after_grant(pod: Pod, room: Amounts, *, joint: bool = False) -> Pod:
    """Return the Pod with its new reserved amount; the same object if nothing changes."""
    booked = joint_reservation(pod, room) if joint else separate_reservation(pod, room)
    return pod if booked == pod.reserved else replace(pod, reserved=booked)


def pod_after_joint_grants(pod: Pod, room: Amounts) -> Pod:
    """Return the Pod after joint grants, repeated until nothing more fits.

    A resource that has its whole request no longer limits the other resources (B30).
    """
    grown = pod_after_grant(pod, room, joint=True)
    if grown is pod:
        return pod
    return pod_after_joint_grants(
        grown, room - (grown.counted_amount(grown.reserved) - pod.counted_amount(pod.reserved))
    )


def separate_reservation(pod: Pod, room: Amounts) -> Amounts:
    """Return the new reserved amount, with each resource computed alone."""
    rows = zip(pod.reserved, pod.requested, pod.factor, pod.overcommit, room, strict=True)
    return Amounts(tuple(reservation_after_grant(*row) for row in rows))


def reservation_after_grant(reserved: int, requested: int, factor: int, overcommit: int, room: int) -> int:
    """Return the new reserved amount of one resource.

    A decrease counts at once. An increase is a number of whole units, or all of it. A unit of zero counts as one.
    """
    if requested <= reserved:
        return requested
    return reserved + min(fitting_units(factor, overcommit, room) * (factor or 1), requested - reserved)


def fitting_units(factor: int, overcommit: int, room: int) -> int:
    """Return how many whole units fit into an amount of capacity that counts after overcommit."""
    return max(0, room) * overcommit // NO_OVERCOMMIT // (factor or 1)


def joint_reservation(pod: Pod, room: Amounts) -> Amounts:
    """Return the new reserved amount with the same number of units for all resources that grow.

    It is the largest number that fits in all of them (B30).
    """
    rows = list(zip(pod.reserved, pod.requested, pod.factor, pod.overcommit, room, strict=True))
    possible = [
        fitting_units(factor, overcommit, free)
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

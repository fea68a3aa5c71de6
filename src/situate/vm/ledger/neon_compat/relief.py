"""Select the VMs that leave a node over its watermark, as neondatabase/autoscaling does.

The scheduler chooses their targets (C29). `situate.vm.planning` selects by cost, with a known target (D4, B16 to B19).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from situate.vm.model.pods_and_nodes import Node, Pod
from situate.vm.model.resource_amounts import Amounts


@dataclass(frozen=True, slots=True)
class ReliefSelection:
    selected_pods: tuple[str, ...]
    """UIDs of the Pods to migrate, in the order of selection."""
    skipped_pods: tuple[str, ...]
    """Candidates that were skipped, because their reserved amount exceeds the watermark."""
    enough: bool
    """Whether the node is under its watermark once they have left."""


def select_relief(node: Node, wished: Collection[str] = ()) -> ReliefSelection:
    """Select the oldest VMs until the node has no excess. Ties go by UID.

    `wished` holds the UIDs with a migration that is decided and not started. They count as migrating.
    """
    leaving = node.migrating
    for uid in wished:
        pod = node.pods.get(uid)
        if pod is not None and not pod.migrating:
            leaving += pod.counted_amount(pod.reserved)
    wishes: list[str] = []
    too_big: list[str] = []
    for pod in sorted(node.pods.values(), key=lambda each: (each.created_at, each.uid)):
        if not excess(node, leaving):
            break
        if pod.uid in wished or not _may_move(pod):
            continue
        if pod.reserved.exceeds(node.watermark):  # before overcommit, as upstream does; planning avoids this (D7)
            too_big.append(pod.uid)
            continue
        wishes.append(pod.uid)
        leaving += pod.counted_amount(pod.reserved)
    return ReliefSelection(tuple(wishes), tuple(too_big), not excess(node, leaving))


def excess(node: Node, leaving: Amounts) -> Amounts:
    """Return max(0, Reserved - Migrating - Watermark), where `leaving` is the migrating amount."""
    return (node.reserved - leaving - node.watermark).positive_part()


def _may_move(pod: Pod) -> bool:
    """Return whether the VM is a candidate.

    VMs of other schedulers are none, because their migrations would never start (D6).
    """
    return pod.migratable and not pod.migrating and pod.machine is not None and pod.machine.own

"""One grant by itself, without the queue of the ledger."""

from __future__ import annotations

from dataclasses import dataclass

from situate.vm.ledger.grants.arithmetic import pod_after_grant
from situate.vm.model.node_accounting import with_pod
from situate.vm.model.pods_and_nodes import Node, Pod
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

"""Writes the capacity label of the note onto nodes that say the same in their cloud's words (P34), if that is wanted.

Then one expression in pods' affinity fits all clouds. A label that is there already, even a wrong one, is its owner's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from situate.objects.kinds.nodes import Node
from situate.spot.model.pods_nodes_workloads import CAPACITY_LABEL, Capacity
from situate.spot.nodes.node_signals import Signal, capacity_of


def capacity_patch(node: Node, table: Sequence[Signal]) -> dict[str, Any] | None:
    """A merge patch for the node; None where its capacity is not known, or the label is there."""
    capacity = capacity_of(node, table)
    if capacity is Capacity.UNKNOWN or CAPACITY_LABEL in node.metadata.labels:
        return None
    return {"metadata": {"uid": node.metadata.uid, "labels": {CAPACITY_LABEL: str(capacity)}}}

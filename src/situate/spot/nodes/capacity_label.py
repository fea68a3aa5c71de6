"""Patch that adds the label `node.kubernetes.io/capacity` to nodes with only a label of their cloud.

With this optional label one expression in the pods' affinity fits all clouds. An existing label, even a wrong one, is
never changed. Rule: P34.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from situate.objects.kinds.nodes import Node
from situate.spot.model.pods_nodes_workloads import CAPACITY_LABEL, Capacity
from situate.spot.nodes.node_signals import Signal, capacity_of


def capacity_patch(node: Node, table: Sequence[Signal]) -> dict[str, Any] | None:
    """Return a merge patch for the node; None if its capacity is unknown or it has the label."""
    capacity = capacity_of(node, table)
    if capacity is Capacity.UNKNOWN or CAPACITY_LABEL in node.metadata.labels:
        return None
    return {"metadata": {"uid": node.metadata.uid, "labels": {CAPACITY_LABEL: str(capacity)}}}

"""Nodes as the ledger starts with them, without reserved amounts (C7, B24, B46)."""

from __future__ import annotations

from collections.abc import Mapping

from situate.framework.pod.resources import amount
from situate.objects.kinds import nodes as objects
from situate.vm.api.parse_errors import ParseError, ParseResult
from situate.vm.api.well_known import DRAIN, STATIC
from situate.vm.model.pods_and_nodes import Node
from situate.vm.model.policy import Rules
from situate.vm.model.resource_amounts import RESOURCES, Amounts


def read_node(node: objects.Node, rules: Rules) -> ParseResult[Node]:
    """Parse a Node, with nothing reserved. `value` is None while its allocatable CPU or memory is unknown or zero."""
    metadata, allocatable = node.metadata, node.status.allocatable
    total = tuple(amount(name, allocatable[name]) if name in allocatable else 0 for name in rules.resources)
    for name, most in zip(RESOURCES, total, strict=False):
        if most <= 0:
            found = str(allocatable[name]) if name in allocatable else ""
            field, step = f"status.allocatable.{name}", "the kubelet of the node writes this field"
            return ParseResult(None, (ParseError(f"node {metadata.name}", field, found, "an amount above 0", step),))
    totals = Amounts(total).positive_part()
    ready = node.condition("Ready")
    nothing = Amounts.zero(len(rules.resources))
    return ParseResult(
        Node(
            name=metadata.name,
            total=totals,
            watermark=watermark(totals, watermark_fraction(metadata.name, metadata.labels, rules)),
            reserved=nothing,
            committed=nothing,
            migrating=nothing,
            labels=metadata.labels,
            draining=is_drained(node),
            static=metadata.labels.get(STATIC) == "true",
            schedulable=not node.spec.unschedulable and (ready is None or ready.status == "True"),
        )
    )


def is_drained(node: objects.Node) -> bool:
    """Return whether VMs must leave the node, by a taint or an annotation (B46)."""
    return DRAIN in node.metadata.annotations or any(taint.key == DRAIN for taint in node.spec.taints)


def watermark(total: Amounts, fraction: float) -> Amounts:
    """Return trunc(total x fraction), a float product (C7)."""
    return Amounts(tuple(int(each * fraction) for each in total))


def watermark_fraction(name: str, labels: Mapping[str, str], rules: Rules) -> float:
    """Return the watermark of this node, else of its class, else of all nodes (B24)."""
    own = rules.watermarks.get(name)
    if own is not None:
        return own
    return rules.class_watermarks.get(labels.get(rules.class_label, ""), rules.watermark)

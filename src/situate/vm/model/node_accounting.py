"""Add, change and remove Pods of a node, and update its amounts.

Each function returns a new node. A what-if drops the result, so trying and doing are the same functions (C10).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType

from situate.vm.model.pods_and_nodes import Node, Pod
from situate.vm.model.replace import replace_fields
from situate.vm.model.resource_amounts import Amounts, total


def with_pod(node: Node, pod: Pod) -> Node:
    """Return the node with this Pod. It replaces the Pod with the same UID, if any."""
    pods = {**node.pods, pod.uid: pod}
    return _with_changed_pods(node, pods, (node.pods[pod.uid],) if pod.uid in node.pods else (), (pod,))


def without_pod(node: Node, uid: str) -> Node:
    """Return the node without this Pod; the same node if it has no such Pod."""
    if uid not in node.pods:
        return node
    pods = dict(node.pods)
    return _with_changed_pods(node, pods, (pods.pop(uid),), ())


def with_pods(node: Node, pods: Iterable[Pod]) -> Node:
    """Return the node with exactly these Pods."""
    wanted = {pod.uid: pod for pod in pods}
    gone = [pod for uid, pod in node.pods.items() if wanted.get(uid) is not pod]
    new = [pod for uid, pod in wanted.items() if node.pods.get(uid) is not pod]
    return _with_changed_pods(node, wanted, gone, new)


def with_observed(node: Node, seen: Node) -> Node:
    """Return the node with the properties that the cluster shows now.

    Totals, watermark, labels and marks come from `seen`; Pods and amounts come from `node` (C27).
    """
    return replace(seen, reserved=node.reserved, committed=node.committed, migrating=node.migrating, pods=node.pods)


def has_changed(node: Node, seen: Node) -> bool:
    """Return whether the cluster shows another size, watermark, label or mark for the node."""
    return with_observed(node, seen) != node


def recount(node: Node) -> Node:
    """Return the node with amounts summed over its Pods. Any sequence of the functions above gives the same amounts."""
    width = len(node.total)
    pods = node.pods.values()
    return replace(
        node,
        reserved=total((pod.counted_amount(pod.reserved) for pod in pods), width),
        committed=total((pod.reserved for pod in pods), width),
        migrating=total((pod.counted_amount(pod.reserved) for pod in pods if pod.migrating), width),
    )


def _with_changed_pods(node: Node, pods: Mapping[str, Pod], gone: Iterable[Pod], new: Iterable[Pod]) -> Node:
    reserved, committed, migrating = list(node.reserved), list(node.committed), list(node.migrating)
    for sign, group in ((-1, gone), (1, new)):
        for pod in group:
            counted = pod.counted_amount(pod.reserved)
            for resource, amount in enumerate(counted):
                reserved[resource] += sign * amount
                committed[resource] += sign * pod.reserved[resource]
                if pod.migrating:
                    migrating[resource] += sign * amount
    return replace_fields(
        node,
        reserved=Amounts(tuple(reserved)),
        committed=Amounts(tuple(committed)),
        migrating=Amounts(tuple(migrating)),
        pods=MappingProxyType(pods),
    )

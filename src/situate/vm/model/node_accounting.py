"""Changing what is booked on a node, as values: another node with a pod more, less or changed, and its sums (C7).

A what-if is a node that nobody keeps, so that trying and doing are the same functions (C10).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType

from situate.vm.model.pods_and_nodes import Node, Pod
from situate.vm.model.replace import amended
from situate.vm.model.resource_amounts import Amounts, total


def with_pod(node: Node, pod: Pod) -> Node:
    """With this pod, in place of the one of the same uid if there is one."""
    pods = {**node.pods, pod.uid: pod}
    return _changed(node, pods, (node.pods[pod.uid],) if pod.uid in node.pods else (), (pod,))


def without_pod(node: Node, uid: str) -> Node:
    """The same node if it has no such pod."""
    if uid not in node.pods:
        return node
    pods = dict(node.pods)
    return _changed(node, pods, (pods.pop(uid),), ())


def with_exactly(node: Node, pods: Iterable[Pod]) -> Node:
    """With these pods and no others."""
    wanted = {pod.uid: pod for pod in pods}
    gone = [pod for uid, pod in node.pods.items() if wanted.get(uid) is not pod]
    new = [pod for uid, pod in wanted.items() if node.pods.get(uid) is not pod]
    return _changed(node, wanted, gone, new)


def with_seen(node: Node, seen: Node) -> Node:
    """As the cluster shows it by now: totals, watermark, labels and marks of `seen`, pods and sums of `node` (C27)."""
    return replace(seen, reserved=node.reserved, committed=node.committed, migrating=node.migrating, pods=node.pods)


def changed(node: Node, seen: Node) -> bool:
    """Whether the cluster shows another size, watermark, label or mark than the node has."""
    return with_seen(node, seen) != node


def recounted(node: Node) -> Node:
    """With sums made of its pods alone: what every sequence of the above comes to as well."""
    width = len(node.total)
    pods = node.pods.values()
    return replace(
        node,
        reserved=total((pod.counted(pod.reserved) for pod in pods), width),
        committed=total((pod.reserved for pod in pods), width),
        migrating=total((pod.counted(pod.reserved) for pod in pods if pod.migrating), width),
    )


def _changed(node: Node, pods: Mapping[str, Pod], gone: Iterable[Pod], new: Iterable[Pod]) -> Node:
    reserved, committed, migrating = list(node.reserved), list(node.committed), list(node.migrating)
    for sign, group in ((-1, gone), (1, new)):
        for pod in group:
            counted = pod.counted(pod.reserved)
            for resource, amount in enumerate(counted):
                reserved[resource] += sign * amount
                committed[resource] += sign * pod.reserved[resource]
                if pod.migrating:
                    migrating[resource] += sign * amount
    return amended(
        node,
        reserved=Amounts(tuple(reserved)),
        committed=Amounts(tuple(committed)),
        migrating=Amounts(tuple(migrating)),
        pods=MappingProxyType(pods),
    )

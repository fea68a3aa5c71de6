"""What twins look at: lists of objects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from situate.objects.kinds.nodes import Node
from situate.objects.kinds.pods import Pod
from situate.objects.kinds.selectors import LabelSelector
from situate.objects.kinds.storage import StorageObject

SUCCESS = "Success"
UNSCHEDULABLE = "Unschedulable"
UNRESOLVABLE = "UnschedulableAndUnresolvable"


class Answer(NamedTuple):
    """Of a filter about one node."""

    code: str
    reasons: tuple[str, ...] = ()


PASS = Answer(SUCCESS)


@dataclass(frozen=True)
class World:
    """A cluster; pods in place have `spec.nodeName`."""

    nodes: tuple[Node, ...]
    pods: tuple[Pod, ...] = ()
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Their labels."""
    services: Mapping[str, tuple[Mapping[str, str], ...]] = field(default_factory=dict)
    """By namespace: their selectors."""
    owners: Mapping[tuple[str, str, str], LabelSelector] = field(default_factory=dict)
    """By kind, namespace and name."""
    storage: tuple[StorageObject, ...] = ()

    def on(self, node: Node) -> list[Pod]:
        return [pod for pod in self.pods if pod.spec.node_name == node.metadata.name]

    def with_pods(self, *more: Pod) -> World:
        return replace(self, pods=(*self.pods, *more))

    def without(self, gone: Pod) -> World:
        return replace(self, pods=tuple(pod for pod in self.pods if pod is not gone))

"""What a recording of pods and nodes says about workloads: predicates over every moment, not over samples.

A pod serves while it is Ready, is not being deleted, and its node is there and not silent. Workloads are told apart by
the label `app` of their pods, which released ones keep.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from situate.spot.model import CAPACITY_LABEL
from tests.e2e.recording import Change
from tests.e2e.vpod_cluster import pod_is_ready

Objects = Mapping[str, Any]
"""By name; pods of one namespace."""


@dataclass
class Moment:
    """The state after one change."""

    revision: int = 0
    pods: dict[str, Any] = field(default_factory=dict)
    nodes: dict[str, Any] = field(default_factory=dict)

    def of(self, app: str) -> list[Any]:
        return [each for each in self.pods.values() if each["metadata"]["labels"].get("app") == app]

    def serving(self, app: str) -> list[Any]:
        return [each for each in self.of(app) if pod_is_ready(each) and self.stands(each)]

    def on_demand(self, app: str) -> list[Any]:
        """Those that serve on demand."""
        return [each for each in self.serving(app) if self.capacity(each) == "on-demand"]

    def stands(self, pod: Any) -> bool:
        node = self.nodes.get(pod["spec"].get("nodeName", ""))
        conditions = node["status"].get("conditions", ()) if node is not None else ()
        return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)

    def capacity(self, pod: Any) -> str:
        node = self.nodes.get(pod["spec"].get("nodeName", ""), {"metadata": {"labels": {}}})
        return str(node["metadata"]["labels"].get(CAPACITY_LABEL, ""))


def moments(changes: Iterable[Change], namespace: str) -> Iterator[Moment]:
    """After each change of a pod there, or of a node; the same object each time, as it is then."""
    now = Moment()
    for change in changes:
        metadata = change.object["metadata"]
        if change.object["kind"] == "Node":
            objects = now.nodes
        elif metadata["namespace"] == namespace:
            objects = now.pods
        else:
            continue
        if change.deleted:
            objects.pop(metadata["name"], None)
        else:
            objects[metadata["name"]] = change.object
        now.revision = change.revision
        yield now


def least(history: Iterable[Moment], count: Callable[[Moment], int], enough: int) -> int:
    """The least count at any moment from the first one with `enough`; fails if that never came."""
    lowest: int | None = None
    for moment in history:
        number = count(moment)
        if lowest is None and number < enough:
            continue
        lowest = number if lowest is None else min(lowest, number)
    assert lowest is not None, f"there were never {enough}"
    return lowest

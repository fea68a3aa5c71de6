"""What a recording of pods and nodes says about workloads: predicates over every moment, not over samples.

A pod serves while it is Ready, is not being deleted, and its node is there and not silent. Workloads are told apart by
the label `app` of their pods, which released ones keep.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from situate.sim.spot.baselines import WaveFigures
from situate.spot.model.pods_nodes_workloads import CAPACITY_LABEL
from tests.e2e.recording import Change
from tests.e2e.vpod_cluster import pod_is_ready

Objects = Mapping[str, Any]
"""By name; pods of one namespace."""


@dataclass
class Moment:
    """The state after one change."""

    revision: int = 0
    at: float = 0.0
    """By `time.monotonic`."""
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
        now.revision, now.at = change.revision, change.at
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


def figures(history: Iterable[Moment], app: str, replicas: int, begun: float) -> WaveFigures:
    """What a wave has cost a workload from then on, in the simulator's terms; without the price."""
    half = outage = short = 0.0
    lowest, serving, before = replicas, replicas, begun
    for moment in history:
        if moment.at >= begun:
            seconds = moment.at - before
            half += seconds * (2 * serving <= replicas)
            outage += seconds * (serving == 0)
            short += seconds * max(0, replicas - serving)
            before = moment.at
        serving = len(moment.serving(app))
        if moment.at >= begun:
            lowest = min(lowest, serving)
    return WaveFigures(0.0, outage, half, short, lowest)


@dataclass(frozen=True)
class Replacements:
    """Mean times of pods whose nodes were deleted at one moment, and of those that came for them; seconds."""

    detection_s: float
    """From the end of the nodes until the pods counted no more."""
    create_s: float
    bind_s: float
    start_s: float
    """From being bound until ready."""
    spread_s: float
    """Between the first of those that came to be ready and the last."""


def replacements(changes: Iterable[Change], apps: Collection[str], gone: Collection[str], begun: float) -> Replacements:
    """`gone`: the nodes; they were deleted at `begun`, and nothing else happened to these workloads since."""
    lost: dict[str, float] = {}
    came: dict[str, list[float]] = {}
    for change in changes:
        pod = change.object
        labels = pod["metadata"].get("labels", {})
        if change.at < begun or pod["kind"] != "Pod" or labels.get("app") not in apps:
            continue
        name, node = pod["metadata"]["name"], pod["spec"].get("nodeName")
        if node in gone:
            ends = change.deleted or leaving(pod) or pod["status"]["phase"] == "Failed"
            if ends:
                lost.setdefault(name, change.at)
            continue
        times = came.setdefault(name, [])
        reached = 1 + bool(node) + (bool(node) and pod_is_ready(pod))
        times += [change.at] * (reached - len(times))
    whole = [times for times in came.values() if len(times) == 3]
    assert len(whole) == len(lost) > 0, f"{len(lost)} pods were lost, and {len(whole)} came"
    created, bound, ready = (fmean(times) for times in zip(*whole, strict=True))
    ended = fmean(lost.values())
    served = [times[-1] for times in whole]
    spread_s = max(served) - min(served)
    return Replacements(ended - begun, max(0.0, created - ended), bound - created, ready - bound, spread_s)


def leaving(pod: Mapping[str, Any]) -> bool:
    return "deletionTimestamp" in pod["metadata"]

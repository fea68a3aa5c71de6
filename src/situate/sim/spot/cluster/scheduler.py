"""A default scheduler for a simulated cluster: the framework's own plugins, called once per distinct state.

The node of a pod depends on its shape and on the pods of each kind of node. The runs of a scenario pass through the
same few states again and again. So answers are cached, and thousands of runs cost little more than one. Ties go to the
first node, where kube-scheduler draws one at random.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import IntEnum
from typing import Final

import msgspec

from situate.cluster.controllers.scheduler.scheduler import default_profile
from situate.framework.cycle.feasibility_query import query_feasibility
from situate.framework.snapshot.cache import Cache
from situate.framework.volumes.catalog import Catalog
from situate.objects.kinds.pods import Pod
from situate.objects.selection.label_selectors import Requirement, Selector
from situate.sim.spot.cluster.shapes import NodeKind, Shape
from situate.spot.capacity.free_capacity import PlanningCapacity
from situate.spot.capacity.scheduler_capacity import SchedulerCapacity
from situate.spot.model.counts import Nodes
from situate.spot.model.pods_nodes_workloads import RELEASED_PREFIX, TEMPLATE_HASH, Capacity, NodeFacts, NodeState
from situate.spot.nodes.known_signals import SIGNALS, on_demand_requirement, pool_tolerations

_ENDING: Final = datetime(2000, 1, 1, tzinfo=UTC)
_OURS: Final = on_demand_requirement(SIGNALS)
_TOLERATIONS: Final = pool_tolerations(SIGNALS)


class PodState(IntEnum):
    """The state of a pod on its node, as far as the scheduler sees it."""

    WHOLE = 0
    TERMINATING = 1
    RELEASED = 2


@dataclass(frozen=True, slots=True)
class EqualPods:
    """Equal pods on a node."""

    shape: Shape
    state: PodState
    count: int


@dataclass(frozen=True, slots=True)
class NodeLoad:
    """A node with its pods. Two seats with equal keys are equal for every pod that names no node."""

    name: str
    kind: NodeKind
    barred: bool
    """Whether a taint keeps new pods away."""
    pods: tuple[EqualPods, ...]
    key: tuple[object, ...]

    @classmethod
    def create(cls, name: str, kind: NodeKind, barred: bool, tenants: tuple[EqualPods, ...]) -> NodeLoad:
        counts = tuple((each.shape.number, each.state, each.count) for each in tenants)
        return cls(name, kind, barred, tenants, (kind.number, barred, counts))


class Scheduler:
    """The scheduler of one family of runs, whose shapes and node kinds have the same numbers."""

    def __init__(self) -> None:
        self._profile = default_profile()
        self._known_places: dict[tuple[object, ...], int | None] = {}
        self._known_fits: dict[tuple[object, ...], bool] = {}

    def place(self, shape: Shape, seats: Sequence[NodeLoad], key: tuple[object, ...]) -> int | None:
        """Return the index of the pod's node, or None if no node fits. `key` contains the keys of the seats."""
        known = (shape.number, key, tuple(seat.name for seat in seats) if shape.named else ())
        if known not in self._known_places:
            cache, _ = _build_cache(seats, {shape})
            pod = cache.reader.read(_build_pod(shape, "asked", "", PodState.WHOLE))
            name = query_feasibility(self._profile, pod, cache.snapshot()).best_node
            names = [seat.name for seat in seats]
            self._known_places[known] = names.index(name) if name else None
        return self._known_places[known]

    def fits(
        self,
        shape: Shape,
        seats: Sequence[NodeLoad],
        key: tuple[object, ...],
        facts: Sequence[NodeFacts],
        capacity: Capacity,
        without: tuple[int, Shape] | None,
        pools: Collection[str] | None,
    ) -> bool:
        """Answer the question of `situate.spot.capacity.free_capacity.FreeCapacity`.

        `facts` are those of the seats. `without` is a seat and the shape of the pod to leave out.
        """
        usable = tuple(
            each.state is NodeState.OK and each.capacity is capacity and (pools is None or each.pool in pools)
            for each in facts
        )
        if not any(usable):
            return False
        less = (without[0], without[1].number) if without is not None else ()
        known = (shape.number, key, usable, less, tuple(seat.name for seat in seats) if shape.named else ())
        if known not in self._known_fits:
            cache, pods = _build_cache(seats, {shape})
            asked = _build_pod(shape, "asked", "", PodState.WHOLE)
            by_uid = {"asked": asked, **{pod.metadata.uid: pod for pod, _ in pods}}
            chosen = {
                seat.name: replace(each, name=seat.name, state=NodeState.OK if here else NodeState.CORDONED)
                for seat, each, here in zip(seats, facts, usable, strict=True)
            }
            room = SchedulerCapacity(cache, self._profile, chosen, by_uid.get, _OURS, _TOLERATIONS)
            gone = None
            if without is not None:
                there = seats[without[0]].name
                gone = next(
                    replace(without[1].facts, uid=pod.metadata.uid)
                    for pod, of in pods
                    if pod.spec.node_name == there and of is without[1]
                )
            self._known_fits[known] = room.fits(replace(shape.facts, uid="asked"), capacity, without=gone)
        return self._known_fits[known]

    def capacity_for_plan(
        self, seats: Sequence[NodeLoad], nodes: Nodes, uids: Mapping[str, Sequence[str]]
    ) -> PlanningCapacity:
        """Return the places for a plan of several moves, under the pods' real UIDs.

        `uids` gives them by node, in the order of its tenants.
        """
        cache, pods = _build_cache(seats, set(), uids)
        by_uid = {pod.metadata.uid: pod for pod, _ in pods}
        return SchedulerCapacity(cache, self._profile, nodes, by_uid.get, _OURS, _TOLERATIONS)


def _build_cache(
    seats: Sequence[NodeLoad], asked: Collection[Shape], uids: Mapping[str, Sequence[str]] | None = None
) -> tuple[Cache, list[tuple[Pod, Shape]]]:
    """Return a scheduler's cache with the ReplicaSets that soft spreading uses. Without `uids`, generate UIDs."""
    cache = Cache()
    pods: list[tuple[Pod, Shape]] = []
    for seat in seats:
        cache.set_node(seat.kind.node(seat.name, barred=seat.barred))
        shapes = [(each.shape, each.state) for each in seat.pods for _ in range(each.count)]
        names = [f"pod-{len(pods) + number}" for number in range(len(shapes))] if uids is None else uids[seat.name]
        for uid, (shape, standing) in zip(names, shapes, strict=True):
            pod = _build_pod(shape, uid, seat.name, standing)
            pods.append((pod, shape))
            cache.set_pod(cache.reader.read(pod), seat.name)
    cache.set_catalog(Catalog(owners=dict(map(_owner_and_selector, {*asked, *(shape for _, shape in pods)}))))
    return cache, pods


def _owner_and_selector(shape: Shape) -> tuple[tuple[str, str, str], Selector]:
    owner = shape.pod.metadata.owner_references[0]
    labels = shape.pod.metadata.labels
    requirements = (
        Requirement(key, "in", frozenset((labels[key],))) for key in ("app", TEMPLATE_HASH) if key in labels
    )
    return (owner.kind, shape.pod.metadata.namespace, owner.name), Selector(tuple(requirements))


def _build_pod(shape: Shape, uid: str, node: str, standing: PodState) -> Pod:
    metadata = msgspec.structs.replace(
        shape.pod.metadata,
        uid=uid,
        name=uid,
        deletion_timestamp=_ENDING if standing is PodState.TERMINATING else None,
    )
    if standing is PodState.RELEASED:
        hashed = f"{RELEASED_PREFIX}{metadata.labels.get(TEMPLATE_HASH, '')}"
        metadata = msgspec.structs.replace(
            metadata, labels={**metadata.labels, TEMPLATE_HASH: hashed}, owner_references=()
        )
    return msgspec.structs.replace(
        shape.pod, metadata=metadata, spec=msgspec.structs.replace(shape.pod.spec, node_name=node)
    )

"""What the simulated scheduler remembers is what the framework answers, and does not depend on names."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from situate.cluster.controllers.scheduler.scheduler import default_profile
from situate.framework.cycle.feasibility_query import query_feasibility
from situate.framework.snapshot.cache import Cache
from situate.framework.volumes.catalog import Catalog
from situate.objects.kinds.pods import Pod
from situate.objects.selection.label_selectors import Requirement, Selector
from situate.objects.values.quantity import decode_quantity
from situate.sim.spot.cluster.scheduler import EqualPods, NodeLoad, PodState, Scheduler
from situate.sim.spot.cluster.shapes import NodeKind, Shape, Shapes, pod_document
from situate.spot.admission.patch import DecisionMarks, class_patch
from situate.spot.admission.patch_check import apply_operations
from situate.spot.config.settings import SpotSettings
from situate.spot.model.pods_nodes_workloads import Capacity, NodeFacts, NodeState

KINDS = tuple(
    NodeKind(number, capacity, zone, slots)
    for number, (capacity, zone, slots) in enumerate(
        (capacity, zone, slots)
        for capacity in (Capacity.SPOT, Capacity.ON_DEMAND)
        for zone in ("a", "b")
        for slots in (1, 3)
    )
)
CLASSED = tuple(Capacity)[:2]


def made_shapes(avoided: tuple[str, ...] = ()) -> dict[Shape, dict[str, Any]]:
    """Pods of both classes, of one ReplicaSet and of another, with the documents that they are made of."""
    shapes = Shapes()
    found = {}
    for name in ("web", "api"):
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": name, "controller": True}
        document = pod_document(owner, {"app": name, "pod-template-hash": "r1"}, {}, 30.0)
        for pod_class in CLASSED:
            operations = class_patch(
                document, pod_class, SpotSettings().placement_terms(avoided), DecisionMarks("{}", 100)
            )
            found[shapes.shape_of(name, document, operations)] = apply_operations(document, operations)
    return found


SHAPES = made_shapes()
tenants = st.lists(
    st.builds(EqualPods, st.sampled_from(list(SHAPES)), st.sampled_from(PodState), st.integers(1, 2)),
    max_size=2,
    unique_by=lambda each: (each.shape.number, each.state),
).map(lambda found: tuple(sorted(found, key=lambda each: (each.shape.number, each.state))))
layouts = st.lists(st.tuples(st.sampled_from(KINDS), st.booleans(), tenants), min_size=1, max_size=6)
Layout = Sequence[tuple[NodeKind, bool, tuple[EqualPods, ...]]]


REMEMBERING = Scheduler()
"""Of all examples, so that one is answered by what another one has left."""


def seats_of(layout: Layout, prefix: str) -> list[NodeLoad]:
    return [NodeLoad.create(f"{prefix}-{n}", kind, barred, pods) for n, (kind, barred, pods) in enumerate(layout)]


def key(seats: Sequence[NodeLoad]) -> tuple[object, ...]:
    return tuple(seat.key for seat in seats)


def asked_plainly(shape: Shape, seats: Sequence[NodeLoad]) -> int | None:
    """By the framework itself, with nothing remembered."""
    cache = Cache()
    for seat in seats:
        cache.set_node(seat.kind.node(seat.name, barred=seat.barred))
    number = 0
    owners = {}
    for each in (shape, *(pods.shape for seat in seats for pods in seat.pods)):
        labels = each.pod.metadata.labels
        hashed = Requirement("pod-template-hash", "in", frozenset((labels["pod-template-hash"],)))
        selector = Selector((Requirement("app", "in", frozenset((labels["app"],))), hashed))
        owners["ReplicaSet", "shop", labels["app"]] = selector
    for seat in seats:
        for pods in seat.pods:
            for _ in range(pods.count):
                number += 1
                cache.set_pod(cache.reader.read(placed(pods, f"uid-{number}", seat.name)), seat.name)
    cache.set_catalog(Catalog(owners=owners))
    waiting = placed(EqualPods(shape, PodState.WHOLE, 1), "waiting", "")
    name = query_feasibility(default_profile(), cache.reader.read(waiting), cache.snapshot()).best_node
    return [seat.name for seat in seats].index(name) if name else None


def placed(pods: EqualPods, uid: str, node: str) -> Pod:
    wire = copy.deepcopy(SHAPES[pods.shape])
    wire["metadata"].update({"name": uid, "uid": uid})
    wire["spec"]["nodeName"] = node
    if pods.state is PodState.TERMINATING:
        wire["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    if pods.state is PodState.RELEASED:
        wire["metadata"]["labels"]["pod-template-hash"] = "released-r1"
        wire["metadata"]["ownerReferences"] = []
    return msgspec.convert(wire, Pod, dec_hook=decode_quantity)


@pytest.mark.rule("spot:B33", "spot:K8")
@settings(max_examples=60)
@given(layouts, st.sampled_from(list(SHAPES)))
def test_it_places_as_the_framework_does_whatever_the_names(layout: Layout, shape: Shape) -> None:
    first, second = seats_of(layout, "node"), seats_of(layout, "other")
    want = asked_plainly(shape, first)
    assert REMEMBERING.place(shape, first, key(first)) == want
    assert key(first) == key(second)
    assert REMEMBERING.place(shape, second, key(second)) == asked_plainly(shape, second) == want


def test_nodes_that_differ_in_anything_have_other_keys() -> None:
    web, *_, api = SHAPES
    tenants = [
        (),
        *(((EqualPods(shape, standing, count),)) for shape in (web, api) for standing in PodState for count in (1, 2)),
    ]
    seats = [
        NodeLoad.create("node", kind, barred, pods) for kind in KINDS for barred in (False, True) for pods in tenants
    ]
    assert len({seat.key for seat in seats}) == len(seats)


def test_a_pod_that_asks_for_names_is_asked_about_anew() -> None:
    """The spot class wishes itself away from nodes that end (B22), which are told by their names."""
    shapes = made_shapes(avoided=("node-0",))
    (shape,) = [each for each in shapes if each.facts.pod_class is Capacity.SPOT and "web" in str(each.pod)]
    assert shape.named
    scheduler = Scheduler()
    spot = KINDS[1]
    for prefix, want in (("node", 1), ("other", 0)):
        seats = seats_of([(spot, False, ()), (spot, False, ())], prefix)
        assert scheduler.place(shape, seats, key(seats)) == want


@pytest.mark.rule("spot:B33")
@settings(max_examples=40)
@given(layouts, st.sampled_from(list(SHAPES)), st.data())
def test_room_is_what_filters_say_of_usable_nodes(layout: Layout, shape: Shape, data: st.DataObject) -> None:
    seats = seats_of(layout, "node")
    states = [data.draw(st.sampled_from((NodeState.OK, NodeState.DOOMED))) for _ in seats]
    facts = [
        NodeFacts(seat.name, seat.kind.capacity, state, pool=seat.kind.zone)
        for seat, state in zip(seats, states, strict=True)
    ]
    scheduler = Scheduler()
    for capacity in CLASSED:
        free = [
            seat
            for seat, state in zip(seats, states, strict=True)
            if state is NodeState.OK
            and seat.kind.capacity is capacity
            and not seat.barred
            and sum(pods.count for pods in seat.pods) < seat.kind.slots
        ]
        assert scheduler.fits(shape, seats, key(seats), facts, capacity, None, None) is bool(free)
        in_a = [seat for seat in free if seat.kind.zone == "a"]
        assert scheduler.fits(shape, seats, key(seats), facts, capacity, None, ("a",)) is bool(in_a)


def test_a_pod_that_is_thought_away_leaves_its_place() -> None:
    shape = next(iter(SHAPES))
    seats = [NodeLoad.create("node-0", KINDS[0], False, (EqualPods(shape, PodState.WHOLE, 1),))]
    facts = [NodeFacts("node-0", Capacity.SPOT)]
    scheduler = Scheduler()
    assert not scheduler.fits(shape, seats, key(seats), facts, Capacity.SPOT, None, None)
    assert scheduler.fits(shape, seats, key(seats), facts, Capacity.SPOT, (0, shape), None)
    assert not scheduler.fits(shape, seats, key(seats), facts, Capacity.SPOT, None, None)

"""Units that pods are given: exact in every snapshot, and carried by the pod from its decision to its binding."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from situate.framework.engine.decisions import Failed, Placed, PlacedRun, Refused
from situate.framework.engine.engine import Engine
from situate.framework.plugin_api.actions import Action, Bind, Patch
from situate.framework.plugin_api.plugin import Reads
from situate.framework.pod.pods import PodInfo, PodReader
from situate.framework.profile.profile import profile_of
from situate.framework.results.status import SKIP, SUCCESS, Status
from situate.framework.results.verdict import Verdict, pass_all, refuse
from situate.framework.snapshot.device_allocations import AllocationDefinition
from situate.framework.snapshot.node_table import Vocabulary, node_row, node_table
from situate.framework.snapshot.snapshot import Snapshot
from situate.objects.kinds.meta import ObjectMeta
from situate.objects.kinds.nodes import Node, NodeStatus
from situate.objects.kinds.pods import Container, Pod, PodSpec
from situate.objects.values.quantity import parse_quantity
from situate.plugins.default_preemption import DefaultPreemption
from situate.plugins.node_resources_fit import NodeResourcesFit
from situate.plugins.priority_sort import PrioritySort

NODES = 3
SEATS = 2
"""Of each node."""
WANTS, SEAT = "example.com/wants-seat", "example.com/seat"
VOCABULARY = Vocabulary.create()
READER = PodReader(VOCABULARY.resources, (WANTS,))


def seat_of(info: PodInfo) -> tuple[tuple[int, int], ...]:
    said = info.pod.metadata.annotations.get(SEAT)
    return () if said is None else ((int(said), 1),)


TAKEN = AllocationDefinition("seats", seat_of)


def node(number: int) -> Node:
    room = {"cpu": parse_quantity("8"), "memory": parse_quantity("8Gi"), "pods": parse_quantity("110")}
    return Node(ObjectMeta(name=f"node-{number}"), status=NodeStatus(allocatable=room))


def table(*numbers: int) -> Snapshot:
    return Snapshot(node_table(VOCABULARY, [node_row(node(number), VOCABULARY) for number in numbers]))


def pod(name: str, *, wants: bool = True, seat: int | None = None, on: str = "", priority: int = 0) -> Pod:
    annotations = ({WANTS: "yes"} if wants else {}) | ({} if seat is None else {SEAT: str(seat)})
    metadata = ObjectMeta(name=name, namespace="default", uid=name, annotations=annotations)
    return Pod(metadata, PodSpec(scheduler_name="here", node_name=on, priority=priority, containers=(Container(),)))


def seated(number: int) -> PodInfo:
    return READER.read(pod(f"pod-{number}", seat=number % 4))


def taken(snapshot: Snapshot, width: int = 4) -> list[list[int]]:
    found: list[list[int]] = snapshot.allocated_units(TAKEN, width).tolist()
    return found


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, NODES - 1)), max_size=30), st.integers(0, 30))
def test_every_snapshot_of_a_chain_stays_what_it_was(steps: list[tuple[int, int]], asked_first: int) -> None:
    """Whoever asks first, early or late in the chain."""
    snapshot = table(*range(NODES))
    where: dict[int, int] = {}
    chain: list[tuple[Snapshot, list[list[int]]]] = []
    for turn, (number, index) in enumerate(steps):
        if number in where:
            del where[number]
            snapshot = snapshot.forget(seated(number))
        else:
            where[number] = index
            snapshot = snapshot.assume(seated(number), index)
        counts = np.zeros((4, NODES), dtype=np.int64)
        for each, on in where.items():
            counts[each % 4, on] += 1
        chain.append((snapshot, counts.tolist()))
        if turn >= asked_first:
            assert taken(snapshot) == chain[-1][1]
    for older, counted in chain:
        assert taken(older) == counted


def test_other_nodes_keep_what_is_held_on_those_that_stay() -> None:
    snapshot = table(0, 1, 2).assume(seated(1), 1).assume(seated(2), 2)
    assert taken(snapshot) == [[0, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 0]]
    assert taken(snapshot.with_nodes(table(2, 3, 0).nodes)) == [[0, 0, 0], [0, 0, 0], [1, 0, 0], [0, 0, 0]]


def test_views_and_single_nodes_count_their_own() -> None:
    snapshot = table(0, 1, 2).assume(seated(1), 1).assume(seated(2), 2)
    assert taken(snapshot.select_nodes(np.array([2, 1]))) == [[0, 0], [0, 1], [1, 0], [0, 0]]
    alone = snapshot.single_node(1)
    assert taken(alone) == [[0], [1], [0], [0]]
    assert taken(alone.forget(seated(1))) == [[0]] * 4
    assert taken(snapshot, width=2) == [[0, 0, 0], [0, 1, 0]], "as many units as were asked for"


class Seats:
    """Gives each pod that wants one the first free seat of its node."""

    name = "Seats"
    reads = Reads.LOAD
    annotations = (WANTS,)
    allotments = (SEAT,)

    def filter(self, state: Any, pod: PodInfo, snapshot: Snapshot) -> Verdict:
        full = np.asarray((snapshot.allocated_units(TAKEN, SEATS) > 0).all(axis=0))
        return refuse(full, "no seat") if self.reserves(pod) else pass_all(snapshot.count)

    def reserves(self, pod: PodInfo) -> bool:
        return WANTS in pod.template.annotations

    def allot(self, pod: PodInfo, node: Snapshot) -> Mapping[str, str]:
        if not self.reserves(pod):
            return {}
        return {SEAT: str(int((node.allocated_units(TAKEN, SEATS)[:, 0] > 0).argmin()))}

    def pre_bind_preflight(self, pod: PodInfo, node: str, snapshot: Snapshot) -> Status:
        return SUCCESS if SEAT in pod.pod.metadata.annotations else SKIP

    def pre_bind(self, pod: PodInfo, node: str, snapshot: Snapshot) -> tuple[Action, ...]:
        return (Patch("pods", pod.key, {"metadata": {"annotations": {SEAT: pod.pod.metadata.annotations[SEAT]}}}),)

    def bind(self, pod: PodInfo, node: str) -> tuple[Action, ...]:
        return (Bind(pod.key, pod.uid, node),)


def engine(nodes: int = 2) -> Engine:
    members = (PrioritySort(), NodeResourcesFit(), Seats(), DefaultPreemption())
    made = Engine([profile_of("here", [(each, 1) for each in members])])
    for number in range(nodes):
        made.set_node(node(number), 0.0)
    return made


def placed(engine: Engine, each: Pod, now: float = 0.0) -> Placed:
    engine.set_pod(each, now)
    decision = engine.schedule(now)
    assert isinstance(decision, Placed), decision
    return decision


def seat(engine: Engine, uid: str) -> tuple[str, str]:
    known = engine.cache.pod(uid)
    assert known is not None
    return known.node, known.info.pod.metadata.annotations.get(SEAT, "none")


def test_each_pod_counts_with_its_units_from_its_decision_on_and_is_told_before_it_is_bound() -> None:
    here = engine(nodes=1)
    first, second = placed(here, pod("a")), placed(here, pod("b"))
    assert [seat(here, "a"), seat(here, "b")] == [("node-0", "0"), ("node-0", "1")]
    binding = here.binding(second)
    assert binding.before == (Patch("pods", ("default", "b"), {"metadata": {"annotations": {SEAT: "1"}}}),)
    assert here.binding(first).bind == (Bind(("default", "a"), "a", "node-0"),)
    assert here.binding(placed(here, pod("c", wants=False))).before == ()


def test_what_a_failed_binding_gives_back_is_given_out_again() -> None:
    here = engine(nodes=1)
    first = placed(here, pod("a"))
    placed(here, pod("b"))
    here.binding_failed(first, 1.0)
    placed(here, pod("c"), 1.0)
    assert seat(here, "c") == ("node-0", "0")


def test_a_unit_that_the_watch_confirms_stays_and_another_one_replaces_it() -> None:
    here = engine(nodes=1)
    placed(here, pod("a"))
    here.set_pod(pod("a", seat=0, on="node-0"), 1.0)
    assert taken(here.snapshot, SEATS) == [[1], [0]]
    here.set_pod(pod("a", seat=1, on="node-0"), 2.0)
    assert taken(here.snapshot, SEATS) == [[0], [1]], "somebody has given it another seat"


def test_pods_that_differ_in_what_a_plugin_reads_are_no_equal_pods() -> None:
    here = engine(nodes=1)
    for name in ("a", "b"):
        placed(here, pod(name))
    here.set_pod(pod("c"), 1.0)
    refused = here.schedule(1.0)
    assert not isinstance(refused, Placed | Failed), "no seat is left"
    placed(here, pod("d", wants=False), 1.0)


def test_runs_are_for_pods_that_need_no_unit() -> None:
    here = engine(nodes=2)
    for name in ("a", "b", "c"):
        here.set_pod(pod(name), 0.0)
    one_by_one = here.schedule_run(0.0, 10)
    assert [type(each) for each in one_by_one] == [Placed, Placed, Placed]
    assert sorted(seat(here, name) for name in "abc") == [("node-0", "0"), ("node-0", "1"), ("node-1", "0")]
    for name in ("d", "e", "f"):
        here.set_pod(pod(name, wants=False), 0.0)
    assert [type(each) for each in here.schedule_run(0.0, 10)] == [PlacedRun]


def test_a_promised_node_counts_with_the_unit_that_the_other_pod_will_get() -> None:
    """Two seats, taken; a more important pod is promised one of them, and none is left for a third."""
    here = engine(nodes=1)
    for number, name in enumerate(("a", "b")):
        here.set_pod(pod(name, seat=number, on="node-0"), 0.0)
    here.set_pod(pod("vip", priority=10), 1.0)
    preempting = here.schedule(1.0)
    assert here.nominations.node_of("vip") == "node-0", preempting
    here.remove_pod("b", 2.0)
    here.set_pod(pod("late", priority=10), 2.0)
    refused = here.schedule(3.0)
    assert isinstance(refused, Refused)
    assert refused.pod.info.name == "late"


class Broken(Seats):
    def allot(self, pod: PodInfo, node: Snapshot) -> Mapping[str, str]:
        raise RuntimeError("no idea")


def test_a_plugin_that_cannot_say_fails_the_cycle_of_its_pod_alone() -> None:
    here = Engine([profile_of("here", [(each, 1) for each in (PrioritySort(), NodeResourcesFit(), Broken())])])
    here.set_node(node(0), 0.0)
    here.set_pod(pod("a"), 0.0)
    failed = here.schedule(0.0)
    assert isinstance(failed, Failed)
    assert failed.error == 'running Allot plugin "Seats": RuntimeError: no idea'
    assert here.cache.pod("a") is None, "nothing is assumed"


def test_equal_annotations_share_a_template_and_others_do_not() -> None:
    reader = PodReader(Vocabulary.create().resources, (WANTS,))
    one, other = reader.read(pod("a")), reader.read(pod("b"))
    elsewhere = msgspec.structs.replace(pod("c").metadata, annotations={WANTS: "".join(("y", "es")), "other": "x"})
    same = reader.read(Pod(elsewhere, pod("c").spec))
    assert one.template is other.template is same.template
    assert one.template is not reader.read(pod("d", wants=False)).template
    assert one.template.annotations == {WANTS: "yes"}

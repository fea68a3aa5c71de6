from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from situate.framework.pod.pods import PodInfo, PodReader
from situate.framework.snapshot.labels import EACH_NODE
from situate.framework.snapshot.node_table import Vocabulary, node_row, node_table
from situate.framework.snapshot.snapshot import Snapshot
from situate.framework.snapshot.topology_counts import TallyDefinition
from situate.objects.kinds.meta import ObjectMeta
from situate.objects.kinds.nodes import Node, NodeStatus
from situate.objects.kinds.pods import Container, ContainerPort, Pod, PodSpec, PodStatus, ResourceRequirements
from situate.objects.values.quantity import parse_quantity

NODES = 5
VOCABULARY = Vocabulary.create()
VOCABULARY.resources.column("example.com/thing")
READER = PodReader(VOCABULARY.resources)


def node(number: int) -> Node:
    room = {"cpu": parse_quantity("4"), "memory": parse_quantity("8Gi"), "pods": parse_quantity("110")}
    return Node(ObjectMeta(name=f"node-{number}"), status=NodeStatus(allocatable=room))


def table(*numbers: int) -> Snapshot:
    return Snapshot(node_table(VOCABULARY, [node_row(node(number), VOCABULARY) for number in numbers]))


def pod(number: int) -> PodInfo:
    requests = {"cpu": parse_quantity(f"{number + 1}m"), "example.com/thing": parse_quantity(str(number))}
    container = Container(
        resources=ResourceRequirements(requests=requests), ports=(ContainerPort(host_port=8000 + number % 2),)
    )
    return READER.read(Pod(ObjectMeta(name=f"pod-{number}", uid=str(number)), PodSpec(containers=(container,))))


def state(snapshot: Snapshot) -> tuple[object, ...]:
    """Everything that it says."""
    return (
        [snapshot.requested(column).tolist() for column in range(len(VOCABULARY.resources))],
        [snapshot.scored_requested(column).tolist() for column in (0, 1)],
        snapshot.pod_count.tolist(),
        [snapshot.port_in_use(("0.0.0.0", "TCP", port)).tolist() for port in (8000, 8001)],
        [sorted(info.name for info in snapshot.pods_on(index)) for index in range(snapshot.count)],
    )


@given(st.lists(st.tuples(st.integers(0, 7), st.integers(0, NODES - 1)), max_size=30))
def test_every_snapshot_of_a_chain_stays_what_it_was(steps: list[tuple[int, int]]) -> None:
    snapshot = table(*range(NODES))
    taken: list[tuple[Snapshot, tuple[object, ...]]] = [(snapshot, state(snapshot))]
    for number, index in steps:
        info = pod(number)
        snapshot = snapshot.forget(info) if info.uid in snapshot.placed else snapshot.assume(info, index)
        taken.append((snapshot, state(snapshot)))
    for older, was in taken:
        assert state(older) == was


def test_forgetting_is_the_opposite_of_assuming() -> None:
    before = table(0, 1).assume(pod(3), 1)
    was = state(before)
    assert state(before.assume(pod(2), 0).forget(pod(2))) == was


def test_branches_do_not_see_each_other() -> None:
    root = table(0, 1)
    left, right = root.assume(pod(1), 0), root.assume(pod(2), 1)
    assert [left.pod_count.tolist(), right.pod_count.tolist(), root.pod_count.tolist()] == [[1, 0], [0, 1], [0, 0]]


@pytest.mark.parametrize("count", [4, 16, 17], ids=["few", "the most of few", "many"])
def test_equal_pods_at_once_count_as_one_after_the_other(count: int) -> None:
    infos = [READER.read(Pod(ObjectMeta(name=f"e{n}", uid=f"e{n}"), pod(0).pod.spec)) for n in range(count)]
    nodes = ([0, 2, 0, 1] * count)[:count]
    one_by_one = table(0, 1, 2)
    for info, index in zip(infos, nodes, strict=True):
        one_by_one = one_by_one.assume(info, index)
    assert state(table(0, 1, 2).assume_equal(infos, np.array(nodes))) == state(one_by_one)


def test_other_nodes_keep_the_pods_of_those_that_stay() -> None:
    snapshot = table(0, 1, 2).assume(pod(1), 1).assume(pod(2), 2)
    moved = snapshot.with_nodes(table(2, 3, 0).nodes)
    assert [[info.name for info in moved.pods_on(index)] for index in range(3)] == [["pod-2"], [], []]
    assert moved.requested(0).tolist() == [3, 0, 0]
    assert pod(1).uid not in moved.placed


def test_a_view_speaks_of_its_nodes_alone() -> None:
    snapshot = table(0, 1, 2).assume(pod(1), 1).assume(pod(2), 2)
    view = snapshot.select_nodes(np.array([2, 1]))
    assert view.pod_count.tolist() == [1, 1]
    assert view.requested(0).tolist() == [3, 2]
    assert [view.name(0), view.name(1)] == ["node-2", "node-1"]
    assert view.pods_on(0)[0].name == "pod-2"


def test_a_node_alone_can_be_changed_without_the_others() -> None:
    snapshot = table(0, 1).assume(pod(1), 1)
    alone = snapshot.single_node(1)
    assert alone.forget(pod(1)).pod_count.tolist() == [0]
    assert alone.assume(pod(2), 0).requested(0).tolist() == [5]
    assert snapshot.pod_count.tolist() == [0, 1]


def said(number: int, app: str, hour: int | None, *, ends: bool = False) -> PodInfo:
    """A pod as the API server tells of it in one of its states."""
    known = pod(number).pod
    meta = ObjectMeta(
        name=known.metadata.name,
        uid=known.metadata.uid,
        labels={"app": app},
        deletion_timestamp=datetime(2026, 1, 2, tzinfo=UTC) if ends else None,
    )
    started = None if hour is None else datetime(2026, 1, 1, hour, tzinfo=UTC)
    return READER.read(Pod(meta, known.spec, PodStatus(start_time=started)))


APPS = TallyDefinition("apps", EACH_NODE, lambda info: int(info.labels["app"] == "a" and not info.terminating))

tellings = st.builds(said, st.integers(0, 3), st.sampled_from("ab"), st.sampled_from((None, 1, 2)), ends=st.booleans())


def told(snapshot: Snapshot) -> tuple[object, ...]:
    """What depends on how pods in place are told of, beside what they take."""
    placed = snapshot.placed
    slots = np.flatnonzero(placed.columns()[0] >= 0)
    started = dict(zip([info.uid for info in placed.info_at(slots)], placed.start_times[slots].tolist(), strict=True))
    guarded = placed.matching_slots(lambda info: info.labels["app"] == "a", slots).tolist()
    return state(snapshot), snapshot.tally(APPS).tolist(), sorted(started.items()), sum(guarded)


@given(st.lists(st.tuples(tellings, st.integers(0, NODES - 1)), max_size=25))
def test_a_pod_told_anew_counts_as_if_it_had_gone_and_come_back(steps: list[tuple[PodInfo, int]]) -> None:
    snapshot, plain = table(*range(NODES)), table(*range(NODES))
    taken: list[tuple[Snapshot, tuple[object, ...]]] = []
    for info, index in steps:
        known = snapshot.placed.get(info.uid)
        if known is None:
            snapshot, plain = snapshot.assume(info, index), plain.assume(info, index)
        else:
            snapshot, plain = snapshot.with_updated_pod(info), plain.forget(info).assume(info, known[1])
            assert snapshot.rows_changed_since(snapshot.log_position - 1) == [known[1]]
        assert told(snapshot) == told(plain)
        taken.append((snapshot, told(plain)))
    for older, was in taken:
        assert told(older) == was

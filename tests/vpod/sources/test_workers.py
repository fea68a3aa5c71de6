from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from situate.vpod.model.vpod import Placement
from situate.vpod.sources.workers import CreateWorker, DeleteWorker, ResizeWorker, Worker, worker_changes, worker_of

GROUP: dict[str, Any] = {
    "metadata": {"name": "orders", "namespace": "shop", "uid": "u-1"},
    "spec": {"template": {"metadata": {"labels": {"of": "orders"}}, "spec": {"topics": ["orders"]}}},
}


def test_a_placement_without_worker_gets_one_bound_to_its_pod() -> None:
    (change,) = worker_changes(GROUP, [Placement("d-0", 3)], [], "knative-eventing")

    assert isinstance(change, CreateWorker)
    assert change.name == "orders-d-0"
    assert change.content["spec"] == {
        "topics": ["orders"],
        "vReplicas": 3,
        "podBind": {"podName": "d-0", "podNamespace": "knative-eventing"},
    }
    assert change.content["metadata"]["labels"] == {"of": "orders"}
    assert change.content["metadata"]["ownerReferences"][0]["uid"] == "u-1"


@pytest.mark.parametrize(
    ("existing", "want"),
    [
        pytest.param([Worker("a", "d-0", 3)], (), id="as it should be"),
        pytest.param([Worker("a", "d-0", 2)], (ResizeWorker("a", 3),), id="another number"),
        pytest.param([Worker("a", "d-0", 3), Worker("b", "d-9", 1)], (DeleteWorker("b"),), id="no placement any more"),
        pytest.param([Worker("a", "d-0", 3), Worker("b", "d-0", 3)], (DeleteWorker("b"),), id="two on one pod"),
    ],
)
def test_existing_workers_are_changed_only_as_needed(existing: list[Worker], want: tuple[object, ...]) -> None:
    assert worker_changes(GROUP, [Placement("d-0", 3)], existing, "ns") == want


@given(
    st.dictionaries(st.sampled_from("abcd"), st.integers(0, 5)),
    st.lists(st.tuples(st.sampled_from("abcde"), st.none() | st.integers(0, 5)), max_size=8),
)
def test_carrying_the_changes_out_leaves_one_right_worker_a_placement(
    wanted: dict[str, int], there: list[tuple[str, int | None]]
) -> None:
    placements = [Placement(pod, vreplicas) for pod, vreplicas in wanted.items()]
    workers = {str(index): Worker(str(index), pod, vreplicas) for index, (pod, vreplicas) in enumerate(there)}
    for change in worker_changes(GROUP, placements, workers.values(), "ns"):
        match change:
            case CreateWorker(name, content):
                workers[name] = worker_of(content)
            case ResizeWorker(name, vreplicas):
                workers[name] = Worker(name, workers[name].pod, vreplicas)
            case DeleteWorker(name):
                del workers[name]

    assert sorted((worker.pod, worker.vreplicas) for worker in workers.values()) == sorted(
        (pod, vreplicas) for pod, vreplicas in wanted.items() if vreplicas > 0
    )
    assert worker_changes(GROUP, placements, workers.values(), "ns") == ()


def test_a_long_name_stays_within_the_limit_and_distinct() -> None:
    group = {**GROUP, "metadata": {**GROUP["metadata"], "name": "g" * 250}}
    names = [worker_changes(group, [Placement(pod, 1)], [], "ns")[0].name for pod in ("d-0", "d-1")]

    assert all(len(name) <= 253 for name in names)
    assert names[0] != names[1]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda children: st.lists(children, max_size=2) | st.dictionaries(st.text(max_size=3), children, max_size=2),
    max_leaves=5,
)


@pytest.mark.rule("vpod:B12")
@given(st.dictionaries(st.sampled_from(["metadata", "spec"]), JSON | st.dictionaries(st.just("podBind"), JSON)))
def test_any_consumer_can_be_read(content: dict[str, Any]) -> None:
    worker_of(content)
    worker_changes(content, [Placement("d-0", 1)], [], "ns")

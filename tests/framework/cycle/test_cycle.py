"""The plain path: what plugins may answer, and to whom a refused node belongs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from situate.framework.class_cache.switches import Shortcuts
from situate.framework.engine.decisions import Failed, Placed, Refused
from situate.framework.engine.engine import Engine
from situate.framework.engine.messages import refusal
from situate.framework.plugin_api.plugin import Scores
from situate.framework.pod.pods import PodInfo
from situate.framework.profile.profile import profile_of
from situate.framework.results.verdict import Verdict, refuse
from situate.framework.snapshot.snapshot import Snapshot
from situate.objects.kinds.meta import ObjectMeta
from situate.objects.kinds.nodes import Node
from situate.objects.kinds.pods import Pod, PodSpec
from situate.plugins.priority_sort import PrioritySort


class Refusing:
    """Refuses the first so many nodes."""

    def __init__(self, name: str, first: int) -> None:
        self.name = name
        self._first = first

    def filter(self, state: Any, pod: PodInfo, snapshot: Snapshot) -> Verdict:
        return refuse(np.arange(snapshot.count) < self._first, f"refused by {self.name}")


class Scoring:
    name = "Scoring"

    def __init__(self, *scores: int) -> None:
        self._scores = scores

    def score(self, state: Any, pod: PodInfo, snapshot: Snapshot) -> Scores:
        return np.array(self._scores, dtype=np.int64)


class Breaking:
    name = "Breaking"

    def filter(self, state: Any, pod: PodInfo, snapshot: Snapshot) -> Verdict:
        raise ZeroDivisionError("it never saw such a pod")


def cluster(*plugins: Any) -> Engine:
    """Three nodes and a pod; every plugin is asked about everything."""
    profile = profile_of("here", [(PrioritySort(), 0), *((plugin, 1) for plugin in plugins)])
    engine = Engine([profile], shortcuts=Shortcuts(classes=False, batches=False))
    for name in "abc":
        engine.set_node(Node(ObjectMeta(name=name)), 0)
    engine.set_pod(Pod(ObjectMeta(name="p", namespace="default", uid="p"), PodSpec(scheduler_name="here")), 0)
    return engine


def test_a_node_belongs_to_the_first_plugin_that_refuses_it() -> None:
    refused = cluster(Refusing("One", 2), Refusing("Two", 3)).schedule(0)
    assert isinstance(refused, Refused)
    assert refusal(refused) == "0/3 nodes are available: 1 refused by Two, 2 refused by One."
    assert refused.diagnosis.rejectors == {"One", "Two"}


def test_a_plugin_to_which_no_node_is_left_has_not_rejected_the_pod() -> None:
    refused = cluster(Refusing("One", 3), Refusing("Two", 3)).schedule(0)
    assert isinstance(refused, Refused)
    assert refused.diagnosis.rejectors == {"One"}


@pytest.mark.parametrize("scores", [(0, 101, 0), (0, -1, 0)])
def test_scores_out_of_range_fail_the_cycle(scores: tuple[int, ...]) -> None:
    failed = cluster(Scoring(*scores)).schedule(0)
    assert isinstance(failed, Failed)
    assert failed.plugin == "Scoring"
    assert "allowed: 0 to 100" in failed.error


def test_the_highest_score_wins_and_the_first_of_several() -> None:
    placed = cluster(Scoring(3, 100, 100)).schedule(0)
    assert isinstance(placed, Placed)
    assert placed.node == "b"


def test_a_plugin_that_raises_fails_the_cycle_with_its_name() -> None:
    failed = cluster(Breaking()).schedule(0)
    assert isinstance(failed, Failed)
    assert failed.plugin == "Breaking"
    assert "Breaking" in failed.error
    assert failed.error.endswith("ZeroDivisionError: it never saw such a pod")

"""What becomes of counts when the one that answers dies at the worst moment, and when nobody answers at all.

On a real control plane; a third webhook holds pods back between our answer and their existence.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from situate.spot.model.pods_nodes_workloads import CAPACITY_LABEL, CLASS
from tests.e2e.spot_installed import Installed, classes, deployment, floor_held, installation
from tests.e2e.vpod_cluster import Cluster, pod_is_ready
from tests.e2e.webhooks import ALLOWED, Asked, Webhooks
from tests.waiting import eventually

WANTED, FLOOR = 12, 5
BEFORE = 7
"""Pods of the first three batches; five more are asked about at once then."""


class Holding:
    """Lets some questions pass, and holds those after them until they are let go."""

    def __init__(self, passing: int) -> None:
        self.held: list[Asked] = []
        self.known = False
        """Whether API servers ask: a dry run was here."""
        self._passing = passing
        self._open = threading.Event()
        self._lock = threading.Lock()

    def __call__(self, asked: Asked) -> Mapping[str, Any]:
        if asked.get("dryRun"):
            self.known = True
            return ALLOWED
        with self._lock:
            self._passing -= 1
            passes = self._passing >= 0
            if not passes:
                self.held.append(asked)
        if not passes:
            self._open.wait(25)
        return ALLOWED

    def let_go(self) -> None:
        self._open.set()


@pytest.fixture
def quick(spot_cluster: Cluster, tmp_path: Path) -> Iterator[Installed]:
    """It may move a pod a second after the one before."""
    settings = {"evictions": {"coolDown": "1s"}, "webhook": {"timeout": "10s"}}
    with installation(spot_cluster, tmp_path, settings) as made:
        yield made


@pytest.mark.rule("spot:B4", "spot:F3", "spot:F4", "spot:F5", "spot:P2", "spot:P22", "spot:I11", "spot:I15", "spot:D9")
def test_a_leader_that_dies_between_answer_and_pod_and_then_nobody_at_all(quick: Installed, tmp_path: Path) -> None:
    cluster = quick.cluster
    first_pod, second_pod = quick.pods()
    first = quick.start(first_pod)
    quick.wait_answering(first, first_pod)
    second = quick.start(second_pod)
    eventually("the second has seen the Lease", lambda: quick.said(second, "lease holder changed"))
    holding = Holding(BEFORE)
    quick.make_shop()
    with Webhooks(tmp_path) as others:
        others.serve("/holding", holding)
        held = {"objectSelector": {"matchLabels": {"app": "web"}}, "validating": True}
        cluster.apply(others.configuration("holding", "/holding", quick.shop, **held))
        try:
            eventually("API servers know the third webhook", partial(_asked, quick, holding))
            quick.deploy(deployment("web", WANTED, str(FLOOR)))
            eventually(
                "five pods are answered and not there", lambda: holding.held, lambda held: len(held) >= WANTED - BEFORE
            )
            assert all(CLASS in each["object"]["metadata"]["labels"] for each in holding.held)
            first.kill()
            holding.let_go()
            quick.wait_pods("web", WANTED)
        finally:
            holding.let_go()
            cluster.kubectl("delete", "validatingwebhookconfiguration", "holding")
    floor_held(quick.pods_of("web"), FLOOR)
    quick.wait_answering(second, second_pod)
    cluster.kubectl("scale", "deployment/web", "-n", quick.shop, f"--replicas={WANTED + 8}")
    floor_held(quick.wait_pods("web", WANTED + 8), FLOOR)

    second.kill()
    quick.deploy(deployment("late", 4, "all-on-demand"))
    assert classes(quick.wait_pods("late", 4)) == {"": 4}, "pods start without us"
    cluster.kubectl("scale", "deployment/web", "-n", quick.shop, f"--replicas={WANTED}")
    third = quick.start(first_pod)
    quick.wait_answering(third, first_pod)
    nodes = {
        each["metadata"]["name"]: each["metadata"]["labels"].get(CAPACITY_LABEL)
        for each in cluster.get("/api/v1/nodes")["items"]
    }

    def put_right(pods: list[Any]) -> bool:
        standing = [nodes.get(each["spec"].get("nodeName", "")) for each in pods if pod_is_ready(each)]
        return len(pods) == 4 and standing == ["on-demand"] * 4

    eventually("what came without us is put right", partial(quick.pods_of, "late"), put_right)
    quick.check()


def _asked(quick: Installed, holding: Holding) -> bool:
    pod = deployment("web", 1)["spec"]["template"]
    pod["metadata"]["name"] = "probe"
    quick.cluster.plane.request("POST", f"/api/v1/namespaces/{quick.shop}/pods?dryRun=All", pod)
    return holding.known

"""What pods are told that wait in vain (B11, B18)."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from situate.kube.client import Client
from situate.kube.watch.store import Store
from situate.objects.kinds.pods import Pod
from situate.objects.messages import Request
from situate.runtime.leadership.actuator import Actuator
from situate.spot.controller.act.conditions import CONDITION, ConditionWriter
from situate.spot.rebalance.decide import ClusterView, Decision, Notice, State, decide
from situate.spot.workloads.cluster_objects import Cluster
from tests.kube.hostile_server import HostileServer
from tests.spot.builders import NOW, OD, UID, cluster, owner, pod
from tests.spot.report.test_plan import Always

PODS = "/api/v1/namespaces/shop/pods"


class Rig:
    """Pods of one workload that have no node."""

    def __init__(self, *names: str) -> None:
        self.server = HostileServer()
        self.store: Store[Pod] = Store("pods")
        waiting = [pod(name, "", OD, created=NOW - 100) for name in names]
        self.cluster: Cluster = cluster(owner(len(names)), waiting)
        for name in names:
            made = self.server.put(f"{PODS}/{name}", {"metadata": {}, "spec": {}, "status": {}})
            self.store.replace([*self.store.list(), msgspec.convert(made, Pod)])
        self.conditions = ConditionWriter(
            Client(self.server),
            Actuator(lambda: None),
            self.store,
            self.cluster,
            lambda: datetime.fromtimestamp(NOW, UTC),
        )

    def decision(self, *notices: Notice) -> Decision:
        return replace(decide(State(), ClusterView(self.cluster, Always()), NOW), notices=notices)

    def said(self) -> dict[str, Any]:
        """Bodies of patches, by name of the pod."""
        sent = [each for each in self.server.requests if each.method == "PATCH"]
        return {each.path.split("/")[-2]: json.loads(each.body)["status"]["conditions"] for each in sent}


@pytest.mark.rule("spot:B18", "spot:P2")
@pytest.mark.looptime
async def test_a_defect_about_one_pod_costs_the_others_nothing() -> None:
    rig = Rig("bad", "good")

    def judge(request: Request) -> None:
        if "/bad/" in request.path:
            raise ValueError("a defect")

    rig.server.judge = judge
    await rig.conditions.write(rig.decision(Notice(UID, "NoOnDemandRoom", "no room")))
    (condition,) = rig.said()["good"]
    assert (condition["type"], condition["status"], condition["reason"]) == (CONDITION, "False", "NoOnDemandRoom")


@pytest.mark.looptime
async def test_a_workload_that_nobody_knows_is_told_nothing() -> None:
    rig = Rig("good")
    await rig.conditions.write(rig.decision(Notice("uid-gone", "NoOnDemandRoom", "no room")))
    assert rig.said() == {}

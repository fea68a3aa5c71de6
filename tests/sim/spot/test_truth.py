"""The simulation beside the shipped webhook and controller, which play the same waves on the embedded cluster.

There Kubernetes' controllers, watches and requests are all at work, on a virtual clock; its delays are certain, so one
run says what the simulation has to foretell.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

import pytest

from situate.cluster.controllers import KubeletSettings, MachinerySettings
from situate.sim.spot.baselines import Case, simulate_case
from situate.sim.spot.cluster.delays import Delays, LogNormalTime
from situate.sim.spot.policies import Reaction
from situate.spot.model.pods_nodes_workloads import ON_DEMAND
from situate.testing.spot.world.world import SHOP, SpotWorld, parse_settings
from situate.testing.virtual_time.isolation import disable_collector, suppress_logs

GRACE_S = 1
LOOK_S = 0.25
TAINT = {"key": "aws-node-termination-handler/spot-itn", "effect": "NoSchedule"}
CASES = {
    "no notice, no floor": (Case(), 20.0),
    "no notice, a floor of two": (Case(2), 20.0),
    "evicted at the notice": (Case(notice_s=120, reaction=Reaction.EVICT), 20.0),
    "released, time enough": (Case(2, notice_s=120, reaction=Reaction.RELEASE), 20.0),
    "released, starts last longer": (Case(notice_s=120, reaction=Reaction.RELEASE, told_start_s=20.0), 160.0),
    "evicted, since starts last longer": (Case(notice_s=120, reaction=Reaction.RELEASE), 130.0),
}
QUICK = ("no notice, a floor of two", "released, time enough")
"""What `make test` compares; `make verify` has the others."""


@dataclass
class Seen:
    """What was seen of ten pods in one wave."""

    outage_s: float = 0.0
    pod_s_short: float = 0.0
    least_ready: int = 10

    def look(self, serving: int) -> None:
        self.least_ready = min(self.least_ready, serving)
        self.pod_s_short += LOOK_S * max(0, 10 - serving)
        self.outage_s += LOOK_S * (serving == 0)


def truth(case: Case, start_s: float) -> Seen:
    kubelet = KubeletSettings(start_delay=start_s, stop_delay=1.0, lease_renewal=0.0)
    settings = parse_settings(
        makeBeforeBreak=case.reaction is Reaction.RELEASE, start=f"{case.told_start_s or start_s:g}s"
    )
    world = SpotWorld(1, settings, MachinerySettings(kubelet=kubelet, events=False))
    try:
        for number in range(3):
            world.add_node(f"od-{number}", "on-demand", zone=f"z{number}")
            world.add_node(f"spot-{number}", "spot", zone=f"z{number}")
        assert world.wait_until_led()
        labels = {"app": "web"}
        containers = [{"name": "c", "image": "example.com/c:1", "resources": {"requests": {"cpu": "100m"}}}]
        template = {
            "metadata": {"labels": labels},
            "spec": {"containers": containers, "terminationGracePeriodSeconds": GRACE_S},
        }
        metadata = {"name": "web", "annotations": {ON_DEMAND: str(case.on_demand)}}
        spec = {"replicas": 10, "selector": {"matchLabels": labels}, "template": template}
        world.create_object(f"/apis/apps/v1/namespaces/{SHOP}/deployments", {"metadata": metadata, "spec": spec})
        world.let_pass(start_s + 100)
        assert serving(world) == 10
        return _wave(world, case, start_s)
    finally:
        world.close()


def _wave(world: SpotWorld, case: Case, start_s: float) -> Seen:
    spot = [f"/api/v1/nodes/spot-{number}" for number in range(3)]
    began, seen = world.now, Seen()
    if case.notice_s is not None:
        for path in spot:
            world.call("PATCH", path, {"spec": {"taints": [TAINT]}}, patch=True)
    ends = began + (case.notice_s or 0.0)
    while world.now < ends + start_s + 100:
        if spot and world.now >= ends:
            for path in spot:
                world.cluster.machinery.stop_kubelet(path.rpartition("/")[2])
                world.call("DELETE", path)
            world.plan_step()
            spot = []
        seen.look(serving(world))
        world.let_pass(LOOK_S)
    return seen


def serving(world: SpotWorld) -> int:
    """Pods that are ready, not on their way out, and on a machine that runs."""
    works = world.cluster.machinery.kubelets.is_running
    return sum(
        any(each["type"] == "Ready" and each["status"] == "True" for each in pod["status"].get("conditions", ()))
        and "deletionTimestamp" not in pod["metadata"]
        and works(pod["spec"].get("nodeName", ""))
        for pod in world.pods("web")
    )


@pytest.mark.rule("spot:B33")
@pytest.mark.parametrize(
    "name", [each if each in QUICK else pytest.param(each, marks=pytest.mark.verify) for each in CASES]
)
def test_what_the_shipped_controller_does_is_foretold(name: str) -> None:
    case, start_s = CASES[name]
    with disable_collector(), suppress_logs():
        seen = truth(case, start_s)
    delays = Delays(
        start=LogNormalTime(start_s, start_s),
        detection_s=40.0,
        create_s=0.05,
        bind_s=0.05,
        react_s=0.2,
        stop_s=0.0,
        end_s=1.0,
    )
    told, _ = simulate_case(replace(case, grace_s=GRACE_S), Random, delays=delays, runs=1)
    assert told.pod_s_short == pytest.approx(seen.pod_s_short, rel=0.1, abs=1.0)
    assert told.outage_s == pytest.approx(seen.outage_s, rel=0.1, abs=1.0)
    assert told.least_ready == seen.least_ready

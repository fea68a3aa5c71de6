"""Small simulated clusters in which every time is certain."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from situate.sim.spot.cluster.controllers import Controllers, Template
from situate.sim.spot.cluster.delays import BASELINE, LogNormalTime, NormalTime
from situate.sim.spot.cluster.scheduler import Scheduler
from situate.sim.spot.cluster.shapes import NodeKind, Shapes
from situate.sim.spot.cluster.world import SpotWorld
from situate.sim.spot.results.account import SpotAccount
from situate.sim.timeline import Timeline
from situate.spot.model.pods_nodes_workloads import Capacity, PodFacts

SPOT = NodeKind(0, Capacity.SPOT, "a", 4)
ON_DEMAND = NodeKind(1, Capacity.ON_DEMAND, "b", 4)
CERTAIN = replace(
    BASELINE,
    start=LogNormalTime(25.0, 25.0),
    node_start=NormalTime(75.0),
    create_s=0.1,
    bind_s=0.2,
    stop_s=2.0,
    end_s=10.0,
)


class Unused:
    """Where every time is certain nobody draws."""

    def gauss(self, mu: float, sigma: float) -> float:
        raise AssertionError(f"drawn: {mu}, {sigma}")


def world(**delays: Any) -> tuple[SpotWorld, Controllers]:
    """Without nodes; time begins at 1000."""
    timeline = Timeline(1000.0)
    account = SpotAccount(1000.0, 0.7)
    made = SpotWorld(timeline, account, Unused(), replace(CERTAIN, **delays), Scheduler(), Shapes())
    return made, Controllers(made)


def template(app: str = "web", **spec: Any) -> Template:
    return Template(app, spec, grace_s=0.0, surge=1, unavailable=0)


def run(made: SpotWorld, seconds: float) -> None:
    end = made.now + seconds
    while made.timeline.advance(end):
        pass


def pods(made: SpotWorld, name: str = "web") -> list[PodFacts]:
    return list(made.pods_of(f"uid-{name}"))


def serving(made: SpotWorld) -> int:
    return sum(pod.serving for pod in made.pods.values())

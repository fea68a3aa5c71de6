"""Whether a wave would find room is known before it comes (B24)."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Generator

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from situate.spot.capacity.free_capacity import PlanningCapacity
from situate.spot.controller.headroom_monitor import EVERY_S, SOON_S, HeadroomMonitor
from situate.spot.controller.metrics import MoveMetrics
from situate.spot.nodes.interruptions import InterruptionHistory, Wave
from situate.spot.rebalance.decide import ClusterView, State, decide
from tests.spot.builders import NOW, cluster, owner, pods
from tests.spot.capacity.test_headroom import Counted
from tests.spot.controller.test_metrics import shown
from tests.spot.report.test_plan import Always


def looked_up(places: PlanningCapacity) -> Generator[None, None, PlanningCapacity]:
    yield
    return places


@pytest.mark.rule("spot:B24", "spot:B34")
@pytest.mark.looptime
async def test_the_room_that_a_wave_would_lack_is_told_before_it_comes() -> None:
    registry = CollectorRegistry()
    metrics = MoveMetrics(registry)
    situation = ClusterView(cluster(owner(40), pods("od:1 spot:39")), Always())
    places, history = 30, InterruptionHistory()
    foreseeing = HeadroomMonitor(metrics, lambda _: looked_up(Counted(places)), lambda: history)
    with capture_logs() as logs:
        task = asyncio.create_task(foreseeing.run())
        await asyncio.sleep(SOON_S + 1)
        assert "situate_spot_wave_missing_pods" not in shown(registry), "nothing was decided yet"
        deque(metrics.observe_decision(decide(State(), situation, NOW), situation, NOW), maxlen=0)
        await asyncio.sleep(EVERY_S)
        found = shown(registry)
        assert (found["situate_spot_wave_displaced_pods"], found["situate_spot_wave_missing_pods"]) == (39, 9)
        await asyncio.sleep(EVERY_S)
        places = 39
        await asyncio.sleep(EVERY_S)
        assert shown(registry)["situate_spot_wave_missing_pods"] == 0
        history = InterruptionHistory(NOW, (Wave(NOW, NOW, 0, 1),))
        await asyncio.sleep(EVERY_S)
        assert shown(registry)["situate_spot_wave_displaced_pods"] == 0, "of the largest wave that is known"
        task.cancel()
    assert [each["pods"] for each in logs] == [9], "what stays as it is, is told once"
    metrics.clear()
    assert "situate_spot_wave_missing_pods" not in shown(registry)

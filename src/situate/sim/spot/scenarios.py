"""The scenarios of B33: events in a simulated cluster, in the form of a scenario file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from situate.sim.spot.settings import (
    SpotClusterSettings,
    SpotEventSettings,
    SpotScenarioSettings,
    SpotSection,
    WaveSettings,
    WorkloadSettings,
)

_HOUR: Final = 3600.0
_WORKLOADS: Final = (
    WorkloadSettings(name="web", floor="2"),
    WorkloadSettings(name="db", kind="StatefulSet", replicas=3),
)


def _wave(at: float = 60.0, *, back_after: float = 1200.0, **settings: Any) -> SpotEventSettings:
    return SpotEventSettings(at=at, wave=WaveSettings(back_after=back_after, **settings))


def _scenario(name: str, duration: float, *events: SpotEventSettings, **cluster: Any) -> SpotScenarioSettings:
    return SpotScenarioSettings(
        title=name,
        duration=duration,
        cluster=SpotClusterSettings(**cluster),
        spot=SpotSection(),
        workloads=_WORKLOADS,
        events=events,
    )


SCENARIOS: Final[Sequence[SpotScenarioSettings]] = (
    _scenario("steady", _HOUR),
    _scenario("full-wave", 2 * _HOUR, _wave()),
    _scenario("half-wave", 2 * _HOUR, _wave(share=0.5)),
    _scenario("rolling-waves", 2 * _HOUR, *(_wave(60.0 + 600 * n, share=0.25, back_after=75.0) for n in range(6))),
    _scenario("flapping", 2 * _HOUR, *(_wave(60.0 + 360 * n, notice=None, back_after=180.0) for n in range(8))),
    _scenario("wave-in-rollout", _HOUR, SpotEventSettings(at=60.0, roll_out=True), _wave(90.0)),
    _scenario("wave-at-peak", _HOUR, SpotEventSettings(at=60.0, scale=2.0), _wave(600.0), spot_places=3.0),
    _scenario("no-notice", _HOUR, _wave(notice=None)),
    _scenario("on-demand-full", _HOUR, _wave(), on_demand_room=False, autoscaling=False),
)
BY_NAME: Final = {scenario.name: scenario for scenario in SCENARIOS}

"""The scenarios of B33: events in a simulated cluster, as plain lists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

from situate.sim.spot.cluster.delays import BASELINE, Delays
from situate.spot.nodes.savings import DEFAULT_DISCOUNT

NOTICE_S: Final = 120.0
"""Seconds of notice, by S5."""


@dataclass(frozen=True, slots=True)
class Wave:
    """Spot nodes that end together."""

    at_s: float
    """When the notice comes. Without a notice, when the nodes end."""
    share: float = 1.0
    """Share of the present spot nodes that end, oldest first."""
    notice_s: float | None = NOTICE_S
    """Seconds of notice. None: no notice."""
    silent: bool = False
    """Whether Node objects stay after their machines are gone."""
    back_after_s: float | None = None
    """Seconds after their end until the same number of new spot nodes comes. None: none come."""


@dataclass(frozen=True, slots=True)
class Scale:
    """Scale every Deployment by a factor of its present replicas."""

    at_s: float
    factor: float


@dataclass(frozen=True, slots=True)
class RollOut:
    """Give every workload a new template."""

    at_s: float


Event: TypeAlias = Wave | Scale | RollOut


@dataclass(frozen=True, slots=True)
class App:
    """A workload."""

    name: str
    kind: str = "Deployment"
    replicas: int = 10
    floor: str | None = "2"
    """Annotation under the policies with a floor. None: no annotation, so the default applies."""


@dataclass(frozen=True, slots=True)
class SpotScenario:
    """One cluster and its events, the same for every policy."""

    name: str
    duration_s: float
    events: Sequence[Event] = ()
    apps: Sequence[App] = (App("web"),)
    room: bool = True
    """Whether on-demand nodes have free places for every pod that may be displaced at the beginning."""
    autoscaling: bool = True
    """Whether on-demand nodes are added when pods wait for them."""
    slots: int = 4
    """Pods per node."""
    grown_slots: int = 1
    """Pods per on-demand node that is added for waiting pods."""
    spot_places: float = 1.5
    """Places on spot nodes per pod at the beginning, at least 1."""
    grace_s: float = 0.0
    """Grace period of the pods in seconds. Our pods are ended this time, plus 5 s, before their node ends."""
    told_start_s: float | None = None
    """The start time of pods in the configuration. None: their median."""
    discount: float = DEFAULT_DISCOUNT
    until_whole: bool = False
    """Whether a run ends once every pod serves on a node that stays. The cost is then meaningless."""
    delays: Delays = field(default=BASELINE)


_HOUR: Final = 3600.0
_APPS: Final = (App("web"), App("db", "StatefulSet", 3, None))
_WAVE: Final = Wave(60.0, back_after_s=1200.0)


def _scenario(name: str, duration_s: float, *events: Event, **more: Any) -> SpotScenario:
    return SpotScenario(name, duration_s, events, _APPS, grace_s=30.0, delays=replace(BASELINE, end_s=5.0), **more)


SCENARIOS: Final[Sequence[SpotScenario]] = (
    _scenario("steady", _HOUR),
    _scenario("full-wave", 2 * _HOUR, _WAVE),
    _scenario("half-wave", 2 * _HOUR, replace(_WAVE, share=0.5)),
    _scenario("rolling-waves", 2 * _HOUR, *(Wave(60.0 + 600 * each, 0.25, back_after_s=75.0) for each in range(6))),
    _scenario(
        "flapping", 2 * _HOUR, *(Wave(60.0 + 360 * each, notice_s=None, back_after_s=180.0) for each in range(8))
    ),
    _scenario("wave-in-rollout", _HOUR, RollOut(60.0), replace(_WAVE, at_s=90.0)),
    _scenario("wave-at-peak", _HOUR, Scale(60.0, 2.0), replace(_WAVE, at_s=600.0), spot_places=3.0),
    _scenario("no-notice", _HOUR, replace(_WAVE, notice_s=None)),
    _scenario("on-demand-full", _HOUR, _WAVE, room=False, autoscaling=False),
)
BY_NAME: Final = {scenario.name: scenario for scenario in SCENARIOS}

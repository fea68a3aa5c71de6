"""The table of baselines of docs/spec/spot.md, simulated: one wave over a Deployment of ten pods.

The cases differ in policy, notice and free capacity. Each has the figures of the spec, so that tests and commands can
compare them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final, Literal

from situate.sim.spot.cluster.delays import BASELINE, Delays, GaussianSources
from situate.sim.spot.policies import Policy, Reaction
from situate.sim.spot.results.account import RunResult
from situate.sim.spot.settings import (
    SpotClusterSettings,
    SpotEventSettings,
    SpotScenarioSettings,
    SpotSection,
    WaveSettings,
    WorkloadSettings,
)
from situate.sim.spot.simulation import SpotSimulation
from situate.spot.nodes.savings import DEFAULT_DISCOUNT, cost_share

RUNS: Final = 400
"""Default number of runs. The spec has 4,000."""
APP: Final = "web"
"""Name of the simulated workload."""
_DURATION_S: Final = 900.0


@dataclass(frozen=True, slots=True)
class WaveFigures:
    """Figures of one wave: the mean over the runs."""

    cost: float
    """Cost before the wave, as a share of the cost of all replicas on demand."""
    outage_s: float
    half_s: float
    """Seconds with at most half of the replicas serving."""
    pod_s_short: float
    least_ready: float


@dataclass(frozen=True, slots=True)
class Case:
    """One wave, with all parameters that determine its effect on a workload."""

    on_demand: int = 0
    """Number of on-demand pods, M."""
    replicas: int = 10
    stateful: bool = False
    notice_s: float | None = None
    """Seconds of notice. None: no notice."""
    silent: bool = False
    reaction: Reaction = Reaction.DRAIN
    room: bool = True
    """Whether on-demand nodes have capacity for all pods. If not, each pod waits for its own node."""
    grace_s: float = 0.0
    told_start_s: float | None = None
    """The start time of pods in the configuration. None: their median."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """One line of the table."""

    name: str
    case: Case
    reference: WaveFigures


def _baseline(name: str, case: Case, *figures: float) -> Baseline:
    return Baseline(name, case, WaveFigures(*figures))


def _release(notice_s: float, on_demand: int = 0, *, room: bool = True) -> Case:
    """Build a wave whose pods are replaced before they end."""
    return Case(on_demand, notice_s=notice_s, room=room, reaction=Reaction.RELEASE)


BASELINES: Final[Sequence[Baseline]] = (
    _baseline("M=0, no notice, Node deleted, free capacity", Case(), 0.30, 66, 82, 840, 0),
    _baseline("M=0, no notice, silent, free capacity", Case(silent=True), 0.30, 356, 372, 3742, 0),
    _baseline("M=0, evicted at 120 s notice, free capacity", Case(notice_s=120), 0.30, 11, 27, 292, 0),
    _baseline("M=0, evicted at 120 s notice, no capacity", Case(notice_s=120, room=False), 0.30, 74, 105, 1042, 0),
    _baseline("M=0, make-before-break 120 s, free capacity", _release(120), 0.30, 0, 0, 0, 10.0),
    _baseline("M=0, make-before-break 120 s, no capacity", _release(120, room=False), 0.30, 0, 0.3, 41, 7.6),
    _baseline("M=0, make-before-break 30 s, free capacity", _release(30), 0.30, 0, 2, 68, 5.8),
    _baseline("M=0, make-before-break 30 s, no capacity", _release(30, room=False), 0.30, 46, 77, 762, 0),
    _baseline("M=2, no notice, Node deleted, free capacity", Case(2), 0.44, 0, 79, 672, 2),
    _baseline("M=2, make-before-break 120 s, free capacity", _release(120, 2), 0.44, 0, 0, 0, 10.0),
    _baseline("M=6, no notice, Node deleted, free capacity", Case(6), 0.72, 0, 0, 337, 6),
)


def simulate_case(
    case: Case,
    chances: GaussianSources,
    *,
    delays: Delays = BASELINE,
    runs: int = RUNS,
    seed: int = 1,
    tell: Callable[[int], None] = lambda _done: None,
) -> tuple[WaveFigures, Sequence[RunResult]]:
    """Return the mean effect of a wave, and each run. With measured delays it predicts a real cluster.

    `tell` is called with the number of finished runs.
    """
    kind: Literal["Deployment", "StatefulSet"] = "StatefulSet" if case.stateful else "Deployment"
    app = WorkloadSettings(name=APP, kind=kind, replicas=case.replicas, floor=str(case.on_demand))
    scenario = SpotScenarioSettings(
        duration=_DURATION_S,
        cluster=SpotClusterSettings(on_demand_room=case.room, grace=case.grace_s),
        spot=SpotSection(start=case.told_start_s),
        workloads=(app,),
        events=(SpotEventSettings(at=0.0, wave=WaveSettings(notice=case.notice_s, silent=case.silent)),),
    )
    policy = Policy("wave", app.floor, reaction=case.reaction)
    simulation = SpotSimulation(scenario, policy, delays=delays, until_whole=True)
    played = []
    for number in range(runs):
        played.append(simulation.play(chances(f"{seed}/{number}")))
        tell(number + 1)
    found = [run.outcomes[APP] for run in played]
    figures = WaveFigures(
        round(cost_share(case.replicas, simulation.on_demand, DEFAULT_DISCOUNT), 6),
        fmean(each.outage_s for each in found),
        fmean(each.half_s for each in found),
        fmean(each.pod_s_short for each in found),
        fmean(each.least_ready for each in found),
    )
    return figures, played


def simulate_baselines(
    chances: GaussianSources, *, runs: int = RUNS, seed: int = 1, delays: Delays = BASELINE
) -> Mapping[str, WaveFigures]:
    """Return every line of the table by its name, as `make bench-spot` prints it under `wave`."""
    return {each.name: simulate_case(each.case, chances, delays=delays, runs=runs, seed=seed)[0] for each in BASELINES}


def deviating_figures(figures: WaveFigures, reference: WaveFigures) -> list[str]:
    """Return the names of the figures that differ too much.

    The tolerance is a tenth, and at least 5 s or half a replica. The tolerance of the cost is 0.005.
    """
    close = {"cost": 0.005, "outage_s": 5.0, "half_s": 5.0, "pod_s_short": 5.0, "least_ready": 0.5}
    found = []
    for name, least in close.items():
        have, want = getattr(figures, name), getattr(reference, name)
        tenth = 0.0 if name == "cost" else abs(want) / 10
        if abs(have - want) > max(tenth, least):
            found.append(name)
    return found

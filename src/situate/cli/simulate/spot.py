"""Simulate waves of spot nodes: each policy over many random runs, side by side."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Final

import msgspec

from situate.cli.simulate.comparison import number_columns, print_results, select_variants
from situate.cli.terminal.formats import Format
from situate.cli.terminal.output import Column
from situate.cli.terminal.progress import ProgressBar, progress
from situate.objects.values.counts import format_count
from situate.objects.values.durations import format_duration
from situate.sim.spot.baselines import APP, BASELINES, Baseline, WaveFigures, deviating_figures, simulate_case
from situate.sim.spot.results.account import RunResult
from situate.sim.spot.results.picture import sample_times
from situate.sim.spot.results.report import Distribution, PolicyReport, Service, build_report
from situate.sim.spot.scenarios import BY_NAME
from situate.sim.spot.settings import SpotScenarioSettings
from situate.sim.spot.simulation import SpotSimulation

BASELINE: Final = "baselines"
BUILT_IN: Final = (*BY_NAME, BASELINE)
"""Names of built-in scenarios."""
_COLUMNS: Final = (
    Column("policy"),
    *number_columns("cost", "outage-s", "half-s", "short-pod-s", "least-ready", "restarts"),
    *number_columns("outage p50/p95/max", "half p50/p95/max", "short p50/p95/max", "least p50/p5/min", wide=True),
    Column("ended-by", wide=True),
)
_BASELINE_COLUMNS: Final = (
    Column("wave"),
    *number_columns("cost", "outage-s", "half-s", "short-pod-s", "least-ready"),
    *number_columns("outage p50/p95/max", "short p50/p95/max", wide=True),
)


def with_options(
    scenario: SpotScenarioSettings, policies: Sequence[str], runs: int | None, seed: int | None
) -> SpotScenarioSettings:
    """Return the scenario with the values of the options."""
    chosen = select_variants(policies, (each.name for each in scenario.spot.chosen_policies()))
    return msgspec.structs.replace(
        scenario,
        spot=msgspec.structs.replace(scenario.spot, policies=tuple(chosen)),
        runs=scenario.runs if runs is None else runs,
        seed=scenario.seed if seed is None else seed,
    )


def play_policies(scenario: SpotScenarioSettings) -> list[PolicyReport]:
    """Return one report for each policy. Run `n` of each policy has the same random numbers."""
    samples, policies = sample_times(scenario), scenario.spot.chosen_policies()
    reports = []
    with progress("simulating", len(policies) * scenario.runs) as bar:
        for number, policy in enumerate(policies):
            simulation = SpotSimulation(scenario, policy, samples)
            runs = []
            for run in range(scenario.runs):
                runs.append(simulation.play(random.Random(f"{scenario.seed}/{run}")))
                bar.update(f"simulating {policy.name}", number * scenario.runs + run + 1)
            reports.append(build_report(policy.name, runs, samples))
    return reports


def show(scenario: SpotScenarioSettings, reports: Sequence[PolicyReport], output: Format, footer: str) -> None:
    runs = f"{format_count(scenario.runs, 'run')} of each policy, seed {scenario.seed}"
    headline = f"{scenario.name}: {format_duration(scenario.duration)}, {runs}"
    print_results(headline, _COLUMNS, [*map(_row, reports)], [each.as_data() for each in reports], output, footer)


def play_baselines(runs: int, seed: int, output: Format) -> None:
    """Play the baseline waves, and show the figures beside the expected ones of `BASELINES`."""
    found = []
    with progress("simulating", len(BASELINES) * runs) as bar:
        for number, line in enumerate(BASELINES):
            tell = partial(_show_progress, bar, line.name, number * runs)
            found.append(
                _BaselineResult(line, *simulate_case(line.case, random.Random, runs=runs, seed=seed, tell=tell))
            )
    means = f"means of {format_count(runs, 'run')}, seed {seed}"
    differing = [f"{each.baseline.name}: {name}" for each in found for name in each.deviations]
    print_results(
        f"One wave over a Deployment of ten: {means} (in brackets: the figures of docs/spec/spot.md)",
        _BASELINE_COLUMNS,
        [each.row() for each in found],
        [each.as_data() for each in found],
        output,
        f"differences of more than a tenth, 5 s or half a replica: {'; '.join(differing) or 'none'}",
    )


def _show_progress(bar: ProgressBar, name: str, before: int, done: int) -> None:
    bar.update(f"simulating {name}", before + done)


@dataclass(frozen=True, slots=True)
class _BaselineResult:
    """One baseline wave with its simulated figures."""

    baseline: Baseline
    figures: WaveFigures
    runs: Sequence[RunResult]

    @property
    def deviations(self) -> list[str]:
        return deviating_figures(self.figures, self.baseline.reference)

    @property
    def service(self) -> Service:
        return Service.from_outcomes([run.outcomes[APP] for run in self.runs])

    def row(self) -> tuple[object, ...]:
        said = self.baseline.reference
        cells = (f"{getattr(self.figures, key):.{digits}f} ({getattr(said, key):g})" for key, digits in _DIGITS.items())
        found = self.service
        return self.baseline.name, *cells, _quantiles_text(found.outage_s), _quantiles_text(found.pod_s_short)

    def as_data(self) -> dict[str, Any]:
        return {
            "wave": self.baseline.name,
            "runs": len(self.runs),
            "figures": asdict(self.figures),
            "reference": asdict(self.baseline.reference),
            "off": self.deviations,
            "distributions": asdict(self.service),
        }


_DIGITS: Final = {"cost": 2, "outage_s": 0, "half_s": 1, "pod_s_short": 0, "least_ready": 1}


def _row(each: PolicyReport) -> tuple[object, ...]:
    service = each.together
    least = service.least_ready
    return (
        each.policy,
        f"{each.cost.mean:.2f}",
        f"{service.outage_s.mean:.0f}",
        f"{service.half_s.mean:.0f}",
        f"{service.pod_s_short.mean:.0f}",
        f"{least.mean:.1f}",
        f"{each.restarts.mean:.1f}",
        _quantiles_text(service.outage_s),
        _quantiles_text(service.half_s),
        _quantiles_text(service.pod_s_short),
        f"{least.p50:g}/{least.p5:g}/{least.least:g}",
        ", ".join(f"{cause} {count:.1f}" for cause, count in each.endings.items()) or "-",
    )


def _quantiles_text(found: Distribution) -> str:
    return f"{found.p50:.0f}/{found.p95:.0f}/{found.most:.0f}"

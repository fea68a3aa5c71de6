"""Simulate waves of spot nodes: each policy over many random runs, side by side."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Final

from situate.cli.terminal.failures import WrongInput
from situate.cli.terminal.formats import Format
from situate.cli.terminal.output import Column, print_data, print_table
from situate.cli.terminal.progress import ProgressBar, progress
from situate.cli.terminal.streams import print_line
from situate.objects.settings.section import spelling_hint
from situate.objects.values.counts import format_count
from situate.objects.values.durations import format_duration
from situate.sim.spot.baselines import APP, BASELINES, Baseline, WaveFigures, deviating_figures, simulate_case
from situate.sim.spot.policies import POLICIES
from situate.sim.spot.results.account import RunResult
from situate.sim.spot.results.picture import render_picture, sample_times
from situate.sim.spot.results.report import Distribution, PolicyReport, build_report
from situate.sim.spot.scenarios import BY_NAME
from situate.sim.spot.settings import Plan
from situate.sim.spot.simulation import SpotSimulation

BASELINE: Final = "baselines"
BUILT_IN: Final = (*BY_NAME, BASELINE)
"""Names of built-in scenarios."""
_COLUMNS: Final = (
    Column("policy"),
    Column("cost", right=True),
    Column("outage-s", right=True),
    Column("half-s", right=True),
    Column("short-pod-s", right=True),
    Column("least-ready", right=True),
    Column("restarts", right=True),
    Column("outage p50/p95/max", wide=True, right=True),
    Column("half p50/p95/max", wide=True, right=True),
    Column("short p50/p95/max", wide=True, right=True),
    Column("least p50/p5/min", wide=True, right=True),
    Column("ended-by", wide=True),
)
_BASELINE_COLUMNS: Final = (
    Column("wave"),
    Column("cost", right=True),
    Column("outage-s", right=True),
    Column("half-s", right=True),
    Column("short-pod-s", right=True),
    Column("least-ready", right=True),
    Column("outage p50/p95/max", wide=True, right=True),
    Column("short p50/p95/max", wide=True, right=True),
)


def built_in_plan(name: str) -> Plan:
    """Return the built-in scenario with this name, for all policies."""
    return Plan(name, BY_NAME[name], POLICIES)


def select_policies(plan: Plan, policies: Sequence[str], runs: int | None, seed: int | None) -> Plan:
    """Return the plan with the values of the options."""
    known = {each.name: each for each in plan.policies}
    for name in policies:
        if name not in known:
            hint = spelling_hint(name, known)
            raise WrongInput(f"--variant: found {name}, allowed: {', '.join(known)}{'; ' + hint if hint else ''}")
    return replace(
        plan,
        policies=[each for each in plan.policies if not policies or each.name in policies],
        runs=plan.runs if runs is None else runs,
        seed=plan.seed if seed is None else seed,
    )


def play_policies(plan: Plan) -> list[PolicyReport]:
    """Return one report for each policy. Run `n` of each policy has the same random numbers."""
    samples = sample_times(plan.scenario)
    reports = []
    with progress("simulating", len(plan.policies) * plan.runs) as bar:
        for number, policy in enumerate(plan.policies):
            simulation = SpotSimulation(plan.scenario, policy, samples)
            runs = []
            for run in range(plan.runs):
                runs.append(simulation.play(random.Random(f"{plan.seed}/{run}")))
                bar.update(f"simulating {policy.name}", number * plan.runs + run + 1)
            reports.append(build_report(policy.name, runs, samples))
    return reports


def show(plan: Plan, reports: Sequence[PolicyReport], output: Format) -> None:
    if output in (Format.JSON, Format.YAML):
        print_data([each.as_data() for each in reports], output)
        return
    lasting = format_duration(plan.scenario.duration_s)
    print_line(f"{plan.title}: {lasting}, {format_count(plan.runs, 'run')} of each policy, seed {plan.seed}")
    print_table(_COLUMNS, [_row(each) for each in reports], output)


def draw_chart(plan: Plan, reports: Sequence[PolicyReport]) -> str:
    """Return the chart as SVG."""
    return render_picture(plan.title, plan.scenario, reports)


def play_baselines(runs: int, seed: int, output: Format) -> None:
    """Play the baseline waves, and show the figures beside the expected ones of `BASELINES`."""
    found = []
    with progress("simulating", len(BASELINES) * runs) as bar:
        for number, line in enumerate(BASELINES):
            tell = partial(_show_progress, bar, line.name, number * runs)
            found.append(
                _BaselineResult(line, *simulate_case(line.case, random.Random, runs=runs, seed=seed, tell=tell))
            )
    if output in (Format.JSON, Format.YAML):
        print_data([each.as_data() for each in found], output)
        return
    means = f"means of {format_count(runs, 'run')}, seed {seed}"
    print_line(f"One wave over a Deployment of ten: {means} (in brackets: the figures of docs/spec/spot.md)")
    print_table(_BASELINE_COLUMNS, [each.row() for each in found], output)
    differing = [f"{each.baseline.name}: {name}" for each in found for name in each.deviations]
    print_line(f"differences of more than a tenth, 5 s or half a replica: {'; '.join(differing) or 'none'}")


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
    def distributions(self) -> dict[str, Distribution]:
        names = ("outage_s", "half_s", "pod_s_short", "least_ready")
        return {name: Distribution.from_values(getattr(run.outcomes[APP], name) for run in self.runs) for name in names}

    def row(self) -> tuple[object, ...]:
        said = self.baseline.reference
        cells = (f"{getattr(self.figures, key):.{digits}f} ({getattr(said, key):g})" for key, digits in _DIGITS.items())
        found = self.distributions
        return self.baseline.name, *cells, _quantiles_text(found["outage_s"]), _quantiles_text(found["pod_s_short"])

    def as_data(self) -> dict[str, Any]:
        return {
            "wave": self.baseline.name,
            "runs": len(self.runs),
            "figures": asdict(self.figures),
            "reference": asdict(self.baseline.reference),
            "off": self.deviations,
            "distributions": {name: asdict(each) for name, each in self.distributions.items()},
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

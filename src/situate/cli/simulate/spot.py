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
from situate.cli.terminal.progress import Bar, progress
from situate.cli.terminal.streams import say
from situate.objects.settings.section import did_you_mean
from situate.objects.values.counts import counted
from situate.objects.values.durations import format_duration
from situate.sim.spot.baselines import APP, BASELINES, Baseline, Figures, expected, off
from situate.sim.spot.policies import POLICIES
from situate.sim.spot.results.account import Played
from situate.sim.spot.results.picture import picture, sample_times
from situate.sim.spot.results.report import Distribution, Report, report
from situate.sim.spot.scenarios import BY_NAME
from situate.sim.spot.settings import Plan
from situate.sim.spot.simulation import Simulation

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


def built_in(name: str) -> Plan:
    """Return the built-in scenario with this name, for all policies."""
    return Plan(name, BY_NAME[name], POLICIES)


def chosen(plan: Plan, policies: Sequence[str], runs: int | None, seed: int | None) -> Plan:
    """Return the plan with the values of the options."""
    known = {each.name: each for each in plan.policies}
    for name in policies:
        if name not in known:
            hint = did_you_mean(name, known)
            raise WrongInput(f"--variant: found {name}, allowed: {', '.join(known)}{'; ' + hint if hint else ''}")
    return replace(
        plan,
        policies=[each for each in plan.policies if not policies or each.name in policies],
        runs=plan.runs if runs is None else runs,
        seed=plan.seed if seed is None else seed,
    )


def played(plan: Plan) -> list[Report]:
    """Return one report for each policy. Run `n` of each policy has the same random numbers."""
    samples = sample_times(plan.scenario)
    reports = []
    with progress("simulating", len(plan.policies) * plan.runs) as bar:
        for number, policy in enumerate(plan.policies):
            simulation = Simulation(plan.scenario, policy, samples)
            runs = []
            for run in range(plan.runs):
                runs.append(simulation.play(random.Random(f"{plan.seed}/{run}")))
                bar.tell(f"simulating {policy.name}", number * plan.runs + run + 1)
            reports.append(report(policy.name, runs, samples))
    return reports


def show(plan: Plan, reports: Sequence[Report], output: Format) -> None:
    if output in (Format.JSON, Format.YAML):
        print_data([each.as_data() for each in reports], output)
        return
    lasting = format_duration(plan.scenario.duration_s)
    say(f"{plan.title}: {lasting}, {counted(plan.runs, 'run')} of each policy, seed {plan.seed}")
    print_table(_COLUMNS, [_row(each) for each in reports], output)


def drawn(plan: Plan, reports: Sequence[Report]) -> str:
    """Return the chart as SVG."""
    return picture(plan.title, plan.scenario, reports)


def baselines(runs: int, seed: int, output: Format) -> None:
    """Play the baseline waves, and show the figures beside the expected ones of `BASELINES`."""
    found = []
    with progress("simulating", len(BASELINES) * runs) as bar:
        for number, line in enumerate(BASELINES):
            tell = partial(_tell, bar, line.name, number * runs)
            found.append(_Line(line, *expected(line.case, random.Random, runs=runs, seed=seed, tell=tell)))
    if output in (Format.JSON, Format.YAML):
        print_data([each.as_data() for each in found], output)
        return
    means = f"means of {counted(runs, 'run')}, seed {seed}"
    say(f"One wave over a Deployment of ten: {means} (in brackets: the figures of docs/spec/spot.md)")
    print_table(_BASELINE_COLUMNS, [each.row() for each in found], output)
    differing = [f"{each.line.name}: {name}" for each in found for name in each.off]
    say(f"differences of more than a tenth, 5 s or half a replica: {'; '.join(differing) or 'none'}")


def _tell(bar: Bar, name: str, before: int, done: int) -> None:
    bar.tell(f"simulating {name}", before + done)


@dataclass(frozen=True, slots=True)
class _Line:
    """One baseline wave with its simulated figures."""

    line: Baseline
    figures: Figures
    runs: Sequence[Played]

    @property
    def off(self) -> list[str]:
        return off(self.figures, self.line.reference)

    @property
    def distributions(self) -> dict[str, Distribution]:
        names = ("outage_s", "half_s", "pod_s_short", "least_ready")
        return {name: Distribution.of(getattr(run.outcomes[APP], name) for run in self.runs) for name in names}

    def row(self) -> tuple[object, ...]:
        said = self.line.reference
        cells = (f"{getattr(self.figures, key):.{digits}f} ({getattr(said, key):g})" for key, digits in _DIGITS.items())
        found = self.distributions
        return self.line.name, *cells, _spread(found["outage_s"]), _spread(found["pod_s_short"])

    def as_data(self) -> dict[str, Any]:
        return {
            "wave": self.line.name,
            "runs": len(self.runs),
            "figures": asdict(self.figures),
            "reference": asdict(self.line.reference),
            "off": self.off,
            "distributions": {name: asdict(each) for name, each in self.distributions.items()},
        }


_DIGITS: Final = {"cost": 2, "outage_s": 0, "half_s": 1, "pod_s_short": 0, "least_ready": 1}


def _row(each: Report) -> tuple[object, ...]:
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
        _spread(service.outage_s),
        _spread(service.half_s),
        _spread(service.pod_s_short),
        f"{least.p50:g}/{least.p5:g}/{least.least:g}",
        ", ".join(f"{cause} {count:.1f}" for cause, count in each.endings.items()) or "-",
    )


def _spread(found: Distribution) -> str:
    return f"{found.p50:.0f}/{found.p95:.0f}/{found.most:.0f}"

"""Simulate a day of event sources: each variant of vpod's settings, side by side."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final

from situate.cli.simulate.comparison import number_columns, print_results, select_variants
from situate.cli.terminal.formats import Format
from situate.cli.terminal.output import Column
from situate.cli.terminal.progress import progress
from situate.sim.vpod.report import VariantReport, time_text
from situate.sim.vpod.scenario import VPodScenario
from situate.sim.vpod.simulation import VPodSimulation

_COLUMNS: Final = (  # the columns that are not wide fit a terminal of 80 columns
    Column("variant"),
    *number_columns("pod-hours", "cost", "used", "peak", "moves", "ran", "longest", "skew"),
    *number_columns("zone-share", "node-hours", "scaled", "writes", "short", "unplaced", wide=True),
    Column("moves-by-cause", wide=True),
    Column("longest-of", wide=True),
)


def simulate(scenario: VPodScenario, names: Sequence[str]) -> list[VariantReport]:
    """Return one report for each of the named variants, or for all."""
    chosen = select_variants(names, (each.name for each in scenario.variants))
    variants = [each for each in scenario.variants if each.name in chosen]
    duration, reports = scenario.settings.duration, []
    with progress("simulating", len(variants) * duration) as bar:
        for number, variant in enumerate(variants):
            simulation = VPodSimulation(scenario, variant, random.Random)
            for when in scenario.sample_times():
                simulation.advance(when)
                bar.update(f"simulating {variant.name}", number * duration + when)
            reports.append(simulation.report())
    return reports


def show(scenario: VPodScenario, name: str, reports: Sequence[VariantReport], output: Format, footer: str) -> None:
    """Print the results. `name` is the title of a scenario without one."""
    settings = scenario.settings
    headline = f"{settings.title or name}: {time_text(settings.duration)}, seed {settings.seed}"
    print_results(headline, _COLUMNS, [*map(_row, reports)], [each.as_data() for each in reports], output, footer)


def _row(report: VariantReport) -> tuple[object, ...]:
    longest = report.longest
    return (
        report.variant,
        f"{report.pod_hours:.1f}",
        f"{report.cost:.2f}" if report.cost else "-",
        f"{report.utilisation:.0%}",
        report.peak_pods,
        report.all_moves,
        f"{report.available_share:.3%}",
        time_text(longest.seconds) if longest is not None else "-",
        f"{report.skew:.2f}",
        f"{report.zone_share:.0%}",
        f"{report.node_hours:.1f}",
        f"{report.scale_ups}/{report.scale_downs}",
        report.status_writes,
        time_text(report.short_seconds),
        time_text(report.unplaced_seconds),
        ", ".join(f"{cause} {vreplicas}" for cause, vreplicas in sorted(report.moves.items())) or "-",
        f"{longest.key} at {time_text(longest.since)}" if longest is not None else "-",
    )

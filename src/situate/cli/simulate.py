"""`situate simulate`: the shipped decisions on a simulated cluster, for several settings side by side."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from situate.cli.failures import WrongInput, mendable_failures
from situate.cli.output import Column, Format, OutputOption, print_data, print_table
from situate.cli.progress import progress
from situate.cli.streams import say
from situate.objects.settings import Mistake, did_you_mean
from situate.objects.yaml_text import load_yaml
from situate.runtime.configuration import BadConfiguration
from situate.sim.vpod.picture import picture
from situate.sim.vpod.report import Report, time_text
from situate.sim.vpod.scenario import Scenario, Variant, parse_scenario
from situate.sim.vpod.simulation import Simulation

_COLUMNS = (  # what is not wide fits a terminal of 80 columns
    Column("variant"),
    Column("pod-hours", right=True),
    Column("cost", right=True),
    Column("used", right=True),
    Column("peak", right=True),
    Column("moves", right=True),
    Column("ran", right=True),
    Column("longest", right=True),
    Column("skew", right=True),
    Column("zone share", wide=True, right=True),
    Column("node-hours", wide=True, right=True),
    Column("scaled", wide=True, right=True),
    Column("writes", wide=True, right=True),
    Column("short", wide=True, right=True),
    Column("without place", wide=True, right=True),
    Column("moves by cause", wide=True),
    Column("longest of", wide=True),
)


def simulate(
    scenario: Annotated[Path, typer.Argument(help="The scenario; see examples/vpod-day.yaml.", show_default=False)],
    variant: Annotated[
        list[str] | None, typer.Option("--variant", help="Only this variant; may be given several times.")
    ] = None,
    plot: Annotated[Path | None, typer.Option("--plot", help="Draw demand, pods and shortage into this SVG.")] = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Play a scenario for each variant and show what it costs, moves and lacks. Needs no cluster.

    Columns: used: part of the pods' capacity that was taken. peak: most pods at once. moves: vreplicas that lost their
    place. ran: part of the demand that ran. longest: the longest that one source lacked something. skew: most minus
    fewest vreplicas of a source on a pod, on average. With -o wide also zone share: part of a source in its fullest
    zone. scaled: scale-ups/scale-downs. short: vreplica-time that did not run; without place: the part of it that was
    not even placed.
    """
    with mendable_failures():
        parsed = read_scenario(scenario)
        reports = _played(parsed, _chosen(parsed, variant or []))
        if plot is not None:
            _write(plot, picture(parsed, reports))
    if output in (Format.JSON, Format.YAML):
        print_data([report.as_data() for report in reports], output)
        return
    settings = parsed.settings
    say(f"{settings.title or scenario.name}: {time_text(settings.duration)}, seed {settings.seed}")
    print_table(_COLUMNS, [_row(report) for report in reports], output)
    if plot is not None:
        say(f"drawn: {plot}")


def read_scenario(file: Path) -> Scenario:
    """Raises `BadConfiguration` with every mistake, `WrongInput` if the file cannot be read."""
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise WrongInput(f"{file}: no such file; examples/vpod-day.yaml is a scenario to begin with") from None
    except (OSError, UnicodeDecodeError) as problem:
        raise WrongInput(f"{file} cannot be read: {problem}") from None
    data, mistakes = load_yaml(text)
    scenario = None
    if not mistakes:
        scenario, mistakes = parse_scenario(data)
    if scenario is None:
        raise BadConfiguration(str(file), mistakes or (Mistake("", "", "a scenario"),))
    return scenario


def _chosen(scenario: Scenario, names: Sequence[str]) -> Sequence[Variant]:
    known = {each.name: each for each in scenario.variants}
    for name in names:
        if name not in known:
            hint = did_you_mean(name, known)
            raise WrongInput(f"--variant {name}: the scenario has {', '.join(known)}{'; ' + hint if hint else ''}")
    return [each for each in scenario.variants if not names or each.name in names]


def _played(scenario: Scenario, variants: Sequence[Variant]) -> list[Report]:
    reports = []
    with progress("simulating", len(variants) * scenario.settings.duration) as bar:
        for number, variant in enumerate(variants):
            simulation = Simulation(scenario, variant, random.Random)
            for when in scenario.sample_times():
                simulation.advance(when)
                bar.tell(f"simulating {variant.name}", number * scenario.settings.duration + when)
            reports.append(simulation.report())
    return reports


def _row(report: Report) -> tuple[object, ...]:
    longest = report.longest
    return (
        report.variant,
        f"{report.pod_hours:.1f}",
        f"{report.cost:.2f}" if report.cost else "-",
        f"{report.utilisation:.0%}",
        report.peak_pods,
        report.all_moves,
        f"{report.available:.3%}",
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


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as problem:
        raise WrongInput(f"--plot {file} cannot be written: {problem.strerror}") from None

"""Implement `situate simulate`: a product's decisions on a simulated cluster, for several settings side by side."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from situate.cli.input.file_kinds import SCENARIO, wrong_kind_of_document, wrong_kind_of_text
from situate.cli.simulate import spot, vm
from situate.cli.terminal.failures import WrongInput, report_failures
from situate.cli.terminal.formats import Format
from situate.cli.terminal.output import Column, print_data, print_table
from situate.cli.terminal.progress import progress
from situate.cli.terminal.streams import print_line
from situate.objects.settings.section import Mistake, spelling_hint
from situate.objects.settings.yaml_text import load_yaml
from situate.runtime.configuration.file import BadConfiguration
from situate.sim.spot.baselines import RUNS
from situate.sim.spot.settings import Plan, parse_plan
from situate.sim.vpod.picture import render_picture
from situate.sim.vpod.report import VariantReport, time_text
from situate.sim.vpod.scenario import Variant, VPodScenario, parse_scenario
from situate.sim.vpod.simulation import VPodSimulation

_COLUMNS = (  # the columns that are not wide fit a terminal of 80 columns
    Column("variant"),
    Column("pod-hours", right=True),
    Column("cost", right=True),
    Column("used", right=True),
    Column("peak", right=True),
    Column("moves", right=True),
    Column("ran", right=True),
    Column("longest", right=True),
    Column("skew", right=True),
    Column("zone-share", wide=True, right=True),
    Column("node-hours", wide=True, right=True),
    Column("scaled", wide=True, right=True),
    Column("writes", wide=True, right=True),
    Column("short", wide=True, right=True),
    Column("unplaced", wide=True, right=True),
    Column("moves-by-cause", wide=True),
    Column("longest-of", wide=True),
)


_Parsed = TypeVar("_Parsed")


def show(
    scenario: Path, variant: list[str], runs: int | None, seed: int | None, plot: Path | None, output: Format
) -> None:
    """Simulate a scenario and print the results."""
    with report_failures():
        if plot is not None:
            _check_chart_path(plot)
        if scenario.suffix == vm.SUFFIX or (str(scenario) in vm.BUILT_IN and not scenario.exists()):
            _simulate_vm(scenario, variant, runs, seed, plot, output)
            return
        if str(scenario) in spot.BUILT_IN and not scenario.exists():
            _simulate_spot(str(scenario), None, variant, runs, seed, plot, output)
            return
        data = _read_document(scenario)
        if isinstance(data, Mapping) and "spot" in data:
            plan = _parse_scenario(scenario, data, parse_plan)
            _simulate_spot(scenario.name, plan, variant, runs, seed, plot, output)
            return
        for name, value in (("--runs", runs), ("--seed", seed)):
            if value is not None:
                raise WrongInput(f"{name} {value}: {scenario} has no spot section; leave the option out")
        parsed = _parse_scenario(scenario, data, parse_scenario)
        reports = _simulate_variants(parsed, _select_variants(parsed, variant))
        if plot is not None:
            _write_file(plot, render_picture(parsed, reports))
    if output in (Format.JSON, Format.YAML):
        print_data([report.as_data() for report in reports], output)
        return
    settings = parsed.settings
    print_line(f"{settings.title or scenario.name}: {time_text(settings.duration)}, seed {settings.seed}")
    print_table(_COLUMNS, [_row(report) for report in reports], output)
    if plot is not None:
        print_line(f"drawn: {plot}")


def _simulate_spot(
    name: str,
    plan: Plan | None,
    policies: Sequence[str],
    runs: int | None,
    seed: int | None,
    plot: Path | None,
    output: Format,
) -> None:
    """Simulate the plan of a file, or the built-in scenario `name` if `plan` is None."""
    if plan is None and name == spot.BASELINE:
        if policies or plot is not None:
            option = "--variant" if policies else "--plot"
            raise WrongInput(f"{option}: {name} is one table of eleven waves; leave the option out")
        spot.play_baselines(RUNS if runs is None else runs, 1 if seed is None else seed, output)
        return
    chosen = spot.select_policies(plan or spot.built_in_plan(name), policies, runs, seed)
    reports = spot.play_policies(chosen)
    if plot is not None:
        _write_file(plot, spot.draw_chart(chosen, reports))
    spot.show(chosen, reports, output)
    if plot is not None and output not in (Format.JSON, Format.YAML):
        print_line(f"drawn: {plot}")


def _simulate_vm(
    scenario: Path, variants: Sequence[str], runs: int | None, seed: int | None, plot: Path | None, output: Format
) -> None:
    built_in = scenario.suffix != vm.SUFFIX
    given = {"--runs": runs, "--plot": plot, "--seed": None if built_in else seed}
    for name, value in given.items():
        if value is not None:
            raise WrongInput(f"{name} {value}: {scenario} is played once for each variant; leave the option out")
    trace = vm.built_in_trace(str(scenario), 1 if seed is None else seed) if built_in else vm.load_trace(scenario)
    vm.simulate(trace, variants, output)


def _read_document(file: Path) -> object:
    """Read a YAML file. Raises `BadConfiguration` if it is not YAML, `WrongInput` if it cannot be read."""
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        built_in = (*spot.BUILT_IN, *vm.BUILT_IN)
        names, hint = ", ".join(built_in), spelling_hint(str(file), built_in)
        raise WrongInput(
            f"{file}: no such file; start with examples/vpod-day.yaml or examples/spot-wave.yaml, or with one of "
            f"{names}{'; ' + hint if hint else ''}"
        ) from None
    except (OSError, UnicodeDecodeError) as problem:
        raise WrongInput(f"{file} cannot be read: {problem}") from None
    data, mistakes = load_yaml(text)
    if mistakes:
        of_another_kind = wrong_kind_of_text(text, SCENARIO)
        raise BadConfiguration(str(file), mistakes if of_another_kind is None else (of_another_kind,))
    return data


def _parse_scenario(
    file: Path, data: object, parse: Callable[[object], tuple[_Parsed | None, tuple[Mistake, ...]]]
) -> _Parsed:
    """Parse a scenario. Raises `BadConfiguration` with every mistake."""
    found, mistakes = parse(data)
    if found is None:
        of_another_kind = wrong_kind_of_document(data, SCENARIO)
        mistakes = mistakes or (Mistake("", "", "a scenario"),)
        raise BadConfiguration(str(file), mistakes if of_another_kind is None else (of_another_kind,))
    return found


def _select_variants(scenario: VPodScenario, names: Sequence[str]) -> Sequence[Variant]:
    known = {each.name: each for each in scenario.variants}
    for name in names:
        if name not in known:
            hint = spelling_hint(name, known)
            raise WrongInput(f"--variant: found {name}, allowed: {', '.join(known)}{'; ' + hint if hint else ''}")
    return [each for each in scenario.variants if not names or each.name in names]


def _simulate_variants(scenario: VPodScenario, variants: Sequence[Variant]) -> list[VariantReport]:
    reports = []
    with progress("simulating", len(variants) * scenario.settings.duration) as bar:
        for number, variant in enumerate(variants):
            simulation = VPodSimulation(scenario, variant, random.Random)
            for when in scenario.sample_times():
                simulation.advance(when)
                bar.update(f"simulating {variant.name}", number * scenario.settings.duration + when)
            reports.append(simulation.report())
    return reports


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


def _check_chart_path(file: Path) -> None:
    """Refuse a file that cannot hold the chart, before minutes are spent on the simulation."""
    if file.suffix.lower() != ".svg":
        raise WrongInput(f"--plot {file}: found {file.suffix or 'no suffix'}, allowed: a file name that ends in .svg")
    if not file.parent.is_dir():
        raise WrongInput(f"--plot {file} cannot be written: folder {file.parent} does not exist; create it first")


def _write_file(file: Path, text: str) -> None:
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as problem:
        raise WrongInput(f"--plot {file} cannot be written: {problem.strerror}") from None

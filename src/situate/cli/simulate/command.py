"""Implement `situate simulate`: a product's decisions on a simulated cluster, for several settings side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from situate.cli.input.file_kinds import SCENARIO, wrong_kind_of_document, wrong_kind_of_text
from situate.cli.simulate import spot, vm, vpod
from situate.cli.terminal.failures import WrongInput, report_failures
from situate.cli.terminal.formats import Format
from situate.objects.settings.section import Mistake, parse_section, spelling_hint
from situate.objects.settings.yaml_text import load_yaml
from situate.runtime.configuration.file import BadConfiguration
from situate.sim.spot.baselines import RUNS
from situate.sim.spot.results.picture import render_picture as render_spot_picture
from situate.sim.spot.scenarios import BY_NAME as SPOT_SCENARIOS
from situate.sim.spot.settings import SpotScenarioSettings
from situate.sim.vpod.picture import render_picture
from situate.sim.vpod.scenario import parse_scenario

_Parsed = TypeVar("_Parsed")


@dataclass(frozen=True, slots=True)
class Options:
    """Options of the command. None: the scenario's own value."""

    variants: Sequence[str]
    runs: int | None
    seed: int | None
    plot: Path | None
    output: Format


def show(
    scenario: Path, variant: list[str], runs: int | None, seed: int | None, plot: Path | None, output: Format
) -> None:
    """Simulate a scenario and print the results."""
    options = Options(variant, runs, seed, plot, output)
    with report_failures():
        if plot is not None:
            _check_chart_path(plot)
        name = "" if scenario.exists() else str(scenario)
        if scenario.suffix == vm.SUFFIX or name in vm.BUILT_IN:
            _simulate_vm(scenario, options)
        elif name == spot.BASELINE:
            _simulate_baselines(options)
        elif name in spot.BUILT_IN:
            _simulate_spot(SPOT_SCENARIOS[name], options)
        else:
            data = _read_document(scenario)
            if isinstance(data, Mapping) and "spot" in data:
                _simulate_spot(_require(scenario, data, *parse_section(data, SpotScenarioSettings)), options)
            else:
                _simulate_vpod(scenario, data, options)


def _simulate_vpod(file: Path, data: object, options: Options) -> None:
    for name, value in (("--runs", options.runs), ("--seed", options.seed)):
        if value is not None:
            raise WrongInput(f"{name} {value}: {file} has no spot section; leave the option out")
    scenario = _require(file, data, *parse_scenario(data))
    reports = vpod.simulate(scenario, options.variants)
    footer = "" if options.plot is None else _write_chart(options.plot, render_picture(scenario, reports))
    vpod.show(scenario, file.name, reports, options.output, footer)


def _simulate_baselines(options: Options) -> None:
    if options.variants or options.plot is not None:
        option = "--variant" if options.variants else "--plot"
        raise WrongInput(f"{option}: {spot.BASELINE} is one table of eleven waves; leave the option out")
    runs, seed = options.runs, options.seed
    spot.play_baselines(RUNS if runs is None else runs, 1 if seed is None else seed, options.output)


def _simulate_spot(scenario: SpotScenarioSettings, options: Options) -> None:
    chosen = spot.with_options(scenario, options.variants, options.runs, options.seed)
    reports = spot.play_policies(chosen)
    footer = "" if options.plot is None else _write_chart(options.plot, render_spot_picture(chosen, reports))
    spot.show(chosen, reports, options.output, footer)


def _simulate_vm(scenario: Path, options: Options) -> None:
    built_in = scenario.suffix != vm.SUFFIX
    given = {"--runs": options.runs, "--plot": options.plot, "--seed": None if built_in else options.seed}
    for name, value in given.items():
        if value is not None:
            raise WrongInput(f"{name} {value}: {scenario} is played once for each variant; leave the option out")
    seed = 1 if options.seed is None else options.seed
    trace = vm.built_in_trace(str(scenario), seed) if built_in else vm.load_trace(scenario)
    vm.simulate(trace, options.variants, options.output)


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


def _require(file: Path, data: object, parsed: _Parsed | None, mistakes: tuple[Mistake, ...]) -> _Parsed:
    """Return the parsed scenario. Raises `BadConfiguration` with every mistake."""
    if parsed is None:
        of_another_kind = wrong_kind_of_document(data, SCENARIO)
        mistakes = mistakes or (Mistake("", "", "a scenario"),)
        raise BadConfiguration(str(file), mistakes if of_another_kind is None else (of_another_kind,))
    return parsed


def _check_chart_path(file: Path) -> None:
    """Refuse a file that cannot hold the chart, before minutes are spent on the simulation."""
    if file.suffix.lower() != ".svg":
        raise WrongInput(f"--plot {file}: found {file.suffix or 'no suffix'}, allowed: a file name that ends in .svg")
    if not file.parent.is_dir():
        raise WrongInput(f"--plot {file} cannot be written: folder {file.parent} does not exist; create it first")


def _write_chart(file: Path, svg: str) -> str:
    """Write the chart, and return the line that names its file."""
    try:
        file.write_text(svg, encoding="utf-8")
    except OSError as problem:
        raise WrongInput(f"--plot {file} cannot be written: {problem.strerror}") from None
    return f"drawn: {file}"

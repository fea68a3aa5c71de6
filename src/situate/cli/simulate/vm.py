"""Simulate loads of VMs: the rules of neondatabase/autoscaling and those of situate, side by side."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from situate.cli.input.file_kinds import TRACE, wrong_kind_of_text
from situate.cli.simulate.comparison import number_columns, print_results, select_variants
from situate.cli.terminal.failures import WrongInput
from situate.cli.terminal.formats import Format
from situate.cli.terminal.output import Column
from situate.cli.terminal.progress import progress
from situate.objects.values.durations import format_duration
from situate.runtime.configuration.file import BadConfiguration
from situate.sim.vm.account import RunOutcome
from situate.sim.vm.comparison import VARIANTS
from situate.sim.vm.scenarios import SCENARIOS, RandomSource
from situate.sim.vm.simulation import VMSimulation
from situate.sim.vm.trace import Trace, read_trace

SUFFIX: Final = ".jsonl"
"""Suffix of files with a trace."""
BUILT_IN: Final[Mapping[str, Callable[[RandomSource, int], Trace]]] = {
    f"vm-{name}": SCENARIOS[name] for name in SCENARIOS
}
"""Built-in loads by name."""
NODES: Final = 6
_COLUMNS: Final = (
    Column("variant"),
    *number_columns("requests", "granted", "p50 s", "p99 s", "moves", "frozen-s", "short-s"),
    *number_columns("denied", "GiB moved", "overcommitted-s", "broken-claims", wide=True),
)
_FIGURES: Final = (
    "wishes",
    "wishes_granted",
    "time_to_grant_s_p50",
    "time_to_grant_s_p99",
    "moves",
    "frozen_s",
    "vm_s_short",
    "grants_denied",
    "gib_moved",
    "overcommitted_node_s",
    "claims_broken",
)


def built_in_trace(name: str, seed: int) -> Trace:
    """Return the built-in load with this name."""
    return BUILT_IN[name](random.Random(seed), NODES)


def load_trace(file: Path) -> Trace:
    """Read a trace. Raises `BadConfiguration` with every mistake, `WrongInput` if the file cannot be read."""
    try:
        content = file.read_bytes()
    except OSError as problem:
        raise WrongInput(f"{file} cannot be read: {problem.strerror or problem}") from None
    try:
        text = content.decode()
    except UnicodeDecodeError as problem:
        line = content.count(b"\n", 0, problem.start) + 1
        raise WrongInput(
            f"{file} cannot be read: line {line} is not UTF-8; write the trace as JSON lines in UTF-8"
        ) from None
    trace, mistakes = read_trace(text, file.name)
    if trace is None:
        of_another_kind = wrong_kind_of_text(text, TRACE)
        raise BadConfiguration(str(file), mistakes if of_another_kind is None else (of_another_kind,))
    return trace


def simulate(trace: Trace, variants: Sequence[str], output: Format) -> None:
    """Play the trace with each of the variants (all if none is named), and show the results."""
    chosen = {name: VARIANTS[name] for name in select_variants(variants, VARIANTS)}
    found: dict[str, RunOutcome] = {}
    with progress("simulating", len(chosen) * trace.duration_s) as bar:
        for number, (name, rules) in enumerate(chosen.items()):

            def tell(at: float, name: str = name, before: float = number * trace.duration_s) -> None:
                bar.update(f"simulating {name}", before + at)

            found[name] = VMSimulation(trace, rules, tell=tell).play()
    data = [{"variant": name, **outcome.as_data()} for name, outcome in found.items()]
    rows = [(each["variant"], *(each[key] for key in _FIGURES)) for each in data]
    print_results(f"{trace.name}: {format_duration(trace.duration_s)}", _COLUMNS, rows, data, output)

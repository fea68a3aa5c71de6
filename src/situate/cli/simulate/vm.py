"""Simulate loads of VMs: the rules of neondatabase/autoscaling and those of situate, side by side."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from situate.cli.input.file_kinds import TRACE, wrong_kind_of_text
from situate.cli.terminal.failures import WrongInput
from situate.cli.terminal.formats import Format
from situate.cli.terminal.output import Column, print_data, print_table
from situate.cli.terminal.progress import progress
from situate.cli.terminal.streams import print_line
from situate.objects.settings.section import spelling_hint
from situate.objects.values.durations import format_duration
from situate.runtime.configuration.file import BadConfiguration
from situate.sim.vm.account import RunOutcome
from situate.sim.vm.comparison import VARIANTS
from situate.sim.vm.scenarios import SCENARIOS, RandomSource
from situate.sim.vm.simulation import VMSimulation
from situate.sim.vm.trace import Trace, read_trace
from situate.vm.model.policy import Rules

SUFFIX: Final = ".jsonl"
"""Suffix of files with a trace."""
BUILT_IN: Final[Mapping[str, Callable[[RandomSource, int], Trace]]] = {
    f"vm-{name}": SCENARIOS[name] for name in SCENARIOS
}
"""Built-in loads by name."""
NODES: Final = 6
_COLUMNS: Final = (
    Column("variant"),
    Column("requests", right=True),
    Column("granted", right=True),
    Column("p50 s", right=True),
    Column("p99 s", right=True),
    Column("moves", right=True),
    Column("frozen-s", right=True),
    Column("short-s", right=True),
    Column("denied", wide=True, right=True),
    Column("GiB moved", wide=True, right=True),
    Column("overcommitted-s", wide=True, right=True),
    Column("broken-claims", wide=True, right=True),
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
    chosen = _select_variants(variants)
    found: dict[str, RunOutcome] = {}
    with progress("simulating", len(chosen) * trace.duration_s) as bar:
        for number, (name, rules) in enumerate(chosen.items()):

            def tell(at: float, name: str = name, before: float = number * trace.duration_s) -> None:
                bar.update(f"simulating {name}", before + at)

            found[name] = VMSimulation(trace, rules, tell=tell).play()
    data = [{"variant": name, **outcome.as_data()} for name, outcome in found.items()]
    if output in (Format.JSON, Format.YAML):
        print_data(data, output)
        return
    print_line(f"{trace.name}: {format_duration(trace.duration_s)}")
    print_table(_COLUMNS, [(each["variant"], *(each[key] for key in _FIGURES)) for each in data], output)


def _select_variants(names: Sequence[str]) -> Mapping[str, Rules]:
    for name in names:
        if name not in VARIANTS:
            hint = spelling_hint(name, VARIANTS)
            raise WrongInput(f"--variant: found {name}, allowed: {', '.join(VARIANTS)}{'; ' + hint if hint else ''}")
    return {name: rules for name, rules in VARIANTS.items() if not names or name in names}

"""Speed of vpod's deciding half, beside every figure of section 14 of the reference.

    python -m bench.vpod [--quick] [--no-policy]

Inputs as `benchmarks.json` of the vectors describes them. The reference ran in Go on another machine, so read the
ratios (theirs / ours), not the times. The last line is one JSON object. Its keys, each by "VxRxP":

- `fill_s`; of its calls `call_us` (median), `first_us` and `last_us` (medians of the first and the last 5 %),
  `last_by_first`, `kib_per_call`
- with everything placed: `noop_us`, `plus1_us`, `minus1_us`, `beat_us`, `rebuild_s` (the state, from listings),
  `lost_pod_s` (all work for one pod)
- `sweep_s`, by sweep (V, P or R); `policy_call_s`, `maxfillup_s`, `maxfillup_call_us`

and `growth_50_to_3200`: what the sweep of V takes at 3200, by 64 times what it takes at 50. `waited_share` is the part
of the time for which others had this processor: nearly nothing, or the times are not this machine's.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.machine import load, machine, waited_s
from bench.vpod_measured import (
    Clock,
    Filled,
    Size,
    best_fill,
    fill,
    kib_per_call,
    lost_pod,
    noop,
    one_beat,
    one_more_and_back,
    policy_call,
    rebuild,
)
from situate.vpod.model.options import PolicyName

REFERENCE = Path(__file__).parent.parent / "tests" / "conformance" / "vectors" / "knative" / "benchmarks.json"
WIDTHS = (30, 12, 13, 10, 13, 10, 10)
_QUIET = 0.02
SMALL, MIDDLE, LARGE = "100x10x50", "1000x50x500", "2000x100x2000"

Row = Mapping[str, Any]
"""Of the reference's figures."""


@dataclass(frozen=True)
class Line:
    """One column of section 14 for one size."""

    what: str
    key: str
    """Of what is found."""
    shown: float
    """What is found times this is what is shown, in the unit that `what` names."""
    theirs: Callable[[Row], float | None]
    """In that unit, if they have measured it."""
    aims: Mapping[str, float]
    """Of section 12, in that unit, by size."""


def _everywhere(aim: float) -> dict[str, float]:
    return dict.fromkeys((SMALL, MIDDLE, LARGE), aim)


LINES = (
    Line("fill, all calls, ms", "fill_s", 1e3, lambda row: row["total_ms"], {SMALL: 5, MIDDLE: 150, LARGE: 500}),
    Line("call, median, us", "call_us", 1, lambda row: row["call_us"]["median"], {}),
    Line("first 5 % of calls, us", "first_us", 1, lambda row: row["call_us"]["first"], {}),
    Line("last 5 % of calls, us", "last_us", 1, lambda row: row["call_us"]["last"], {}),
    Line(
        "last by first, times",
        "last_by_first",
        1,
        lambda row: row["call_us"]["last"] / row["call_us"]["first"],
        _everywhere(1.5),
    ),
    Line("no-op, full, us", "noop_us", 1, lambda row: row["loaded_us"].get("noop"), _everywhere(50)),
    Line("one more, full, us", "plus1_us", 1, lambda row: row["loaded_us"].get("plus1"), {}),
    Line("and back, us", "minus1_us", 1, lambda row: row["loaded_us"].get("minus1"), {}),
    Line("state build, ms (1)", "rebuild_s", 1e3, lambda row: row["loaded_us"]["state"] / 1e3, {LARGE: 1500}),
    Line("beat, us", "beat_us", 1, lambda row: row["loaded_us"].get("autoscale"), {}),
    Line("memory per call, KB (2)", "kib_per_call", 1, lambda row: row.get("alloc_kb_per_call"), {}),
    Line(
        "one pod lost, ms (3)",
        "lost_pod_s",
        1e3,
        lambda row: row["V"] * row["loaded_us"]["noop"] / 1e3,
        {LARGE: 300},
    ),
)
NOTES = """(1) ours once a term, from listings; theirs on every call
(2) ours: the most that a call held beside what there was before; theirs: all that it allocated
(3) all work; theirs: a no-op call for every vpod"""


def measured(filled: Filled, size: Size) -> dict[str, float]:
    """By key of `LINES`."""
    more, less = one_more_and_back(filled)
    return {
        "fill_s": filled.total,
        "call_us": filled.call * 1e6,
        "first_us": filled.first * 1e6,
        "last_us": filled.last * 1e6,
        "last_by_first": filled.last / filled.first,
        "noop_us": noop(filled) * 1e6,
        "plus1_us": more * 1e6,
        "minus1_us": less * 1e6,
        "beat_us": one_beat(filled) * 1e6,
        "rebuild_s": rebuild(filled),
        "lost_pod_s": lost_pod(filled),
        "kib_per_call": kib_per_call(size),
    }


def row(*cells: object) -> None:
    first, *others = cells
    shown = "".join(f"{cell!s:>{width}}" for cell, width in zip(others, WIDTHS[1:], strict=False))
    print(f"{first!s:<{WIDTHS[0]}}{shown}".rstrip(), flush=True)


def number(value: float | None) -> str:
    """Three digits and more, or nothing."""
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def ratio(theirs: float | None, ours: float) -> str:
    if theirs is None:
        return ""
    return f"{number(theirs / ours)}x" if theirs >= ours else f"{theirs / ours:.2g}x"


def sizes_of(rows: list[dict[str, Any]], largest: int) -> Iterator[tuple[Size, Row]]:
    for each in rows:
        if each["V"] <= largest:
            yield Size(each["V"], each["R"], each["P"], each["C"]), each


def fills(found: dict[str, Any], clock: Clock, reference: Row, runs: int, largest: int) -> None:
    """The table of section 14, a size after the other, and what info logging, their default, adds to theirs."""
    found |= {line.key: {} for line in LINES}
    logging = {str(size): theirs for size, theirs in sizes_of(reference["results"], largest) if theirs["log"] == "info"}
    for size, theirs in sizes_of([each for each in reference["results"] if each["log"] == "nop"], largest):
        values = measured(best_fill(clock, size, runs), size)
        print(f"\n{size.vpods} vpods of {size.vreplicas} vreplicas on {size.pods} pods of capacity {size.capacity}")
        row("", "ours", "reference", "ratio", "with logs", "ratio", "aim")
        with_logs = logging.get(str(size))
        for line in LINES:
            ours = values[line.key]
            found[line.key][str(size)] = ours
            ours *= line.shown
            plain, logged = line.theirs(theirs), line.theirs(with_logs) if with_logs else None
            aim = line.aims.get(str(size))
            ratios = ratio(plain, ours), ratio(logged, ours)
            row(line.what, number(ours), number(plain), ratios[0], number(logged), ratios[1], number(aim))
    print(NOTES)


def sweeps(found: dict[str, Any], clock: Clock, reference: Row, runs: int, largest: int) -> None:
    found["sweep_s"] = {}
    for varied in dict.fromkeys(each["sweep"] for each in reference["sweeps"]):
        swept = found["sweep_s"].setdefault(varied, {})
        print(f"\nsweep of {varied}")
        row("V x R x P", "fill ms", "reference", "ratio", "call us", "reference", "ratio")
        rows = list(sizes_of([each for each in reference["sweeps"] if each["sweep"] == varied], largest))
        for size, theirs in rows:
            filled = best_fill(clock, size, runs)
            swept[str(size)] = filled.total
            total, call = filled.total * 1e3, filled.call * 1e6
            their_total, their_call = theirs["total_ms"], theirs["call_us"]["median"]
            fill_cells = (number(total), number(their_total), ratio(their_total, total))
            row(size, *fill_cells, number(call), number(their_call), ratio(their_call, call))
        if varied == "V" and {50, 3200} <= {size.vpods for size, _ in rows}:
            found["growth_50_to_3200"] = ours = growth({size.vpods: swept[str(size)] for size, _ in rows})
            theirs_grown = growth({size.vpods: theirs["total_ms"] for size, theirs in rows})
            print(f"V from 50 to 3200: {number(ours)} x linear; reference {number(theirs_grown)} x; aim 1.3 x")


def growth(totals: Mapping[int, float]) -> float:
    """By the number of vpods: 1 is linear."""
    return totals[3200] / totals[50] / 64


def policies(found: dict[str, Any], clock: Clock, reference: Row, runs: int, largest: int) -> None:
    """What the reference's v0.43.0 did with its two policies."""
    found |= {"policy_call_s": {}, "maxfillup_s": {}, "maxfillup_call_us": {}}
    theirs_of_both = reference["policy_mode_v0_43_0"]
    aims = {MIDDLE: 60, LARGE: 600}
    print("\npolicy as shipped (predicates and priorities)")
    row("V x R x P", "call ms", "reference", "ratio", "", "", "aim")
    for size, theirs in sizes_of(theirs_of_both["results"], largest):
        spent = policy_call(clock, size, theirs["preloaded"], theirs["calls"])
        found["policy_call_s"][str(size)] = spent
        wall, aim = theirs["call_us"]["median"] / 1e3, aims.get(str(size))
        row(size, number(spent * 1e3), number(wall), ratio(wall, spent * 1e3), "", "", number(aim))
    print("\nMAXFILLUP (ours: pack)")
    row("V x R x P", "fill ms", "reference", "ratio", "call us", "reference", "ratio")
    for size, theirs in sizes_of(theirs_of_both["maxfillup_affinity_results"], largest):
        filled = best_fill(clock, size, runs, policy=PolicyName.PACK)
        found["maxfillup_s"][str(size)] = filled.total
        found["maxfillup_call_us"][str(size)] = filled.call * 1e6
        total, call = filled.total * 1e3, filled.call * 1e6
        their_total, their_call = theirs["total_ms"], theirs["call_us"]["median"]
        fill_cells = (number(total), number(their_total), ratio(their_total, total))
        row(size, *fill_cells, number(call), number(their_call), ratio(their_call, call))


def report(
    reference: Row, clock: Clock, *, runs: int = 5, largest: int = sys.maxsize, policy: bool = True
) -> dict[str, Any]:
    """Prints all that section 14 has; what was found, by key."""
    found: dict[str, Any] = {}
    print(f"ours:      {machine()}; load before: {load()}\nreference: {reference['machine']}")
    fill(clock, Size(50, 10, 100, 7))  # warm: the first run pays for what the interpreter learns once
    fills(found, clock, reference, runs, largest)
    sweeps(found, clock, reference, runs, largest)
    if policy:
        policies(found, clock, reference, runs, largest)
    return found


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.vpod", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one run of each, without the largest sizes")
    parser.add_argument("--no-policy", action="store_true", help="leave out predicates and priorities, and MAXFILLUP")
    chosen = parser.parse_args(arguments)
    reference = json.loads(REFERENCE.read_text(encoding="utf-8"))
    limits = {"runs": 1, "largest": 1500} if chosen.quick else {}
    began, waited_before = time.perf_counter(), waited_s("self")
    found = report(reference, time.perf_counter, policy=not chosen.no_policy, **limits)
    waited = (waited_s("self") - waited_before) / (time.perf_counter() - began)
    if not math.isnan(waited):
        found["waited_share"] = waited
        if waited > _QUIET:
            print(
                f"\nothers had this processor for {waited:.0%} of the time: only medians of calls tell what it can do"
            )
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1:])

"""Six policies for a cluster whose pods share GPUs, on openb: how much they give out, and how much they break.

    python -m bench.openb [--pods FILE ...] [--seeds 10] [--jobs N] [--plots FOLDER]

Each policy plays each list once a seed; the table shows the means beside the published ones, a plot the whole course.
The last line is one JSON object: for each list its policies' allocation, in percent of the cluster's GPUs, when 100 and
130 percent of them have been asked for; and what one run of FGD took, alone, in seconds of one processor.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.machine import machine
from bench.openb.chart import chart
from bench.openb.experiment import PLUGINS, Curve, run
from bench.openb.playing import Asked, play
from bench.openb.report import Policy, Study, figures, published, table
from bench.openb.trace import NODES, BadList, PodList, TraceNode, list_name, read_nodes, read_pods, shipped_lists

FIRST_SEED = 42
"""As in the published experiment."""
TIMED = "FGD"


def main(arguments: Sequence[str]) -> int:
    chosen = _arguments(arguments)
    try:
        nodes = read_nodes(chosen.nodes)
        lists = [read_pods(path) for path in chosen.pods]
    except BadList as problem:
        print(f"bench.openb: {problem}", file=sys.stderr)
        return 2
    seeds = range(FIRST_SEED, FIRST_SEED + chosen.seeds)
    print(machine())
    alone, spent, waited = _timed(lists[0], nodes, seeds[0])
    print(f"one run of {TIMED} on {lists[0].name}, alone: {spent:.2f} s of processor time, {waited:.2f} s in all")
    done = {Asked(0, TIMED, seeds[0]): alone}
    all_runs = [Asked(number, policy, seed) for number in range(len(lists)) for policy in PLUGINS for seed in seeds]
    asked = [each for each in all_runs if each not in done]
    for each, curve in zip(asked, play(lists, nodes, asked, chosen.jobs), strict=True):
        done[each] = curve
        _progress(len(done), len(all_runs))
    found: dict[str, Any] = {}
    gpus = sum(node.gpus for node in nodes)
    for number, listed in enumerate(lists):
        study = {policy: Policy.of([done[Asked(number, policy, seed)] for seed in seeds]) for policy in PLUGINS}
        found[listed.name] = figures(study)
        print(f"\n{listed.name}: {len(listed.pods)} pods, {len(nodes)} nodes, {gpus} GPUs, {_seeds(seeds)}\n")
        print("\n".join(table(listed.name, study)))
        print(f"plot: {_plotted(listed, study, gpus, seeds, chosen.plots)}")
    print(json.dumps({**found, "seconds_per_fgd_run": round(spent, 2)}))
    return 0


def _arguments(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.openb", description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--pods", type=Path, action="append", metavar="FILE", help="a list of pods (.csv, .csv.gz); may be repeated"
    )
    parser.add_argument("--nodes", type=Path, default=NODES, metavar="FILE", help="the list of nodes")
    parser.add_argument("--seeds", type=int, default=10, help=f"so many, from {FIRST_SEED} on")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes at the same time")
    parser.add_argument("--plots", type=Path, default=Path("build", "openb"), metavar="FOLDER", help="where plots go")
    chosen = parser.parse_args(arguments)
    chosen.pods = chosen.pods or shipped_lists()
    names = [list_name(path) for path in chosen.pods]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        parser.error(f"--pods names these lists more than once: {', '.join(sorted(twice))}")
    if chosen.seeds < 1 or chosen.jobs < 1:
        parser.error("--seeds and --jobs must be at least 1")
    return chosen


def _timed(listed: PodList, nodes: Sequence[TraceNode], seed: int) -> tuple[Curve, float, float]:
    """The curve, processor time and time that went by: they are equal where nothing else is running."""
    start, used = time.perf_counter(), time.process_time()
    curve = run(listed, nodes, TIMED, seed)
    return curve, time.process_time() - used, time.perf_counter() - start


def _plotted(listed: PodList, study: Study, gpus: int, seeds: range, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"packing-{listed.name}.svg"
    path.write_text(chart(listed.name, study, published(listed.name), gpus, _seeds(seeds)), encoding="utf-8")
    return path


def _seeds(seeds: range) -> str:
    return f"seed {seeds[0]}" if len(seeds) == 1 else f"{len(seeds)} seeds ({seeds[0]} to {seeds[-1]})"


def _progress(done: int, of: int) -> None:
    if sys.stderr.isatty():
        print(f"\r{done} of {of} runs", end="\n" if done == of else "", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Our client beside lightkube's AsyncClient: writes, watch events and memory, on the same server in the same run.

    python -m bench.client [--quick] [--runs N] [--loop asyncio|uvloop] [--older VERSION]

Each measurement is a process of its own on one core, the server stands on the other; both sides take turns and the
medians are compared. The server (`bench.answering`) only answers, so that the client is what is measured. Both sides
decode every answer as they always do and check its status; each writes at the concurrency that suits it best.
`writes_ratio` (the smaller of patch and create), `watch_ratio` (objects kept, as an informer does) and `memory_ratio`
are ours / theirs; `watch_cpu_ratio` is by processor time, which a busy machine blurs less. The last line is one JSON
object. `docs/decisions/0008-watch-events.md` says what stands in the way of a higher `watch_ratio`.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from bench.machine import load, machine, pin
from bench.processes import measured, server

CLIENT_CORE, SERVER_CORE = 0, 1
OURS, THEIRS = "situate", "lightkube"
WATCHED = 5000
"""Pods that a watch's events are about."""
WIDTHS = (36, 14, 14, 9, 10, 10, 9)


@dataclass(frozen=True)
class Size:
    runs: int
    writes: int
    events: int
    pods: int
    concurrencies: tuple[int, ...]


FULL = Size(runs=5, writes=2000, events=20_000, pods=100_000, concurrencies=(1, 4, 16, 64))
QUICK = Size(runs=1, writes=100, events=500, pods=2000, concurrencies=(16,))


class Sides:
    """Runs either side's measurements."""

    def __init__(self, loop: str, size: Size, pythons: Mapping[str, str]) -> None:
        self._loop = loop
        self._size = size
        self._pythons = pythons
        self.concurrency = dict.fromkeys(pythons, 16)

    def run(self, side: str, what: str, url: str, *more: str) -> dict[str, Any]:
        module = f"bench.client_{OURS if side == OURS else THEIRS}"
        loop = ("--loop", self._loop if side in (OURS, THEIRS) else "asyncio")
        return measured((self._pythons[side], "-m", module, what, url, *loop, *more))

    def writes(self, side: str, url: str, kind: str) -> dict[str, Any]:
        concurrency = str(self.concurrency[side])
        return self.run(
            side, "writes", url, "--kind", kind, "--count", str(self._size.writes), "--concurrency", concurrency
        )

    def find_best_concurrency(self, side: str, url: str) -> None:
        """By a short run each, unless there is no choice."""
        if len(self._size.concurrencies) == 1:
            return
        count = str(max(100, self._size.writes // 4))
        rates = {
            each: self.run(side, "writes", url, "--count", count, "--concurrency", str(each))["per_s"]
            for each in self._size.concurrencies
        }
        self.concurrency[side] = max(rates, key=rates.__getitem__)

    def turns(self, what: str, url: str, *, kind: str, sides: tuple[str, ...] = (OURS, THEIRS)) -> list[dict[str, Any]]:
        """Alternated runs; the medians of each side, in the order given."""
        results: dict[str, list[dict[str, Any]]] = {side: [] for side in sides}
        for _ in range(self._size.runs):
            for side in sides:
                if what == "writes":
                    results[side].append(self.writes(side, url, kind))
                else:
                    results[side].append(self.run(side, what, url, "--kind", kind, "--count", str(self._size.events)))
        return [_medians(results[side]) for side in sides]


def _medians(results: list[dict[str, Any]]) -> dict[str, Any]:
    numbers = {key for key, value in results[0].items() if isinstance(value, int | float)}
    return {
        key: median(each[key] for each in results) if key in numbers else value for key, value in results[0].items()
    }


def row(*cells: object) -> None:
    first, *others = cells
    shown = "".join(f"{cell!s:>{width}}" for cell, width in zip(others, WIDTHS[1:], strict=False))
    print(f"{first!s:<{WIDTHS[0]}}{shown}".rstrip(), flush=True)


def cpu_ratio(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> float:
    """How often ours does the work in the processor time that theirs takes for it once."""
    ratio: float = theirs["cpu_us"] / ours["cpu_us"]
    return ratio


def show_rates(what: str, ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> float:
    ratio: float = ours["per_s"] / theirs["per_s"]
    cpu = (f"{ours['cpu_us']:.1f}", f"{theirs['cpu_us']:.1f}", f"{cpu_ratio(ours, theirs):.2f}x")
    row(what, f"{ours['per_s']:,.0f}/s", f"{theirs['per_s']:,.0f}/s", f"{ratio:.2f}x", *cpu)
    return ratio


def show_memory(what: str, ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> float:
    ratio: float = ours["bytes"] / theirs["bytes"]
    mib = tuple(f"{each['bytes'] / 2**20:,.1f} MiB" for each in (ours, theirs))
    row(what, *mib, f"{ratio:.3f}x", f"{ours['cpu_s']:.2f} s", f"{theirs['cpu_s']:.2f} s")
    return ratio


@contextmanager
def older_lightkube(version: str) -> Iterator[str]:
    """The interpreter of a temporary environment with that version."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = Path(folder) / "bin" / "python"
        wanted = (f"lightkube=={version}", "msgspec")
        subprocess.run((python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *wanted), check=True)
        yield str(python)


def compare_writes(sides: Sides, url: str, pair: tuple[str, str]) -> dict[str, float]:
    return {
        kind: show_rates(f"{kind} a pod", *sides.turns("writes", url, kind=kind, sides=pair))
        for kind in ("patch", "create")
    }


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.client", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one small run of each")
    parser.add_argument("--runs", type=int, help="of each side in each measurement")
    parser.add_argument("--loop", choices=("asyncio", "uvloop"), default="asyncio", help="of both clients")
    parser.add_argument("--older", metavar="VERSION", help="also an older lightkube, in a temporary environment")
    chosen = parser.parse_args(arguments)
    size = QUICK if chosen.quick else FULL
    if chosen.runs:
        size = dataclasses.replace(size, runs=chosen.runs)
    pin(0, CLIENT_CORE)
    print(f"{machine()}; load before: {load()}; client on core {CLIENT_CORE}, server on core {SERVER_CORE}")
    pythons = {OURS: sys.executable, THEIRS: sys.executable}
    sides = Sides(chosen.loop, size, pythons)
    found: dict[str, Any] = {}
    with server("bench.answering", "--pods", str(WATCHED), "--events", str(size.events), core=SERVER_CORE) as answering:
        url = answering.url
        for side in pythons:
            sides.find_best_concurrency(side, url)
        version = sides.run(THEIRS, "writes", url, "--count", "20")["version"]
        found |= {"lightkube": version, "loop": chosen.loop, "concurrency": dict(sides.concurrency)}
        print(
            f"lightkube {version}; {chosen.loop}; calls in flight: ours {sides.concurrency[OURS]}, "
            f"lightkube {sides.concurrency[THEIRS]}; medians of {size.runs} alternated runs\n"
        )
        row("", "ours", "lightkube", "ratio", "cpu us", "cpu us", "ratio")
        found["writes"] = compare_writes(sides, url, (OURS, THEIRS))
        found["writes_ratio"] = min(found["writes"].values())
        kept = sides.turns("watch", url, kind="keep")
        found["watch_ratio"] = show_rates("watch, objects kept in a store", *kept)
        found["watch_cpu_ratio"] = cpu_ratio(*kept)
        found["watch_decode_ratio"] = show_rates(
            "watch, objects decoded and dropped", *sides.turns("watch", url, kind="forget")
        )
        if chosen.older:
            with older_lightkube(chosen.older) as python:
                name = f"lightkube {chosen.older}"
                pythons[name] = python
                sides.concurrency[name] = 16
                sides.find_best_concurrency(name, url)
                pair = (OURS, name)
                row("", "ours", name, "ratio", "cpu us", "cpu us", "ratio")
                older = compare_writes(sides, url, pair)
                kept = sides.turns("watch", url, kind="keep", sides=pair)
                older |= {"watch": show_rates("watch, kept", *kept), "watch_cpu": cpu_ratio(*kept)}
                found["older"] = {"lightkube": chosen.older, **older}
    row("", "ours", "lightkube", "ratio", "cpu", "cpu")
    with server("bench.answering", "--pods", str(size.pods), core=SERVER_CORE) as many:
        memory = [sides.run(side, "memory", many.url) for side in (OURS, THEIRS)]
        found["memory_ratio"] = show_memory(f"memory for {size.pods:,} pods", *memory)
        found["memory_mib"] = {side: each["bytes"] / 2**20 for side, each in zip((OURS, THEIRS), memory, strict=True)}
    print(f"\nload after: {load()}; the machine may be shared, so read ratios and CPU times")
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1:])

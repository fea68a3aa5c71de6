"""The embedded API server under load, beside the real etcd and kube-apiserver in the same run.

    python -m bench.embedded [--quick] [--runs N] [--no-real]

Pods are created with 32 calls in flight while watchers verify every event over HTTP; defaulting and validation are on,
as always. The embedded server has one core and the load the other; etcd and kube-apiserver have both, with the load
beside them, and speak TLS, as they always do. Neither runs controllers, unless a line says so. Runs take turns, medians
count. The keys: `writes_per_s` (pods of one template, four watchers: what was found out about the first ones holds for
the others), `distinct_writes_per_s` (no two pods alike: each goes the whole way), `watch_events_per_s` (delivered, to
as many watchers as gave most), `mib_100k_pods` (resident memory of the server process, its interpreter included, with
100,000 pods as they were created; no controllers), `mib_100k_pods_with_controllers` (the same with all of them and no
node, where each pod has a condition and an Event of its own: 200,000 objects; a quarter of them is made, the others
count like its second half), `ready_s` (from the start of `situate embedded` to its first answer) and `writes_ratio`
(ours / the real one's). On a machine that others use as well the keys with `cpu_s` say more: the same by the server's
own processor time. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from bench.machine import cpu_s, load, machine, rss_mib
from bench.processes import measured, server
from situate.embedded.kubeconfig import kubeconfig, write_kubeconfig

LOAD_CORE, SERVER_CORE = 0, 1
WATCHERS = 4
_SETTLING = 600
_IDLE_CPU_S = 0.05
"""Of processor time in a second."""
WIDTHS = (52, 12, 14, 14, 12)


@dataclass(frozen=True)
class Size:
    runs: int
    writes: int
    held: int
    watchers: tuple[int, ...]
    starts: int


FULL = Size(runs=5, writes=5000, held=100_000, watchers=(4, 8, 16), starts=5)
QUICK = Size(runs=1, writes=300, held=1000, watchers=(4,), starts=1)


@dataclass
class Target:
    """A server under load, and what was measured there."""

    name: str
    kubeconfig: Path
    pids: tuple[int, ...]
    load_core: int | None = None
    """None: the load may use every core, as the server does."""
    loads: int = 0
    results: list[dict[str, Any]] = field(default_factory=list)

    def put_under_load(self, count: int, *more: str) -> dict[str, Any]:
        self.loads += 1
        before = sum(map(cpu_s, self.pids))
        command = (sys.executable, "-m", "bench.pod_load", str(self.kubeconfig), "--name", f"load-{self.loads}")
        core = () if self.load_core is None else ("--core", str(self.load_core))
        result = measured((*command, "--count", str(count), *core, *more))
        return {**result, "server_cpu_us": (sum(map(cpu_s, self.pids)) - before) / count * 1e6}


def row(*cells: object) -> None:
    first, *others = cells
    shown = "".join(f"{cell!s:>{width}}" for cell, width in zip(others, WIDTHS[1:], strict=False))
    print(f"{first!s:<{WIDTHS[0]}}{shown}".rstrip(), flush=True)


def show(what: str, results: list[dict[str, Any]]) -> dict[str, float]:
    middle = {key: median(each[key] for each in results) for key in results[0]}
    rates = (f"{middle['writes_per_s']:,.0f}", f"{middle['watch_events_per_s']:,.0f}")
    row(what, *rates, f"{middle['server_cpu_us']:.0f}", f"{middle['load_cpu_s']:.2f}")
    return middle


@contextlib.contextmanager
def embedded(folder: Path, *more: str) -> Iterator[Target]:
    with server("bench.serving", *more, core=SERVER_CORE) as running:
        path = folder / f"embedded-{running.pid}.kubeconfig"
        write_kubeconfig(path, kubeconfig(running.url))
        yield Target("embedded", path, (running.pid,), LOAD_CORE)


@contextlib.contextmanager
def real(folder: Path) -> Iterator[Target]:
    """etcd and kube-apiserver, on every core."""
    from tests.controlplane.build import build
    from tests.controlplane.plane import ControlPlane, Options

    programs = build(say=print)
    with ControlPlane(folder / "control-plane", Options(), programs=programs) as plane:
        pids = tuple(plane.component(name).pid for name in ("etcd", "kube-apiserver"))
        yield Target("etcd and kube-apiserver", plane.kubeconfig(), pids)


def ready_s() -> tuple[float, float]:
    """From the start of the command to its first answer, and what of that the command was on a processor."""
    start = time.perf_counter()
    command = (sys.executable, "-m", "situate", "embedded", "--port", "0")
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        url = process.stdout.readline().split()[-1]
        with urllib.request.urlopen(f"{url}/readyz") as answer:
            answer.read()
        return time.perf_counter() - start, cpu_s(process.pid)
    finally:
        process.terminate()
        process.communicate()


def held(folder: Path, first: int, count: int, *more: str) -> float:
    """MiB of a fresh server with 100,000 pods; with fewer, what it would be if each more took as much as the last.

    The `first` ones fill what has a bound, such as the log of changes, and do not count for that.
    """
    with embedded(folder, *more) as target:
        pid = target.pids[0]
        target.put_under_load(first, "--watchers", "0")
        before = settled_mib(pid)
        target.put_under_load(count - first, "--watchers", "0")
        after = settled_mib(pid)
        return after + (after - before) / (count - first) * (100_000 - count)


def settled_mib(pid: int) -> float:
    """Resident memory once the process has nothing more to do."""
    used = cpu_s(pid)
    for _ in range(_SETTLING):
        time.sleep(1)
        used, before = cpu_s(pid), used
        if used - before < _IDLE_CPU_S:
            return rss_mib(pid)
    raise SystemExit(f"the server's controllers were still at work {_SETTLING} s after the load")


def in_turns(targets: Sequence[Target], size: Size) -> list[dict[str, float]]:
    """Creation of pods of one template with four watchers; the medians of each."""
    for target in targets:
        target.put_under_load(size.writes // 5)  # warm
    for _ in range(size.runs):
        for target in targets:
            target.results.append(target.put_under_load(size.writes, "--watchers", str(WATCHERS)))
    return [show(f"{target.name}, {WATCHERS} watchers", target.results) for target in targets]


def beside(ours: dict[str, float], *others: dict[str, float]) -> dict[str, float]:
    """Keys of the creations, with ratios if there is another server."""
    found = {"writes_per_s": ours["writes_per_s"], "writes_per_cpu_s": 1e6 / ours["server_cpu_us"]}
    for theirs in others:
        found["real_writes_per_s"] = theirs["writes_per_s"]
        found["writes_ratio"] = ours["writes_per_s"] / theirs["writes_per_s"]
        found["writes_per_cpu_s_ratio"] = theirs["server_cpu_us"] / ours["server_cpu_us"]
    return found


def compare(folder: Path, size: Size, *, with_real: bool) -> dict[str, float]:
    with contextlib.ExitStack() as running:
        ours = running.enter_context(embedded(folder))
        others = [running.enter_context(real(folder))] if with_real else []
        middles = in_turns([ours, *others], size)
        found = beside(*middles)
        distinct = [ours.put_under_load(size.writes, "--distinct") for _ in range(size.runs)]
        found["distinct_writes_per_s"] = show("embedded, 4 watchers, no two pods alike", distinct)["writes_per_s"]
        by_watchers = {WATCHERS: middles[0]}
        for watchers in size.watchers[1:]:
            results = [ours.put_under_load(size.writes, "--watchers", str(watchers)) for _ in range(size.runs)]
            by_watchers[watchers] = show(f"embedded, {watchers} watchers", results)
        found["watch_events_per_s"] = max(each["watch_events_per_s"] for each in by_watchers.values())
        found["watch_events_per_cpu_s"] = max(
            watchers * 1e6 / each["server_cpu_us"] for watchers, each in by_watchers.items()
        )
    with embedded(folder, "--controllers") as target:
        results = [target.put_under_load(size.writes) for _ in range(size.runs)]
        found["writes_per_s_with_controllers"] = show("embedded with all controllers, 4 watchers", results)[
            "writes_per_s"
        ]
    return found


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.embedded", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one small run of each")
    parser.add_argument("--runs", type=int, help="of each measurement")
    parser.add_argument("--no-real", action="store_true", help="leave out etcd and kube-apiserver")
    chosen = parser.parse_args(arguments)
    size = QUICK if chosen.quick else FULL
    if chosen.runs:
        size = dataclasses.replace(size, runs=chosen.runs)
    print(f"{machine()}; load before: {load()}; load generator on core {LOAD_CORE}, server on core {SERVER_CORE}")
    starts = [ready_s() for _ in range(size.starts)]
    found: dict[str, Any] = {
        "ready_s": median(wall for wall, _ in starts),
        "ready_cpu_s": median(cpu for _, cpu in starts),
    }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        print(f"medians of {size.runs} alternated runs of {size.writes} creations\n")
        row("", "creations/s", "delivered/s", "server us/pod", "load cpu s")
        found |= compare(folder, size, with_real=not chosen.no_real)
        # With controllers and no nodes each pod gets an Event and a condition: some, to see what that adds.
        for key, what, first, count, more in (
            ("mib_100k_pods", "no controllers", 1, size.held, ()),
            ("mib_100k_pods_with_controllers", "all controllers", size.held // 8, size.held // 4, ("--controllers",)),
        ):
            found[key] = held(folder, first, count, *more)
            row(f"MiB for 100,000 pods, by {count:,}, {what}", f"{found[key]:,.0f}")
    print(f"ready in {found['ready_s']:.2f} s, {found['ready_cpu_s']:.2f} s of it on the processor")
    print(f"load after: {load()}; the machine may be shared, so read ratios and CPU times")
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1:])

"""Spot under load: the real process, with 20,000 pods cached, answering admission reviews over HTTPS.

    python -m bench.spot [--quick] [--rate N] [--only PART]

`situate run` with a `spot` section follows an embedded API server that holds 20,000 running pods of 400 workloads
(`bench.spot_cluster`). Reviews come as kube-apiserver sends them (`bench.spot_load`): 200 a second, each at a moment
of its own; and again as whole workloads of fifty pods, each created as fast as its controller can; and once more with
pods behind the gate of strict mode (`bench.spot_gated`), fifty at once every second. Times are the client's. The
process has one core, load and API server the other. The keys: `admission_ms_p50`, `admission_ms_p99`, `gated_ms_p99`
(until a pod behind the gate was let go), `rss_mib` (resident memory after the load), `ready_s` (from the start of the
process until it is ready and its webhook answers, all pods listed; the middle of three starts).

How far the machine was busy with other things is told beside, as `waited_share`: of the time for which the process had
something to do under that load, the part in which others had its core. Near 0 the times are ours; at a half of it, say,
each of them is the machine's as much.

Besides, on virtual time: `play_bursts`, how many of B1's bursts end with the floor exactly while watches are up to 2 s
behind, and `wave`, what one wave that takes all spot nodes costs each policy of the table in spot's reference. The last
line is one JSON object.
"""

from __future__ import annotations

import argparse
import http.client
import json
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from pathlib import Path
from random import Random
from statistics import median
from typing import Any, Final
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import yaml
from tests.controlplane.ports import ReservedPort
from tests.controlplane.process import Process

from bench.e2e import compiled
from bench.machine import cpu_s, load, machine, pin, rss_mib, waited_s
from bench.processes import Server, measured, server
from bench.spot_cluster import NODES
from situate.embedded.kubeconfig import kubeconfig, write_kubeconfig
from situate.runtime.serving.certificates.issue import host_names
from situate.runtime.serving.certificates.renewal_schedule import AUTHORITY, decode_data
from situate.sim.spot.baselines import BASELINES, simulate_case
from situate.spot.model.object_names import CERTIFICATES, NAME
from situate.testing.spot.bursts import SHAPES, BurstShape, play_bursts

PARTS: Final = ("admission", "bursts", "wave")
NAMESPACE: Final = "default"
LOAD_CORE, OUR_CORE = 0, 1
_READY_S: Final = 120.0
_POLL_S: Final = 0.01


@dataclass(frozen=True)
class Size:
    pods: int
    workloads: int
    """Of fifty pods each, for each way of creating them."""
    starts: int
    rate: float
    """Reviews a second."""
    gated: int
    """Workloads of fifty pods behind the gate of strict mode, at most as many as `workloads`."""
    shapes: Sequence[BurstShape]
    tries: int
    """Of each shape of burst."""
    waves: int
    """Runs for each policy."""


FULL = Size(pods=20_000, workloads=80, starts=3, rate=200, gated=30, shapes=SHAPES, tries=20, waves=400)
QUICK = Size(pods=500, workloads=4, starts=1, rate=50, gated=4, shapes=SHAPES[:3], tries=2, waves=5)


@dataclass(frozen=True)
class Limit:
    """A figure of the benchmark and what it may be at most (B6, B38)."""

    key: str
    title: str
    most: float
    unit: str


LIMITS: Final = (
    Limit("admission_ms_p50", "admission, half of the reviews within", 5.0, "ms"),
    Limit("admission_ms_p99", "admission, 99 % of the reviews within", 50.0, "ms"),
    Limit("admission_ms_max", "admission, the slowest", 2000.0, "ms"),
    Limit("gated_ms_p99", "strict mode, 99 % of the pods let go within", 1000.0, "ms"),
    Limit("rss_mib", "resident memory", 400.0, "MiB"),
    Limit("ready_s", "ready after a start", 5.0, "s"),
)


@dataclass(frozen=True)
class Start:
    """What it took until all was listed, and the webhook answered."""

    seconds: float
    cpu_s: float

    def __str__(self) -> str:
        return f"{self.seconds:.2f} s ({self.cpu_s:.2f} s of processor time)"


class Ours:
    """The process under test; it may be started again and again."""

    def __init__(self, api: Server, folder: Path) -> None:
        self._health, self.webhook = ReservedPort(), ReservedPort()
        settings = folder / "situate.yaml"
        document = {
            "apiVersion": "situate.dev/v1alpha1",
            "kind": "Situate",
            "health": {"address": f"127.0.0.1:{self._health.number}"},
            "leaderElection": {"namespace": NAMESPACE},
            "spot": {"webhook": {"address": f"127.0.0.1:{self.webhook.number}"}},
        }
        settings.write_text(yaml.safe_dump(document))
        access = folder / "kubeconfig"
        write_kubeconfig(access, kubeconfig(api.url))
        command = (sys.executable, "-m", "situate", "run", "-f", str(settings), "--kubeconfig", str(access))
        environment = compiled(folder / "compiled")
        self.process = Process("situate", command, folder / "situate.log", environment=environment)

    @contextmanager
    def running(self) -> Iterator[Start]:
        """From its start to its end."""
        begun = time.perf_counter()
        self.process.start()
        pin(self.process.pid, OUR_CORE)
        try:
            _wait(self._listens, self.process)
            _wait(self._ready, self.process)
            yield Start(time.perf_counter() - begun, cpu_s(self.process.pid))
        finally:
            self.process.stop(timeout_s=30)

    def _ready(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self._health.number, timeout=5)
        try:
            connection.request("GET", "/readyz")
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()

    def _listens(self) -> bool:
        with socket.socket() as attempt:
            return attempt.connect_ex(("127.0.0.1", self.webhook.number)) == 0


def _wait(holds: Callable[[], bool], process: Process) -> None:
    deadline = time.monotonic() + _READY_S
    while not holds():
        if not process.running or time.monotonic() > deadline:
            raise SystemExit(process.tail())
        time.sleep(_POLL_S)


def _authority(api: Server, folder: Path) -> Path:
    """Whom an API server is told to trust."""
    path = f"{api.url}/api/v1/namespaces/{NAMESPACE}/secrets/{CERTIFICATES}"
    with urlopen(Request(path, headers={"Accept": "application/json"})) as answer:
        found = json.loads(answer.read())
    file = folder / "ca.crt"
    file.write_bytes(decode_data(found["data"])[AUTHORITY])
    return file


def under_load(api: Server, ours: Ours, authority: Path, *more: str) -> dict[str, Any]:
    name = host_names(NAME, NAMESPACE)[0]
    ports = (str(ours.webhook.number), str(authority), name, str(urlsplit(api.url).port))
    pid = ours.process.pid
    cpu_before, waited_before = cpu_s(pid), waited_s(pid)
    found = measured((sys.executable, "-m", "bench.spot_load", *ports, "--core", str(LOAD_CORE), *more))
    spent, waited = cpu_s(pid) - cpu_before, waited_s(pid) - waited_before
    return {**found, "cpu_ms": spent / found["reviews"] * 1e3, "waited_share": waited / (waited + spent)}


def behind_the_gate(api: Server, workloads: int, first: int) -> dict[str, Any]:
    more = ("--workloads", str(workloads), "--first", str(first), "--core", str(LOAD_CORE))
    found = measured((sys.executable, "-m", "bench.spot_gated", str(urlsplit(api.url).port), *more))
    times = f"half within {found['ms_p50']:.0f} ms, 99 % within {found['ms_p99']:.0f}, all within {found['ms_max']:.0f}"
    print(f"strict mode: {found['pods']:,} pods let go, {times}; {found['exact']} of {found['workloads']} exact")
    return found


def told(title: str, found: dict[str, Any]) -> None:
    times = " ".join(f"{found[key]:8.2f}" for key in ("ms_p50", "ms_p90", "ms_p99", "ms_max"))
    rest = f"{found['cpu_ms']:9.2f} {found['late_ms_p99']:9.2f} {found['connections']:12,}"
    rest += f"{found['waited_share']:8.0%}{found['load_waited_share']:8.0%}"
    print(f"{title:<44}{found['reviews']:8,} {times} {rest}   {found['exact']} of {found['workloads']}", flush=True)


def measure(size: Size, rate: float, folder: Path) -> dict[str, Any]:
    growing = 3 * size.workloads
    arguments = ("--pods", str(size.pods), "--growing", str(growing))
    with server("bench.spot_cluster", *arguments, core=LOAD_CORE) as api:
        print(f"{size.pods:,} pods, {size.pods // 50 + growing} workloads, {NODES} nodes, {rate:g} reviews a second")
        ours = Ours(api, folder)
        starts: list[Start] = []
        for _ in range(size.starts - 1):
            with ours.running() as start:
                starts.append(start)
        with ours.running() as start:
            starts.append(start)
            listed_mib = rss_mib(ours.process.pid)
            authority = _authority(api, folder)
            columns = "".join(f"{each:>9}" for each in ("p50 ms", "p90", "p99", "max"))
            more = f"{'CPU ms':>10}{'late p99':>10} connections  waited of load   exact"
            print(f"{'':<44}{'reviews':>8}{columns}{more}")
            shared = ("--rate", str(rate), "--workloads", str(size.workloads))
            steady = under_load(api, ours, authority, *shared)
            told("each pod at a moment of its own", steady)
            bursts = under_load(api, ours, authority, *shared, "--bursts", "--first", str(size.workloads))
            told("workloads of fifty pods at once", bursts)
            gated = behind_the_gate(api, size.gated, 2 * size.workloads)
            mib = rss_mib(ours.process.pid)
    print(f"starts: {', '.join(map(str, starts))}; {listed_mib:.0f} MiB after the last")
    return {
        "admission_ms_p50": round(steady["ms_p50"], 2),
        "admission_ms_p99": round(steady["ms_p99"], 2),
        "admission_ms_max": round(max(steady["ms_max"], bursts["ms_max"]), 2),
        "burst_ms_p50": round(bursts["ms_p50"], 2),
        "burst_ms_p99": round(bursts["ms_p99"], 2),
        "admission_cpu_ms": round(steady["cpu_ms"], 3),
        "waited_share": round(steady["waited_share"], 3),
        "gated_ms_p50": round(gated["ms_p50"], 1),
        "gated_ms_p99": round(gated["ms_p99"], 1),
        "rss_mib": round(mib, 1),
        "ready_s": round(median(start.seconds for start in starts), 2),
        "ready_cpu_s": round(median(start.cpu_s for start in starts), 2),
    }


def exactness(size: Size) -> tuple[int, int]:
    """How many were exact, of how many."""
    print(f"\n{'bursts, watches up to 2 s behind':<44}{'tried':>8}{'exact':>9}{'deficit':>9}{'surplus':>9}")
    exact = tried = 0
    for shape in size.shapes:
        found = list(play_bursts([shape], size.tries))
        good = sum(each.is_exact for each in found)
        lacking = max(each.deficit for each in found)
        surplus = max(each.classes["on-demand"] - shape.floor for each in found)
        title = f"{shape.replicas} replicas, on-demand: {shape.policy}"
        print(f"{title:<44}{len(found):8}{good:9}{lacking:9}{max(0, surplus):9}", flush=True)
        exact, tried = exact + good, tried + len(found)
    return exact, tried


def one_wave(size: Size) -> dict[str, dict[str, float]]:
    """By policy; the figures of the reference beside ours."""
    columns = ("cost", "outage s", "half s", "pod-s short", "least ready")
    print(
        f"\n{'all spot nodes end, R = 10; in brackets: as the reference has it':<64}"
        + "".join(f"{c:>20}" for c in columns)
    )
    told = {}
    for each in BASELINES:
        found, _ = simulate_case(each.case, Random, runs=size.waves)
        ours, theirs = astuple(found), astuple(each.reference)
        cells = (f"{mine:.2f} ({other:g})" for mine, other in zip(ours, theirs, strict=True))
        print(f"{each.name:<64}" + "".join(f"{cell:>20}" for cell in cells), flush=True)
        figures = ("outage_s", "pod_s_short", "least_ready", "cost")
        told[each.name] = {key: round(getattr(found, key), 2) for key in figures}
    return told


def summary(found: dict[str, Any]) -> None:
    print()
    for limit in LIMITS:
        if limit.key in found:
            value = f"{found[limit.key]:10,.2f} {limit.unit:<4}"
            print(f"{limit.title:<44}{value} at most {limit.most:6,.0f} {limit.unit}")
    if "waited_share" in found:
        print(f"{'of its time it waited for its core':<44}{found['waited_share']:10.0%}")
    if "exact_bursts" in found:
        exact, tried = found["exact_bursts"]
        print(f"{'bursts that end with the floor exactly':<44}{exact:10} {'':<4} of {tried:11}")


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.spot", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="500 pods, 50 reviews a second")
    parser.add_argument("--rate", type=float, help="reviews a second")
    parser.add_argument("--only", choices=PARTS, help="one part of it")
    chosen = parser.parse_args(arguments)
    size = QUICK if chosen.quick else FULL
    parts = PARTS if chosen.only is None else (chosen.only,)
    print(f"{machine()}; load before: {load()}; load on core {LOAD_CORE}, situate on core {OUR_CORE}")
    found: dict[str, Any] = {}
    if "admission" in parts:
        with tempfile.TemporaryDirectory() as name:
            found = measure(size, chosen.rate or size.rate, Path(name))
    if "bursts" in parts:
        found["exact_bursts"] = exactness(size)
    if "wave" in parts:
        found["wave"] = one_wave(size)
    summary(found)
    print(f"load after: {load()}")
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1:])

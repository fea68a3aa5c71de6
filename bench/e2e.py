"""Our scheduler and the real kube-scheduler, one after the other, on a real etcd and kube-apiserver.

    python -m bench.e2e [--all] [--quick]

Each has a control plane of its own with etcd and kube-apiserver alone, 5000 nodes, and 10,000 pods that wait when it
starts; both write an Event for each pod. Ours scores every node. kube-scheduler runs as shipped, which samples, and
once more with `percentageOfNodesToScore: 100`, on fewer pods; both with client QPS and burst of 10,000. `pods_per_s`
counts from the first binding to the last one, as a watch of the pods sees them; `cpu_ms_per_pod` is the processor time
of the scheduler from the start of its process to the last binding, its start included. The machine is shared by
scheduler, kube-apiserver, etcd and the watch, so that what the API server can take bounds every figure: compare them
with each other. `--all` repeats it with topology spread, with pod affinity and anti-affinity, with preemption, and at
15,000 nodes. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import yaml

from bench.machine import cpu_s, load, machine, rss_mib
from situate.kube.client import Client
from situate.kube.connect import connect, find_connection
from situate.objects.messages import Request
from situate.objects.resources import EVENTS, PODS
from situate.runtime.process.startup import run_process

NAMESPACE = "default"
ZONES = 3
IN_FLIGHT = 48
QPS = 10_000
_PATIENCE_S = 120.0
"""Without a binding for so long a run has failed."""
_NODE_NAME = re.compile(rb'"nodeName":"')
_JSON = {"accept": "application/json", "content-type": "application/json"}
WIDTHS = (28, 10, 12, 14, 12, 14, 12)


@dataclass(frozen=True)
class Row:
    """A cluster, and the pods that are measured there."""

    name: str
    nodes: int
    pods: int
    pods_all_nodes: int
    """Of the baseline that scores every node, which is slow."""
    shape: Callable[[int], dict[str, Any]]
    """Of a measured pod, by its number."""
    before: Callable[[int], dict[str, Any]] | None = None
    """Of a pod that is in place already; it has its node."""
    count_before: int = 0


@dataclass(frozen=True)
class Contender:
    """A scheduler: how to start it on a control plane, as a process of its own."""

    key: str
    title: str
    percentage: int | None
    """Of nodes to score; None is ours, which scores all."""

    @property
    def configuration(self) -> dict[str, Any] | None:
        if self.percentage is None:
            return None
        return {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": {"qps": QPS, "burst": QPS},
            **({"percentageOfNodesToScore": self.percentage} if self.percentage else {}),
        }


OURS = Contender("ours", "situate, all nodes", None)
THEIRS = Contender("kube_scheduler", "kube-scheduler as shipped", 0)
THEIRS_ALL = Contender("kube_scheduler_all_nodes", "kube-scheduler, all nodes", 100)
CONTENDERS = (OURS, THEIRS, THEIRS_ALL)

OUR_SETTINGS: dict[str, Any] = {
    "apiVersion": "situate.dev/v1alpha1",
    "kind": "Situate",
    "leaderElection": {"namespace": NAMESPACE},
    "log": {"level": "warning"},
    "health": {"address": None},
    "scheduler": {
        "profiles": [{"schedulerName": "default-scheduler"}],
        "client": {"qps": QPS, "burst": QPS},
    },
}


def pod(name: str, *, priority: str = "", labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    requests = {"cpu": "100m", "memory": "500Mi"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels or {"app": "bench"}},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "c", "image": "registry.example.com/pause:1", "resources": {"requests": requests}}],
            **({"priorityClassName": priority} if priority else {}),
            **spec,
        },
    }


def _plain(number: int) -> dict[str, Any]:
    return pod(f"pod-{number}")


def _spread(number: int) -> dict[str, Any]:
    constraint = {
        "maxSkew": 5,
        "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "spread"}},
    }
    return pod(f"pod-{number}", labels={"app": "spread"}, topologySpreadConstraints=[constraint])


def _affine(number: int) -> dict[str, Any]:
    """Every pod near those of its colour, in turn with pods that keep apart from each other on nodes."""
    colour = f"colour-{number % 10}"
    if number % 2:
        term = {"topologyKey": "topology.kubernetes.io/zone", "labelSelector": {"matchLabels": {"colour": colour}}}
        affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    else:
        term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"colour": colour}}}
        affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return pod(f"pod-{number}", labels={"colour": colour}, affinity=affinity)


def _big(number: int, prefix: str = "pod", priority: str = "high") -> dict[str, Any]:
    """A quarter of a node."""
    made = pod(f"{prefix}-{number}", priority=priority)
    made["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "1", "memory": "1Gi"}
    return made


PLAIN = Row("plain", 5000, 10_000, 2000, _plain)
ROWS = (
    PLAIN,
    Row("spread", 5000, 5000, 500, _spread),
    Row("affinity", 5000, 2000, 300, _affine),
    Row("preemption", 5000, 1000, 200, _big, lambda number: _big(number, "low", "low"), 20_000),
    replace(PLAIN, name="plain_15000", nodes=15_000, pods_all_nodes=500),
)


def quick(row: Row) -> Row:
    """The same at its smallest."""
    count = min(row.count_before, 200)
    return replace(row, nodes=50, pods=100, pods_all_nodes=40, count_before=count)


def node(number: int) -> dict[str, Any]:
    room = {"cpu": "4", "memory": "32Gi", "pods": "110"}
    name = f"node-{number:05}"
    labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": f"zone-{number % ZONES}"}
    ready = [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"capacity": room, "allocatable": room, "conditions": ready, "phase": "Running"},
    }


async def create(client: Client, path: str, bodies: Iterable[dict[str, Any]]) -> None:
    """All of them, many at a time."""
    waiting: Iterator[dict[str, Any]] = iter(bodies)

    async def work() -> None:
        for body in waiting:
            await client.raw(Request("POST", path, (), _JSON, msgspec.json.encode(body)))

    async with asyncio.TaskGroup() as group:
        for _ in range(IN_FLIGHT):
            group.create_task(work())


async def populate(client: Client, row: Row, pods: int) -> None:
    for name, value in (("low", 0), ("high", 1000)):
        body = {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
        }
        await create(client, "/apis/scheduling.k8s.io/v1/priorityclasses", [body])
    await create(client, "/api/v1/nodes", map(node, range(row.nodes)))
    if row.before is not None:
        before = row.before
        placed = ((number, before(number)) for number in range(row.count_before))
        bodies = (
            {**each, "spec": {**each["spec"], "nodeName": f"node-{number % row.nodes:05}"}} for number, each in placed
        )
        await create(client, PODS.path(NAMESPACE), bodies)
    await create(client, PODS.path(NAMESPACE), map(row.shape, range(pods)))


@dataclass
class Bindings:
    """When pods got their nodes."""

    wanted: int
    names: set[str]
    first_at: float = 0.0
    last_at: float = 0.0


async def watch_bindings(client: Client, version: str, seen: Bindings) -> None:
    """Until all are bound."""
    name = re.compile(rb'"name":"([^"]+)"')
    async with client.watch(PODS, NAMESPACE, resource_version=version, timeout_s=3600) as batches:
        async for lines in batches:
            now = time.perf_counter()
            for line in lines:
                if line.startswith(b'{"type":"MODIFIED"') and _NODE_NAME.search(line):
                    found = name.search(line)
                    assert found is not None
                    which = found.group(1).decode()
                    if which.startswith("pod-") and which not in seen.names:
                        seen.names.add(which)
                        seen.first_at = seen.first_at or now
                        seen.last_at = now
            if len(seen.names) >= seen.wanted:
                return


@asynccontextmanager
async def api(kubeconfig: Path) -> AsyncIterator[Client]:
    client = connect(find_connection(kubeconfig), random.Random(1))
    try:
        yield client
    finally:
        await client.close()


@dataclass(frozen=True)
class Measured:
    pods_per_s: float
    cpu_ms_per_pod: float
    events: int
    """Written when the last pod was bound."""
    apiserver_cpu_ms: float
    """For each pod."""
    mib: float

    def told(self) -> dict[str, float]:
        return {"pods_per_s": round(self.pods_per_s, 1), "cpu_ms_per_pod": round(self.cpu_ms_per_pod, 3)}


async def measure(contender: Contender, row: Row, folder: Path) -> Measured:
    pods = row.pods_all_nodes if contender is THEIRS_ALL else row.pods
    with control_plane(contender, folder) as plane:
        async with api(plane.kubeconfig()) as client:
            await populate(client, row, pods)
            listed = await client.list(PODS, NAMESPACE, limit=1)
            seen = Bindings(pods, set())
            watching = asyncio.create_task(watch_bindings(client, listed.resource_version, seen))
            apiserver = plane.component("kube-apiserver").pid
            with started(contender, plane, folder) as pid:
                busy = 0.0
                while not watching.done():
                    before = len(seen.names)
                    busy = busy or (cpu_s(apiserver) if seen.names else 0.0)
                    done, _ = await asyncio.wait([watching], timeout=_PATIENCE_S if before else 3 * _PATIENCE_S)
                    if not done and len(seen.names) == before:
                        raise SystemExit(f"{contender.title}: {len(seen.names)} of {pods} pods bound, and no more")
                watching.result()
                used, mib = cpu_s(pid), rss_mib(pid)
                served = cpu_s(apiserver) - busy
                events = await client.list(EVENTS, NAMESPACE, limit=1)
            count = len(events.items) + (events.remaining or 0)
    seconds = max(seen.last_at - seen.first_at, 1e-6)
    return Measured((pods - 1) / seconds, used / pods * 1000, count, served / pods * 1000, mib)


@contextmanager
def control_plane(contender: Contender, folder: Path) -> Iterator[Any]:
    from tests.controlplane.build import build
    from tests.controlplane.plane import ControlPlane, Options

    # as scheduler_perf: nodes have no heartbeat here, and would be tainted for that at their creation
    flags = ("--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",)
    options = Options(flags={"kube-apiserver": flags}, scheduler_configuration=contender.configuration)
    with ControlPlane(folder / "control-plane", options, programs=build(say=print)) as plane:
        yield plane


@contextmanager
def started(contender: Contender, plane: Any, folder: Path) -> Iterator[int]:
    """The scheduler under test; its process id."""
    from tests.controlplane.build import locate
    from tests.controlplane.process import Process

    log = folder / "scheduler.log"
    environment = None
    if contender.percentage is None:
        settings = folder / "situate.yaml"
        settings.write_text(yaml.safe_dump(OUR_SETTINGS))
        arguments = ("run", "-f", str(settings), "--kubeconfig", str(plane.kubeconfig()))
        command: tuple[str, ...] = (sys.executable, "-m", "situate", *arguments)
        environment = compiled(folder / "compiled")
    else:
        configuration = plane.folder / "scheduler.json"
        command = (
            str(locate().path("kube-scheduler")),
            f"--config={configuration}",
            "--leader-elect=false",
            "--secure-port=0",
        )
    process = Process(contender.key, command, log, environment=environment)
    process.start()
    try:
        yield process.pid
    finally:
        if process.running:
            process.stop()
        else:
            print(process.tail())


def compiled(folder: Path) -> dict[str, str]:
    """An environment in which Python finds our modules compiled, as those of an installed package are.

    Those of a checkout may have changed since, and are compiled at every start where Python must not keep the result.
    """
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = str(folder)
    subprocess.run([sys.executable, "-m", "situate", "run", "--help"], env=environment, check=True, capture_output=True)
    return environment


def line(*cells: object) -> None:
    first, *others = cells
    shown = "".join(f"{cell!s:>{width}}" for cell, width in zip(others, WIDTHS[1:], strict=False))
    print(f"{first!s:<{WIDTHS[0]}}{shown}".rstrip(), flush=True)


def run(row: Row) -> dict[str, Measured]:
    print(f"\n{row.name}: {row.nodes:,} nodes, {row.count_before:,} pods in place")
    line("", "pods", "pods/s", "CPU ms/pod", "Events", "apiserver ms", "MiB")
    found: dict[str, Measured] = {}
    for contender in CONTENDERS:
        with tempfile.TemporaryDirectory() as folder:
            measured = run_process(measure(contender, row, Path(folder)))
        found[contender.key] = measured
        pods = row.pods_all_nodes if contender is THEIRS_ALL else row.pods
        line(
            contender.title,
            f"{pods:,}",
            f"{measured.pods_per_s:,.0f}",
            f"{measured.cpu_ms_per_pod:.2f}",
            f"{measured.events:,}",
            f"{measured.apiserver_cpu_ms:.2f}",
            f"{measured.mib:,.0f}",
        )
    ours = found[OURS.key]
    for key, title in ((THEIRS.key, "as shipped"), (THEIRS_ALL.key, "scoring all nodes")):
        other = found[key]
        speed, cpu = ours.pods_per_s / other.pods_per_s, ours.cpu_ms_per_pod / other.cpu_ms_per_pod
        print(f"beside kube-scheduler {title}: {speed:.1f} times the pods/s, {cpu:.2f} of its processor time a pod")
    return found


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.e2e", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--all", action="store_true", help="also spread, affinity, preemption, and 15,000 nodes")
    parser.add_argument("--row", action="append", choices=[row.name for row in ROWS], help="only these; repeatable")
    parser.add_argument("--quick", action="store_true", help="50 nodes and 100 pods")
    chosen = parser.parse_args(arguments)
    rows = [row for row in ROWS if chosen.all or row.name in (chosen.row or [PLAIN.name])]
    print(f"{machine()}; load before: {load()}")
    for contender in CONTENDERS[1:]:
        print(f"{contender.title}: {json.dumps(contender.configuration)}")
    print(f"situate: {json.dumps(OUR_SETTINGS)}")
    found = {row.name: run(quick(row) if chosen.quick else row) for row in rows}
    print(f"load after: {load()}")
    told = {name: {key: each.told() for key, each in measured.items()} for name, measured in found.items()}
    print(json.dumps({**told[rows[0].name], "rows": told}))


if __name__ == "__main__":
    main(sys.argv[1:])

"""Units of work as custom resources on three executors, and as a Job each, on one real control plane (B15).

Jobs have kube-controller-manager, kube-scheduler and kwok, whose pods run for as long as the handlers do and succeed;
all of them without a limit of requests that they would reach. What kwok leaves out, Jobs are spared: pulling images,
starting and stopping containers.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from pathlib import Path
from typing import Any, Final

import msgspec
from prometheus_client.parser import text_string_to_metric_families
from tests.controlplane.plane import Options

from bench.shard_place import Bench, Metadata, Place, Target, events, many, place, real
from bench.shard_table import Peer, heading, line, note
from situate.objects.messages import Request
from situate.objects.resources import unstructured

EXECUTORS: Final = 3
WORK_MS: Final = 50
NODES: Final = 10
JOBS: Final = unstructured("batch", "v1", "Job", "jobs")
_QPS: Final = 5000
_WRITES: Final = frozenset({"POST", "PUT", "PATCH", "APPLY", "DELETE"})
_NOT_WORK: Final = frozenset({"leases", "nodes", "subjectaccessreviews", "tokenreviews", "serviceaccounts"})
"""What is written whether or not there is work."""
OPTIONS: Final = Options(
    controllers=True,
    scheduler=True,
    kwok=True,
    scheduler_configuration={
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"qps": _QPS, "burst": _QPS},
    },
    flags={
        "kube-controller-manager": (f"--kube-api-qps={_QPS}", f"--kube-api-burst={_QPS}", "--concurrent-job-syncs=20")
    },
)


async def jobs(bench: Bench) -> dict[str, Any]:
    """B15: the same work as custom resources on executors, and as Jobs."""
    count, folder = bench.size.units, bench.folder
    heading(f"B15 {count:,} units of {WORK_MS} ms, {EXECUTORS} executors; beside them as {count:,} Jobs")
    with real(folder / "jobs", OPTIONS) as target:
        ours = await as_units(target, folder, count)
        theirs = await as_jobs(target, folder, count)
    found = {"ours": ours, "jobs": theirs}
    for key, title in (
        ("writes", "API writes"),
        ("objects", "objects in etcd after the last completion"),
        ("seconds", "seconds from the first creation to the last completion"),
    ):
        line(title, ours[key], most=theirs[key], peer=Peer(theirs[key], "a Job each, in this run"))
    for name, each in found.items():
        note(f"{name}: {each['by_resource']}")
    return {"jobs": found}


async def as_units(target: Target, folder: Path, count: int) -> dict[str, Any]:
    """Custom resources; executors and supervisor are there before."""
    async with place(target, folder) as here:
        for number in range(EXECUTORS):
            await here.executor(f"e{number}", "--work-s", str(WORK_MS / 1e3))
        await here.supervisor("s")
        await here.create_one("first")
        await here.until("the first one is completed", lambda: here.watch.completed == 1)
        before = await _Before.now(here, target)
        await here.create(f"unit-{number}" for number in range(count))
        await here.until("all are completed", lambda: here.watch.completed == count + 1)
        return await before.until_now(here, target)


async def as_jobs(target: Target, folder: Path, count: int, nodes: int = NODES) -> dict[str, Any]:
    """On so many nodes more, which are there before."""
    assert target.plane is not None, "Jobs need a real control plane"
    async with place(target, folder) as here:
        for number in range(nodes):
            name = f"unit-node-{number}"
            labels = {"kubernetes.io/hostname": name}
            target.plane.request("POST", "/api/v1/nodes", {"metadata": {"name": name, "labels": labels}})
        await _ready(target)
        done: set[str] = set()
        version = (await here.client.list(JOBS, here.namespace, limit=1)).resource_version
        here.follow(_completions(here, version, done))
        await _create_job(here, "first")
        await here.until("the first Job is completed", lambda: "first" in done)
        before = await _Before.now(here, target)
        await many(lambda name: _create_job(here, name), [f"unit-{number}" for number in range(count)])
        await here.until("all Jobs are completed", lambda: len(done) == count + 1, 1800)
        return await before.until_now(here, target)


class _Status(msgspec.Struct, gc=False, rename="camel"):
    completion_time: str = ""


class _Job(msgspec.Struct, gc=False):
    metadata: Metadata = msgspec.field(default_factory=Metadata)
    status: _Status = msgspec.field(default_factory=_Status)


class _Event(msgspec.Struct, gc=False):
    type: str
    object: _Job


async def _completions(here: Place, version: str, done: set[str]) -> None:
    async for event in events(here.client, JOBS, here.namespace, version, _Event):
        if event.object.status.completion_time:
            done.add(event.object.metadata.name)


async def _create_job(here: Place, name: str) -> None:
    pod = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "containers": [{"name": "unit", "image": "units", "resources": {"requests": {"cpu": "10m"}}}],
    }
    template = {"metadata": {"annotations": {"succeeds-after": f"{WORK_MS}ms"}}, "spec": pod}
    body = {"metadata": {"name": name}, "spec": {"backoffLimit": 0, "template": template}}
    await here.client.create(JOBS, body, here.namespace)


async def _ready(target: Target) -> None:
    """Until nodes have told their room."""
    assert target.plane is not None
    deadline = time.monotonic() + 60
    while True:
        items = target.plane.request("GET", "/api/v1/nodes")["items"]
        if all("allocatable" in each.get("status", {}) for each in items):
            return
        if time.monotonic() > deadline:
            raise SystemExit("kwok's nodes are not ready")
        await asyncio.sleep(0.1)


class _Before:
    """What was written and stored when the work began."""

    def __init__(self, written: Counter[str], stored: set[str]) -> None:
        self._written = written
        self._stored = stored
        self._start = time.perf_counter()

    @classmethod
    async def now(cls, here: Place, target: Target) -> _Before:
        assert target.plane is not None
        return cls(await _written(here), _objects(here, target))

    async def until_now(self, here: Place, target: Target) -> dict[str, Any]:
        seconds = time.perf_counter() - self._start
        written = await _written(here) - self._written
        return {
            "writes": sum(written.values()),
            "objects": len(_objects(here, target) - self._stored),
            "seconds": round(seconds, 2),
            "by_resource": dict(written.most_common()),
        }


def _objects(here: Place, target: Target) -> set[str]:
    """Keys of what etcd has of the namespace."""
    assert target.plane is not None
    found = target.plane.stored("")
    return {key for key in found if f"/{here.namespace}/" in key and not key.startswith("/registry/leases/")}


async def _written(here: Place) -> Counter[str]:
    """Writes that the API server has carried out so far, by resource."""
    answer = await here.client.raw(Request("GET", "/metrics", (), {"accept": "text/plain"}))
    found: Counter[str] = Counter()
    for family in text_string_to_metric_families(answer.body.decode()):
        if family.name == "apiserver_request":
            for sample in family.samples:
                labels = sample.labels
                done = sample.name.endswith("_total") and labels["code"].startswith("2")
                if done and labels["verb"] in _WRITES and labels["resource"] not in _NOT_WORK:
                    subresource = f"/{labels['subresource']}" if labels["subresource"] else ""
                    found[f"{labels['resource']}{subresource}"] += int(sample.value)
    return found

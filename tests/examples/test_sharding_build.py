"""The example operator, its manifests as they are: one of its executors is killed, and every Build is built once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from situate.archive import Query, Record
from situate.archive.filesystem import FilesystemArchiver
from situate.objects.resources import unstructured
from tests.examples.cluster import Cluster, cluster, documents

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "sharding-build"
BUILDS = unstructured("build.example.com", "v1", "Build", "builds")
SHORT = ("--lease-duration=6s",)
SHORTER = (*SHORT, "--renew-interval=1s", "--retry-interval=300ms", "--renew-deadline=4s", "--cancel-grace=1600ms")
COUNT = 6


def in_memory(document: dict[str, Any]) -> dict[str, Any]:
    """There are no disks there; one supervisor will do."""
    if document["kind"] == "Deployment":
        pod = document["spec"]["template"]["spec"]
        pod.pop("volumes")
        pod["containers"][0].pop("volumeMounts")
        if document["metadata"]["name"] == "supervisor":
            document["spec"]["replicas"] = 1
    return document


def gated(name: str, gate: Path) -> dict[str, Any]:
    """The example's Build, whose tests wait until the gate is there."""
    (build,) = documents(EXAMPLE / "builds" / "greet.yaml")
    build["metadata"]["name"] = name
    build["spec"]["sources"]["test_gate.py"] = (
        "import os, time, unittest\n"
        "class Gate(unittest.TestCase):\n"
        "    def test_opens(self):\n"
        f"        while not os.path.exists({str(gate)!r}):\n"
        "            time.sleep(0.05)\n"
    )
    return build


class Runs:
    """The work's own log."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._path.read_text().splitlines()] if self._path.exists() else []

    async def begun_by(self) -> dict[str, set[str]]:
        """Names of Builds by the executor that has begun them."""
        found = defaultdict(set)
        for line in self.lines():
            if line["what"] == "begun":
                found[line["executor"]].add(line["name"])
        return dict(found)

    def assert_one_token_a_run(self) -> None:
        seen = [(line["token"], line["what"]) for line in self.lines()]
        assert len(seen) == len(set(seen)), seen
        latest: dict[str, int] = {}
        for token, _ in seen:
            uid, _, epoch = token.partition(":")
            assert int(epoch) >= latest.get(uid, 0), f"{token} went on after a later one had begun: {seen}"
            latest[uid] = int(epoch)


async def left(made: Cluster) -> list[str]:
    return [each.metadata.name for each in (await made.client.list_all(BUILDS, "builds")).items]


@pytest.mark.slow
@pytest.mark.rule("sharding:K1", "sharding:K2", "sharding:K12", "sharding:K14")
async def test_one_executor_is_killed_and_every_build_is_built_once(tmp_path: Path) -> None:
    gate, artifacts, archive = tmp_path / "gate", tmp_path / "artifacts", tmp_path / "archive"
    archive.mkdir()
    async with cluster(tmp_path) as made:
        await made.create(documents(EXAMPLE / "crd.yaml"))
        manifests = map(in_memory, documents(EXAMPLE / "manifests.yaml"))
        await made.create(each for each in manifests if each["kind"] != "PersistentVolumeClaim")
        environment = {"PYTHONPATH": os.pathsep.join([str(EXAMPLE), *filter(None, [os.environ.get("PYTHONPATH")])])}
        probes = "--health-address=127.0.0.1:0"
        own = (probes, *SHORT, f"--archive-url=file://{archive}", "--archive-ttl-successful=0s")
        await made.run_pods("builds", "app=build-supervisor", environment, *own, "--archive-ttl-failed=0s")
        executors = await made.run_pods(
            "builds", "app=build-executor", environment, probes, *SHORTER, f"--artifacts={artifacts}"
        )
        runs = Runs(artifacts / "runs.log")
        names = [f"greet-{number}" for number in range(COUNT)]
        broken = documents(EXAMPLE / "builds" / "broken.yaml")
        for each in (*(gated(name, gate) for name in names), *broken):
            each["metadata"]["namespace"] = "builds"
            await made.create([each])
        begun = await made.eventually(
            "every executor builds, and everything is begun",
            runs.begun_by,
            lambda by: len(by) == 3 and set().union(*by.values()) == {*names, "broken"},
        )
        victim = min(begun)
        await executors.kill(victim)
        lost = begun[victim] - {"broken"}
        await made.eventually(
            "others have begun what it was at",
            runs.begun_by,
            lambda by: lost <= set().union(*(by[e] for e in by if e != victim)),
        )
        gate.touch()
        await made.eventually("nothing is left in the cluster", lambda: left(made), lambda names: not names)
    runs.assert_one_token_a_run()
    records = {record.subject.name: record for record in (await FilesystemArchiver(archive).search(Query())).records}
    assert {name: record.reason for name, record in records.items()} == {
        **dict.fromkeys(names, "Built"),
        "broken": "DoesNotCompile",
    }
    assert_it_runs(records["greet-0"])
    assert len({records[name].object["status"]["digest"] for name in names}) == 1, "equal sources make equal files"


def assert_it_runs(record: Record) -> None:
    application = record.object["status"]["artifact"]
    ran = subprocess.run([sys.executable, application], capture_output=True, text=True, check=True)
    assert ran.stdout == "Hello, world\n"

"""The example operator, its manifests as they are: one of its executors is killed, and every Build is built once."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from situate.archive import Query, Record
from situate.archive.stores.folder.archiver import FilesystemArchiver
from situate.cli.sharding.init import fence_objects
from situate.sharding.permissions import executor_permissions, supervisor_permissions
from situate.testing.builders.operators import documents, local_cluster
from tests.examples.rights import granted, needed

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "sharding-build"
BUILDS = "build.example.com/v1/builds"
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


@pytest.mark.slow
@pytest.mark.rule("sharding:K1", "sharding:K2", "sharding:K12", "sharding:K14")
async def test_one_executor_is_killed_and_every_build_is_built_once(tmp_path: Path) -> None:
    gate, artifacts, archive = tmp_path / "gate", tmp_path / "artifacts", tmp_path / "archive"
    archive.mkdir()
    async with local_cluster(tmp_path) as made:
        written = map(in_memory, documents(EXAMPLE / "crd.yaml", EXAMPLE / "manifests.yaml"))
        await made.create(*(each for each in written if each["kind"] != "PersistentVolumeClaim"))
        probes = "--health-address=127.0.0.1:0"
        kept = (f"--archive-url={archive.as_uri()}", "--archive-ttl-successful=0s", "--archive-ttl-failed=0s")
        await made.run_pods("builds", "app=build-supervisor", probes, *SHORT, *kept, path=EXAMPLE)
        # as many as it builds at a time, so that nothing that waits for a turn waits for the gate
        own = (probes, *SHORTER, "--executor-capacity=4", f"--artifacts={artifacts}")
        executors = await made.run_pods("builds", "app=build-executor", *own, path=EXAMPLE)
        runs = Runs(artifacts / "runs.log")
        names = [f"greet-{number}" for number in range(COUNT)]
        broken = documents(EXAMPLE / "builds" / "broken.yaml")
        await made.create(*(gated(name, gate) for name in names), *broken, namespace="builds")
        begun = await made.eventually(
            "everything is begun", runs.begun_by, lambda by: set().union(*by.values()) == {*names, "broken"}
        )
        victim = max(begun, key=lambda executor: len(begun[executor]))
        await executors.kill(victim)
        lost = begun[victim] - {"broken"}
        await made.eventually(
            "others have begun what it was at",
            runs.begun_by,
            lambda by: lost <= set().union(*(by[e] for e in by if e != victim)),
        )
        gate.touch()
        await made.eventually(
            "nothing is left in the cluster", lambda: made.all(BUILDS, "builds"), lambda found: not found
        )
    runs.assert_one_token_a_run()
    records = {record.subject.name: record for record in (await FilesystemArchiver(archive).search(Query())).records}
    assert {name: record.reason for name, record in records.items()} == {
        **dict.fromkeys(names, "Built"),
        "broken": "DoesNotCompile",
    }
    assert_it_runs(records["greet-0"])
    assert len({records[name].object["status"]["digest"] for name in names}) == 1, "equal sources make equal files"


def test_accounts_are_let_do_what_they_need_and_no_more() -> None:
    written = documents(EXAMPLE / "manifests.yaml")
    of = ("build.example.com", "builds")
    supervisor = supervisor_permissions(*of, ("builds", "of-supervisors"), executor_namespace="builds", archives=True)
    assert granted(written, "supervisor") == needed(supervisor)
    assert granted(written, "executor") == needed(executor_permissions(*of, "builds"))


def test_the_fence_is_the_one_that_belongs_to_the_manifests() -> None:
    made = fence_objects({"name": "builds", "group": "build.example.com", "kind": "Build", "plural": "builds"})
    assert documents(EXAMPLE / "fence.yaml") == made


def assert_it_runs(record: Record) -> None:
    application = record.object["status"]["artifact"]
    ran = subprocess.run([sys.executable, application], capture_output=True, text=True, check=True)
    assert ran.stdout == "Hello, world\n"

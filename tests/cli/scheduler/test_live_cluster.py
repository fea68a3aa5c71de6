"""The answers for a cluster that lives: the embedded API server, whose stand-in scheduler binds pods meanwhile."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from situate.cli.main import app
from situate.objects.resources import PODS
from situate.scheduler.recordings.files import read_recording
from situate.scheduler.recordings.format import BadRecording, BindingEntry, Entry, ObjectEntry, SyncedEntry
from tests.cli.processes import KUBECTL, call, process
from tests.controlplane.process import Process
from tests.waiting import eventually

pytestmark = pytest.mark.xdist_group("cli-scheduler-live")  # one server for all of them


SHADOW = """
apiVersion: situate.dev/v1alpha1
kind: Situate
health: {address: "127.0.0.1:0"}
scheduler:
  shadow: true
  profiles: [{schedulerName: default-scheduler}]
"""


class Playground:
    """The server, and kubectl for it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kubeconfig = folder / "kubeconfig"

    def apply(self, *objects: dict[str, Any]) -> None:
        listing = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
        done = call(self.folder, str(KUBECTL), "--kubeconfig", str(self.kubeconfig), "apply", "-f", "-", given=listing)
        assert done.returncode == 0, done.stderr

    def dump(self) -> Path:
        command = (
            str(KUBECTL),
            "--kubeconfig",
            str(self.kubeconfig),
            "get",
            "nodes,pods,namespaces",
            "-A",
            "-o",
            "yaml",
        )
        done = call(self.folder, *command)
        assert done.returncode == 0, done.stderr
        path = self.folder / "dump.yaml"
        path.write_text(done.stdout)
        return path

    def situate(self, *arguments: str) -> tuple[int, Any]:
        result = CliRunner().invoke(app, ["scheduler", *arguments, "-o", "json"])
        assert result.stdout, result.stderr
        return result.exit_code, json.loads(result.stdout)

    def live(self, *arguments: str) -> tuple[int, Any]:
        return self.situate(*arguments, "--kubeconfig", str(self.kubeconfig))

    def node_of(self, name: str) -> str:
        command = ("get", "pod", name, "-o", "jsonpath={.spec.nodeName}")
        return call(self.folder, str(KUBECTL), "--kubeconfig", str(self.kubeconfig), *command).stdout

    def record(self, file: str, *arguments: str) -> Process:
        arguments = ("scheduler", "record", file, "--kubeconfig", str(self.kubeconfig), *arguments)
        return process(self.folder, f"record-{Path(file).name}", *arguments)


@contextmanager
def running(program: Process) -> Iterator[Process]:
    """Gone at the end of the block, if not before."""
    program.start()
    try:
        yield program
    finally:
        program.stop()


@pytest.fixture(scope="module")
def playground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Playground]:
    made = Playground(tmp_path_factory.mktemp("live"))
    server = process(
        made.folder, "server", "embedded", "--port", "0", "--nodes", "3", "--write-kubeconfig", str(made.kubeconfig)
    )
    with running(server):
        eventually("the server answers", made.kubeconfig.exists)
        yield made


def a_pod(name: str, cpu: str, **spec: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": cpu}}}
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container], **spec}}


def test_answers_for_a_live_cluster_and_its_dump_are_the_same(playground: Playground) -> None:
    playground.apply(a_pod("small", "100m"), a_pod("huge", "640"))
    eventually("the small one is placed", lambda: playground.node_of("small"))
    dump = str(playground.dump())
    for arguments in (("explain", "small"), ("explain", "huge"), ("what-if", "--pending")):
        code, live = playground.live(*arguments)
        assert (code, live) == playground.situate(*arguments, "--objects", dump)
        assert code == (0 if "small" in arguments else 1)
    _, told = playground.live("explain", "huge")
    assert told["message"].startswith("0/3 nodes are available: 3 Insufficient cpu")
    assert [each["kind"] for each in told["changes"]] == ["room"]


def test_what_is_recorded_is_replayed_as_it_was(playground: Playground) -> None:
    file = playground.folder / "day.jsonl.gz"
    with running(playground.record(str(file))) as recorder:
        eventually("it has listed", lambda: _synced(file))
        playground.apply(*(a_pod(f"web-{number}", "100m") for number in range(5)))
        eventually("all bindings are in the file", lambda: _bindings(file), lambda found: found >= 5)
        os.kill(recorder.pid, signal.SIGINT)
        eventually("it has ended", lambda: not recorder.running)
    read = read_recording(file)
    assert read.remarks == ()
    pods = {
        each.object.metadata.name for each in read.entries if isinstance(each, ObjectEntry) and each.resource is PODS
    }
    assert {f"web-{number}" for number in range(5)} <= pods
    code, told = playground.situate("replay", str(file))
    assert code == 0
    new = [each for each in told["pods"] if each["pod"].startswith("default/web-")]
    assert len(new) == 5
    assert {each["result"] for each in new} <= {"same", "equally good"}


def test_a_recorder_that_is_killed_leaves_what_it_has_seen(playground: Playground) -> None:
    file = playground.folder / "killed.jsonl.gz"
    with running(playground.record(str(file))) as recorder:
        eventually("it has listed", lambda: _synced(file))
        playground.apply(a_pod("last", "100m"))
        eventually("the binding is in the file", lambda: _bindings(file))
        recorder.kill()
    read = read_recording(file)
    assert any(isinstance(each, BindingEntry) and each.pod == "default/last" for each in read.entries)
    assert len(read.remarks) <= 1


def test_a_full_part_is_put_aside_and_the_next_stands_alone(playground: Playground) -> None:
    file = playground.folder / "parts.jsonl"
    with running(playground.record(str(file), "--max-size", "1Ki", "--keep", "1", "--for", "600s")) as recorder:
        eventually("it has listed", lambda: _synced(file))
        number = 0
        while not file.with_name("parts.jsonl.1").exists():
            number += 1
            assert number < 50, "so many pods do not fill a part of 1 KiB"
            playground.apply(a_pod(f"filling-{number}", "10m"))
            eventually("it is placed", partial(playground.node_of, f"filling-{number}"))
        os.kill(recorder.pid, signal.SIGTERM)
        eventually("it has ended", lambda: not recorder.running)
    for path in (file, file.with_name("parts.jsonl.1")):
        assert any(isinstance(each, ObjectEntry) and each.type == "LISTED" for each in read_recording(path).entries)


def test_a_shadow_that_runs_counts_what_it_compares(playground: Playground) -> None:
    file = playground.folder / "shadow.yaml"
    file.write_text(SHADOW)
    arguments = ("run", "-f", str(file), "--kubeconfig", str(playground.kubeconfig))
    with running(process(playground.folder, "shadow", *arguments)) as shadow:
        port = eventually("it listens", lambda: _port(shadow))
        eventually("it has seen everything", lambda: _asked(port, "/readyz")[0], lambda status: status == 200)
        playground.apply(*(a_pod(f"shadowed-{number}", "100m") for number in range(3)))
        told = eventually(
            "the bindings are counted",
            lambda: _asked(port, "/metrics")[1],
            lambda text: sum(_decisions(text).values()) >= 3,
        )
        assert set(_decisions(told)) <= {"same", "equally good"}
        assert shadow.running, shadow.tail()
    assert "Traceback" not in shadow.log.read_text(), shadow.tail(60)


def _decisions(metrics: str) -> dict[str, int]:
    """By result, of those that there were."""
    pattern = r'^situate_scheduler_shadow_decisions_total{profile="default-scheduler",result="([^"]+)"} (\S+)$'
    found = re.findall(pattern, metrics, re.MULTILINE)
    return {result: int(float(number)) for result, number in found}


def _port(program: Process) -> int:
    """On which the process's own server listens; 0 before it does."""
    for line in program.log.read_text().splitlines(keepends=True) if program.log.exists() else ():
        if "health server listens" in line and line.endswith("\n"):
            return int(json.loads(line)["port"])
    return 0


def _asked(port: int, path: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def _synced(file: Path) -> bool:
    return any(isinstance(each, SyncedEntry) for each in _entries(file))


def _bindings(file: Path) -> int:
    return sum(isinstance(each, BindingEntry) for each in _entries(file))


def _entries(file: Path) -> tuple[Entry, ...]:
    """Of a file that may not be there yet, or have no first line."""
    try:
        return read_recording(file).entries
    except (OSError, BadRecording):
        return ()

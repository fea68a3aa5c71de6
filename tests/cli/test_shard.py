"""The verbs of `situate shard` for a cluster: what they print, what they write, and how they end."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from situate.cli.main import app
from situate.objects.timestamps import micro_time, rfc3339
from situate.sharding.leases import lease_name
from situate.sharding.names import (
    ASSIGNED_AT,
    CORDON,
    EPOCH,
    EXECUTOR,
    EXECUTOR_SELECTOR,
    EXECUTOR_UID,
    MIGRATABLE,
    POOL,
    STATUS,
    TERM,
    WHY,
)
from situate.sharding.slots import even_table, frozen
from situate.testing.sharding.shipped.reports import definition, report
from tests.cli.processes import KUBECTL, call, process
from tests.waiting import eventually

pytestmark = pytest.mark.xdist_group("cli-shard")  # one server for all of them

RESOURCE = "batch.example.com/v1/reports"
LEASE = "reports.batch.example.com.default.supervisor"
HELD = {"executor-0": 4, "executor-1": 1, "executor-2": 1}
CAPACITY = {"executor-0": 4, "executor-1": 8, "executor-2": 8}


class Playground:
    """The server, kubectl and `situate shard` for it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kubeconfig = folder / "kubeconfig"
        self.uids: dict[str, str] = {}

    def kubectl(self, *arguments: str, given: str = "") -> str:
        done = call(self.folder, str(KUBECTL), "--kubeconfig", str(self.kubeconfig), *arguments, given=given)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def apply(self, *objects: Mapping[str, Any]) -> None:
        self.kubectl("apply", "-f", "-", given=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))

    def get(self, *arguments: str) -> Any:
        return json.loads(self.kubectl("get", *arguments, "-o", "json"))

    def run(self, *arguments: str, about: bool = True) -> tuple[int, str, str]:
        subject = ("-r", RESOURCE, "--executor-namespace", "team", "--installation", "team") if about else ()
        result = CliRunner().invoke(app, ["shard", *arguments, *subject, "--kubeconfig", str(self.kubeconfig)])
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result.exit_code, result.stdout, result.stderr

    def data(self, *arguments: str, code: int = 0) -> Any:
        ended, printed, told = self.run(*arguments, "-o", "json")
        assert ended == code, told
        return json.loads(printed)

    def ready(self) -> int:
        pods = self.get("pods", "-n", "team")["items"]
        self.uids = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in pods}
        return sum(
            any(each["type"] == "Ready" and each["status"] == "True" for each in pod["status"].get("conditions", ()))
            for pod in pods
        )

    def lease_of(self, executor: str) -> str:
        return lease_name("default", executor, self.uids[executor])

    def annotation(self, executor: str, key: str) -> str | None:
        found = self.get("lease", self.lease_of(executor), "-n", "team")["metadata"]["annotations"].get(key)
        return None if found is None else str(found)

    def served(self, group: str) -> bool:
        return "reports" in self.kubectl("api-resources", f"--api-group={group}", "-o", "name")

    def partitions(self, *arguments: str) -> tuple[int, str, str]:
        return self.run("partitions", "table", "-r", RESOURCE, "--installation", "team", *arguments, about=False)


@pytest.fixture(scope="module")
def playground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Playground]:
    """Three executors, the first one full; objects that are held, lost, done, unreadable, and that wait."""
    made = Playground(tmp_path_factory.mktemp("shard"))
    server = process(made.folder, "server", "embedded", "--port", "0", "--write-kubeconfig", str(made.kubeconfig))
    server.start()
    try:
        eventually("the server answers", made.kubeconfig.exists)
        made.apply(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}},
            a_node("node-1"),
            definition(),
            *(a_pod(name) for name in HELD),
        )
        eventually("the executors run", made.ready, lambda count: count == len(HELD))
        made.apply(
            *(a_lease(name, made.uids[name], HELD[name], CAPACITY[name]) for name in HELD),
            a_leader(),
            *(
                assigned(f"{name}-{number}", name, made.uids[name])
                for name, count in HELD.items()
                for number in range(count)
            ),
            in_team(report("waiting")),
            in_team(report("picky"), {EXECUTOR_SELECTOR: "gpu=true"}),
            in_team(report("odd"), {EPOCH: "many"}),
            assigned("lost", "executor-9", "nobodys-uid"),
            assigned("done", "executor-1", made.uids["executor-1"]),
        )
        done = {"status": {"completedAt": rfc3339(datetime.now(UTC)), "successful": True}}
        made.kubectl(
            "patch",
            "report",
            "done",
            "-n",
            "team",
            "--subresource",
            "status",
            "--type",
            "merge",
            "-p",
            json.dumps(done),
        )
        yield made
    finally:
        server.stop()


def a_node(name: str) -> dict[str, Any]:
    amounts = {"cpu": "8", "memory": "16Gi", "pods": "20"}
    status = {"capacity": amounts, "allocatable": amounts}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}


def a_pod(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "team", "labels": {POOL: "default"}},
        "spec": {"containers": [{"name": "c", "image": "example.com/c:1"}]},
    }


def a_lease(pod: str, uid: str, held: int, capacity: int) -> dict[str, Any]:
    now = micro_time(datetime.now(UTC) + timedelta(hours=1))  # by a clock that is wrong: nobody compares it
    said = {"capacity": capacity, "open": held, "draining": False, "metrics": {"cpu": 0.5}}
    annotations = {EXECUTOR: pod, EXECUTOR_UID: uid, STATUS: json.dumps(said)}
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "name": lease_name("default", pod, uid),
            "namespace": "team",
            "labels": {POOL: "default"},
            "annotations": annotations,
        },
        "spec": {"holderIdentity": uid, "leaseDurationSeconds": 3600, "renewTime": now, "acquireTime": now},
    }


def a_leader() -> dict[str, Any]:
    now = micro_time(datetime.now(UTC))
    spec = {"holderIdentity": "boss", "leaseDurationSeconds": 15, "renewTime": now, "leaseTransitions": 3}
    metadata = {"name": LEASE, "namespace": "team"}
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}


def in_team(content: dict[str, Any], annotations: Mapping[str, str] | None = None) -> dict[str, Any]:
    return {**content, "metadata": {**content["metadata"], "namespace": "team", "annotations": dict(annotations or {})}}


def assigned(name: str, executor: str, uid: str) -> dict[str, Any]:
    marks = {EPOCH: "1", EXECUTOR_UID: uid, TERM: "3", ASSIGNED_AT: rfc3339(datetime.now(UTC)), WHY: "new"}
    if name == "executor-0-0":
        marks[MIGRATABLE] = "false"
    made = in_team(report(name, assignedTo=executor), marks)
    made["metadata"]["labels"] = {EXECUTOR: executor}
    return made


def configuration(folder: Path, *entries: Mapping[str, Any]) -> Path:
    file = folder / "situate.yaml"
    document = {"apiVersion": "situate.dev/v1alpha1", "kind": "Situate", "health": {"address": None}}
    file.write_text(json.dumps({**document, "sharding": entries}))
    return file


def test_check_says_what_the_cluster_lacks(playground: Playground, tmp_path: Path) -> None:
    file = configuration(tmp_path, {"resource": RESOURCE}, {"resource": "batch.example.com/v1/nothing"})
    result = CliRunner().invoke(
        app, ["check", "-f", str(file), "--kubeconfig", str(playground.kubeconfig), "-o", "json"]
    )
    assert result.exit_code == 1
    found = {each["check"]: each for each in json.loads(result.stdout)}
    assert found[f"resource {RESOURCE}"]["ok"]
    assert found[f"status of {RESOURCE} is a subresource"]["ok"]
    assert "apply its definition" in found["resource batch.example.com/v1/nothing"]["next_step"]
    fence = found[f"fencing policy of {RESOURCE}"]
    assert not fence["ok"]
    assert "situate manifests shard" in fence["next_step"]


@pytest.mark.rule("sharding:K3")
def test_a_supervisor_waits_for_its_resource_and_then_works(playground: Playground, tmp_path: Path) -> None:
    group = "later.example.com"
    entry = {"resource": f"{group}/v1/reports", "executorNamespace": "team", "archive": {"deleteWithoutArchive": True}}
    file = configuration(tmp_path, entry)
    arguments = ("run", "-f", str(file), "--kubeconfig", str(playground.kubeconfig), "--set", "log.format=json")
    supervisor = process(tmp_path, "supervisor", *arguments)
    supervisor.start()
    try:
        log = supervisor.log
        eventually("it says what is missing", lambda: f"the cluster has no {group}/v1/reports" in log.read_text())
        playground.apply(definition(group=group))
        eventually("it leads", lambda: "leadership is won" in log.read_text())
        content = {**report("one"), "apiVersion": f"{group}/v1"}
        eventually("it is served", lambda: playground.served(group))
        playground.apply(in_team(content))
        eventually(
            "it is assigned",
            lambda: playground.get(f"reports.{group}", "one", "-n", "team")["spec"].get("assignedTo"),
            lambda holder: holder in HELD,
        )
        assert supervisor.running, supervisor.tail(40)
    finally:
        supervisor.stop()
    assert "Traceback" not in supervisor.log.read_text()


@pytest.mark.rule("sharding:B11")
def test_status_counts_what_there_is(playground: Playground) -> None:
    told = playground.data("status")
    assert (told["leader"], told["term"]) == ("boss", 3)
    assert {each["id"]: (each["status"], each["open"], each["capacity"]) for each in told["executors"]} == {
        "executor-0": ("Full", 4, 4),
        "executor-1": ("Healthy", 1, 8),
        "executor-2": ("Healthy", 1, 8),
    }
    assert told["objects"] == {"assigned": 6, "unassigned": 2, "unreadable": 1, "orphaned": 1, "succeeded": 1}
    _, printed, _ = playground.run("status", "-o", "wide")
    assert "2 of 3 executors can be given work" in printed
    assert "led by boss, term 3" in printed
    assert "cpu 0.5" in printed


@pytest.mark.rule("sharding:B11")
def test_explain_says_why_here(playground: Playground) -> None:
    told = playground.data("explain", "team/executor-1-0")
    assert (told["state"], told["executor"], told["cause"], told["epoch"]) == ("assigned", "executor-1", "new", 1)
    assert told["verdict"]["assigned"]
    _, printed, _ = playground.run("explain", "executor-1-0", "-n", "team")
    assert "team/executor-1-0 is assigned: executor-1 (epoch 1, because: new" in printed


@pytest.mark.rule("sharding:B11")
def test_explain_says_where_next_executor_by_executor(playground: Playground) -> None:
    told = playground.data("explain", "team/waiting")
    assert not told["waits"]
    (first,) = (each["id"] for each in told["executors"] if each["place"] == 1)
    assert first in ("executor-1", "executor-2"), "each holds one of eight"
    by_id = {each["id"]: each for each in told["executors"]}
    assert by_id["executor-0"]["place"] is None
    assert "full" in by_id["executor-0"]["why"].lower()
    assert told["next"] == [f"assign to {first}, because new"]


@pytest.mark.rule("sharding:B11")
@pytest.mark.rule("sharding:B16")
def test_explain_says_why_pending_executor_by_executor(playground: Playground) -> None:
    code, printed, _ = playground.run("explain", "team/picky")
    assert code == 1
    assert "it may only go where the labels match gpu=true" in printed
    told = playground.data("explain", "team/picky", code=1)
    assert told["verdict"]["reason"] == "NoHealthyExecutors"
    assert {each["place"] for each in told["executors"]} == {None}
    reasons = {each["id"]: each["why"] for each in told["executors"]}
    assert "gpu=true" in reasons["executor-1"]


@pytest.mark.rule("sharding:B11")
def test_explain_names_what_cannot_be_read(playground: Playground) -> None:
    told = playground.data("explain", "team/odd", code=1)
    assert told["verdict"]["reason"] == "Quarantined"
    assert "many" in told["faults"][0]


@pytest.mark.rule("sharding:B11")
def test_explain_says_that_a_slot_is_frozen(playground: Playground, tmp_path: Path) -> None:
    moving = {"version": 2, "slots": 4096, "ranges": [{"start": 0, "end": 4096, "partition": 0, "to": 1}]}
    metadata = {"name": "moving", "namespace": "team"}
    playground.apply(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"table": json.dumps(moving)}}
    )
    entry = {"resource": RESOURCE, "partition": "0", "partitionTable": "moving", "executorNamespace": "team"}
    file = configuration(tmp_path, {**entry, "executorSelector": f"{POOL}=default"})
    arguments = ("explain", "team/waiting", "-f", str(file), "--installation", "team")
    code, printed, _ = playground.run(*arguments, about=False)
    assert code == 1
    assert "its slot is about to change partitions" in printed


def test_explain_of_what_is_not_there(playground: Playground) -> None:
    code, _, told = playground.run("explain", "team/wating")
    assert code == 2
    assert "did you mean waiting?" in told
    code, _, told = playground.run("explain", "a/b/c")
    assert code == 2
    assert "NAMESPACE/NAME" in told


def test_verbs_say_which_supervisor_they_need(playground: Playground, tmp_path: Path) -> None:
    code, _, told = playground.run("status", about=False)
    assert code == 2
    assert "--resource GROUP/VERSION/PLURAL" in told
    code, _, told = playground.run("status", "-r", "batch.example.com/v1/nothing", about=False)
    assert code == 2
    assert "the cluster has no batch.example.com/v1/nothing" in told
    file = tmp_path / "situate.yaml"
    entries = [{"resource": RESOURCE, "pool": pool, "namespace": pool} for pool in ("default", "other")]
    file.write_text(json.dumps({"apiVersion": "situate.dev/v1alpha1", "kind": "Situate", "sharding": entries}))
    code, _, told = playground.run("status", "-f", str(file), about=False)
    assert code == 2
    assert "several entries" in told
    code, printed, _ = playground.run("status", "-f", str(file), "--pool", "other", "-o", "json", about=False)
    assert code == 0
    assert json.loads(printed)["executors"] == []


def test_plan_names_the_fewest_moves(playground: Playground) -> None:
    told = playground.data("plan", "--goal", "even")
    forced = [each for each in told["moves"] if not each["from"]]
    voluntary = [each for each in told["moves"] if each["from"]]
    # 9 open ones that can be read, 3 each: three wait or are lost, and one has to leave the fullest
    assert sorted(each["object"] for each in forced) == ["team/lost", "team/picky", "team/waiting"]
    assert [each["from"] for each in voluntary] == ["executor-0"]
    assert voluntary[0]["object"] != "team/executor-0-0", "it may not be moved"
    assert told["after"] == {"executor-0": 3, "executor-1": 3, "executor-2": 3}
    assert told["reached"]
    without = playground.data("plan", "--goal", "even", "--without", "executor-2")
    assert set(without["after"]) == {"executor-0", "executor-1"}
    assert playground.run("plan", "--without", "executor-7")[0] == 2


@pytest.mark.rule("sharding:K8")
def test_drain_and_undrain(playground: Playground) -> None:
    code, printed, _ = playground.run("drain", "executor-2", *ABOUT_EXECUTORS, about=False)
    assert code == 0
    assert "executor executor-2 is cordoned; 1 objects are to be released" in printed
    assert playground.annotation("executor-2", CORDON) == "true"
    by_id = {each["id"]: each["status"] for each in playground.data("status")["executors"]}
    assert by_id["executor-2"] == "Draining"
    code, _, told = playground.run("drain", "executor-2", "--wait", "--timeout", "0s", *ABOUT_EXECUTORS, about=False)
    assert code == 1
    assert "still holds 1 objects" in told
    assert playground.run("undrain", "executor-2", *ABOUT_EXECUTORS, about=False)[0] == 0
    assert playground.annotation("executor-2", CORDON) is None
    code, _, told = playground.run("drain", "executor-3", *ABOUT_EXECUTORS, about=False)
    assert code == 2
    assert "pool default has: executor-0, executor-1, executor-2" in told


ABOUT_EXECUTORS = ("-r", RESOURCE, "--executor-namespace", "team")


@pytest.mark.rule("sharding:K8", "sharding:L3")
def test_a_drain_is_over_when_no_object_is_held_whatever_the_lease_still_says(playground: Playground) -> None:
    """A Lease is renewed every few seconds: what was assigned since the last time is not in its report."""
    lease = playground.lease_of("executor-2")
    found = playground.get("lease", lease, "-n", "team")["metadata"]["annotations"][STATUS]
    empty = json.dumps(json.loads(found) | {"open": 0})
    playground.kubectl("annotate", "lease", lease, "-n", "team", "--overwrite", f"{STATUS}={empty}")
    try:
        code, printed, told = playground.run(
            "drain", "executor-2", "--wait", "--timeout", "0s", *ABOUT_EXECUTORS, about=False
        )
        assert "cordoned; 1 objects are to be released" in printed
        assert code == 1
        assert "still holds 1 objects" in told
    finally:
        playground.kubectl("annotate", "lease", lease, "-n", "team", "--overwrite", f"{STATUS}={found}")
        playground.run("undrain", "executor-2", *ABOUT_EXECUTORS, about=False)


def test_drain_needs_one_executor(playground: Playground) -> None:
    assert playground.run("drain", *ABOUT_EXECUTORS, about=False)[0] == 2
    code, _, told = playground.run("drain", "--self", *ABOUT_EXECUTORS, about=False)
    assert code == 2
    assert "POD_NAME" in told


@pytest.mark.rule("sharding:K10")
def test_partitions_are_made_split_and_handed_over(playground: Playground) -> None:
    code, _, told = playground.partitions()
    assert code == 2
    assert "situate shard partitions table --create" in told
    assert playground.partitions("--create", "2")[0] == 0
    assert playground.partitions("--create", "2")[0] == 2, "it is there already"
    code, printed, _ = playground.partitions("--split", "0", "--dry-run", "-o", "json")
    assert code == 0
    assert not json.loads(printed)["written"]
    code, printed, _ = playground.partitions("--split", "0", "-o", "json")
    told_data = json.loads(printed)
    assert told_data["version"] == 2
    assert {
        each["partition"]: (each["slots"], each["frozen"], each["arriving"]) for each in told_data["partitions"]
    } == {
        0: (2048, 1024, 0),
        1: (2048, 0, 0),
        2: (0, 0, 1024),
    }
    written = playground.get("configmap", "table", "-n", "team")["data"]["table"]
    assert json.loads(written) == json.loads(frozen(even_table(2), halves()).to_text())
    code, _, told = playground.partitions("--hand-over")
    assert code == 1
    assert "partition 0 has confirmed version 0 of 2" in told
    assert playground.partitions("--merge", "1", "--into", "0")[0] == 2, "another change is under way"
    assert playground.partitions("--thaw")[0] == 0
    code, printed, _ = playground.partitions("-o", "json")
    assert json.loads(printed)["version"] == 3
    assert playground.partitions("--split", "0", "--merge", "1")[0] == 2
    configured = playground.folder / "situate.yaml"
    shared = f"resource: {RESOURCE}, partitionTable: table, leaderElectNamespace: team"
    configured.write_text(
        "apiVersion: situate.dev/v1alpha1\nkind: Situate\nsharding:\n"
        f"- {{{shared}, partition: '0'}}\n- {{{shared}, partition: '1', completedAtPath: status.done}}\n"
    )
    code, printed, told = playground.run("partitions", "table", "-f", str(configured), "-o", "json", about=False)
    assert (code, told, json.loads(printed)["version"]) == (0, "", 3), "its entries say where the table is"
    code, _, told = playground.run("partitions", "tabel", "-f", str(configured), about=False)
    assert (code, "no entry of sharding with partitionTable tabel is meant; tables there: table" in told) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        pytest.param(("partitions", "t", "-r", "reports"), "--resource: found", id="no resource of a table"),
        pytest.param(
            ("status", "-r", RESOURCE, "--executor-namespace", "A B"), "--executor-namespace: found", id="flag"
        ),
        pytest.param(("plan", "-r", RESOURCE, "--set", "sharding[0].pool=x"), "--set sharding[0].pool=x: ", id="set"),
        pytest.param(("drain", "x", "-r", RESOURCE, "--timeout", "soon"), "--timeout: found 'soon'; write", id="time"),
    ],
)
def test_what_is_typed_wrong_is_told_by_its_flag(arguments: tuple[str, ...], told: str) -> None:
    result = CliRunner().invoke(app, ["shard", *arguments])
    assert (result.exit_code, told in result.stderr) == (2, True), result.output


def halves() -> list[int]:
    """Of partition 0 the second half of its slots goes to 2."""
    return [0] * 1024 + [2] * 1024 + [1] * 2048

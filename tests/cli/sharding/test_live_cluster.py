"""The verbs of `situate sharding` for a cluster: what they print, what they write, and how they end."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from situate.cli.main import app
from situate.objects.values.timestamps import micro_time, rfc3339
from situate.sharding.leases.membership import lease_name
from situate.sharding.model.names import (
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
from situate.sharding.partitions.hashing import fnv1a64
from situate.sharding.partitions.slots import even_table, freeze_slots, slot_of
from situate.testing.sharding.world.reports import definition, report
from tests.cli.processes import KUBECTL, call, process
from tests.cli.test_completion import offered
from tests.waiting import eventually

pytestmark = pytest.mark.xdist_group("cli-shard")  # one server for all of them

RESOURCE = "batch.example.com/v1/reports"
LEASE = "reports.batch.example.com.default.supervisor"
HELD = {"executor-0": 4, "executor-1": 1, "executor-2": 1}
CAPACITY = {"executor-0": 4, "executor-1": 8, "executor-2": 8}


class Playground:
    """The server, kubectl and `situate sharding` for it."""

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
        subject = ("-r", RESOURCE, "--executor-namespace", "team", "--installation-namespace", "team") if about else ()
        result = CliRunner().invoke(app, ["sharding", *arguments, *subject, "--kubeconfig", str(self.kubeconfig)])
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

    def partitions(self, verb: str, *arguments: str) -> tuple[int, str, str]:
        about = ("-r", RESOURCE, "--installation-namespace", "team")
        return self.run("partitions", verb, "table", *arguments, *about, about=False)


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
    now = micro_time(datetime.now(UTC) + timedelta(hours=1))  # as those of executors: alive for all tests
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
    assert "situate manifests sharding" in fence["next_step"]


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
        eventually(
            "it says what is missing", lambda: f"the cluster does not serve {group}/v1/reports" in log.read_text()
        )
        playground.apply(definition(group=group))
        eventually("it leads", lambda: "leadership acquired" in log.read_text())
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


@pytest.fixture(scope="module")
def quiet(playground: Playground) -> Playground:
    """Two executors of a pool of their own: one renewed its Lease of 15 s 22 s ago, and holds an object."""
    group = "quiet.example.com"
    playground.apply(
        definition(group=group),
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "quiet"}},
        *(
            {**a_pod(name), "metadata": {"name": name, "namespace": "quiet", "labels": {POOL: "quiet"}}}
            for name in QUIET
        ),
    )
    eventually("it is served", lambda: playground.served(group))

    def pods() -> dict[str, str]:
        found = playground.get("pods", "-n", "quiet")["items"]
        return {
            each["metadata"]["name"]: each["metadata"]["uid"]
            for each in found
            if each["status"].get("phase") == "Running"
        }

    uids = eventually("they run", pods, lambda found: len(found) == len(QUIET))
    for name, silent_s in QUIET.items():
        lease = a_lease(name, uids[name], 1, 8)
        renewed = micro_time(datetime.now(UTC) - timedelta(seconds=silent_s))
        lease["metadata"] |= {"name": lease_name("quiet", name, uids[name]), "namespace": "quiet"}
        lease["metadata"]["labels"] = {POOL: "quiet"}
        lease["spec"] |= {"leaseDurationSeconds": 15, "renewTime": renewed, "acquireTime": renewed}
        playground.apply(lease)
    for name in QUIET:
        made = assigned(f"{name}-0", name, uids[name])
        playground.apply({**made, "apiVersion": f"{group}/v1"})
    return playground


QUIET = {"alive": -3600, "dead": 22}
ABOUT_QUIET = (
    *("-r", "quiet.example.com/v1/reports", "--pool", "quiet"),
    *("--executor-namespace", "quiet", "--installation-namespace", "quiet"),
)


@pytest.mark.finding("N24")
@pytest.mark.rule("sharding:B11")
def test_status_shows_an_executor_whose_lease_ran_out_as_not_ready(quiet: Playground) -> None:
    code, printed, remarks = quiet.run("status", *ABOUT_QUIET, about=False)
    assert code == 0
    rows = {line.split()[0]: line.split()[1] for line in printed.splitlines() if line.startswith(tuple(QUIET))}
    assert rows == {"alive": "Healthy", "dead": "NotReady"}
    assert "1 of 2 executors can be given work" in printed
    assert "executor dead counts as NotReady: Lease quiet/quiet.dead." in remarks
    (silent_s,) = re.findall(r"was renewed (\d+) s ago, and lasts 15 s", remarks)
    assert int(silent_s) >= 22
    _, printed, _ = quiet.run("status", *ABOUT_QUIET, "-o", "json", about=False)
    told = json.loads(printed)
    assert {each["id"]: (each["status"], each["open"]) for each in told["executors"]} == {
        "alive": ("Healthy", 1),
        "dead": ("NotReady", 1),
    }
    assert told["objects"] == {"assigned": 1, "orphaned": 1}
    assert [each["ending"] for each in told["removed"]] == ["expired"]


@pytest.mark.finding("N24")
def test_explain_takes_the_same_executor_for_lost(quiet: Playground) -> None:
    _, printed, _ = quiet.run("explain", "team/dead-0", *ABOUT_QUIET, "-o", "json", about=False)
    told = json.loads(printed)
    assert told["next"] == ["assign to alive, cause: lost"]
    assert [each["id"] for each in told["executors"]] == ["alive"]


@pytest.mark.finding("N22", "N21")
def test_explain_names_the_partition_and_that_it_has_no_supervisor(quiet: Playground, tmp_path: Path) -> None:
    """Of a file with several partitions, that of the object is taken."""
    table = even_table(2)
    metadata = {"name": "halves", "namespace": "quiet"}
    quiet.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"table": table.to_text()}})
    shared = {
        "resource": "quiet.example.com/v1/reports",
        "partitionTable": "halves",
        "pool": "quiet",
        "executorNamespace": "quiet",
    }
    file = configuration(tmp_path, *({**shared, "partition": str(each)} for each in range(2)))
    about = ("-f", str(file), "--installation-namespace", "quiet")
    hashed = fnv1a64(quiet.get("reports.quiet.example.com", "alive-0", "-n", "team")["metadata"]["uid"])
    partition, other = (0, 1) if slot_of(hashed) < 2048 else (1, 0)
    lease = f"reports.quiet.example.com.quiet.{partition}.supervisor"
    code, printed, _ = quiet.run("explain", "team/alive-0", *about, about=False)
    assert f"partition: {partition} (slot {slot_of(hashed)} of table halves)" in printed
    code, _, told = quiet.run("explain", "team/alive-0", "--partition", str(other), *about, about=False)
    assert (code, f"is in partition {partition} (slot " in told) == (2, True)
    code, printed, _ = quiet.run("explain", "team/dead-0", *about, about=False)
    assert code == 1
    assert "blocked: no supervisor runs for partition " in printed
    metadata = {"name": lease, "namespace": "quiet"}
    now = micro_time(datetime.now(UTC) + timedelta(hours=1))
    spec = {"holderIdentity": "boss", "leaseDurationSeconds": 15, "renewTime": now}
    quiet.apply({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec})
    code, _, told = quiet.run("explain", "team/alive-0", *ABOUT_QUIET, about=False)
    assert f"has partitions with their own supervisors, {partition}: name the configuration with -f" in told


@pytest.mark.finding("N21")
def test_explain_shows_a_refused_write_instead_of_the_next_step_alone(playground: Playground) -> None:
    """What a supervisor records when the fence refuses its writes."""
    uid = playground.get("report", "waiting", "-n", "team")["metadata"]["uid"]
    said = "ValidatingAdmissionPolicy old-term refuses the write: the term of the write is older than the leader's term"
    now = rfc3339(datetime.now(UTC))
    playground.apply(
        {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": "waiting.refused", "namespace": "team"},
            "involvedObject": {
                "apiVersion": "batch.example.com/v1",
                "kind": "Report",
                "namespace": "team",
                "name": "waiting",
                "uid": uid,
            },
            "reason": "WriteRefused",
            "message": said,
            "type": "Warning",
            "count": 12,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "source": {"component": "situate-supervisor"},
        }
    )
    try:
        code, printed, _ = playground.run("explain", "team/waiting")
        assert code == 1
        assert f"blocked: the API server refuses the supervisor's write: {said}" in printed
        assert "\nnext: " not in printed
        assert "Event WriteRefused (x12, " in printed
        told = playground.data("explain", "team/waiting", code=1)
        assert told["blocked"] == [f"the API server refuses the supervisor's write: {said}"]
    finally:
        playground.kubectl("delete", "event", "waiting.refused", "-n", "team")
    assert playground.run("explain", "team/waiting")[0] == 0


@pytest.mark.finding("N21")
def test_status_says_that_the_fence_refuses_the_leaders_writes(playground: Playground) -> None:
    report = json.dumps({"term": 3, "writeRefused": "ValidatingAdmissionPolicy old-term refuses the write"})
    playground.kubectl("annotate", "lease", LEASE, "-n", "team", f"{STATUS}={report}")
    try:
        _, printed, _ = playground.run("status")
        assert "the API server refuses the supervisor's writes: ValidatingAdmissionPolicy old-term" in printed
    finally:
        playground.kubectl("annotate", "lease", LEASE, "-n", "team", f"{STATUS}-")


@pytest.mark.rule("sharding:B11")
def test_explain_says_why_here(playground: Playground) -> None:
    told = playground.data("explain", "team/executor-1-0")
    assert (told["state"], told["executor"], told["cause"], told["epoch"]) == ("assigned", "executor-1", "new", 1)
    assert told["verdict"]["assigned"]
    _, printed, _ = playground.run("explain", "executor-1-0", "-n", "team")
    assert "team/executor-1-0 is assigned: executor-1 (epoch 1, cause: new" in printed


@pytest.mark.rule("sharding:B11")
def test_explain_says_where_next_executor_by_executor(playground: Playground) -> None:
    told = playground.data("explain", "team/waiting")
    assert not told["waits"]
    (first,) = (each["id"] for each in told["executors"] if each["place"] == 1)
    assert first in ("executor-1", "executor-2"), "each holds one of eight"
    by_id = {each["id"]: each for each in told["executors"]}
    assert by_id["executor-0"]["place"] is None
    assert "full" in by_id["executor-0"]["why"].lower()
    assert told["next"] == [f"assign to {first}, cause: new"]


@pytest.mark.rule("sharding:B11")
@pytest.mark.rule("sharding:B16")
def test_explain_says_why_pending_executor_by_executor(playground: Playground) -> None:
    code, printed, _ = playground.run("explain", "team/picky")
    assert code == 1
    assert "allowed executors: those with labels that match gpu=true" in printed
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
    arguments = ("explain", "team/waiting", "-f", str(file), "--installation-namespace", "team")
    code, printed, _ = playground.run(*arguments, about=False)
    assert code == 1
    assert "the slot of the object is frozen" in printed


@pytest.mark.finding("N14")
def test_explain_takes_a_type_and_a_name_as_kubectl_does(playground: Playground) -> None:
    for arguments in (
        ("report/executor-1-0", "-n", "team"),
        ("reports/executor-1-0", "-n", "team"),
        ("reports.batch.example.com/executor-1-0", "-n", "team"),
        ("report/team/executor-1-0",),
    ):
        assert playground.data("explain", *arguments)["object"] == "team/executor-1-0"
    code, _, told = playground.run("explain", "pod/executor-1", "-n", "team")
    assert code == 2
    assert 'pod/executor-1: found type "pod", allowed: report; name the object as NAMESPACE/NAME' in told


def test_explain_of_what_is_not_there(playground: Playground) -> None:
    code, _, told = playground.run("explain", "team/wating")
    assert code == 2
    assert "did you mean waiting?" in told
    code, _, told = playground.run("explain", "a/b/c")
    assert code == 2
    assert 'a/b/c: found type "a", allowed: report; name the object as NAMESPACE/NAME' in told


def test_verbs_say_which_supervisor_they_need(playground: Playground, tmp_path: Path) -> None:
    code, _, told = playground.run("status", about=False)
    assert code == 2
    assert "--resource GROUP/VERSION/PLURAL" in told
    code, _, told = playground.run("status", "-r", "batch.example.com/v1/nothing", about=False)
    assert code == 2
    assert "the cluster does not serve batch.example.com/v1/nothing" in told
    file = tmp_path / "situate.yaml"
    entries = [{"resource": RESOURCE, "pool": pool, "namespace": pool} for pool in ("default", "other")]
    file.write_text(json.dumps({"apiVersion": "situate.dev/v1alpha1", "kind": "Situate", "sharding": entries}))
    code, _, told = playground.run("status", "-f", str(file), about=False)
    assert code == 2
    assert "several entries" in told
    code, printed, _ = playground.run("status", "-f", str(file), "--pool", "other", "-o", "json", about=False)
    assert code == 0
    assert json.loads(printed)["executors"] == []


@pytest.mark.finding("N30")
def test_plan_names_the_fewest_moves(playground: Playground) -> None:
    told = playground.data("plan", "--goal", "even", "-A", code=1)
    forced = [each for each in told["moves"] if not each["from"]]
    voluntary = [each for each in told["moves"] if each["from"]]
    # 9 open ones that can be read, 3 each: three wait or are lost, and one has to leave the fullest
    assert sorted(each["object"] for each in forced) == ["team/lost", "team/picky", "team/waiting"]
    assert [each["from"] for each in voluntary] == ["executor-0"]
    assert voluntary[0]["object"] != "team/executor-0-0", "it may not be moved"
    assert told["after"] == {"executor-0": 3, "executor-1": 3, "executor-2": 3}
    assert told["reached"]
    assert {each["object"]: each["why"] for each in forced} == {
        "team/lost": "its holder executor-9 is lost",
        "team/picky": "unassigned",
        "team/waiting": "unassigned",
    }
    without = playground.data("plan", "--goal", "even", "--without", "executor-2", "-A", code=1)
    left = {each["object"]: each["why"] for each in without["moves"]}
    assert left["team/executor-2-0"] == "its holder executor-2 is excluded from the plan", (
        "it lives, and holds the object"
    )
    assert set(without["after"]) == {"executor-0", "executor-1"}
    assert playground.run("plan", "--without", "executor-7")[0] == 2


@pytest.mark.rule("sharding:K8")
def test_drain_and_uncordon(playground: Playground) -> None:
    code, printed, _ = playground.run("drain", "executor-2", *ABOUT_EXECUTORS, about=False)
    assert code == 0
    assert "executor executor-2 is cordoned; 1 objects will be released" in printed
    assert playground.annotation("executor-2", CORDON) == "true"
    by_id = {each["id"]: each["status"] for each in playground.data("status")["executors"]}
    assert by_id["executor-2"] == "Draining"
    code, _, told = playground.run("drain", "executor-2", "--wait", "--timeout", "1ms", *ABOUT_EXECUTORS, about=False)
    assert code == 1
    assert "still holds 1 objects" in told
    assert playground.run("uncordon", "executor-2", *ABOUT_EXECUTORS, about=False)[0] == 0
    assert playground.annotation("executor-2", CORDON) is None
    code, _, told = playground.run("drain", "executor-3", *ABOUT_EXECUTORS, about=False)
    assert code == 2
    assert "pool default has: executor-0, executor-1, executor-2" in told


def test_undrain_is_a_hidden_name_of_uncordon(playground: Playground) -> None:
    assert playground.run("drain", "executor-2", *ABOUT_EXECUTORS, about=False)[0] == 0
    code, printed, _ = playground.run("undrain", "executor-2", *ABOUT_EXECUTORS, about=False)
    assert (code, printed) == (0, "executor executor-2 is uncordoned\n")
    assert playground.annotation("executor-2", CORDON) is None
    assert "undrain" not in playground.run("--help", about=False)[1]


def test_a_dry_run_of_drain_and_uncordon_writes_nothing(playground: Playground) -> None:
    code, printed, _ = playground.run("drain", "executor-2", "--wait", "--dry-run", *ABOUT_EXECUTORS, about=False)
    assert (code, printed) == (0, "executor executor-2 would be cordoned; 1 objects would be released\n")
    assert playground.annotation("executor-2", CORDON) is None
    playground.run("drain", "executor-2", *ABOUT_EXECUTORS, about=False)
    try:
        code, printed, _ = playground.run("uncordon", "executor-2", "--dry-run", *ABOUT_EXECUTORS, about=False)
        assert (code, printed) == (0, "executor executor-2 would be uncordoned\n")
        assert playground.annotation("executor-2", CORDON) == "true"
    finally:
        playground.run("uncordon", "executor-2", *ABOUT_EXECUTORS, about=False)


def test_a_timeout_of_0_waits_without_an_end(playground: Playground) -> None:
    """Until the executor's only object is somebody else's."""
    command = [
        *("sharding", "drain", "executor-2", "--wait", "--timeout", "0", *ABOUT_EXECUTORS),
        *("--kubeconfig", str(playground.kubeconfig)),
    ]
    waiting = process(playground.folder, "drain", *command)
    waiting.start()
    label = ("label", "report", "executor-2-0", "-n", "team", "--overwrite")
    try:
        eventually("it is cordoned", lambda: playground.annotation("executor-2", CORDON) == "true")
        eventually("it waits", lambda: "will be released" in waiting.log.read_text())
        assert waiting.running
        playground.kubectl(*label, f"{EXECUTOR}=executor-1")
        eventually("it ends", lambda: "holds no objects any more" in waiting.log.read_text())
    finally:
        waiting.stop()
        playground.kubectl(*label, f"{EXECUTOR}=executor-2")
        playground.run("uncordon", "executor-2", *ABOUT_EXECUTORS, about=False)


def test_executors_are_completed(playground: Playground) -> None:
    """From their Leases, as a shell asks for them."""
    typed = f"sharding drain -r {RESOURCE} --executor-namespace team"
    assert offered(f"{typed} ex", playground.kubeconfig) == ["executor-0", "executor-1", "executor-2"]
    assert offered(f"{typed} --pool other ex", playground.kubeconfig) == []


def test_a_plan_lists_one_namespace_or_all(playground: Playground) -> None:
    code, printed, _ = playground.run("plan", "--goal", "even", "-n", "elsewhere")
    assert code == 1, "what is left over elsewhere counts"
    assert "team/" not in printed
    assert "4 moves to the goal even" in printed
    assert "not listed: 6 objects in namespaces other than elsewhere; -A lists all" in printed
    code, printed, _ = playground.run("plan", "--goal", "even", "-n", "team")
    assert "not listed" not in printed
    assert "team/picky: " in printed
    code, _, told = playground.run("plan", "-n", "team", "-A")
    assert (code, "-A lists all namespaces, and -n team only one" in told) == (2, True)


def test_explain_takes_the_contexts_namespace(playground: Playground) -> None:
    code, _, told = playground.run("explain", "executor-1-0")
    assert code == 2
    assert "Report not found in namespace default; found: team/executor-1-0" in told


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
            "drain", "executor-2", "--wait", "--timeout", "1ms", *ABOUT_EXECUTORS, about=False
        )
        assert "cordoned; 1 objects will be released" in printed
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
    code, _, told = playground.partitions("show")
    assert code == 2
    assert "situate sharding partitions create table --count" in told
    assert playground.partitions("create", "--count", "2")[0] == 0
    assert playground.partitions("create", "--count", "2")[0] == 2, "it is there already"
    playground.apply(a_supervisor("table", 2))
    code, printed, _ = playground.partitions("split", "0", "--dry-run", "-o", "json")
    assert code == 0
    assert not json.loads(printed)["written"]
    code, printed, _ = playground.partitions("split", "0", "-o", "json")
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
    assert json.loads(written) == json.loads(freeze_slots(even_table(2), halves()).to_text())
    code, _, told = playground.partitions("hand-over")
    assert code == 1
    assert "partition 0 has confirmed version 0, not version 2" in told
    assert playground.partitions("merge", "1", "--into", "0")[0] == 2, "another change is under way"
    assert playground.partitions("thaw")[0] == 0
    code, printed, _ = playground.partitions("show", "-o", "json")
    assert json.loads(printed)["version"] == 3
    configured = playground.folder / "situate.yaml"
    shared = f"resource: {RESOURCE}, partitionTable: table, leaderElectNamespace: team"
    configured.write_text(
        "apiVersion: situate.dev/v1alpha1\nkind: Situate\nsharding:\n"
        f"- {{{shared}, partition: '0'}}\n- {{{shared}, partition: '1', completedAtPath: status.done}}\n"
    )
    code, printed, told = playground.run(
        "partitions", "show", "table", "-f", str(configured), "-o", "json", about=False
    )
    assert (code, told, json.loads(printed)["version"]) == (0, "", 3), "its entries say where the table is"
    code, _, told = playground.run("partitions", "show", "tabel", "-f", str(configured), about=False)
    assert (code, "the flags match no entry of sharding with partitionTable tabel; tables: table" in told) == (2, True)


@pytest.mark.finding("N29")
@pytest.mark.parametrize(
    ("flags", "command"),
    [
        pytest.param(("--split", "0"), "split TABLE PARTITION", id="split"),
        pytest.param(("--count=4",), "resize TABLE --count N", id="count"),
        pytest.param(("--merge", "1", "--into", "0"), "merge TABLE PARTITION --into PARTITION", id="merge"),
        pytest.param(("--hand-over",), "hand-over TABLE", id="hand over"),
        pytest.param((), "show TABLE", id="no flag"),
    ],
)
def test_former_flags_of_partitions_name_their_command(flags: tuple[str, ...], command: str) -> None:
    told = CliRunner().invoke(app, ["sharding", "partitions", "slots", "-r", RESOURCE, *flags])
    assert told.exit_code == 2
    assert f"Write: situate sharding partitions {command}" in told.stderr


@pytest.mark.parametrize("verb", ["create", "resize", "split", "merge", "thaw"])
def test_a_dry_run_of_a_change_of_partitions_writes_nothing(playground: Playground, verb: str) -> None:
    name = f"dry-{verb}"
    about = ("-r", RESOURCE, "--installation-namespace", "team", "-o", "json")
    options = {"create": ("--count", "2"), "resize": ("--count", "3"), "split": ("0",), "merge": ("1", "--into", "0")}
    if verb != "create":
        table = freeze_slots(even_table(2), halves()) if verb == "thaw" else even_table(2)
        content = {"kind": "ConfigMap", "apiVersion": "v1", "data": {"table": table.to_text()}}
        playground.apply({**content, "metadata": {"name": name, "namespace": "team"}})
    force = () if verb in ("create", "thaw") else ("--force",)
    code, printed, told = playground.run(
        "partitions", verb, name, *options.get(verb, ()), *force, "--dry-run", *about, about=False
    )
    assert code == 0, told
    assert not json.loads(printed)["written"]
    names = playground.kubectl("get", "configmap", "-n", "team", "-o", "name")
    if verb == "create":
        assert name not in names
    else:
        assert json.loads(playground.get("configmap", name, "-n", "team")["data"]["table"]) == json.loads(
            table.to_text()
        )


@pytest.mark.finding("N22")
@pytest.mark.rule("sharding:K10", "sharding:L1")
def test_slots_go_only_to_a_partition_with_a_supervisor(playground: Playground) -> None:
    """Without one, a quarter of all objects would wait for ever."""
    about = ("-r", GUARDED, "--installation-namespace", "team")

    def partitions(verb: str, *arguments: str) -> tuple[int, str, str]:
        return playground.run("partitions", verb, "guarded", *arguments, *about, about=False)

    def table() -> Any:
        return json.loads(playground.get("configmap", "guarded", "-n", "team")["data"]["table"])

    playground.apply(definition(group="guarded.example.com"))
    eventually("it is served", lambda: playground.served("guarded.example.com"))
    code, _, told = partitions("create", "--count", "2")
    assert code == 0
    assert "partition 1 has no supervisor, so its objects wait: Lease team/reports.guarded.example.com" in told
    before = table()
    for change in (("split", "0"), ("resize", "--count", "3"), ("merge", "1", "--into", "0")):
        code, _, told = partitions(*change)
        assert (code, table()) == (1, before)
        receiver = "0" if "--into" in change else "2"
        lease = f"team/reports.guarded.example.com.default.{receiver}.supervisor"
        assert f"partition {receiver} has no supervisor: Lease {lease} does not exist" in told
        assert "situate manifests sharding" in told
        assert "--force" in told
    playground.apply(a_supervisor("guarded", 2, silent_s=60))
    code, _, told = partitions("split", "0")
    assert code == 1
    assert "expired: boss-2 renewed it 6" in told
    for partition in (0, 1, 2):
        playground.apply(a_supervisor("guarded", partition, version=2))
    assert partitions("split", "0")[0] == 0
    playground.apply(a_supervisor("guarded", 2, silent_s=60))
    code, printed, told = partitions("hand-over", "-o", "json")
    assert (code, table()["version"]) == (1, 2)
    (wait,) = json.loads(printed)["waits"]
    assert wait.startswith("partition 2 has no supervisor: Lease ")
    code, printed, _ = partitions("hand-over", "--force", "-o", "json")
    assert (code, table()["version"]) == (0, 3)
    rows = {each["partition"]: (each["slots"], each["supervisor"]) for each in json.loads(printed)["partitions"]}
    assert rows == {0: (1024, "boss-0"), 1: (2048, "boss-1"), 2: (1024, None)}


GUARDED = "guarded.example.com/v1/reports"


def a_supervisor(of: str, partition: int, *, silent_s: float = 0, version: int | None = None) -> dict[str, Any]:
    """The Lease of a partition's leader. `version`: of the table, as the leader confirms it."""
    group = "guarded.example.com" if of == "guarded" else "batch.example.com"
    renewed = micro_time(datetime.now(UTC) - timedelta(seconds=silent_s))
    spec = {"holderIdentity": f"boss-{partition}", "leaseDurationSeconds": 15, "renewTime": renewed}
    metadata: dict[str, Any] = {"name": f"reports.{group}.default.{partition}.supervisor", "namespace": "team"}
    if version is not None:
        metadata["annotations"] = {STATUS: json.dumps({"term": 0, "tableVersion": version})}
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        pytest.param(("partitions", "show", "t", "-r", "reports"), "--resource: found", id="no resource of a table"),
        pytest.param(
            ("status", "-r", RESOURCE, "--executor-namespace", "A B"), "--executor-namespace: found", id="flag"
        ),
        pytest.param(("plan", "-r", RESOURCE, "--set", "sharding[0].pool=x"), "--set sharding[0].pool=x: ", id="set"),
        pytest.param(("drain", "x", "-r", RESOURCE, "--timeout", "soon"), '--timeout: found "soon"; write', id="time"),
    ],
)
def test_what_is_typed_wrong_is_told_by_its_flag(arguments: tuple[str, ...], told: str) -> None:
    result = CliRunner().invoke(app, ["sharding", *arguments])
    assert (result.exit_code, told in result.stderr) == (2, True), result.output


def halves() -> list[int]:
    """Of partition 0 the second half of its slots goes to 2."""
    return [0] * 1024 + [2] * 1024 + [1] * 2048

"""From one supervisor to partitions and back, with the printed policies: what refuses, and what says so."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from situate.cli.main import app
from situate.objects.values.timestamps import micro_time
from situate.sharding.leases.membership import lease_name
from situate.sharding.model.names import EXECUTOR, EXECUTOR_UID, PARTITION, POOL
from situate.sharding.partitions.hashing import fnv1a64
from situate.sharding.partitions.partitions import partition_of
from situate.testing.sharding.world.reports import definition, report
from tests.cli.processes import KUBECTL, call, process
from tests.controlplane.process import Process
from tests.waiting import eventually

pytestmark = pytest.mark.xdist_group("cli-shard-fence")

RESOURCE = "batch.example.com/v1/reports"
TERM = "situate-fencing.reports.batch.example.com-term"
SINGLE = ({"resource": RESOURCE, "executorNamespace": "team"},)
PARTS = tuple({**SINGLE[0], "partition": str(each), "partitionTable": "slots"} for each in range(2))


class Cluster:
    """An API server, and kubectl, `situate` and supervisors with its address."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kubeconfig = folder / "kubeconfig"
        self.runs = 0

    def apply(self, *objects: Mapping[str, Any]) -> None:
        self.kubectl("apply", "--server-side", "-f", "-", given=yaml.safe_dump_all(objects))

    def kubectl(self, *arguments: str, given: str = "") -> str:
        done = call(self.folder, str(KUBECTL), "--kubeconfig", str(self.kubeconfig), *arguments, given=given)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def get(self, *arguments: str) -> Any:
        return json.loads(self.kubectl("get", *arguments, "-o", "json"))

    def situate(self, *arguments: str) -> tuple[int, str, str]:
        result = CliRunner().invoke(app, [*arguments, "--kubeconfig", str(self.kubeconfig)])
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result.exit_code, result.stdout, result.stderr

    def configuration(self, entries: tuple[Mapping[str, Any], ...]) -> Path:
        file = self.folder / f"situate-{len(entries)}.yaml"
        document = {"apiVersion": "situate.dev/v1alpha1", "kind": "Situate", "health": {"address": None}}
        file.write_text(json.dumps({**document, "leaderElection": {"namespace": "team"}, "sharding": entries}))
        return file

    def manifests(self, entries: tuple[Mapping[str, Any], ...]) -> None:
        """Apply what is printed, as it is."""
        arguments = [
            "manifests",
            "sharding",
            "-f",
            str(self.configuration(entries)),
            "--installation-namespace",
            "team",
        ]
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 0, result.output
        self.kubectl("apply", "--server-side", "-f", "-", given=result.stdout)

    def supervisors(self, entries: tuple[Mapping[str, Any], ...]) -> Process:
        """`situate run` as the account that the manifests name."""
        content = yaml.safe_load(self.kubeconfig.read_text())
        content["users"][0]["user"]["as"] = "system:serviceaccount:team:situate-shard"
        kubeconfig = self.folder / "supervisor.kubeconfig"
        kubeconfig.write_text(yaml.safe_dump(content))
        self.runs += 1
        file = self.configuration(entries)
        made = process(self.folder, f"supervisors-{self.runs}", "run", "-f", str(file), "--kubeconfig", str(kubeconfig))
        made.start()
        return made

    def executor(self, name: str, partition: str) -> None:
        """A Pod that runs, and a Lease that says so for all of the test."""
        labels = {POOL: "default", PARTITION: partition}
        spec = {"containers": [{"name": "c", "image": "example.com/c:1"}]}
        self.apply(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": name, "namespace": "team", "labels": labels},
                "spec": spec,
            }
        )
        pod = eventually(
            "it runs",
            lambda: self.get("pod", name, "-n", "team"),
            lambda found: found["status"].get("phase") == "Running",
        )
        uid = pod["metadata"]["uid"]
        renewed = micro_time(datetime.now(UTC) + timedelta(hours=1))
        self.apply(
            {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {
                    "name": lease_name("default", name, uid),
                    "namespace": "team",
                    "labels": labels,
                    "annotations": {EXECUTOR: name, EXECUTOR_UID: uid},
                },
                "spec": {"holderIdentity": uid, "leaseDurationSeconds": 3600, "renewTime": renewed},
            }
        )

    def work(self, name: str) -> None:
        content = report(name)
        self.apply({**content, "metadata": {**content["metadata"], "namespace": "team"}})

    def work_for_each_partition(self) -> list[str]:
        """Names of new objects. The server draws the uids, and with them the partitions."""
        names: list[str] = []
        lacking = set(range(len(PARTS)))
        while lacking:
            names.append(f"second-{len(names)}")
            self.work(names[-1])
            uid = self.get("report", names[-1], "-n", "team")["metadata"]["uid"]
            lacking.discard(partition_of(fnv1a64(uid), len(PARTS)))
        return names

    def assigned(self, name: str) -> None:
        eventually(
            f"{name} is assigned", lambda: self.get("report", name, "-n", "team")["spec"].get("assignedTo"), bool
        )

    def checked(self, entries: tuple[Mapping[str, Any], ...]) -> dict[str, tuple[bool, str]]:
        _, printed, _ = self.situate("check", "-f", str(self.configuration(entries)), "-o", "json")
        return {each["check"]: (each["ok"], each["next_step"]) for each in json.loads(printed)}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path)
    server = process(
        tmp_path, "server", *("embedded", "--nodes", "1", "--port", "0"), "--write-kubeconfig", str(made.kubeconfig)
    )
    server.start()
    try:
        eventually("the server answers", made.kubeconfig.exists)
        made.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}, definition())
        eventually(
            "reports are served",
            lambda: made.kubectl("api-resources", "--api-group=batch.example.com", "-o", "name"),
            lambda names: "reports" in names,
        )
        yield made
    finally:
        server.stop()


@pytest.mark.finding("N21", "N33")
@pytest.mark.rule("sharding:K10", "sharding:S10")
def test_from_one_supervisor_to_partitions_and_back(cluster: Cluster) -> None:
    """The policy of the first output looks at the Lease of a supervisor that is gone. It has to say so, and to go."""
    name = "situate-fencing.reports.batch.example.com"
    of_partition = f"the fence lets the supervisor of {RESOURCE} pool default partition {{}} write"
    for index in range(2):
        cluster.executor(f"e{index}", str(index))
    cluster.manifests(SINGLE)
    lease = {"spec": {"leaseTransitions": 6}}
    cluster.kubectl(
        *("patch", "lease", "reports.batch.example.com.default.supervisor", "-n", "team", "--type", "merge"),
        *("-p", json.dumps(lease)),
    )
    cluster.work("first")
    single = cluster.supervisors(SINGLE)
    try:
        cluster.assigned("first")
        found = cluster.checked(SINGLE)
        assert found[f"supervisor of {RESOURCE} pool default"] == (True, "")
        assert found[f"the fence lets the supervisor of {RESOURCE} pool default write"] == (True, "")
    finally:
        single.stop()
    # as long as an object is there, its term lets the supervisor of its partition begin above that
    cluster.kubectl("delete", "report", "first", "-n", "team")
    before = cluster.checked(SINGLE)
    assert before[f"supervisor of {RESOURCE} pool default: not running yet"] == (True, "")
    table = ("sharding", "partitions", "create", "slots", "--count", "2")
    assert cluster.situate(*table, "-r", RESOURCE, "--installation-namespace", "team")[0] == 0
    parts = cluster.supervisors(PARTS)
    try:
        names = cluster.work_for_each_partition()
        file = str(cluster.configuration(PARTS))
        about = ("-f", file, "--installation-namespace", "team")

        def explained() -> str:
            return cluster.situate("sharding", "explain", "team/second-0", *about)[1]

        told = eventually("explain shows the refusal", explained, lambda text: "refuses the supervisor's write" in text)
        assert f"ValidatingAdmissionPolicy {TERM} refuses the write" in told
        assert f"kubectl delete validatingadmissionpolicy,validatingadmissionpolicybinding {TERM}" in told
        condition = eventually(
            "so does the object",
            lambda: cluster.get("report", "second-0", "-n", "team").get("status", {}).get("conditions"),
        )[0]
        assert (condition["status"], condition["reason"]) == ("False", "WriteRefused")
        found = eventually(
            "both supervisors lead",
            lambda: cluster.checked(PARTS),
            lambda found: all(of_partition.format(index) in found for index in range(2)),
        )
        for index in range(2):
            ok, step = found[of_partition.format(index)]
            assert not ok
            assert TERM in step
        cluster.manifests(PARTS)
        for each in names:
            cluster.assigned(each)
        found = cluster.checked(PARTS)
        assert [found[of_partition.format(index)] for index in range(2)] == [(True, "")] * 2
        ok, step = found["Deployment team/reports-executor"]
        assert not ok
        assert "kubectl delete" in step
    finally:
        parts.stop()
    cluster.manifests(SINGLE)
    again = cluster.supervisors(SINGLE)
    try:
        cluster.work("third")
        cluster.assigned("third")
    finally:
        again.stop()
    assert {each["metadata"]["name"] for each in cluster.get("validatingadmissionpolicies")["items"]} == {name, TERM}


@pytest.mark.finding("N33")
@pytest.mark.rule("sharding:K10")
def test_check_names_a_partition_without_a_supervisor(cluster: Cluster) -> None:
    """Of the configuration, and of the table alone."""
    table = ("sharding", "partitions", "create", "slots", "--count", "3")
    assert cluster.situate(*table, "-r", RESOURCE, "--installation-namespace", "team")[0] == 0
    found = cluster.checked(PARTS)
    assert not found[f"supervisor of {RESOURCE} pool default partition 2"][0], "no entry has it"
    now = micro_time(datetime.now(UTC) + timedelta(hours=1))
    cluster.apply(
        {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": "reports.batch.example.com.default.0.supervisor", "namespace": "team"},
            "spec": {"holderIdentity": "boss", "leaseDurationSeconds": 15, "renewTime": now, "leaseTransitions": 1},
        }
    )
    found = cluster.checked(PARTS)
    assert found[f"supervisor of {RESOURCE} pool default partition 0"] == (True, "")
    ok, step = found[f"supervisor of {RESOURCE} pool default partition 1"]
    assert not ok
    assert step.startswith(
        "Lease team/reports.batch.example.com.default.1.supervisor does not exist, so its objects wait"
    )
    ok, step = found[f"supervisor of {RESOURCE} pool default partition 2"]
    assert not ok
    assert "situate sharding partitions merge slots 2 --into 0" in step

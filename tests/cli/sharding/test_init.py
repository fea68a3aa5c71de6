"""`situate sharding init`: what it writes runs, is let do what it needs, and takes nobody's place."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from situate.cli.input.configuration import load_configuration, sharding_entries
from situate.cli.main import app
from situate.cli.sharding.init import template_words, write_files
from situate.objects.resources import unstructured
from situate.sharding import SupervisorOptions
from situate.sharding.permissions import executor_permissions, supervisor_permissions
from situate.testing.builders.operators import documents, local_cluster
from tests.examples.rights import granted, needed


def call(folder: Path, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["sharding", "init", *arguments, "--folder", str(folder)])


@pytest.fixture
def project(tmp_path: Path) -> Path:
    done = call(tmp_path, "render-farm", "--group", "batch.example.com")
    assert done.exit_code == 0, done.output
    return tmp_path / "render-farm"


def test_it_says_what_to_do_next(tmp_path: Path) -> None:
    told = call(tmp_path, "reports").output.splitlines()
    assert told[0].startswith("wrote ")
    assert told[1] == f"next: cd {tmp_path}/reports && python -m pytest; then edit reports/reconciler.py"


def test_a_dry_run_names_the_files_and_writes_none(tmp_path: Path) -> None:
    told = call(tmp_path, "reports", "--dry-run")
    assert told.exit_code == 0
    assert f"{tmp_path}/reports/reports/reconciler.py would be written" in told.output.splitlines()
    assert list(tmp_path.iterdir()) == []
    call(tmp_path, "reports")
    assert call(tmp_path, "reports", "--dry-run").exit_code == 2, "it is there already"


def test_no_word_of_the_templates_is_left(project: Path) -> None:
    left = [path for path in project.rglob("*") if path.is_file() and "%%" in path.read_text()]
    assert left == []
    assert {path.name for path in project.iterdir()} >= {"render_farm", "tests", "crd.yaml", "README.md"}


@pytest.mark.parametrize(
    ("name", "kind", "plural"),
    [
        ("reports", "Report", "reports"),
        ("render-farm", "RenderFarm", "renderfarms"),
        ("policies", "Policy", "policies"),
        ("boxes", "Box", "boxes"),
        ("classes", "Class", "classes"),
        ("batches", "Batch", "batches"),
        ("caches", "Cache", "caches"),
        ("status", "Status", "statuses"),
        ("analysis", "Analysis", "analysises"),
        ("s", "S", "ses"),
    ],
)
def test_a_kind_is_called_as_one_of_what_the_operator_is_called_for(name: str, kind: str, plural: str) -> None:
    words = template_words(name, "batch.example.com", "")
    assert (words["kind"], words["plural"]) == (kind, plural)


@pytest.mark.parametrize("what", [("check",), ("format", "--check")], ids=["lint", "format"])
def test_what_it_writes_is_tidy(project: Path, what: tuple[str, ...]) -> None:
    command = (sys.executable, "-m", "ruff", *what, "--isolated", "--line-length", "120", "--no-cache", ".")
    told = subprocess.run(command, cwd=project, capture_output=True, text=True)
    assert told.returncode == 0, told.stdout


def test_the_definition_is_of_the_kind_that_was_asked_for(tmp_path: Path) -> None:
    write_files(tmp_path / "own", template_words("own", "batch.example.com", "Policy"))
    (definition,) = documents(tmp_path / "own" / "crd.yaml")
    assert definition["metadata"]["name"] == "policies.batch.example.com"
    assert definition["spec"]["names"] == {"plural": "policies", "singular": "policy", "kind": "Policy"}
    (example,) = documents(tmp_path / "own" / "example.yaml")
    assert (example["apiVersion"], example["kind"]) == ("batch.example.com/v1", "Policy")


def test_accounts_are_let_do_what_they_need_and_no_more(project: Path) -> None:
    written = documents(project / "manifests.yaml")
    of = ("batch.example.com", "renderfarms")
    lease = ("render-farm", "of-supervisors")
    supervisor = supervisor_permissions(*of, lease, executor_namespace="render-farm", archives=True)
    assert granted(written, "supervisor") == needed(supervisor)
    assert granted(written, "executor") == needed(executor_permissions(*of, "render-farm"))


async def test_a_server_takes_the_fence_which_names_accounts_and_lease_of_the_manifests(
    project: Path, tmp_path: Path
) -> None:
    written = documents(project / "manifests.yaml")
    accounts = {each["metadata"]["name"] for each in written if each["kind"] == "ServiceAccount"}
    fence = documents(project / "fence.yaml")
    async with local_cluster(tmp_path) as cluster:
        await cluster.create(*documents(project / "crd.yaml"), *written, *fence)
    told = (project / "fence.yaml").read_text()
    assert all(f"system:serviceaccount:render-farm:{account}" in told for account in accounts)
    assert (accounts, fence[0]["kind"]) == ({"supervisor", "executor"}, "Lease")
    resource = unstructured("batch.example.com", "v1", "RenderFarm", "renderfarms")
    options = SupervisorOptions.from_mapping({"resource": "batch.example.com/v1/renderfarms"})
    assert options.scope(resource, "somebody", "render-farm").lease.name == fence[0]["metadata"]["name"]


@pytest.mark.parametrize("which", ["project", "example"])
def test_verbs_are_told_what_supervisors_are(project: Path, which: str) -> None:
    """Else `status` would look for executors by other labels, and call the ones that are there unhealthy."""
    folder = project if which == "project" else Path(__file__).parents[3] / "examples" / "sharding-build"
    (said,) = sharding_entries(load_configuration(folder / "situate.yaml"))
    (deployment,) = (
        each
        for each in documents(folder / "manifests.yaml")
        if each["kind"] == "Deployment" and each["metadata"]["name"] == "supervisor"
    )
    namespace = deployment["metadata"]["namespace"]
    arguments = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    told = dict(each.removeprefix("--").replace("$(POD_NAMESPACE)", namespace).split("=", 1) for each in arguments)
    assert said.leader_elect_namespace == namespace
    assert {
        "resource": said.resource,
        "executor-namespace": said.executor_namespace,
        "executor-selector": said.executor_selector,
    }.items() <= told.items()


SUBJECT = "--resource=batch.example.com/v1/renderfarms"


@pytest.mark.parametrize(
    ("main", "arguments", "status", "said"),
    [
        ("executor", (), 2, "--executor-uid: missing, allowed: the UID of the Pod, or POD_UID in the environment"),
        ("supervisor", (SUBJECT,), 1, "--health-address 127.0.0.1:{port}"),
        (
            "supervisor",
            (SUBJECT, "--archive-url-file=/nowhere/url"),
            2,
            'found "/nowhere/url", allowed: a readable file',
        ),
        ("supervisor", (SUBJECT, "--health-address=127.0.0.1:0"), 1, "no cluster to connect to: $KUBECONFIG"),
    ],
)
def test_a_main_that_cannot_begin_says_why_in_a_line(
    project: Path, main: str, arguments: tuple[str, ...], status: int, said: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        command = (sys.executable, "-m", f"render_farm.{main}", f"--health-address=127.0.0.1:{port}", *arguments)
        kept = {key: each for key, each in os.environ.items() if not key.startswith(("POD_", "SITUATE", "KUBE"))}
        nowhere = kept | {"KUBECONFIG": str(project / "kubeconfig")}
        (project / "kubeconfig").write_text("" if "no cluster" in said else NOBODYS)
        done = subprocess.run(command, cwd=project, env=nowhere, capture_output=True, text=True)
    assert done.returncode == status
    assert said.format(port=port) in done.stderr
    assert "Traceback" not in done.stderr


NOBODYS = """
apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "http://127.0.0.1:9"}}]
users: [{name: u, user: {}}]
"""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(["Reports"], 'NAME is "Reports", allowed: at most 40 of a to z', id="capitals"),
        pytest.param(["../reports"], 'NAME is "../reports", allowed', id="a path"),
        pytest.param(["a" * 41], "allowed: at most 40", id="too long"),
        pytest.param(["9"], 'NAME is "9", allowed: at most 40 of a to z', id="a digit first"),
        pytest.param(["json"], 'NAME is "json", which is the name of a module', id="a module of Python's"),
        pytest.param(["class"], 'NAME is "class", which is the name of a module', id="a keyword"),
        pytest.param(["kube-system"], "which is a namespace of Kubernetes", id="a namespace"),
        pytest.param(["reports", "--group", "batch"], '--group is "batch", allowed: a DNS name with a dot', id="group"),
        pytest.param(["reports", "--group", "batch.k8s.io"], "which is reserved for Kubernetes", id="protected"),
        pytest.param(["reports", "--kind", "report"], '--kind is "report", allowed', id="kind"),
    ],
)
def test_names_that_would_not_do_are_refused(tmp_path: Path, arguments: list[str], said: str) -> None:
    done = call(tmp_path, *arguments)
    assert done.exit_code == 2
    assert said in " ".join(done.output.split())
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("there", ["folder", "file", "empty folder"])
def test_nothing_is_overwritten(tmp_path: Path, there: str) -> None:
    target = tmp_path / "reports"
    if there == "file":
        target.write_text("mine")
    else:
        target.mkdir()
    if there == "folder":
        (target / "README.md").write_text("mine")
    before = {path: path.read_text() for path in tmp_path.rglob("*") if path.is_file()}
    done = call(tmp_path, "reports")
    assert done.exit_code == 2
    assert "already exists, and init overwrites nothing" in " ".join(done.output.split())
    assert {path: path.read_text() for path in tmp_path.rglob("*") if path.is_file()} == before


@pytest.mark.slow
@pytest.mark.rule("sharding:K1", "sharding:K12", "sharding:K14")
def test_its_own_test_holds(project: Path) -> None:
    """As its README says, but that everything it needs is installed."""
    command = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--basetemp", str(project / "tmp"))
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST", "SITUATE", "KUBE"))}
    told = subprocess.run(command, cwd=project, env=inherited, capture_output=True, text=True)
    assert told.returncode == 0, told.stdout
    assert "1 passed" in told.stdout

"""Shell completion: the script that each shell is given, and what the program answers when it asks."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from situate.cli.input.cluster_names import TIMEOUT_S
from situate.cli.main import app
from situate.testing.sharding.world.reports import definition, report
from tests.cli.processes import KUBECTL, call, process
from tests.waiting import eventually

EXAMPLES = Path(__file__).parents[2] / "examples"
SITUATE = Path(sys.executable).with_name("situate")


def run(*command: str, **environment: str) -> str:
    inherited = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME")}
    done = subprocess.run(command, env=inherited | environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def script(shell: str) -> str:
    """As `situate --show-completion` prints it, when the shell is named instead of found out."""
    return run(str(SITUATE), "--show-completion", shell, _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_its_script(shell: str) -> None:
    assert f"complete_{shell}" in script(shell)


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        pytest.param("situate vpod pl", "plan", id="a command"),
        pytest.param("situate vpod status --obj", "--objects", id="an option"),
        pytest.param("situate vpod status -o wi", "wide", id="a value"),
    ],
)
def test_zsh_and_fish_are_offered_what_fits(typed: str, offered: str) -> None:
    for shell in ("zsh", "fish"):
        environment = {"_SITUATE_COMPLETE": f"complete_{shell}", "_TYPER_COMPLETE_ARGS": typed}
        assert offered in run(str(SITUATE), **environment, _TYPER_COMPLETE_FISH_ACTION="get-args")


def test_bash_completes(tmp_path: Path) -> None:
    (tmp_path / "completion").write_text(script("bash"), encoding="utf-8")
    asks = "source completion; COMP_WORDS=(situate vpod ex); COMP_CWORD=2; _situate_completion situate; echo $COMPREPLY"
    path = f"{SITUATE.parent}{os.pathsep}{os.environ['PATH']}"
    assert run("bash", "--norc", "-c", f"cd {tmp_path}; {asks}", PATH=path) == "explain\n"


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Of a cluster with some objects of every product."""
    folder = tmp_path_factory.mktemp("completion")
    found = folder / "kubeconfig"
    server = process(folder, "server", "embedded", "--port", "0", "--nodes", "2", "--write-kubeconfig", str(found))
    server.start()
    try:
        eventually("the server answers", found.exists)
        kubectl(found, *definitions("crds"), definition())
        pod = {"containers": [{"name": "a", "image": "b"}], "nodeName": "node-0"}
        template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": pod["containers"]}}
        workload = {"replicas": 0, "selector": {"matchLabels": {"app": "web"}}, "template": template}
        machine = {"guest": {"cpus": {"min": 1, "use": 1, "max": 1}, "memorySlotSize": "1Gi"}}
        machine["guest"]["memorySlots"] = {"min": 1, "use": 1, "max": 1}
        kubectl(
            found,
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}},
            named("v1", "Pod", "web-0", pod),
            named("v1", "Pod", "api-0", pod),
            named("v1", "Pod", "web-0", pod, "default"),
            named("apps/v1", "Deployment", "web", workload),
            named("internal.kafka.eventing.knative.dev/v1alpha1", "ConsumerGroup", "orders", {"replicas": 1}),
            named("vm.neon.tech/v1", "VirtualMachine", "db", machine),
            {**report("report-7"), "metadata": {"name": "report-7", "namespace": "shop"}},
        )
        yield found
    finally:
        server.stop()


def kubectl(kubeconfig: Path, *objects: Any) -> None:
    given = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
    done = call(
        kubeconfig.parent,
        str(KUBECTL),
        "--kubeconfig",
        str(kubeconfig),
        "apply",
        "--server-side",
        "-f",
        "-",
        given=given,
    )
    assert done.returncode == 0, done.stderr


def definitions(verb: str) -> Any:
    return json.loads(run(str(SITUATE), verb, "-o", "json"))["items"]


def named(api_version: str, kind: str, name: str, spec: Any, namespace: str = "shop") -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": namespace}, "spec": spec}


def offered(typed: str, kubeconfig: Path) -> list[str]:
    """What fish would show for this line; nothing is said on standard error."""
    environment = {
        "_SITUATE_COMPLETE": "complete_fish",
        "_TYPER_COMPLETE_ARGS": f"situate {typed}",
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        "KUBECONFIG": str(kubeconfig),
    }
    done = CliRunner().invoke(app, prog_name="situate", env=environment)
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.finding("N18")
@pytest.mark.parametrize(
    ("typed", "want"),
    [
        pytest.param("scheduler explain sh", ["shop/api-0", "shop/web-0"], id="namespaces and pods"),
        pytest.param("scheduler explain shop/w", ["shop/web-0"], id="pods of a namespace"),
        pytest.param("scheduler explain -n shop w", ["web-0"], id="pods with -n"),
        pytest.param("scheduler explain -n shop pod/w", ["pod/web-0"], id="a type"),
        pytest.param("scheduler explain po/", ["po/web-0"], id="a type in the namespace default"),
        pytest.param("scheduler explain -n sh", ["shop"], id="a namespace"),
        pytest.param("scheduler explain --objects cluster.json sh", [], id="not with files"),
        pytest.param("scheduler what-if --drain node", ["node-0", "node-1"], id="nodes"),
        pytest.param("vm drain node", ["node-0", "node-1"], id="nodes of vm"),
        pytest.param("vm explain shop/", ["shop/db"], id="machines"),
        pytest.param("vm explain -n shop pod/a", ["pod/api-0"], id="pods of vm"),
        pytest.param("spot explain shop/", ["shop/web"], id="workloads"),
        pytest.param("spot explain -n shop deploy/", ["deploy/web"], id="a short name"),
        pytest.param(f"vpod explain -f {EXAMPLES}/knative/situate.yaml shop/", ["shop/orders"], id="sources"),
        pytest.param("vpod explain shop/", [], id="sources without a configuration"),
        pytest.param("sharding explain -r batch.example.com/v1/reports shop/", ["shop/report-7"], id="objects"),
        pytest.param("sharding explain -r nonsense shop/", [], id="a resource that is none"),
    ],
)
def test_names_of_objects_are_offered(typed: str, want: list[str], kubeconfig: Path) -> None:
    assert offered(typed, kubeconfig) == want


@pytest.mark.finding("N18")
def test_a_type_without_n_is_completed_in_the_namespace_of_the_context(kubeconfig: Path, tmp_path: Path) -> None:
    of_shop = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))
    of_shop["contexts"][0]["context"]["namespace"] = "shop"
    file = tmp_path / "kubeconfig"
    file.write_text(yaml.safe_dump(of_shop), encoding="utf-8")
    assert offered("scheduler explain po/", file) == ["po/api-0", "po/web-0"]


@pytest.mark.finding("N18")
def test_without_a_cluster_nothing_is_offered_or_said(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_text("clusters: 7", encoding="utf-8")
    for kubeconfig in (tmp_path / "nowhere", broken):
        assert offered("scheduler explain w", kubeconfig) == []


@pytest.mark.finding("N18")
def test_a_server_that_does_not_answer_is_not_waited_for(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        server = f"http://127.0.0.1:{silent.getsockname()[1]}"
        silent_one = {
            "clusters": [{"name": "c", "cluster": {"server": server}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "users": [{"name": "u", "user": {}}],
            "current-context": "c",
        }
        (tmp_path / "kubeconfig").write_text(json.dumps(silent_one), encoding="utf-8")
        began = time.monotonic()
        assert offered("scheduler explain w", tmp_path / "kubeconfig") == []
        assert time.monotonic() - began >= TIMEOUT_S, "the server was asked"

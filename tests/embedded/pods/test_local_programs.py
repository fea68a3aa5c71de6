"""Which pods have a process on this machine, and as whom it asks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from situate.cli.main import app
from situate.embedded.kubeconfig import kubeconfig
from situate.embedded.pods.local_programs import BadImage, LocalPrograms, kubeconfig_for_pod, parse_images
from situate.embedded.pods.processes import PodProcesses, pod_processes
from situate.kube.connect import find_connection
from situate.testing.builders.operators import local_cluster

pytestmark = pytest.mark.finding("N28")


def pod(image: str, *args: str, command: Sequence[str] = ()) -> dict[str, Any]:
    container = {"name": "c", "image": image, "args": [*args], **({"command": [*command]} if command else {})}
    metadata = {"name": "one", "namespace": "team", "uid": "u-1"}
    return {"metadata": metadata, "spec": {"serviceAccountName": "executor", "containers": [container]}}


@pytest.mark.parametrize(
    ("of", "want"),
    [
        pytest.param(pod("situate:1", "run", "-x"), ["-m", "situate", "run", "-x", "--set"], id="ours"),
        pytest.param(pod("quay.io/a/situate@sha256:1", "vm", "agent"), ["-m", "situate", "vm", "agent"], id="mirrored"),
        pytest.param(pod("reports:1", "--more"), ["executor", "--quick", "--more"], id="named"),
        pytest.param(pod("reports:1", command=["other"]), ["other"], id="named, with a command of its own"),
        pytest.param(pod("reports:2"), None, id="another version"),
        pytest.param(pod("not-situate:1", "run"), None, id="another image"),
        pytest.param(pod("situate:1", command=["sh"]), None, id="ours, with another command"),
    ],
)
def test_the_command_of_a_pod(tmp_path: Path, of: dict[str, Any], want: list[str] | None) -> None:
    programs = LocalPrograms(kubeconfig("http://127.0.0.1:1"), tmp_path, parse_images(["reports:1=executor --quick"]))
    found = programs(of)
    if want is None:
        assert found is None
        return
    assert found is not None
    command = [*found.command][0 if want[0] in ("executor", "other") else 1 :]
    assert command[: len(want)] == want
    assert found.environment["KUBECONFIG"] == str(tmp_path / "team.one.kubeconfig")


def test_a_process_asks_as_its_account_bound_to_its_pod(tmp_path: Path) -> None:
    """So that a fence that looks at the incarnation lets it write, and nobody else."""
    file = tmp_path / "kubeconfig"
    file.write_text(yaml.safe_dump(kubeconfig_for_pod(kubeconfig("http://127.0.0.1:1"), pod("reports:1"))))
    connection = find_connection(file, environ={})
    who = connection.impersonation
    assert (who.user, connection.namespace) == ("system:serviceaccount:team:executor", "team")
    assert "system:serviceaccounts:team" in who.groups
    assert who.extra["authentication.kubernetes.io/pod-uid"] == ("u-1",)


@pytest.mark.parametrize("text", ["reports:1", "=python x", "reports:1=", "reports:1='python"])
def test_what_is_no_image_and_command_is_refused(text: str) -> None:
    with pytest.raises(BadImage, match="found"):
        parse_images([text])


def test_an_image_without_a_folder_for_its_logs_is_refused() -> None:
    result = CliRunner().invoke(app, ["embedded", "--run-image", "reports:1=python executor.py"])
    assert (result.exit_code, "needs --run-pods FOLDER" in result.output) == (2, True)


async def test_a_process_that_ends_is_reported_and_starts_again(tmp_path: Path) -> None:
    """One Pod that fails must not end the others, or the server."""
    told: list[str] = []
    async with local_cluster(tmp_path) as cluster:
        await cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})
        begun = tmp_path / "begun"
        programs = LocalPrograms(
            yaml.safe_load((tmp_path / "kubeconfig").read_text()),
            tmp_path,
            {"fails:1": ["python", "-c", f"open({str(begun)!r}, 'a').write('x'); raise SystemExit(3)"]},
        )
        processes = PodProcesses(cluster.client, None, "", tmp_path, {}, programs=programs, report=told.append)
        async with pod_processes(processes):
            for image in ("fails:1", "nobodys:1"):
                made = pod(image)
                name = image.partition(":")[0]
                made["spec"].pop("serviceAccountName")
                await cluster.create(
                    {**made, "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "team"}}
                )

            async def runs() -> int:
                return len(begun.read_text()) if begun.exists() else 0

            await cluster.eventually("it has begun again", runs, lambda count: count > 1)
        assert not (tmp_path / "team.nobodys.log").exists()
    assert told[0].startswith("team.fails ended with code 3 and restarts in 1 s, log: ")

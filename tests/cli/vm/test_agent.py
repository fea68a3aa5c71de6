"""`situate vm agent`: what it says of wrong input, and a process that looks after a machine of an embedded server."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from situate.cli.main import app
from situate.embedded.kubeconfig import kubeconfig as kubeconfig_of
from situate.embedded.kubeconfig import write_kubeconfig

VMS = "/apis/vm.neon.tech/v1/namespaces/default/virtualmachines"


def said(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["vm", "agent", *arguments], env={"SITUATE_NODE": ""})
    return result.exit_code, result.output


@pytest.mark.parametrize("arguments", [(), ("--node", "n1", "--all-nodes")])
def test_one_node_or_all(arguments: tuple[str, ...]) -> None:
    code, output = said(*arguments)
    assert code == 2
    assert "--all-nodes" in output


def test_every_mistake_of_file_and_command_line_is_named(tmp_path: Path) -> None:
    file = tmp_path / "agent.yaml"
    file.write_text("computeUnit: {mem: much}\nscheduler: {requestPort: 0}\n")
    code, output = said("--node", "n1", "-f", str(file), "--set", "monitor.kind=telepathy", "--set", "nonsense")
    assert code == 2
    for name in ("computeUnit.mem", "scheduler.requestPort", "monitor.kind", "flag --set", str(file)):
        assert name in output


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    code, output = said("--node", "n1", "-f", str(tmp_path / "none.yaml"))
    assert code == 2
    assert "none.yaml" in output


def test_authorities_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    write_kubeconfig(kubeconfig, kubeconfig_of("http://127.0.0.1:9"))
    code, output = said(
        "--node",
        "n1",
        "--kubeconfig",
        str(kubeconfig),
        "--set",
        "scheduler.tls=true",
        "--set",
        "scheduler.caFile=none.pem",
        "--health-address",
        "",
    )
    assert code == 2
    assert "scheduler.caFile" in output

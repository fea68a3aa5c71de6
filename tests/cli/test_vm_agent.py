"""`situate vm agent`: what it says of wrong input, and a process that looks after a machine of an embedded server."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from typer.testing import CliRunner

from situate.cli.main import app
from situate.embedded.kubeconfig import kubeconfig as kubeconfig_of
from situate.embedded.kubeconfig import write_kubeconfig
from situate.embedded.running import EmbeddedServer, Settings
from situate.vm.machines.crds import virtual_machine
from tests.cli.processes import process
from tests.contract.waiting import eventually
from tests.kube.servers import serving
from tests.vm.agent.builders import vm_content

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


@pytest.fixture
def loads(tmp_path: Path) -> Path:
    file = tmp_path / "loads.yaml"
    file.write_text("default/a: {load1: 0.6}\n")
    return file


@pytest.mark.rule("vm:C35", "vm:C36")
async def test_a_process_grows_a_machine_by_the_load_of_a_file_and_ends_when_asked(tmp_path: Path, loads: Path) -> None:
    async def grant(request: web.Request) -> web.Response:
        return web.json_response({"permit": (await request.json())["resources"]})

    async with (
        EmbeddedServer(Settings(machinery=None, seed=1)) as server,
        serving(grant) as port,
        aiohttp.ClientSession(server.url) as http,
    ):
        await created(http, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", virtual_machine())
        content = vm_content(use=1)
        content["metadata"].pop("uid")
        await created(http, VMS, content)
        merge = {"content-type": "application/merge-patch+json"}
        async with http.patch(f"{VMS}/a/status", json={"status": content["status"]}, headers=merge) as response:
            assert response.status == 200
        kubeconfig = tmp_path / "kubeconfig"
        write_kubeconfig(kubeconfig, kubeconfig_of(server.url))
        settings = {
            "monitor": {"kind": "standIn"},
            "metrics": {"source": "file", "file": str(loads), "system": {"secondsBetweenRequests": 0.1}},
            "scheduler": {"url": f"http://127.0.0.1:{port}/", "tokenFile": None},
        }
        (tmp_path / "agent.json").write_text(json.dumps(settings))
        arguments = ("--all-nodes", "-f", str(tmp_path / "agent.json"), "--kubeconfig", str(kubeconfig))
        agent = process(tmp_path, "agent", "vm", "agent", *arguments, "--health-address", "")
        agent.start()
        try:

            async def slots() -> Any:
                async with http.get(f"{VMS}/a") as response:
                    return (await response.json())["spec"]["guest"]["memorySlots"]["use"]

            assert await eventually(slots, lambda number: number == 3) == 3
        finally:
            await asyncio.to_thread(agent.stop)
    log = (tmp_path / "agent.log").read_text()
    assert '"message": "stopping"' in log
    assert "Traceback" not in log


async def created(http: aiohttp.ClientSession, path: str, content: dict[str, Any]) -> None:
    async with http.post(path, json=content) as response:
        assert response.status == 201, await response.text()

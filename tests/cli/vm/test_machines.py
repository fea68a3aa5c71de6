"""Machines without a hypervisor from the command line; `situate vm machines` at work is in tests/contract."""

from __future__ import annotations

import asyncio
import http.client
import json
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from typer.testing import CliRunner

from situate.cli.main import app
from situate.embedded.embedded_server import EmbeddedServer, Settings
from situate.embedded.kubeconfig import kubeconfig as kubeconfig_of
from situate.embedded.kubeconfig import write_kubeconfig
from situate.vm.emulator.crds import definitions
from tests.cli.processes import process
from tests.controlplane.ports import ReservedPort
from tests.waiting import eventually

GUEST = {"cpus": {"min": 1, "use": 1, "max": 4}, "memorySlots": {"min": 1, "use": 1, "max": 4}}
MACHINES = "/apis/vm.neon.tech/v1/namespaces/default/virtualmachines"


def asked(url: str, method: str, path: str, body: Any = None) -> Any:
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=60)
    try:
        data = None if body is None else json.dumps(body)
        connection.request(method, path, data, {"content-type": "application/json"})
        return json.loads(connection.getresponse().read())
    finally:
        connection.close()


def test_a_cluster_in_which_machines_live(tmp_path: Path) -> None:
    server = process(tmp_path, "embedded", "embedded", "--port", "0", "--nodes", "1", "--machines")
    server.start()
    try:

        def answers() -> str:
            first = server.log.read_text().splitlines()[:1]
            return first[0].rpartition(" ")[2] if first else ""

        url = eventually("the server answers", answers, lambda found: found.startswith("http"))
        body = {"apiVersion": "vm.neon.tech/v1", "kind": "VirtualMachine", "metadata": {"name": "db"}}
        assert asked(url, "POST", MACHINES, {**body, "spec": {"guest": GUEST}})["metadata"]["uid"]

        def status() -> Any:
            return asked(url, "GET", f"{MACHINES}/db").get("status", {})

        running = eventually("the machine runs", status, lambda said: said.get("phase") == "Running")
        assert running["node"] == "node-0"
    finally:
        server.stop()


async def test_it_is_ready_once_the_cluster_knows_machines(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    with ReservedPort() as port:
        async with EmbeddedServer(Settings(machinery=None)) as server:
            write_kubeconfig(kubeconfig, kubeconfig_of(server.url))
            arguments = ("--kubeconfig", str(kubeconfig), "--health-address", f"127.0.0.1:{port.number}")
            stand_in = process(tmp_path, "machines", "vm", "machines", *arguments)
            stand_in.start()
            try:

                def ready() -> str:
                    with suppress(OSError), urlopen(f"http://127.0.0.1:{port.number}/readyz", timeout=60) as answer:
                        return str(answer.status)
                    return stand_in.log.read_text()

                await asyncio.to_thread(eventually, "it says what is missing", ready, lambda told: "crds vm" in told)
                server.create_definitions(definitions())
                await asyncio.to_thread(eventually, "it is ready", ready, lambda told: told == "200")
            finally:
                await asyncio.to_thread(stand_in.stop)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--lease-seconds", "0.5"), "--lease-seconds"),
        (("--handover-seconds", "-1"), "--handover-seconds"),
        (("--kubeconfig", "nowhere"), "nowhere"),
    ],
)
def test_what_cannot_be_meant_is_refused(arguments: tuple[str, ...], said: str) -> None:
    result = CliRunner().invoke(app, ["vm", "machines", *arguments])
    assert result.exit_code != 0
    assert said in result.output
    assert "Traceback" not in result.output

"""Machines without a hypervisor from the command line; `situate vm machines` at work is in tests/contract."""

from __future__ import annotations

import http.client
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from situate.cli.main import app
from tests.cli.processes import process
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

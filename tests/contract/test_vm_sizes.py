"""How an agent writes sizes, on both servers (C39, D13): what its patch means, and a process that does it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from aiohttp import web
from typer.testing import CliRunner

from situate.cli.main import app
from situate.objects.kinds.unstructured import unstructured_from
from situate.vm.agent.decide.core import SizeChange
from situate.vm.agent.decide.scaling import DEFAULT_SCALING
from situate.vm.agent.model.revisions import Revision, RevisionAt
from situate.vm.agent.protocol.machines import MachineSnapshot, parse_machine, size_patch
from situate.vm.emulator.crds import MACHINES, virtual_machine
from situate.vm.model.pods_and_nodes import Ref
from tests.cli.processes import process
from tests.contract.api import Api
from tests.contract.servers import RealServer, Server
from tests.contract.things import group
from tests.contract.waiting import eventually, gone
from tests.kube.servers import serving
from tests.vm.agent.builders import units, vm_content

DEFINITIONS = "apiextensions.k8s.io/v1", "", "customresourcedefinitions"
CHANGE = SizeChange(units(1), units(3), RevisionAt(Revision(5, 1), 1_767_225_600_000))


@pytest.fixture
async def path(api: Api, namespace: str) -> AsyncIterator[str]:
    """Of one machine with its status."""
    (await api.post(group(*DEFINITIONS), virtual_machine())).ok(201)
    machines = group("vm.neon.tech/v1", namespace, MACHINES)
    await eventually(lambda: api.get(machines), lambda answer: answer.status == 200)
    content = vm_content(use=1)
    content["metadata"] = {"name": "a", "labels": content["metadata"]["labels"]}
    (await api.post(machines, content)).ok(201)
    (await api.patch(f"{machines}/a/status", {"status": content["status"]})).ok()
    yield f"{machines}/a"
    (await api.delete(machines)).ok()
    definition = group(*DEFINITIONS, virtual_machine()["metadata"]["name"])
    (await api.delete(definition)).ok()
    await gone(api, definition)


async def now(api: Api, path: str) -> MachineSnapshot:
    found = parse_machine(unstructured_from((await api.get(path)).ok()), DEFAULT_SCALING).value
    assert found is not None
    return found


@pytest.mark.rule("vm:C39", "vm:D13", "vm:B44", "vm:F9")
async def test_a_size_is_written_to_this_machine_in_this_phase_alone(api: Api, path: str) -> None:
    machine = await now(api, path)
    others = {
        "it is about to be moved": replace(machine, phase="PreMigrating"),
        "it is another one": replace(machine, ref=Ref(machine.ref.namespace, "a", "another")),
        "somebody changed it": replace(machine, guest=replace(machine.guest, use=units(2))),
    }
    for why, other in others.items():
        answer = await api.patch(path, size_patch(other, CHANGE), form="json")
        assert answer.status == 422, (why, answer.body)
    assert await now(api, path) == machine

    written = (await api.patch(path, size_patch(machine, CHANGE), form="json")).ok()
    after = await now(api, path)
    assert (after.guest.use, after.newest_revision, after.phase) == (units(3), 5, "Running")
    assert after.guest.grown == units(1), "a size is no status"
    assert written["metadata"]["generation"] == after.guest.generation > machine.guest.generation


async def with_its_rights(server: Server, api: Api, namespace: str, folder: Path) -> Path:
    """A kubeconfig of an account that may do what `situate manifests vm-agent` lets it; embedded knows no rights."""
    if not isinstance(server, RealServer):
        return server.kubeconfig(folder)
    printed = CliRunner().invoke(app, ["manifests", "vm-agent", "--installation-namespace", namespace])
    for each in yaml.safe_load_all(printed.stdout):
        if each["kind"] not in ("Namespace", "DaemonSet"):
            path = group(each["apiVersion"], each["metadata"].get("namespace", ""), f"{each['kind'].lower()}s")
            (await api.post(path.replace("/apis/v1", "/api/v1"), each)).ok(201)
    return server.plane.service_account_kubeconfig(namespace, "situate-vm-agent")


METRICS = """host_load1{{namespace="{0}",name="a"}} {1}
host_load5{{namespace="{0}",name="a"}} {1}
host_load1{{namespace="{0}",name="b"}} 0.1
host_memory_total_bytes 1073741824
host_memory_available_bytes 1073741824
host_memory_cached_bytes 0
"""


@pytest.mark.rule("vm:C35", "vm:C36", "vm:C39")
async def test_processes_grow_a_machine_by_the_load_of_a_file_or_an_endpoint_and_end_when_asked(
    server: Server, api: Api, namespace: str, path: str, tmp_path: Path
) -> None:
    """A machine of a unit: by the file it needs three, by the endpoint four."""

    async def answer(request: web.Request) -> web.Response:
        if request.method == "GET":
            return web.Response(text=METRICS.format(namespace, 0.9 if request.path == f"/{namespace}/a" else 0.1))
        return web.json_response({"permit": (await request.json())["resources"]})

    loads = tmp_path / "loads.yaml"
    loads.write_text(f"{namespace}/a: {{load1: 0.6}}\n")
    kubeconfig = await with_its_rights(server, api, namespace, tmp_path)
    async with serving(answer) as port:
        here = f"http://127.0.0.1:{port}/"
        for source, where, wanted in (
            ("file", str(loads), units(3)),
            ("endpoint", f"{here}{{namespace}}/{{name}}", units(4)),
        ):
            settings = {
                "monitor": {"kind": "standIn"},
                "metrics": {"source": source, source: where, "system": {"secondsBetweenRequests": 0.1}},
                "scheduler": {"url": here, "tokenFile": None},
            }
            (tmp_path / f"{source}.yaml").write_text(yaml.safe_dump(settings))
            options = ("-f", str(tmp_path / f"{source}.yaml"), "--kubeconfig", str(kubeconfig), "--health-address", "")
            agent = process(tmp_path, source, "vm", "agent", "--all-nodes", *options)
            agent.start()
            try:
                machine = await eventually(
                    lambda: now(api, path),
                    lambda machine, wanted=wanted: machine.guest.use == wanted,  # type: ignore[misc]
                )
            finally:
                await asyncio.to_thread(agent.stop)
            assert machine.newest_revision > 4
            log = (tmp_path / f"{source}.log").read_text()
            assert '"message": "stopping"' in log
            assert "Traceback" not in log

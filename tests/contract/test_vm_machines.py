"""`situate vm machines` beside both servers: a machine grows, its move is cancelled, the process dies, and it moves."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from situate.vm.emulator.crds import MACHINES, MIGRATIONS, definitions
from situate.vm.emulator.hypervisor import HYPERVISOR
from tests.cli.processes import process
from tests.contract.api import Api, Json
from tests.contract.servers import Server
from tests.contract.things import group
from tests.contract.waiting import eventually, gone
from tests.contract.work import Work, name, owner
from tests.controlplane.process import Process

VERSION = "vm.neon.tech/v1"
DEFINITIONS = "apiextensions.k8s.io/v1", "", "customresourcedefinitions"
GUEST: Json = {"cpus": {"min": 1, "use": 1, "max": 4}, "memorySlots": {"min": 1, "use": 1, "max": 4}}


@pytest.fixture
async def machines(work: Work) -> AsyncIterator[Api]:
    """Ends them, and takes their definitions away."""
    for each in definitions():
        (await work.api.post(group(*DEFINITIONS), each)).ok(201)
    yield work.api
    for each in reversed(definitions()):
        path = group(*DEFINITIONS, each["metadata"]["name"])
        for kept in (await work.api.get(group(VERSION, work.namespace, each["spec"]["names"]["plural"]))).ok()["items"]:
            own = group(VERSION, work.namespace, each["spec"]["names"]["plural"], name(kept))
            (await work.api.patch(own, {"metadata": {"finalizers": None}})).ok()
        (await work.api.delete(path)).ok()
        await gone(work.api, path)


@contextmanager
def program(server: Server, work: Work, folder: Path, number: int) -> Iterator[Process]:
    kubeconfig = str(server.kubeconfig(folder))
    within = ("--namespace", work.namespace, "--installation-namespace", work.namespace, "--lease-seconds", "2")
    made = process(folder, f"machines-{number}", "vm", "machines", "--kubeconfig", kubeconfig, *within)
    made.start()
    try:
        yield made
    finally:
        made.stop()


def machine(behaviour: Json) -> Json:
    metadata = {"name": "db", "annotations": {HYPERVISOR: json.dumps(behaviour)}}
    return {"apiVersion": VERSION, "kind": "VirtualMachine", "metadata": metadata, "spec": {"guest": GUEST}}


def migration(called: str) -> Json:
    spec = {"vmName": "db"}
    return {"apiVersion": VERSION, "kind": "VirtualMachineMigration", "metadata": {"name": called}, "spec": spec}


@pytest.mark.rule("vm:C33", "vm:C34", "vm:F3")
async def test_a_machine_grows_and_moves(machines: Api, work: Work, cluster: Server, tmp_path: Path) -> None:
    api, all_moves = machines, group(VERSION, work.namespace, MIGRATIONS)
    own = group(VERSION, work.namespace, MACHINES, "db")

    async def said(path: str) -> Any:
        return (await api.get(path)).ok().get("status") or {}

    with program(cluster, work, tmp_path, 1) as first:
        path = group(VERSION, work.namespace, MACHINES)
        await eventually(lambda: api.post(path, machine({"stallAtPercent": 40})), lambda answer: answer.status == 201)
        at_home = await eventually(lambda: said(own), lambda status: status.get("phase") == "Running")
        (await api.patch(own, {"spec": {"guest": {"cpus": {"use": 3}}}})).ok()
        await eventually(lambda: said(own), lambda status: status["cpus"] == 3)

        (await api.post(all_moves, migration("first"))).ok(201)
        copying = await eventually(
            lambda: said(f"{all_moves}/first"),
            lambda status: status.get("info", {}).get("ram", {}).get("remaining", 2**30) < 2**30,
        )
        assert (copying["phase"], copying["sourceNode"]) == ("Running", at_home["node"])
        assert copying["targetNode"] != at_home["node"]
        (await api.delete(f"{all_moves}/first")).ok()
        await gone(api, f"{all_moves}/first")
        back = await eventually(lambda: said(own), lambda status: status["phase"] == "Running")
        assert (back["podName"], back["node"]) == (at_home["podName"], at_home["node"])

        (await api.post(all_moves, migration("second"))).ok(201)
        await eventually(lambda: said(own), lambda status: status["phase"] == "Migrating")
        first.kill()
    with program(cluster, work, tmp_path, 2):
        (await api.patch(own, {"metadata": {"annotations": {HYPERVISOR: None}}})).ok()
        moved = await eventually(
            lambda: said(f"{all_moves}/second"),
            lambda status: status.get("phase") == "Succeeded" and "sourcePodName" not in status,
        )
        after = await said(own)
        assert (after["phase"], after["node"]) == ("Running", moved["targetNode"])
        (pod,) = await eventually(work.pods, lambda pods: len(pods) == 1)
        assert (name(pod), owner(pod)) == (after["podName"], "VirtualMachine/db")

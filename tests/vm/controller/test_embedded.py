"""vm over HTTP, on the embedded server: a neighbour makes room, and the command line shows it while it does."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from typer.testing import CliRunner

from situate.cli.main import app
from situate.cluster.controllers import KubeletSettings, MachinerySettings
from situate.cluster.controllers.node.nodes import node
from situate.embedded.embedded_server import EmbeddedServer, Settings
from situate.embedded.kubeconfig import kubeconfig, write_kubeconfig
from situate.embedded.virtual_machines import VirtualMachineController
from situate.kube.client import Client
from situate.kube.connect import connect
from situate.kube.election.election import Candidacy
from situate.kube.election.lease_record import ElectionTimes
from situate.kube.login.connection import Connection
from situate.kube.patches import MergePatch
from situate.objects.resources import CUSTOMRESOURCEDEFINITIONS, NODES, PODS
from situate.runtime.leadership.leader import ControllerContext
from situate.scheduler.metrics.metrics import SchedulerMetrics
from situate.vm.api.quantities import GIB, amounts_text
from situate.vm.api.well_known import (
    APPROVED,
    AUTO_MIGRATION_LABEL,
    CLAIM,
    ENABLED_LABEL,
    REQUESTED,
    SCALING_UNIT,
    TARGET_NODE,
)
from situate.vm.backends.neonvm import MACHINES, MIGRATIONS
from situate.vm.controller.controller import VmController
from situate.vm.controller.metrics import VmMetrics
from situate.vm.controller.setup import VmSetup
from situate.vm.emulator import Settings as Pace
from situate.vm.emulator.crds import definitions
from situate.vm.emulator.hypervisor import HYPERVISOR
from situate.vm.model.resource_amounts import Amounts
from tests.contract.waiting import eventually

NAMESPACE = "default"


@asynccontextmanager
async def cluster() -> AsyncIterator[EmbeddedServer]:
    """Two nodes of 8 CPUs, and the stand-in for machines."""
    pace = Pace(poll_s=0.1, wait_s=0.1)
    settings = Settings(
        seed=1,
        machinery=MachinerySettings(kubelet=KubeletSettings(start_delay=0.05, stop_delay=0.05, lease_renewal=0.0)),
        further=(lambda each: VirtualMachineController(each, pace),),
    )
    async with EmbeddedServer(settings) as server:
        server.create_nodes(node(name, cpu="8", memory="32Gi") for name in ("n1", "n2"))
        yield server


@asynccontextmanager
async def vm(server: EmbeddedServer) -> AsyncIterator[Client]:
    """The shipped controller at work; a client for the test."""
    registry, ours = CollectorRegistry(), connect(Connection(server.url, "vm"), random.Random(1), qps=1000)
    controller = VmController(
        VmSetup(),
        ControllerContext(
            ours, Candidacy(NAMESPACE, "vm-1", ElectionTimes()), lambda: datetime.now(UTC), random.Random(1)
        ),
        record=lambda *_: None,
        metrics=SchedulerMetrics(registry),
        vm_metrics=VmMetrics(registry, compat=False),
        extending=_Nobody(),
    )
    client = connect(Connection(server.url, "test"), random.Random(2), qps=1000)
    for definition in definitions():
        await client.create(CUSTOMRESOURCEDEFINITIONS, definition)
    task = asyncio.create_task(controller.run())
    try:
        yield client
        controller.stop()
        await task
    finally:
        task.cancel()
        await asyncio.wait([task])
        await client.close()
        await ours.close()


class _Nobody:
    async def ask(self, questions: object) -> list[Any]:
        raise AssertionError(questions)

    async def bind(self, action: object) -> None:
        raise AssertionError(action)


async def create(client: Client, name: str, cpus: int, *, migratable: bool) -> None:
    """With 4 GiB for each CPU; it stops copying half-way."""
    labels = {ENABLED_LABEL: "true", AUTO_MIGRATION_LABEL: str(migratable).lower()}
    guest = {"cpus": {"min": 1, "use": cpus, "max": 16}, "memorySlots": {"min": 1, "use": 4 * cpus, "max": 64}}
    notes = {HYPERVISOR: '{"usedMemory":"64Mi","stallAtPercent":50}'}
    metadata = {"name": name, "labels": labels, "annotations": notes}
    await client.create(
        MACHINES, {"metadata": metadata, "spec": {"schedulerName": "situate-vm", "guest": guest}}, NAMESPACE
    )


async def phase(client: Client, name: str) -> str:
    content = (await client.get(MACHINES, name, NAMESPACE)).content
    return str(content.get("status", {}).get("phase", ""))


async def migration_phase(client: Client, name: str) -> str:
    return str((await client.get(MIGRATIONS, name, NAMESPACE)).content.get("status", {}).get("phase", ""))


async def approved(client: Client, name: str) -> list[str]:
    """By the machine, and by its pod."""
    machine = await client.get(MACHINES, name, NAMESPACE)
    pod = await client.get(PODS, machine.content["status"]["podName"], NAMESPACE)
    return [each.metadata.annotations.get(APPROVED, "") for each in (machine, pod)]


async def annotate(client: Client, name: str, notes: dict[str, str]) -> None:
    await client.patch(MACHINES, name, MergePatch({"metadata": {"annotations": notes}}), NAMESPACE)


@contextmanager
def access(folder: Path, url: str) -> Iterator[Path]:
    file = folder / "kubeconfig"
    write_kubeconfig(file, kubeconfig(url))
    yield file


def status(file: Path, *options: str) -> str:
    return said(file, "status", "--installation-namespace", NAMESPACE, *options)


def said(file: Path, *arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, ["vm", *arguments, "--kubeconfig", str(file)])
    assert result.exit_code == code, result.output
    return result.stdout


@pytest.mark.rule("vm:N1", "vm:N5", "vm:N7", "vm:B2", "vm:B14", "vm:B39", "vm:B41")
async def test_a_neighbour_makes_room_and_the_command_line_shows_it(tmp_path: Path) -> None:
    async with cluster() as server, vm(server) as client:
        await client.patch(NODES, "n2", MergePatch({"spec": {"unschedulable": True}}))
        await create(client, "a", 2, migratable=False)
        await create(client, "b", 4, migratable=True)
        for name in ("a", "b"):
            await eventually(lambda name=name: phase(client, name), lambda found: found == "Running")  # type: ignore[misc]
        await client.patch(NODES, "n2", MergePatch({"spec": {"unschedulable": False}}))
        wanted = amounts_text(Amounts.from_values(6000, 24 * GIB))
        await annotate(client, "a", {SCALING_UNIT: amounts_text(Amounts.from_values(250, GIB)), REQUESTED: wanted})
        await eventually(lambda: phase(client, "b"), lambda found: found == "Migrating")
        (move,) = (await client.list(MIGRATIONS, NAMESPACE)).items
        await eventually(lambda: migration_phase(client, move.metadata.name), lambda found: found == "Running")
        partly = amounts_text(Amounts.from_values(4000, 16 * GIB))
        await eventually(lambda: approved(client, "a"), lambda found: found == [partly, partly])
        assert move.metadata.annotations[TARGET_NODE] == "n2"
        assert json.loads(move.metadata.annotations[CLAIM])["node"] == "n1"
        with access(tmp_path, server.url) as file:
            shown = json.loads(await asyncio.to_thread(status, file, "-o", "json"))
            table = await asyncio.to_thread(status, file)
            why = json.loads(await asyncio.to_thread(partial(said, file, "explain", "a", "-o", "json", code=1)))
            story = await asyncio.to_thread(partial(said, file, "explain", f"{NAMESPACE}/a", code=1))
            dry_run = json.loads(await asyncio.to_thread(said, file, "plan", "-o", "json"))
        assert shown["leader"] == "vm-1"
        assert [(each["machine"], each["from"], each["to"], each["state"]) for each in shown["moves"]] == [
            ("b", "n1", "n2", "copying")
        ]
        assert shown["moves"][0]["claim"]["for"]["kind"] == "VM"
        (waiting,) = [each for each in shown["machines"] if each["name"] == "a"]
        assert waiting["requested"] == {"cpu": "6", "memory": "24Gi"}
        assert waiting["short"]["cpu"] == "2"
        (n1, n2) = shown["nodes"]
        assert n1["reserved"]["cpu"] == "8"
        assert n2["reserved"]["cpu"] == "4"
        assert "1 short of the size that it asks for; led by vm-1" in table
        assert "default/b" in table
        assert (why["node"], why["shortBy"], why["queue"]["position"]) == ("n1", {"cpu": "2", "memory": "8Gi"}, 1)
        assert [(each["vm"], each["target"], each["state"]) for each in why["plan"]["moves"]] == [
            ("default/b", "n2", "copying")
        ]
        assert "short by 2 cpu, 8Gi memory: its node has too little free capacity" in story
        assert "the capacity is expected by" in story
        assert dry_run["moves"] == [], "the room is on its way"
        await annotate(client, "b", {HYPERVISOR: '{"usedMemory":"64Mi"}'})
        await eventually(lambda: approved(client, "a"), lambda found: found == [wanted, wanted])
        pods = (await client.list(PODS, NAMESPACE)).items
        assert {each.spec.node_name for each in pods if not each.finished} == {"n1", "n2"}

"""Load, wish, permit, growth: the shipped scheduler and agent as processes, beside a server with machines."""

from __future__ import annotations

import asyncio
import datetime
import json
import random
from pathlib import Path
from typing import Any

import pytest
import yaml

from situate.cluster.controllers import KubeletSettings, MachinerySettings
from situate.cluster.controllers.nodes import node
from situate.cluster.controllers.virtual_machines import VirtualMachineController
from situate.cluster.effects import Identity
from situate.embedded.kubeconfig import kubeconfig as kubeconfig_of
from situate.embedded.kubeconfig import write_kubeconfig
from situate.embedded.running import EmbeddedServer, Settings
from situate.kube.client import Client
from situate.kube.connect import connect
from situate.kube.connection import Connection
from situate.kube.patches import MergePatch
from situate.objects.resources import CUSTOMRESOURCEDEFINITIONS
from situate.vm.backends import MACHINES
from situate.vm.machines import Settings as Pace
from situate.vm.machines.crds import definitions
from situate.vm.names import APPROVED, ENABLED_LABEL, LOAD
from tests.cli.processes import process
from tests.contract.waiting import eventually
from tests.controlplane.certificates import Authority
from tests.controlplane.process import Process

TOKEN = "the-agents-token"
ACCOUNT = "system:serviceaccount:default:situate-vm-agent"


def machine(name: str) -> dict[str, Any]:
    guest = {"cpus": {"min": 1, "use": 1, "max": 4}, "memorySlots": {"min": 1, "use": 4, "max": 16}}
    return {
        "apiVersion": "vm.neon.tech/v1",
        "kind": "VirtualMachine",
        "metadata": {"name": name, "labels": {ENABLED_LABEL: "true"}, "annotations": {LOAD: '{"load1": 0.1}'}},
        "spec": {"schedulerName": "situate-vm", "guest": guest},
    }


def write_certificate(folder: Path) -> None:
    authority = Authority("permits", datetime.datetime.now(datetime.UTC))
    pair = authority.server(names=("localhost",), addresses=("127.0.0.1",))
    for name, content in (("ca.crt", authority.certificate), ("tls.crt", pair.certificate), ("tls.key", pair.key)):
        (folder / name).write_bytes(content)


def scheduler(folder: Path, kubeconfig: Path) -> Process:
    settings = {
        "apiVersion": "situate.dev/v1alpha1",
        "kind": "Situate",
        "health": {"address": None},
        "leaderElection": {"namespace": "default"},
        "vm": {
            "permits": {"address": "127.0.0.1:0", "certificate": "tls.crt", "key": "tls.key", "agentNode": "any"},
        },
    }
    (folder / "situate.yaml").write_text(yaml.safe_dump(settings))
    return process(folder, "run", "run", "-f", str(folder / "situate.yaml"), "--kubeconfig", str(kubeconfig))


def agent(folder: Path, kubeconfig: Path, port: int) -> Process:
    (folder / "token").write_text(TOKEN)
    settings = {
        "monitor": {"kind": "standIn"},
        "metrics": {"source": "annotation", "system": {"secondsBetweenRequests": 0.1}},
        "scheduler": {
            "url": f"https://localhost:{port}/",
            "caFile": str(folder / "ca.crt"),
            "tokenFile": str(folder / "token"),
        },
    }
    (folder / "agent.json").write_text(json.dumps(settings))
    arguments = ("--all-nodes", "-f", str(folder / "agent.json"), "--kubeconfig", str(kubeconfig))
    return process(folder, "agent", "vm", "agent", *arguments, "--health-address", "")


async def listened(running: Process) -> int:
    """On which the permit server listens, as the log says; 0 before it does."""
    assert running.running, running.tail(60)
    for line in running.log.read_text().splitlines(keepends=True):
        if "a server listens" in line and line.endswith("\n"):
            return int(json.loads(line)["port"])
    return 0


async def content(client: Client, name: str) -> dict[str, Any]:
    return dict((await client.get(MACHINES, name, "default")).content)


@pytest.mark.rule("vm:C12", "vm:C35", "vm:B44", "vm:C2")
async def test_a_machine_grows_by_its_load_when_scheduler_and_agent_are_processes(tmp_path: Path) -> None:
    pace = Pace(poll_s=0.1, wait_s=0.1)
    settings = Settings(
        seed=1,
        tokens={TOKEN: Identity(ACCOUNT, ("system:serviceaccounts",))},
        machinery=MachinerySettings(kubelet=KubeletSettings(start_delay=0.05, stop_delay=0.05, lease_renewal=0.0)),
        further=(lambda each: VirtualMachineController(each, pace),),
    )
    async with EmbeddedServer(settings) as server:
        server.create_nodes([node("n1", cpu="8", memory="32Gi")])
        client = connect(Connection(server.url, "test"), random.Random(1))
        for definition in definitions():
            await client.create(CUSTOMRESOURCEDEFINITIONS, definition)
        await client.create(MACHINES, machine("a"), "default")
        kubeconfig = tmp_path / "kubeconfig"
        write_kubeconfig(kubeconfig, kubeconfig_of(server.url))
        write_certificate(tmp_path)
        scheduling = scheduler(tmp_path, kubeconfig)
        running = [scheduling]
        scheduling.start()
        try:
            port = await eventually(lambda: listened(scheduling))
            await eventually(
                lambda: content(client, "a"), lambda found: found.get("status", {}).get("phase") == "Running"
            )
            asking = agent(tmp_path, kubeconfig, port)
            running.append(asking)
            asking.start()
            # 2.7 of load are 3 CPUs at 0.9 each
            load = MergePatch({"metadata": {"annotations": {LOAD: '{"load1": 2.7}'}}})
            await client.patch(MACHINES, "a", load, "default")
            grown = await eventually(
                lambda: content(client, "a"), lambda found: found["spec"]["guest"]["cpus"]["use"] == 3
            )
            assert json.loads(grown["metadata"]["annotations"][APPROVED]) == {"vCPUs": 3, "mem": "12Gi"}
        finally:
            for each in reversed(running):
                await asyncio.to_thread(each.stop)
            await client.close()
    for each in running:
        assert "Traceback" not in each.log.read_text()

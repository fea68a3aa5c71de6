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
from typer.testing import CliRunner

from situate.cli.main import app
from situate.cluster.controllers import KubeletSettings, MachinerySettings
from situate.cluster.controllers.node.nodes import node
from situate.cluster.storage.effects import Identity
from situate.embedded.embedded_server import EmbeddedServer, Settings
from situate.embedded.kubeconfig import kubeconfig as kubeconfig_of
from situate.embedded.kubeconfig import write_kubeconfig
from situate.embedded.virtual_machines import VirtualMachineController
from situate.kube.client import Client
from situate.kube.connect import connect
from situate.kube.login.connection import Connection
from situate.kube.patches import MergePatch
from situate.objects.resources import CUSTOMRESOURCEDEFINITIONS, PODS, SECRETS, unstructured
from situate.vm.api.well_known import APPROVED, AUTO_MIGRATION_LABEL, ENABLED_LABEL, LOAD
from situate.vm.backends.neonvm import MACHINES
from situate.vm.emulator import Settings as Pace
from situate.vm.emulator.crds import definitions
from situate.vm.protocol.eviction_webhook_objects import (
    CERTIFICATES,
    CONFIGURATION_KIND,
    PATH,
    WEBHOOK,
    webhook_configuration,
)
from tests.cli.processes import process
from tests.contract.waiting import eventually
from tests.controlplane.certificates import Authority
from tests.controlplane.ports import ReservedPort
from tests.controlplane.process import Process

CONFIGURATIONS = unstructured(
    "admissionregistration.k8s.io", "v1", CONFIGURATION_KIND, "validatingwebhookconfigurations", namespaced=False
)
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


def scheduler(folder: Path, kubeconfig: Path, port: int = 0, **more: Any) -> Process:
    settings = {
        "apiVersion": "situate.dev/v1alpha1",
        "kind": "Situate",
        "health": {"address": None},
        "leaderElection": {"namespace": "default"},
        "vm": {
            "permits": {
                "address": f"127.0.0.1:{port}",
                "certificate": "tls.crt",
                "key": "tls.key",
                "agentNode": "any",
            },
            **more,
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
        if "server listens" in line and line.endswith("\n"):
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


@pytest.mark.finding("N33")
@pytest.mark.rule("vm:C17", "vm:B48")
async def test_check_tries_the_port_of_permits_and_the_webhook_of_evictions(tmp_path: Path) -> None:
    pace = Pace(poll_s=0.1, wait_s=0.1)
    machinery = MachinerySettings(kubelet=KubeletSettings(start_delay=0.05, stop_delay=0.05, lease_renewal=0.0))
    settings = Settings(seed=1, machinery=machinery, further=(lambda each: VirtualMachineController(each, pace),))
    ports = permits, evictions = ReservedPort(), ReservedPort()
    async with EmbeddedServer(settings) as server:
        server.create_nodes([node("n1", cpu="8", memory="32Gi")])
        client = connect(Connection(server.url, "test"), random.Random(1))
        for definition in definitions():
            await client.create(CUSTOMRESOURCEDEFINITIONS, definition)
        kubeconfig = tmp_path / "kubeconfig"
        write_kubeconfig(kubeconfig, kubeconfig_of(server.url))
        write_certificate(tmp_path)
        address = f"127.0.0.1:{evictions.number}"
        running = scheduler(tmp_path, kubeconfig, permits.number, evictions={"address": address})

        async def checked() -> dict[str, Any]:
            """The three lines on how vm works."""
            file = str(tmp_path / "situate.yaml")
            arguments = ["check", "-f", file, "--kubeconfig", str(kubeconfig), "-o", "json"]
            told = await asyncio.to_thread(CliRunner().invoke, app, arguments)
            words = ("has a leader", "agents reach", "webhook evictions")
            found = {word: each for each in json.loads(told.stdout) for word in words if word in each["check"]}
            return {word: (each["ok"], f"{each['check']} {each['next_step']}") for word, each in found.items()}

        try:
            before = await checked()
            assert list(before) == ["has a leader"]
            assert before["has a leader"][0]
            assert "not checked (vm is not installed there)" in before["has a leader"][1]

            running.start()
            found = await eventually(checked, lambda each: "agents reach" in each)
            ok, said = found["agents reach"]
            assert (ok, "no Ready Pod in namespace default has this label" in said) == (False, True)
            ok, said = found["webhook evictions"]
            assert (ok, "an eviction ends a VM" in said) == (False, True)

            await client.create(PODS, _scheduler_pod(), "default")
            status = {"podIP": "127.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]}
            await client.patch_status(PODS, "situate-1", MergePatch({"status": status}), "default")
            await eventually(checked, lambda each: each["agents reach"][0])
            assert (await checked())["agents reach"][1].endswith("labelled name=situate-vm ")

            hook = webhook_configuration("default")
            hook["webhooks"][0] |= {"clientConfig": {"url": f"https://{address}{PATH}"}, "namespaceSelector": {}}
            await client.create(SECRETS, {"metadata": {"name": CERTIFICATES}, "type": "Opaque"}, "default")
            await client.create(CONFIGURATIONS, hook)
            assert "no VM that may migrate is running" in (await checked())["webhook evictions"][1]
            movable = machine("a")
            movable["metadata"]["labels"][AUTO_MIGRATION_LABEL] = "true"
            await client.create(MACHINES, movable, "default")
            shown = await eventually(
                checked, lambda each: each["webhook evictions"] == (True, f"webhook {WEBHOOK} answers ")
            )
            assert all(ok for ok, _ in shown.values())
            assert (await content(client, "a"))["status"]["phase"] == "Running", "a dry run"
        finally:
            await asyncio.to_thread(running.stop)
            await client.close()
            for port in ports:
                port.release()


def _scheduler_pod() -> dict[str, Any]:
    """Nobody schedules it: the process of the test stands for it."""
    container = {"name": "situate", "image": "example.com/situate:1"}
    return {
        "metadata": {"name": "situate-1", "labels": {"name": "situate-vm"}},
        "spec": {"schedulerName": "nobodys", "containers": [container]},
    }

"""`situate vm explain`, `plan`, `drain` and `undrain` on a cluster whose objects stay as they are."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from situate.cli.main import app
from situate.cluster.controllers.nodes import node
from situate.embedded.kubeconfig import kubeconfig, write_kubeconfig
from situate.embedded.running import EmbeddedServer, Settings
from situate.kube.client import Client
from situate.kube.connect import connect
from situate.kube.connection import Connection
from situate.kube.patches import MergePatch
from situate.objects.resources import CUSTOMRESOURCEDEFINITIONS, NODES, PODS
from situate.vm.backends import MACHINES
from situate.vm.machines.crds import definitions
from situate.vm.names import (
    APPROVED,
    AUTO_MIGRATION_LABEL,
    DRAIN,
    ENABLED_LABEL,
    REQUESTED,
    RESOURCES,
    SCALING_UNIT,
    USAGE,
)

Said = Callable[..., Any]
UNIT = '{"vCPUs":"250m","mem":"1Gi"}'


async def create(client: Client, name: str, where: str, cpus: int, wants: int) -> None:
    """A machine that runs, and its runner pod."""
    guest = {
        "cpus": {"min": 1, "use": cpus, "max": 16},
        "memorySlots": {"min": 1, "use": 4 * cpus, "max": 64},
        "memorySlotSize": "1Gi",
    }
    labels = {ENABLED_LABEL: "true", AUTO_MIGRATION_LABEL: "true"}
    notes = {
        SCALING_UNIT: UNIT,
        APPROVED: f'{{"vCPUs":{cpus},"mem":"{4 * cpus}Gi"}}',
        REQUESTED: f'{{"vCPUs":{wants},"mem":"{4 * wants}Gi"}}',
    }
    made = await client.create(
        MACHINES,
        {
            "metadata": {"name": name, "labels": labels, "annotations": notes},
            "spec": {"schedulerName": "situate-vm", "guest": guest},
        },
        "default",
    )
    running = MergePatch({"status": {"phase": "Running", "podName": f"{name}-x", "node": where}})
    await client.patch_status(MACHINES, name, running, "default")
    owner = {
        "apiVersion": "vm.neon.tech/v1",
        "kind": "VirtualMachine",
        "name": name,
        "uid": made.metadata.uid,
        "controller": True,
    }
    seen = {USAGE: f'{{"cpu":{cpus},"memory":"{4 * cpus}Gi"}}', RESOURCES: json.dumps(guest)}
    await client.create(
        PODS,
        {
            "metadata": {
                "name": f"{name}-x",
                "labels": labels,
                "annotations": notes | seen,
                "ownerReferences": [owner],
            },
            "spec": {
                "nodeName": where,
                "schedulerName": "situate-vm",
                "containers": [{"name": "runner", "image": "i"}],
            },
        },
        "default",
    )


@pytest.fixture
async def said(tmp_path: Path) -> AsyncIterator[Said]:
    """`a` is short on n1, where `b` might leave for n2; what `situate vm` says, and with which code it ends."""
    async with EmbeddedServer(Settings(machinery=None, seed=1)) as server:
        server.create_nodes(node(name, cpu="8", memory="32Gi") for name in ("n1", "n2"))
        client = connect(Connection(server.url, "test"), random.Random(1))
        for definition in definitions():
            await client.create(CUSTOMRESOURCEDEFINITIONS, definition)
        await create(client, "a", "n1", 4, 6)
        await create(client, "b", "n1", 3, 3)
        file = tmp_path / "kubeconfig"
        write_kubeconfig(file, kubeconfig(server.url))

        async def call(*arguments: str, code: int = 0) -> str:
            line = ["vm", *arguments, "--kubeconfig", str(file)]
            result = await asyncio.to_thread(CliRunner().invoke, app, line)
            assert result.exit_code == code, result.output
            return result.output

        async def annotations(name: str) -> Any:
            return (await client.get(NODES, name)).metadata.annotations

        call.annotations = annotations  # type: ignore[attr-defined]  # what the fixture gives besides
        try:
            yield call
        finally:
            await client.close()


@pytest.mark.rule("vm:B39", "vm:B40")
async def test_why_a_machine_is_short_and_what_would_be_done(said: Said) -> None:
    told = await said("explain", "a")
    assert "holds 4 cpu, 16Gi memory and asks for 6 cpu, 24Gi memory" in told
    assert "short by 2 cpu, 8Gi memory" in told
    assert "would help: " in told
    assert "default/b" in told
    assert "it has what it asks for" in await said("explain", "default/b-x")
    absent = await said("explain", "c", code=2)
    assert "default/c" in absent
    assert "machines there: a, b" in absent
    planned = json.loads(await said("plan", "-o", "json"))
    (move,) = planned["moves"]
    assert (move["vm"], move["from"], move["to"], move["for"]) == ("default/b", "n1", "n2", "default/a-x")
    assert "neighbours" in await said("plan")


@pytest.mark.rule("vm:B46")
async def test_a_node_is_emptied_when_somebody_says_so(said: Said) -> None:
    assert "kubectl cordon n1" in await said("drain", "n1")
    assert (await said.annotations("n1"))[DRAIN] == "true"  # type: ignore[attr-defined]  # see the fixture
    planned = json.loads(await said("plan", "-o", "json"))
    assert ("default/b", "n2") in {(each["vm"], each["to"]) for each in planned["moves"]}
    assert "node n1" in {each["about"] for each in planned["reasons"]}
    assert "not emptied any more" in await said("undrain", "n1")
    assert DRAIN not in await said.annotations("n1")  # type: ignore[attr-defined]  # see the fixture
    assert "there are: n1, n2" in await said("drain", "n9", code=2)

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
from situate.objects.resources import CUSTOMRESOURCEDEFINITIONS, LEASES, NODES, PODS
from situate.vm.backends import MACHINES, MIGRATIONS
from situate.vm.machines.crds import definitions
from situate.vm.names import (
    APPROVED,
    AUTO_MIGRATION_LABEL,
    CLAIM,
    CREATED_BY_SCHEDULER_LABEL,
    DRAIN,
    ENABLED_LABEL,
    REQUESTED,
    RESIZE_REQUESTED,
    RESOURCES,
    SCALING_UNIT,
    TARGET_NODE,
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

        async def call(*arguments: str, verb: str = "vm", code: int = 0) -> str:
            line = [verb, *arguments, "--kubeconfig", str(file)]
            result = await asyncio.to_thread(CliRunner().invoke, app, line)
            assert result.exit_code == code, result.output
            return result.output

        async def annotations(name: str) -> Any:
            return (await client.get(NODES, name)).metadata.annotations

        call.client = client  # type: ignore[attr-defined]  # what the fixture gives besides
        call.annotations = annotations  # type: ignore[attr-defined]  # what the fixture gives besides
        try:
            yield call
        finally:
            await client.close()


@pytest.mark.rule("vm:B39", "vm:B40")
async def test_why_a_machine_is_short_and_what_would_be_done(said: Said) -> None:
    told = await said("explain", "a")
    assert "holds 4 cpu, 16Gi memory and asks for 6 cpu, 24Gi memory" in told
    assert "short by 2 cpu, 8Gi memory: its node has no room for it" in told
    assert "1 cpu, 4Gi memory of that is free, and granted with the next look of whoever leads" in told
    assert "would help: " in told
    assert "default/b" in told
    assert "it has what it asks for" in await said("explain", "default/b-x")
    absent = await said("explain", "c", code=2)
    assert "default/c" in absent
    assert "machines there: a, b; why a pod gets no node is told by: situate scheduler explain POD -n default" in absent
    broken = MergePatch({"metadata": {"annotations": {SCALING_UNIT: '{"vCPUs":0,"mem":"1Gi"}'}}})
    await said.client.patch(PODS, "b-x", broken, "default")  # type: ignore[attr-defined]  # see the next
    absent = await said("explain", "b", code=2)
    assert f'pod default/b-x: metadata.annotations["{SCALING_UNIT}"].vCPUs: found 0' in absent, "which is why"
    mended = MergePatch({"metadata": {"annotations": {SCALING_UNIT: UNIT}}})
    await said.client.patch(PODS, "b-x", mended, "default")  # type: ignore[attr-defined]  # see the next
    planned = json.loads(await said("plan", "-o", "json"))
    (move,) = planned["moves"]
    assert (move["vm"], move["from"], move["to"], move["for"]) == ("default/b", "n1", "n2", "default/a")
    assert "neighbours" in await said("plan")
    beyond = MergePatch({"metadata": {"annotations": {REQUESTED: '{"vCPUs":20,"mem":"80Gi"}'}}})
    await said.client.patch(PODS, "b-x", beyond, "default")  # type: ignore[attr-defined]  # what the fixture gives besides
    told = await said("explain", "b")
    assert "its own maximum is 16 cpu, 64Gi memory: beyond that nothing is granted" in told
    assert "short by 13 cpu, 52Gi memory" in told


@pytest.mark.finding("N14")
async def test_explain_takes_a_type_and_a_name_as_kubectl_does(said: Said) -> None:
    wanted = (await said("explain", "default/a")).partition("room is expected by")[0]
    assert "holds 4 cpu" in wanted
    for name in ("vm/a", "virtualmachine/a", "virtualmachines.vm.neon.tech/a", "pod/a-x", "vm/default/a"):
        assert (await said("explain", name)).startswith(wanted)
        if name.count("/") == 1:
            assert "default/a" in await said("explain", name, "-n", "default")
    assert "neither a pod nor a VirtualMachine" in await said("explain", "pod/a", code=2)
    assert "neither a pod nor a VirtualMachine" in await said("explain", "vm/a-x", code=2)
    refused = await said("explain", "deployment/a", "-n", "default", code=2)
    assert 'deployment/a: found type "deployment", allowed: pod, virtualmachine, virtualmachineinstance' in refused


@pytest.mark.rule("vm:B39")
async def test_room_that_nobody_has_granted_yet_is_no_want_of_room(said: Said) -> None:
    client: Client = said.client  # type: ignore[attr-defined]  # see the fixture
    for lease in ({"holderIdentity": "x"}, {}):
        await client.create(LEASES, {"metadata": {"name": "vm"}, "spec": lease}, "default")
        less = MergePatch({"metadata": {"annotations": {REQUESTED: '{"vCPUs":5,"mem":"20Gi"}'}}})
        await client.patch(PODS, "a-x", less, "default")
        told = await said("explain", "a", "--installation", "default")
        assert "  short by 1 cpu, 4Gi memory\n  that is free, and granted" in told
        assert "would help" not in told
        led = "nobody holds Lease vm in namespace default: nothing is granted or moved until a scheduler runs there"
        assert (led in told) is not bool(lease)
        await client.delete(LEASES, "vm", "default")


@pytest.mark.rule("vm:B39")
async def test_a_machine_without_a_node_is_shown_with_what_keeps_it_from_one(said: Said) -> None:
    client: Client = said.client  # type: ignore[attr-defined]  # see the fixture
    guest = {"cpus": {"min": 1, "use": 1, "max": 1}, "memorySlots": {"min": 1, "use": 1, "max": 1}}
    for name in ("late", "large"):
        spec = {"schedulerName": "situate-vm", "guest": {**guest, "memorySlotSize": "1Gi"}}
        machine = await client.create(MACHINES, {"metadata": {"name": name}, "spec": spec}, "default")
    owner = {"apiVersion": "vm.neon.tech/v1", "kind": "VirtualMachine", "name": "large", "uid": machine.metadata.uid}
    pod = {
        "metadata": {"name": "large-x", "ownerReferences": [{**owner, "controller": True}]},
        "spec": {"schedulerName": "situate-vm", "containers": [{"name": "runner", "image": "i"}]},
    }
    await client.create(PODS, pod, "default")
    assert "no scheduler has said why: its schedulerName is situate-vm" in await said("explain", "large")
    why = {"type": "PodScheduled", "status": "False", "message": "0/2 nodes are available: 2 too little cpu"}
    await client.patch_status(PODS, "large-x", MergePatch({"status": {"conditions": [why]}}), "default")

    told = await said("status")
    assert told.startswith("situate-vm: 4 machines, 1 short of what it asks for, 2 without a node; nobody leads"), told
    rows = [line.split() for line in told.splitlines() if line.startswith("default/la")]
    assert [row[0] for row in rows] == ["default/large", "default/late"]
    assert [" ".join(row[6:]) for row in rows] == ["waits for a node", "has no pod"]
    listed = json.loads(await said("status", "-o", "json"))["withoutNode"]
    assert [(each["machine"], each["pod"]) for each in listed] == [("large", "large-x"), ("late", None)]
    for name in ("large", "large-x"):
        told = await said("explain", name)
        assert "default/large has no node\n  0/2 nodes are available: 2 too little cpu" in told
        assert "situate scheduler explain large-x -n default" in told
    assert "there is no pod for it" in await said("explain", "late")
    assert json.loads(await said("explain", "late", "-o", "json"))["node"] is None


@pytest.mark.rule("vm:B33", "vm:B39")
async def test_a_plain_pod_that_is_short_of_a_larger_size_is_shown(said: Said) -> None:
    client: Client = said.client  # type: ignore[attr-defined]  # see the fixture
    container = {"name": "app", "image": "i", "resources": {"requests": {"cpu": "1", "memory": "4Gi"}}}
    pod = {"metadata": {"name": "plain"}, "spec": {"nodeName": "n1", "containers": [container]}}
    await client.create(PODS, pod, "default")
    assert "plain" not in await said("status")
    wish = MergePatch({"metadata": {"annotations": {RESIZE_REQUESTED: '{"cpu":"3"}'}}})
    await client.patch(PODS, "plain", wish, "default")
    told = await said("status")
    assert "1 pod is short of a larger size; nobody leads" in told
    (row,) = (line.split() for line in told.splitlines() if line.startswith("default/plain"))
    assert row == ["default/plain", "n1", "1", "4Gi", "3", "4Gi", "2"]
    (listed,) = json.loads(await said("status", "-o", "json"))["pods"]
    assert (listed["name"], listed["short"]) == ("plain", {"cpu": "2", "memory": "0"})


async def under_way(client: Client, target_pod: str = "b-y") -> None:
    """`b` is moving to n2 for `a`, into a pod that is bound there."""
    pods = {each.metadata.name: each for each in (await client.list_all(PODS, "default")).items}
    machine = await client.get(MACHINES, "b", "default")
    owner = {"apiVersion": "vm.neon.tech/v1", "kind": "VirtualMachine", "name": "b", "uid": machine.metadata.uid}
    needy = {"kind": "VM", "namespace": "default", "name": "a-x", "uid": pods["a-x"].metadata.uid}
    claim = {
        "id": "c",
        "plan": "p",
        "node": "n1",
        "beneficiary": needy,
        "source": {"podUID": pods["b-x"].metadata.uid},
        "amount": {"cpu": "1500m", "mem": "6Gi"},
        "deadline": "2099-01-01T00:00:00.000000Z",
    }
    metadata = {
        "name": "schedplugin-b-x",
        "labels": {CREATED_BY_SCHEDULER_LABEL: "true"},
        "annotations": {CLAIM: json.dumps(claim), TARGET_NODE: "n2"},
        "ownerReferences": [{**owner, "controller": True}],
    }
    move = await client.create(MIGRATIONS, {"metadata": metadata, "spec": {"vmName": "b"}}, "default")
    ram = {"total": 100, "remaining": 60, "transferred": 40}
    status = {
        "phase": "Running",
        "sourcePodName": "b-x",
        "sourceNode": "n1",
        "targetPodName": target_pod,
        "info": {"ram": ram},
    }
    await client.patch_status(MIGRATIONS, "schedplugin-b-x", MergePatch({"status": status}), "default")
    by = {"apiVersion": "vm.neon.tech/v1", "kind": "VirtualMachineMigration", "name": "schedplugin-b-x"}
    meta = pods["b-x"].metadata
    target = {
        "metadata": {
            "name": target_pod,
            "labels": dict(meta.labels),
            "annotations": dict(meta.annotations),
            "ownerReferences": [owner, {**by, "uid": move.metadata.uid, "controller": True}],
        },
        "spec": {
            "nodeName": "n2",
            "schedulerName": "situate-vm",
            "containers": [{"name": "runner", "image": "i"}],
        },
    }
    await client.create(PODS, target, "default")


@pytest.mark.rule("vm:B4", "vm:B39")
async def test_what_moves_is_shown_once_on_either_node_and_for_whom(said: Said) -> None:
    await under_way(said.client)  # type: ignore[attr-defined]  # see the fixture
    shown = json.loads(await said("status", "-o", "json"))
    there = shown["nodes"][1]
    assert (there["reserved"]["cpu"], there["incoming"]["cpu"], there["free"]["cpu"]) == ("3", "0", "5")
    (move,) = shown["moves"]
    assert (move["machine"], move["to"], move["copied"]) == ("b", "n2", 0.4)
    assert move["claim"]["for"] == {"kind": "VM", "name": "default/a-x", "machine": "default/a"}
    told = await said("status")
    assert told.startswith("situate-vm: 2 machines, 1 short of what it asks for"), "b is one, on two nodes"
    assert [line.split()[:2] for line in told.splitlines() if "default/b" in line][:2] == [
        ["default/b", "n1"],
        ["default/b", "n2"],
    ]
    (row,) = (line for line in told.splitlines() if "40%" in line)
    assert row.split() == ["default/b", "n1", "n2", "copying", "40%", "default/a", "1.5", "6Gi"]


@pytest.mark.finding("N32")
@pytest.mark.rule("vm:B3")
@pytest.mark.parametrize("target", ["b-a", "b-y"], ids=["listed before its source", "after it"])
async def test_nothing_is_held_while_the_source_is_there_and_rows_keep_their_order(said: Said, target: str) -> None:
    await under_way(said.client, target)  # type: ignore[attr-defined]  # see the fixture
    shown = json.loads(await said("status", "-o", "json"))
    assert [each["held"]["cpu"] for each in shown["nodes"]] == ["0", "0"]
    assert shown["moves"][0]["claim"]["state"] == "moving"
    assert [(each["name"], each["node"]) for each in shown["machines"]] == [("a", "n1"), ("b", "n1"), ("b", "n2")]


@pytest.mark.finding("N30")
async def test_a_move_that_is_under_way_is_in_the_plan(said: Said) -> None:
    client: Client = said.client  # type: ignore[attr-defined]  # see the fixture
    less = MergePatch({"metadata": {"annotations": {REQUESTED: '{"vCPUs":4,"mem":"16Gi"}'}}})
    await client.patch(PODS, "a-x", less, "default")
    assert "no move would begin, and none is under way" in await said("plan")
    await under_way(client)
    told = await said("plan")
    assert "no further move would begin" in told
    assert "under way: default/b from n1 to n2, copying (40%), for default/a" in told
    (move,) = json.loads(await said("plan", "-o", "json"))["underWay"]
    assert (move["machine"], move["to"], move["copied"]) == ("b", "n2", 0.4)


@pytest.mark.rule("vm:B39")
async def test_of_a_machine_on_its_way_it_is_said_that_it_moves_and_it_is_short_once(said: Said) -> None:
    client: Client = said.client  # type: ignore[attr-defined]  # see the fixture
    await under_way(client)
    await client.patch_status(MACHINES, "b", MergePatch({"status": {"phase": "Migrating"}}), "default")
    told = await said("explain", "b")
    assert "it is being moved, and keeps its size until that is over" in told
    assert "it has what" not in told
    assert "copying" in told
    wants = MergePatch({"metadata": {"annotations": {REQUESTED: '{"vCPUs":4,"mem":"16Gi"}', SCALING_UNIT: UNIT}}})
    for pod in ("b-x", "b-y"):
        await client.patch(PODS, pod, wants, "default")
    assert "2 machines, 2 short of what they ask for" in await said("status"), "on two nodes, and yet one machine"


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
    assert "no node is named:" in await said("drain", "", code=2)


async def test_check_has_a_line_for_each_right_also_where_several_products_need_it(said: Said, tmp_path: Path) -> None:
    file = tmp_path / "situate.yaml"
    file.write_text("{apiVersion: situate.dev/v1alpha1, kind: Situate, vm: {}, scheduler: {}, spot: {}}")
    printed, _, _ = (await said("-f", str(file), "-o", "json", verb="check", code=1)).rpartition("]")
    findings = json.loads(f"{printed}]")
    told = [each["check"] for each in findings]
    assert len(told) == len(set(told))
    failed = [each["check"] for each in findings if not each["ok"]]
    assert failed == ["webhook pods.spot.situate.dev answers", "unreadable spot.situate.dev/on-demand is refused"]
    assert {"may create, patch events", "may create, patch events.events.k8s.io"} < set(told)

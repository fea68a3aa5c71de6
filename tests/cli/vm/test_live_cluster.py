"""`situate vm explain`, `plan`, `drain` and `uncordon` on a cluster whose objects stay as they are."""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from situate.cli.main import app
from situate.cluster.controllers.node.nodes import node
from situate.embedded.embedded_server import EmbeddedServer, Settings
from situate.embedded.kubeconfig import kubeconfig, write_kubeconfig
from situate.kube.client import Client
from situate.kube.connect import connect
from situate.kube.login.connection import Connection
from situate.kube.patches import MergePatch
from situate.objects.resources import CUSTOMRESOURCEDEFINITIONS, LEASES, NODES, PODS
from situate.vm.api.well_known import (
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
from situate.vm.backends.neonvm import MACHINES, MIGRATIONS
from situate.vm.emulator.crds import definitions
from tests.cli.processes import KUBECTL, call, process
from tests.waiting import eventually

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

        async def asked(*arguments: str, verb: str = "vm", code: int = 0) -> str:
            line = [verb, *arguments, "--kubeconfig", str(file)]
            result = await asyncio.to_thread(CliRunner().invoke, app, line)
            assert result.exit_code == code, (line, result.output, result.exception)
            return result.output

        async def annotations(name: str) -> Any:
            return (await client.get(NODES, name)).metadata.annotations

        asked.client = client  # type: ignore[attr-defined]  # what the fixture gives besides
        asked.annotations = annotations  # type: ignore[attr-defined]  # what the fixture gives besides
        try:
            yield asked
        finally:
            await client.close()


@pytest.mark.rule("vm:B39", "vm:B40")
async def test_why_a_machine_is_short_and_what_would_be_done(said: Said) -> None:
    told = await said("explain", "a", code=1)
    assert "holds 4 cpu, 16Gi memory and asks for 6 cpu, 24Gi memory" in told
    assert "short by 2 cpu, 8Gi memory: its node has too little free capacity" in told
    assert "1 cpu, 4Gi memory of that is free; the leader grants it next" in told
    assert "would help: " in told
    assert "default/b" in told
    assert "it has all that it asks for" in await said("explain", "default/b-x")
    absent = await said("explain", "c", code=2)
    assert "default/c" in absent
    assert "VMs there: a, b; why a Pod has no node: situate scheduler explain POD -n default" in absent
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
    told = await said("explain", "b", code=1)
    assert "its own maximum is 16 cpu, 64Gi memory; nothing above it is granted" in told
    assert "short by 13 cpu, 52Gi memory" in told


@pytest.mark.finding("N14")
async def test_explain_takes_a_type_and_a_name_as_kubectl_does(said: Said) -> None:
    wanted = (await said("explain", "default/a", code=1)).partition("the capacity is expected by")[0]
    assert "holds 4 cpu" in wanted
    for name in ("vm/a", "virtualmachine/a", "virtualmachines.vm.neon.tech/a", "pod/a-x", "vm/default/a"):
        assert (await said("explain", name, code=1)).startswith(wanted)
        if name.count("/") == 1:
            assert "default/a" in await said("explain", name, "-n", "default", code=1)
    assert "no Pod or VirtualMachine of this name" in await said("explain", "pod/a", code=2)
    assert "no Pod or VirtualMachine of this name" in await said("explain", "vm/a-x", code=2)
    refused = await said("explain", "deployment/a", "-n", "default", code=2)
    assert 'deployment/a: found type "deployment", allowed: pod, virtualmachine, virtualmachineinstance' in refused


@pytest.mark.rule("vm:B39")
async def test_room_that_nobody_has_granted_yet_is_no_want_of_room(said: Said) -> None:
    client: Client = said.client  # type: ignore[attr-defined]  # see the fixture
    for lease in ({"holderIdentity": "x"}, {}):
        await client.create(LEASES, {"metadata": {"name": "vm"}, "spec": lease}, "default")
        less = MergePatch({"metadata": {"annotations": {REQUESTED: '{"vCPUs":5,"mem":"20Gi"}'}}})
        await client.patch(PODS, "a-x", less, "default")
        told = await said("explain", "a", "--installation-namespace", "default", code=1)
        assert "  short by 1 cpu, 4Gi memory\n  that is free; the leader grants it" in told
        assert "would help" not in told
        led = "no process holds Lease vm in namespace default, so nothing is granted or moved until a scheduler runs"
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
    assert "no scheduler has said why; its schedulerName is situate-vm" in await said("explain", "large", code=1)
    why = {"type": "PodScheduled", "status": "False", "message": "0/2 nodes are available: 2 too little cpu"}
    await client.patch_status(PODS, "large-x", MergePatch({"status": {"conditions": [why]}}), "default")

    told = await said("status")
    assert told.startswith("situate-vm: 4 VMs, 1 short of the size that it asks for, 2 without a node; no leader"), told
    rows = [line.split() for line in told.splitlines() if line.startswith("default/la")]
    assert [row[0] for row in rows] == ["default/large", "default/late"]
    assert [" ".join(row[6:]) for row in rows] == ["waits for a node", "has no pod"]
    listed = json.loads(await said("status", "-o", "json"))["withoutNode"]
    assert [(each["machine"], each["pod"]) for each in listed] == [("large", "large-x"), ("late", None)]
    for name in ("large", "large-x"):
        told = await said("explain", name, code=1)
        assert "default/large has no node\n  0/2 nodes are available: 2 too little cpu" in told
        assert "situate scheduler explain large-x -n default" in told
    assert "it has no Pod yet" in await said("explain", "late", code=1)
    assert json.loads(await said("explain", "late", "-o", "json", code=1))["node"] is None


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
    assert "1 Pod is short of a larger size; no leader" in told
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
    assert told.startswith("situate-vm: 2 VMs, 1 short of the size that it asks for"), "b is one, on two nodes"
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
    assert "it has all that" not in told
    assert "copying" in told
    wants = MergePatch({"metadata": {"annotations": {REQUESTED: '{"vCPUs":4,"mem":"16Gi"}', SCALING_UNIT: UNIT}}})
    for pod in ("b-x", "b-y"):
        await client.patch(PODS, pod, wants, "default")
    assert "2 VMs, 2 short of the size that they ask for" in await said("status"), "on two nodes, and yet one machine"


@pytest.mark.finding("N29")
@pytest.mark.rule("vm:B46")
@pytest.mark.parametrize("uncordon", ["uncordon", "undrain"])
async def test_a_node_is_emptied_when_somebody_says_so(said: Said, uncordon: str) -> None:
    annotations = said.annotations  # type: ignore[attr-defined]  # see the fixture
    assert "node n1 would be drained: 2 VMs on it: default/a, default/b" in await said("drain", "n1", "--dry-run")
    assert DRAIN not in await annotations("n1"), "nothing was written"
    assert "kubectl cordon n1" in await said("drain", "n1")
    assert (await annotations("n1"))[DRAIN] == "true"
    assert "node n1 is drained already: 2 VMs" in await said("drain", "n1", "--dry-run")
    planned = json.loads(await said("plan", "-o", "json", code=1))
    assert ("default/b", "n2") in {(each["vm"], each["to"]) for each in planned["moves"]}
    assert planned["reasons"] == [
        {"about": "node n1", "reason": "default/a-x is the beneficiary of a claim on this node"}
    ]
    assert planned["leftOver"] == ["node n1"]
    assert "would no longer be drained" in await said(uncordon, "n1", "--dry-run")
    assert (await annotations("n1"))[DRAIN] == "true", "nothing was written"
    assert "no longer drained" in await said(uncordon, "n1")
    assert DRAIN not in await annotations("n1")
    assert "nothing would be written" in await said(uncordon, "n1", "--dry-run")
    for arguments in (("drain",), (uncordon,), ("drain", "--dry-run"), (uncordon, "--dry-run")):
        assert "found: n1, n2" in await said(*arguments, "n9", code=2)
        assert "no node is named:" in await said(*arguments, "", code=2)


def test_the_former_name_of_uncordon_is_not_listed() -> None:
    told = CliRunner().invoke(app, ["vm", "-h"]).stdout
    assert "uncordon" in told
    assert "undrain" not in told


async def ended(client: Client, pod: str) -> None:
    await client.patch_status(PODS, pod, MergePatch({"status": {"phase": "Succeeded"}}), "default")


@pytest.mark.rule("vm:B46")
async def test_a_drain_waits_until_no_machine_is_left_and_says_how_many_are(said: Said, tmp_path: Path) -> None:
    client: Client = said.client  # type: ignore[attr-defined]  # see the fixture
    plain = {"metadata": {"name": "plain"}, "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]}}
    await client.create(PODS, plain, "default")
    config = ("--kubeconfig", str(tmp_path / "kubeconfig"))
    waiting = process(tmp_path, "drain", "vm", "drain", "n1", "--wait", "--timeout", "0", *config)
    waiting.start()
    try:
        for pod, line in (("b-x", "2 VMs are left on node n1"), ("a-x", "1 VM is left on node n1")):
            shows = partial(eventually, line, waiting.log.read_text, re.compile(f"^{line}$", re.MULTILINE).search)
            await asyncio.to_thread(shows)
            assert waiting.running
            await ended(client, pod)
        last = "no VM is left on node n1\n"  # the other Pod stays
        await asyncio.to_thread(eventually, "it ends", waiting.log.read_text, lambda text: text.endswith(last))
    finally:
        waiting.stop()


@pytest.mark.rule("vm:B46")
async def test_a_drain_ends_with_1_when_its_time_is_over(said: Said) -> None:
    await ended(said.client, "b-x")  # type: ignore[attr-defined]  # see the fixture
    told = await said("drain", "n1", "--wait", "--timeout", "10ms", code=1)
    assert "1 VM is left on node n1\n" in told
    assert "1 VM is left on node n1 after 10ms: default/a; `situate vm plan` says why" in told
    assert (await said.annotations("n1"))[DRAIN] == "true"  # type: ignore[attr-defined]  # see the fixture
    assert "no VM is left on node n2" in await said("drain", "n2", "--wait", "--timeout", "10ms")
    for wrong in ("soon", "-1s", "5"):
        assert "--timeout: found" in await said("drain", "n2", "--timeout", wrong, code=2)


@pytest.mark.parametrize("verb", ["status", "plan", "explain a", "explain vm/default/b", "explain pod/a-x"])
async def test_files_tell_what_their_cluster_tells(said: Said, tmp_path: Path, verb: str) -> None:
    config = ("--kubeconfig", str(tmp_path / "kubeconfig"))
    kinds = ("nodes,pods,leases", "neonvm,neonvmm")
    for number, each in enumerate(kinds):
        got = await asyncio.to_thread(call, tmp_path, str(KUBECTL), *config, "get", each, "-A", "-o", "json")
        assert got.returncode == 0, got.stderr
        (tmp_path / f"{number}.json").write_text(got.stdout)
    files = tuple(part for number in range(len(kinds)) for part in ("--objects", str(tmp_path / f"{number}.json")))
    code = int(verb in ("explain a", "explain pod/a-x"))
    asked, read = [
        json.loads((await said(*verb.split(), "-o", "json", *where, code=code)).partition("\nsituate: ")[0])
        for where in ((), files)
    ]
    for told in (asked, read):  # where nothing is installed files say less; when a move would end depends on the clock
        told.pop("remarks", None)
        told.pop("eta", None)
    assert asked == read
    assert {"default/b", "default/b-x", "default/a-x", "b-x"} & set(json.dumps(read).split('"'))


@pytest.mark.finding("N30")
async def test_lists_are_about_one_namespace_and_nodes_and_sums_are_the_clusters(said: Said) -> None:
    here, there = await said("status"), await said("status", "-n", "other")
    assert here == await said("status", "-A") == await said("status", "-n", "default")
    assert there.splitlines()[0] == here.splitlines()[0]
    assert "n1" in there
    assert "default/" not in there
    assert "not listed: 2 VMs in namespaces other than other; -A lists all" in there
    assert json.loads(await said("status", "-n", "other", "-o", "json"))["machines"] == []
    assert "default/b" in await said("plan")
    assert "not listed: 1 move in namespaces other than other; -A lists all" in await said("plan", "-n", "other")
    for verb in ("status", "plan"):
        assert "leave one of them out" in await said(verb, "-A", "-n", "other", code=2)


async def test_a_plan_ends_with_1_for_what_stays_short_or_has_no_node(said: Said) -> None:
    client: Client = said.client  # type: ignore[attr-defined]  # see the fixture
    assert json.loads(await said("plan", "-o", "json"))["leftOver"] == [], "b makes room for a"
    full = MergePatch({"spec": {"unschedulable": True}})
    await client.patch(NODES, "n2", full)
    planned = json.loads(await said("plan", "-o", "json", code=1))
    assert (planned["moves"], planned["leftOver"]) == ([], ["default/a"])
    assert "default/a: " in await said("plan", code=1)
    assert json.loads(await said("plan", "-n", "other", "-o", "json"))["leftOver"] == []
    less = MergePatch({"metadata": {"annotations": {REQUESTED: '{"vCPUs":4,"mem":"16Gi"}'}}})
    await client.patch(PODS, "a-x", less, "default")
    assert json.loads(await said("plan", "-o", "json"))["leftOver"] == []
    guest = {"cpus": {"min": 1, "use": 1, "max": 1}, "memorySlots": {"min": 1, "use": 1, "max": 1}}
    spec = {"schedulerName": "situate-vm", "guest": guest}
    await client.create(MACHINES, {"metadata": {"name": "late"}, "spec": spec}, "default")
    assert "default/late has no node: it has no Pod yet" in await said("plan", code=1)
    assert "late" not in await said("plan", "-n", "other")


EXAMPLE = Path(__file__).parents[3] / "examples" / "vm-cluster.yaml"


@pytest.mark.finding("N29")
@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("status",), 0),
        (("plan",), 0),
        (("explain", "shop/web"), 0),
        (("explain", "shop/db"), 1),
        (("explain", "vm/db", "-n", "shop"), 1),
        (("explain", "db"), 2),
    ],
)
def test_how_commands_end_on_files(arguments: tuple[str, ...], code: int) -> None:
    result = CliRunner().invoke(app, ["vm", *arguments, "--objects", str(EXAMPLE)])
    assert (result.exit_code, "Traceback" in result.output) == (code, False), result.output


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

"""Moves that turn out to be needless, beside both servers: room appears on the node that a machine is to leave."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from situate.vm.api.well_known import (
    APPROVED,
    AUTO_MIGRATION_LABEL,
    ENABLED_LABEL,
    REQUESTED,
    SCALING_UNIT,
    TARGET_NODE,
)
from situate.vm.emulator.crds import MACHINES, MIGRATIONS
from situate.vm.emulator.hypervisor import HYPERVISOR
from tests.cli.processes import process
from tests.contract.api import Api, Json
from tests.contract.conftest import wait_usable
from tests.contract.servers import Server
from tests.contract.test_vm_machines import VERSION, machines  # noqa: F401  # a fixture
from tests.contract.things import binding, core, group, node, pod
from tests.contract.waiting import eventually, gone
from tests.contract.work import Work, name
from tests.controlplane.process import Process

SCHEDULER = "situate-vm"
ALIKE = {"example.com/for": "machines"}
"""Label of nodes of 8 CPUs and 32 GiB; machines have 4 GiB for each CPU."""
USED = {"usedMemory": "64Mi"}
AT_ONCE = {"coolDown": "0s", "longestCoolDown": "0s", "afterFailure": "0s", "longestAfterFailure": "0s"}
PATIENT = {"unbound": "10m", "notRunning": "10m", "leastTotal": "10m"}
"""No test takes as long as a move may take then."""


def amount(cpus: int) -> str:
    return json.dumps({"vCPUs": cpus, "mem": f"{4 * cpus}Gi"}, separators=(",", ":"))


class Town:
    """Two nodes of this test's own, and machines."""

    def __init__(self, work: Work) -> None:
        self.work = work
        self.api: Api = work.api
        self.nodes: list[str] = []

    async def add_node(self) -> str:
        called = f"{self.work.namespace}-{len(self.nodes)}"
        (await self.api.post("/api/v1/nodes", node(called, labels={"kubernetes.io/hostname": called, **ALIKE}))).ok(201)
        await wait_usable(self.api, called)
        self.nodes.append(called)
        return called

    def own(self, plural: str, called: str = "") -> str:
        return group(VERSION, self.work.namespace, plural, called)

    async def create(self, called: str, cpus: int, **behaviour: Any) -> None:
        guest = {"cpus": {"min": 1, "use": cpus, "max": 8}, "memorySlots": {"min": 4, "use": 4 * cpus, "max": 32}}
        labels = {ENABLED_LABEL: "true", AUTO_MIGRATION_LABEL: str(bool(behaviour)).lower()}
        metadata = {"name": called, "labels": labels, "annotations": {HYPERVISOR: json.dumps({**USED, **behaviour})}}
        spec = {"schedulerName": SCHEDULER, "nodeSelector": ALIKE, "guest": guest}
        body = {"apiVersion": VERSION, "kind": "VirtualMachine", "metadata": metadata, "spec": spec}
        await eventually(lambda: self.api.post(self.own(MACHINES), body), lambda answer: answer.status == 201)

    async def machine(self, called: str) -> Json:
        return dict((await self.api.get(self.own(MACHINES, called))).ok())

    async def runs(self, called: str) -> Json:
        """Its status, once it runs."""

        def running(made: Json) -> bool:
            return bool(made.get("status", {}).get("phase") == "Running")

        status: Json = (await eventually(lambda: self.machine(called), running))["status"]
        return status

    async def ask(self, called: str, cpus: int) -> None:
        """On the machine and on its pod, also while nobody copies it."""
        asked = {"metadata": {"annotations": {SCALING_UNIT: amount(1), REQUESTED: amount(cpus)}}}
        made = (await self.api.patch(self.own(MACHINES, called), asked)).ok()
        (await self.api.patch(core(self.work.namespace, "pods", made["status"]["podName"]), asked)).ok()

    async def let_move(self, called: str) -> None:
        labels = {"metadata": {"labels": {AUTO_MIGRATION_LABEL: "true"}}}
        (await self.api.patch(self.own(MACHINES, called), labels)).ok()

    async def leave(self, called: str) -> None:
        (await self.api.delete(core(self.work.namespace, "pods", called))).ok()

    async def granted(self, called: str, cpus: int) -> None:
        await eventually(
            lambda: self.machine(called),
            lambda made: made["metadata"].get("annotations", {}).get(APPROVED) == amount(cpus),
        )

    async def move(self, holds: Callable[[Json], Any] = bool) -> Json:
        """The only one, once it is so."""

        async def ask() -> list[Json]:
            return list((await self.api.get(self.own(MIGRATIONS))).ok()["items"])

        (found,) = await eventually(ask, lambda moves: len(moves) == 1 and holds(moves[0]))
        return found

    async def refused(self, begun: Json) -> None:
        """Until it is said that the pod that it moves into finds no node; it goes on waiting for one."""

        def waits(target: Json | None) -> bool:
            found = (target or {}).get("status", {}).get("conditions", [])
            return any(each["type"] == "PodScheduled" and each["status"] == "False" for each in found)

        status = (await self.move(lambda move: move.get("status", {}).get("targetPodName")))["status"]
        await eventually(lambda: self.work.pod(status["targetPodName"]), waits)
        assert "deletionTimestamp" not in (await self.move())["metadata"]
        assert name(await self.move()) == name(begun)

    async def fill(self, called: str, home: str, cpus: int, **more: Any) -> None:
        """A pod that is no machine, on that node."""
        await self._add(called, cpus, schedulerName=SCHEDULER, nodeSelector={"kubernetes.io/hostname": home}, **more)
        await eventually(lambda: self.work.pod(called), lambda made: made and made["status"]["phase"] == "Running")

    async def seize(self, called: str, node: str, cpus: int, **spec: Any) -> None:
        """A pod that another scheduler binds to that node, whatever is reserved there."""
        await self._add(called, cpus, schedulerName="another", **spec)
        (await self.api.post(core(self.work.namespace, "pods", called, "binding"), binding(called, node))).ok(201)

    async def _add(self, called: str, cpus: int, **spec: Any) -> None:
        room = {"cpu": str(cpus), "memory": f"{4 * cpus}Gi"}
        body = pod(called, requests=room, terminationGracePeriodSeconds=0, **spec)
        (await self.api.post(core(self.work.namespace, "pods"), body)).ok(201)


@pytest.fixture
async def town(work: Work, machines: Api) -> AsyncIterator[Town]:  # noqa: F811
    made = Town(work)
    yield made
    for each in made.nodes:
        (await work.api.delete(f"/api/v1/nodes/{each}")).ok()


@pytest.fixture
async def trifle(work: Work) -> AsyncIterator[str]:
    """A class of pods below all others."""
    path, called = "/apis/scheduling.k8s.io/v1/priorityclasses", f"{work.namespace}-trifle"
    body = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": called}, "value": -1}
    (await work.api.post(path, body)).ok(201)
    yield called
    (await work.api.delete(f"{path}/{called}")).ok()


@contextmanager
def programs(server: Server, work: Work, folder: Path, home: str = "default", **vm: Any) -> Iterator[Process]:
    """The scheduler, and the stand-in for a hypervisor, which is given.

    `home`: the namespace in which they are at home. `vm`: further keys of the section.
    """
    within_home = folder / "home.kubeconfig"
    document = yaml.safe_load(server.kubeconfig(folder).read_text())
    document["contexts"][0]["context"]["namespace"] = home
    within_home.write_text(yaml.safe_dump(document))
    kubeconfig = ("--kubeconfig", str(within_home))
    document = {
        "apiVersion": "situate.dev/v1alpha1",
        "kind": "Situate",
        "health": {"address": None},
        "leaderElection": {"namespace": work.namespace},
        "vm": {
            "schedulerName": SCHEDULER,
            "watermark": 1,
            "demandAfter": "500ms",
            "calm": AT_ONCE,
            "permits": {"address": "127.0.0.1:0"},
            **vm,
        },
    }
    (folder / "situate.yaml").write_text(yaml.safe_dump(document))
    within = ("--namespace", work.namespace, "--installation-namespace", work.namespace)
    scheduler = process(folder, "vm", "run", "-f", str(folder / "situate.yaml"), *kubeconfig)
    stand_in = process(folder, "machines", "vm", "machines", *kubeconfig, *within)
    with ExitStack() as ends:
        for each in (scheduler, stand_in):
            each.start()
            ends.callback(each.stop)
        yield stand_in
    assert "Traceback" not in scheduler.log.read_text(), scheduler.log.read_text()


@pytest.mark.rule("vm:N9", "vm:N10", "vm:B20", "vm:B21", "vm:B22", "vm:I12")
async def test_room_that_appears_at_home_ends_the_move(
    town: Town, work: Work, trifle: str, cluster: Server, tmp_path: Path
) -> None:
    """Once while the target waits, whom by then only its own node could take, and once while it copies.

    Somebody else has taken the room that was reserved for the target. Beside a pod of lower priority on that node time
    tells whether it is to have it all the same (B15), and there is plenty: nothing but the room at home ends the move.
    """
    api, home = work.api, await town.add_node()
    with programs(cluster, work, tmp_path, deadlines=PATIENT) as stand_in:
        await town.create("a", 1)
        await town.create("b", 2, stallAtPercent=10)
        await town.fill("first", home, 4)
        await town.fill("second", home, 1)
        await town.runs("a")
        at_home = await town.runs("b")
        assert at_home["node"] == home
        away = await town.add_node()

        stand_in.pause()
        await town.ask("a", 3)
        begun = await town.move()
        assert begun["metadata"]["annotations"][TARGET_NODE] == away
        await town.seize("trifle", away, 1, priorityClassName=trifle)
        await town.seize("stranger", away, 7)
        stand_in.resume()
        await town.refused(begun)
        await town.leave("first")
        await town.granted("a", 3)
        await gone(api, town.own(MIGRATIONS, name(begun)))
        for each in ("trifle", "stranger"):
            await town.leave(each)
        await eventually(work.pods, lambda pods: len(pods) == 3)

        await town.ask("a", 6)
        copying = await town.move(_copies)
        await town.granted("a", 5)
        await town.leave("second")
        await town.granted("a", 6)
        await gone(api, town.own(MIGRATIONS, name(copying)))
        back = await town.runs("b")
        assert (back["podName"], back["node"]) == (at_home["podName"], home)
        await gone(api, core(work.namespace, "pods", copying["status"]["targetPodName"]))
        assert len(await work.pods()) == 2, "of a and of b"


def _copies(move: Json) -> bool:
    ram = move.get("status", {}).get("info", {}).get("ram", {})
    return bool(ram.get("remaining", 0) < ram.get("total", 0))

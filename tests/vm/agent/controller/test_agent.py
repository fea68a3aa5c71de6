"""One agent: which machines it runs, and the whole way from an annotation to a size on an embedded server (C35)."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from itertools import pairwise
from operator import eq
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from situate.embedded.embedded_server import EmbeddedServer, Settings
from situate.kube.client import Client
from situate.kube.connect import connect
from situate.kube.errors import Unreachable
from situate.kube.login.connection import Connection
from situate.kube.patches import MergePatch
from situate.objects.kinds.unstructured import unstructured_from
from situate.objects.messages import Request, Response
from situate.objects.resources import CUSTOMRESOURCEDEFINITIONS, PODS
from situate.objects.settings.section import parse_section
from situate.vm.agent.controller.agent import Agent
from situate.vm.agent.controller.load_sources import select_load_source
from situate.vm.agent.controller.machine_writer import VmWriter
from situate.vm.agent.controller.metrics import AgentMetrics
from situate.vm.agent.controller.permit_client import PermitClient
from situate.vm.agent.controller.runner import RunnerDependencies
from situate.vm.agent.controller.scheduler_lookup import SchedulerPods
from situate.vm.agent.controller.stand_in_monitor import StandInMonitor
from situate.vm.agent.model.settings import AgentSettings
from situate.vm.backends.neonvm import MACHINES
from situate.vm.emulator.crds import virtual_machine
from tests.contract.waiting import eventually
from tests.kube.servers import serving
from tests.vm.agent.builders import vm_content

LOAD = "vm.situate.dev/load"
QUICK: dict[str, Any] = {
    "monitor": {"kind": "standIn"},
    "metrics": {"source": "annotation", "system": {"secondsBetweenRequests": 0.05}},
    "scheduler": {"tokenFile": None, "requestTimeoutSeconds": 60, "requestAtLeastEverySeconds": 100},
}


class Rig:
    """A server with one machine, a scheduler that grants what it is asked for, and an agent."""

    def __init__(self, client: Client, agent: Agent) -> None:
        self.client, self.agent = client, agent
        self.asked: list[dict[str, Any]] = []
        self.events: list[tuple[str, str]] = []

    async def machine(self) -> dict[str, Any]:
        return (await self.client.get(MACHINES, "a", "default")).content

    async def load(self, text: str) -> None:
        await self.annotate({LOAD: text})

    async def annotate(self, annotations: dict[str, str]) -> None:
        await self.client.patch(MACHINES, "a", MergePatch({"metadata": {"annotations": annotations}}), "default")

    async def size(self) -> tuple[Any, Any]:
        guest = (await self.machine())["spec"]["guest"]
        return guest["cpus"]["use"], guest["memorySlots"]["use"]


async def made(client: Client, content: dict[str, Any]) -> None:
    """With its status."""
    content["metadata"].pop("uid"), content["metadata"].pop("generation")
    await client.create(MACHINES, content, "default")
    await client.patch_status(MACHINES, "a", MergePatch({"status": content["status"]}), "default")


@asynccontextmanager
async def rig(*, defined: bool = True) -> AsyncIterator[Rig]:
    granted: list[dict[str, Any]] = []

    async def grant(request: web.Request) -> web.Response:
        granted.append(await request.json())
        return web.json_response({"permit": granted[-1]["resources"]})

    async with (
        EmbeddedServer(Settings(machinery=None, seed=1)) as server,
        serving(grant) as port,
        aiohttp.ClientSession() as session,
    ):
        client = connect(Connection(server.url, "the test"), random.Random(1))
        if defined:
            await client.create(CUSTOMRESOURCEDEFINITIONS, virtual_machine())
        settings, mistakes = parse_section(
            {**QUICK, "scheduler": {**QUICK["scheduler"], "requestPort": port}}, AgentSettings
        )
        assert settings is not None, mistakes
        pods = SchedulerPods(client, settings.scheduler, random.Random(2))
        permits = PermitClient(settings.scheduler, pods.find)
        loop = asyncio.get_running_loop()
        tools = RunnerDependencies(
            settings,
            permits,
            VmWriter(client, 60.0, settings.scaling),
            select_load_source(settings.metrics, session),
            lambda _, system, alive: StandInMonitor(system, alive),
            AgentMetrics(CollectorRegistry()),
            lambda: round(loop.time() * 1000) + 1_767_225_600_000,
        )
        events: list[tuple[str, str]] = []
        agent = Agent(
            client,
            "n1",
            tools,
            record=lambda about, _, reason, message: events.append((f"{about.name} {reason}", message)),
            rng=random.Random(3),
        )
        made_rig = Rig(client, agent)
        made_rig.asked, made_rig.events = granted, events
        tasks = [asyncio.create_task(each) for each in (pods.reflector.run(), agent.run())]
        try:
            yield made_rig
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            await permits.close()
            await client.close()


async def ready_scheduler(client: Client) -> None:
    """A pod as the holder of the lease has it (C17)."""
    container = {"name": "scheduler", "image": "situate"}
    metadata = {"name": "scheduler-0", "labels": {"name": "situate-vm"}}
    await client.create(PODS, {"metadata": metadata, "spec": {"containers": [container]}}, "kube-system")
    status = {"phase": "Running", "podIP": "127.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]}
    await client.patch_status(PODS, "scheduler-0", MergePatch({"status": status}), "kube-system")


@pytest.mark.rule("vm:C17", "vm:C35", "vm:C39", "vm:C40", "vm:C2")
async def test_a_load_that_rises_in_an_annotation_becomes_a_size() -> None:
    async with rig() as found:
        await ready_scheduler(found.client)
        await made(found.client, vm_content(use=1))
        await found.load('{"load1": 0.6, "memoryUsed": 0}')
        assert await eventually(found.size, lambda size: size[1] == 3) == ("750m", 3)
        machine = await found.machine()
        assert machine["spec"]["targetRevision"]["revision"]["value"] > 4
        first, second = found.asked[0], found.asked[1]
        assert (first["pod"], first["lastPermit"]) == ({"namespace": "default", "name": "vm-a-x"}, None)
        assert (second["resources"], second["lowersAtOnce"]) == ({"vCPUs": "750m", "mem": "3Gi"}, True)
        status = {"status": {"cpus": "750m", "memorySize": "3Gi"}}
        await found.client.patch_status(MACHINES, "a", MergePatch(status), "default")
        await found.load('{"load1": 0, "memoryUsed": 0}')
        assert await eventually(found.size, lambda size: size[1] == 1) == ("250m", 1)


async def test_without_the_definition_it_is_said_what_adds_it() -> None:
    with capture_logs() as logs:
        async with rig(defined=False) as found:
            said = await eventually(partial(_missing, logs))
            assert [each["next_step"] for each in said] == ["situate crds vm | kubectl apply --server-side -f -"]
            assert found.agent.not_ready() is not None


async def _missing(logs: list[Any]) -> list[Any]:
    return [each for each in logs if each["event"] == "VirtualMachines not served by the cluster"]


async def test_that_there_is_no_node_of_its_name_is_said_once() -> None:
    async def told(logs: list[Any]) -> list[Any]:
        return [each for each in logs if each["event"] == "node not found, waiting for it"]

    with capture_logs() as logs:
        async with rig() as found:
            (said,) = await eventually(partial(told, logs))
            assert (said["node"], said["log_level"]) == ("n1", "warning")
            assert "kubectl get nodes" in said["next_step"]
            await made(found.client, vm_content(use=1))

            async def running() -> int:
                return len(found.agent.runners)

            assert await eventually(running) == 1, "it looks after what is there all the same"
            assert len(await told(logs)) == 1


@pytest.mark.rule("vm:C35", "vm:D13")
async def test_a_machine_is_left_when_it_migrates_and_taken_up_when_it_is_back() -> None:
    async with rig() as found:
        await made(found.client, vm_content(use=1))

        async def running() -> int:
            return len(found.agent.runners)

        await eventually(running)
        for phase, number in (("Migrating", 0), ("Running", 1)):
            status = MergePatch({"status": {"phase": phase}})
            await found.client.patch_status(MACHINES, "a", status, "default")
            await eventually(running, partial(eq, number))


async def test_what_a_machine_says_wrongly_is_an_event_and_it_keeps_what_it_has() -> None:
    async with rig() as found:
        await made(found.client, vm_content(use=1))
        await found.annotate({"autoscaling.neon.tech/config": '{"loadAverage": 1}'})

        async def events() -> list[tuple[str, str]]:
            return found.events

        ((what, message),) = await eventually(events)
        assert what == "a Unreadable"
        assert "loadAverage" in message
        assert len(found.agent.runners) == 1


class Nobody:
    """A transport without a server."""

    async def send(self, request: Request, *, timeout_s: float = 30.0) -> Response:
        raise Unreachable(f"nobody answers {request.path} within {timeout_s}", outcome_unknown=False)

    def stream(self, request: Request, *, timeout_s: float = 30.0) -> Any:
        @asynccontextmanager
        async def opened() -> AsyncIterator[Any]:
            raise Unreachable(f"nobody answers {request.path} within {timeout_s}", outcome_unknown=False)
            yield

        return opened()

    async def close(self) -> None:
        pass


class Broken:
    """A monitor with a defect of ours in it."""

    def __init__(self, began: list[float]) -> None:
        self._began = began

    async def run(self, connected: Callable[[], None], wants_more: Callable[[], None]) -> None:
        self._began.append(asyncio.get_running_loop().time())
        if len(self._began) <= 3:
            raise ZeroDivisionError("a defect")
        connected()
        await asyncio.get_running_loop().create_future()

    async def upscale(self, granted: Any) -> None: ...

    async def downscale(self, target: Any) -> Any: ...


@asynccontextmanager
async def alone(
    monitor: Any,
    registry: CollectorRegistry,
    node: str | None = None,
    record: Callable[..., None] = lambda *_: None,
) -> AsyncIterator[Agent]:
    """An agent on virtual time without a server: what it sees is put into its store."""
    settings, _ = parse_section(QUICK, AgentSettings)
    assert settings is not None
    client = Client(Nobody())
    loop = asyncio.get_running_loop()
    async with aiohttp.ClientSession() as session:
        tools = RunnerDependencies(
            settings,
            PermitClient(settings.scheduler, lambda: None),
            VmWriter(client, 1.0, settings.scaling),
            select_load_source(settings.metrics, session),
            lambda *_: monitor,
            AgentMetrics(registry),
            lambda: round(loop.time() * 1000),
        )
        agent = Agent(client, node, tools, record=record, rng=random.Random(5))
        task = asyncio.create_task(agent.run())
        await asyncio.sleep(0.1)
        try:
            yield agent
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


@pytest.mark.rule("vm:C35")
@pytest.mark.looptime
async def test_one_run_is_of_one_pod_at_one_address() -> None:
    registry = CollectorRegistry()
    async with alone(Broken([0.0] * 3), registry) as agent:

        def shown(**changed: Any) -> Any:
            content = vm_content(use=1, **changed)
            content["status"]["podName"] = changed.get("podName", "vm-a-x")
            agent.reflector.store.put(unstructured_from(content))
            return agent.runners[0] if agent.runners else None

        first = shown()
        assert first is not None
        assert shown(annotations={LOAD: "1"}) is first
        with capture_logs() as logs:
            assert shown(cpus={}) is first, "one that cannot be read is not let go"
        assert [each["event"] for each in logs][-1] == "VM unreadable, last known state kept"
        elsewhere = shown(podIP="10.0.0.8")
        assert elsewhere not in (None, first)
        moved = shown(podIP="10.0.0.8", podName="vm-a-y")
        assert moved not in (None, first, elsewhere)
        assert registry.get_sample_value("situate_vm_agent_machines") == 1
        assert shown(schedulerName="another") is None
        assert shown() is not None
        agent.reflector.store.remove("a", "default")
        assert agent.runners == ()
        assert registry.get_sample_value("situate_vm_agent_machines") == 0


@pytest.mark.rule("vm:C35")
@pytest.mark.looptime
async def test_of_many_agents_the_one_on_its_node_says_what_is_wrong_with_a_machine() -> None:
    said: list[str] = []
    broken: dict[str, Any] = {"annotations": {"autoscaling.neon.tech/config": "no JSON"}}

    def record(*told: Any) -> None:
        said.append(told[3])

    async with alone(Broken([0.0] * 3), CollectorRegistry(), "n1", record) as agent:
        for where, number in (("n2", 0), ("n1", 1), ("n1", 1), ("n2", 1), ("n1", 2)):
            agent.reflector.store.put(unstructured_from(vm_content(use=1, node=where, **broken)))
            assert len(said) == number
        agent.reflector.store.put(unstructured_from(vm_content(use=1, node="n2", cpus={})))
        assert len(said) == 2
        agent.reflector.store.put(unstructured_from(vm_content(use=1, node="n1", cpus={})))
        assert len(said) == 3, "also one that cannot be read at all"


@pytest.mark.rule("vm:C35")
@pytest.mark.looptime
async def test_a_runner_that_fails_begins_again_after_five_to_ten_seconds() -> None:
    began: list[float] = []
    registry = CollectorRegistry()
    with capture_logs() as logs:
        async with alone(Broken(began), registry) as agent:
            agent.reflector.store.put(unstructured_from(vm_content(use=1)))
            await asyncio.sleep(60)
    waits = [later - earlier for earlier, later in pairwise(began)]
    assert len(waits) == 3
    assert all(5 <= each <= 10.1 for each in waits), waits
    assert len(set(map(round, waits))) > 1, "all waits are alike: there is no jitter"
    assert registry.get_sample_value("situate_vm_agent_restarts_total") == 3
    assert (
        json.dumps([each for each in logs if each["log_level"] == "error"], default=str).count("VM handling failed")
        == 3
    )

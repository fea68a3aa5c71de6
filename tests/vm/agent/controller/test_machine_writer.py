"""Sizes on their way to an API server: what is tried again, and what of a write is known afterwards (C39, D13)."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from typing import Any

import pytest

from situate.embedded.embedded_server import EmbeddedServer, Settings
from situate.kube.client import Client
from situate.kube.connect import connect
from situate.kube.errors import Unreachable
from situate.kube.login.connection import Connection
from situate.kube.patches import MergePatch
from situate.objects.kinds.unstructured import unstructured_from
from situate.objects.messages import Request, Response
from situate.objects.resources import CUSTOMRESOURCEDEFINITIONS
from situate.vm.agent.controller.machine_writer import VmWriter, WriteFailure, WrittenMachine
from situate.vm.agent.decide.core import SizeChange
from situate.vm.agent.decide.scaling import DEFAULT_SCALING
from situate.vm.agent.model.revisions import Revision, RevisionAt
from situate.vm.agent.protocol.machines import MachineSnapshot, parse_machine
from situate.vm.backends.neonvm import MACHINES
from situate.vm.emulator.crds import virtual_machine
from tests.vm.agent.builders import units, vm_content
from tests.waiting import WITHIN_S

CHANGE = SizeChange(units(1), units(3), RevisionAt(Revision(5, 1), 1_767_225_600_000))


class Api:
    """A server with one machine of a unit."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.writer = VmWriter(client, WITHIN_S, DEFAULT_SCALING)

    async def create(self, **changed: Any) -> None:
        content = vm_content(use=1, **changed)
        content["metadata"].pop("uid"), content["metadata"].pop("generation")
        await self.client.create(MACHINES, content, "default")
        await self.client.patch_status(MACHINES, "a", MergePatch({"status": content["status"]}), "default")

    async def delete(self) -> None:
        await self.client.delete(MACHINES, "a", "default")

    async def says(self, phase: str) -> None:
        await self.client.patch_status(MACHINES, "a", MergePatch({"status": {"phase": phase}}), "default")

    async def now(self) -> MachineSnapshot:
        found = parse_machine(await self.client.get(MACHINES, "a", "default"), DEFAULT_SCALING).value
        assert found is not None
        return found


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    async with EmbeddedServer(Settings(machinery=None, seed=1)) as server:
        client = connect(Connection(server.url, "the test"), random.Random(1))
        await client.create(CUSTOMRESOURCEDEFINITIONS, virtual_machine())
        made = Api(client)
        await made.create()
        yield made
        await client.close()


@pytest.mark.rule("vm:C39")
async def test_a_phase_between_running_and_scaling_is_no_reason_to_wait(api: Api) -> None:
    before = await api.now()
    await api.says("Scaling")
    written = await api.writer.write(before, CHANGE)
    assert isinstance(written, WrittenMachine)
    assert (await api.now()).guest.use == units(3)


@pytest.mark.rule("vm:D13", "vm:I14")
@pytest.mark.parametrize("phase", ["PreMigrating", "Migrating"])
async def test_one_that_is_being_moved_by_now_is_not_written(api: Api, phase: str) -> None:
    before = await api.now()
    await api.says(phase)
    written = await api.writer.write(before, CHANGE)
    assert isinstance(written, WriteFailure)
    assert not written.unclear
    assert (await api.now()).guest.use == units(1)


@pytest.mark.rule("vm:F9", "vm:B44")
@pytest.mark.parametrize("phase", ["Running", "Scaling"])
async def test_another_one_of_the_same_name_is_not_written(api: Api, phase: str) -> None:
    before = await api.now()
    await api.delete()
    assert await api.writer.look(before) is None
    gone = await api.writer.write(before, CHANGE)
    assert isinstance(gone, WriteFailure)
    assert not gone.unclear
    await api.create(phase=phase)
    assert isinstance(await api.writer.write(before, CHANGE), WriteFailure)
    assert (await api.now()).guest.use == units(1)


@pytest.mark.rule("vm:C39")
async def test_what_somebody_else_wrote_meanwhile_stands(api: Api) -> None:
    before = await api.now()
    sizes = MergePatch({"spec": {"guest": {"cpus": {"use": "500m"}, "memorySlots": {"use": 2}}}})
    await api.client.patch(MACHINES, "a", sizes, "default")
    await api.says("Scaling")
    written = await api.writer.write(before, CHANGE)
    assert isinstance(written, WriteFailure)
    assert "another client changed the size" in written.why
    assert (await api.now()).guest.use == units(2)


class Lossy:
    """A transport on which no answer comes."""

    def __init__(self, unknown: bool | None) -> None:
        """None: it is waited for in vain."""
        self._unknown = unknown

    async def send(self, request: Request, *, timeout_s: float = 30.0) -> Response:
        if self._unknown is None:
            await asyncio.sleep(timeout_s)
        raise Unreachable(f"{request.path} was lost", outcome_unknown=self._unknown is not False)

    def stream(self, request: Request, *, timeout_s: float = 30.0) -> Any:
        raise AssertionError("nothing is watched")

    async def close(self) -> None:
        pass


@pytest.mark.rule("vm:F1", "vm:D23")
@pytest.mark.looptime
@pytest.mark.parametrize(("unknown", "unclear"), [(None, True), (True, True), (False, False)])
async def test_whether_it_may_have_been_written_all_the_same_is_told(unknown: bool | None, unclear: bool) -> None:
    machine = parse_machine(unstructured_from(vm_content(use=1)), DEFAULT_SCALING).value
    assert machine is not None
    writer = VmWriter(Client(Lossy(unknown)), 10.0, DEFAULT_SCALING)
    written = await writer.write(machine, CHANGE)
    assert isinstance(written, WriteFailure)
    assert written.unclear is unclear
    assert asyncio.get_running_loop().time() <= 10.0, "C39: a VM patch is waited for so long"
    assert await writer.look(machine) is None

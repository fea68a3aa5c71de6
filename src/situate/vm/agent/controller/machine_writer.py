"""Writes of a VM's size to its VirtualMachine, and their outcomes (C39)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from situate.kube.client import Client
from situate.kube.errors import Invalid, KubeError, NotFound, Unreachable, UnreadableAnswer
from situate.kube.patches import JsonPatch
from situate.objects.kinds.unstructured import Unstructured
from situate.vm.agent.decide.core import SizeChange
from situate.vm.agent.decide.scaling import Scaling
from situate.vm.agent.protocol.machines import RUNNING_PHASES, MachineSnapshot, parse_machine, size_patch
from situate.vm.backends.neonvm import MACHINES


@dataclass(frozen=True, slots=True)
class WrittenMachine:
    """The object as the server has it now."""

    machine: Unstructured


@dataclass(frozen=True, slots=True)
class WriteFailure:
    why: str
    unclear: bool = False
    """The write may have been stored."""


class VmWriter:
    """Writer for all VMs of a process."""

    def __init__(self, client: Client, timeout_s: float, defaults: Scaling) -> None:
        self._client = client
        self._timeout_s = timeout_s
        self._defaults = defaults

    async def write(self, machine: MachineSnapshot, change: SizeChange) -> WrittenMachine | WriteFailure:
        """Write the size. Retry once if only the phase changed between Running and Scaling."""
        written = await self._patch(machine, change)
        if not isinstance(written, Invalid):
            return written
        newer = await self.look(machine)
        if newer is None:
            return WriteFailure(str(written))
        again = parse_machine(newer, self._defaults).value
        if (
            again is None
            or again.ref != machine.ref
            or again.phase not in RUNNING_PHASES
            or again.phase == machine.phase
        ):
            return WriteFailure(str(written))
        if again.guest.use != machine.guest.use:
            return WriteFailure(f"another client changed the size meanwhile: {written}")
        second = await self._patch(again, change)
        return WriteFailure(str(second)) if isinstance(second, Invalid) else second

    async def look(self, machine: MachineSnapshot) -> Unstructured | None:
        """Return the current object; None: it is gone, or the server does not answer."""
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._client.get(MACHINES, machine.ref.name, machine.ref.namespace)
        except (KubeError, TimeoutError):
            return None

    async def _patch(self, machine: MachineSnapshot, change: SizeChange) -> WrittenMachine | WriteFailure | Invalid:
        patch = JsonPatch(size_patch(machine, change))
        try:
            async with asyncio.timeout(self._timeout_s):
                return WrittenMachine(
                    await self._client.patch(MACHINES, machine.ref.name, patch, machine.ref.namespace)
                )
        except Invalid as refused:
            return refused
        except NotFound as gone:
            return WriteFailure(str(gone))
        except TimeoutError:
            return WriteFailure(f"the API server did not answer within {self._timeout_s:g} s", unclear=True)
        except (Unreachable, UnreadableAnswer) as problem:
            return WriteFailure(str(problem), unclear=getattr(problem, "outcome_unknown", True))
        except KubeError as problem:
            return WriteFailure(str(problem), unclear=problem.retriable)

"""The agent: finds the VMs of its node and runs one runner for each (C35)."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass
from typing import Final

import structlog

from situate.kube.client import Client
from situate.kube.errors import KubeError, NotFound
from situate.kube.events import WARNING, RecordEvent, reference
from situate.kube.watch.reflector import Reflector
from situate.kube.watch.store import Store
from situate.objects.kinds.unstructured import Unstructured
from situate.objects.resources import NODES
from situate.vm.agent.controller.runner import Runner, RunnerDependencies
from situate.vm.agent.model.settings import MAX_JITTER_MS
from situate.vm.agent.protocol.machines import MachineSnapshot, is_handled, parse_machine
from situate.vm.api.parse_errors import ParseError
from situate.vm.backends.neonvm import MACHINES
from situate.vm.model.pods_and_nodes import Ref

RESTART_S: Final = (5.0, 10.0)
"""Limits of the random time until a failed runner restarts."""


@dataclass(slots=True)
class _RunnerTask:
    runner: Runner
    task: asyncio.Task[None]


class Agent:
    """Service of one agent."""

    name = "vm agent"

    def __init__(
        self,
        client: Client,
        node: str | None,
        tools: RunnerDependencies,
        *,
        record: RecordEvent,
        rng: random.Random,
    ) -> None:
        """`node` None: all nodes. `record` writes an Event."""
        self._client = client
        self._node = node
        self._tools = tools
        self._record = record
        self._rng = rng
        self._store: Store[Unstructured] = Store("virtualmachines")
        self.reflector = Reflector(client, MACHINES, self._store, rng=rng)
        self._running: dict[tuple[str, str], _RunnerTask] = {}
        self._reported_errors: dict[tuple[str, str], tuple[ParseError, ...]] = {}
        self._group: asyncio.TaskGroup | None = None
        self._log = structlog.get_logger().bind(node=node)

    @property
    def runners(self) -> tuple[Runner, ...]:
        return tuple(each.runner for each in self._running.values())

    def not_ready(self) -> str | None:
        """Return why the agent is not ready."""
        return self.reflector.not_ready()

    async def run(self) -> None:
        """Run until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            self._store.on_change(self._on_machine_change)
            group.create_task(self.reflector.run())
            group.create_task(self._warn_if_not_served())
            if self._node is not None:
                group.create_task(self._warn_if_node_missing(self._node))

    async def _warn_if_not_served(self) -> None:
        await self.reflector.not_served.wait()
        self._log.error(
            "VirtualMachines not served by the cluster", next_step="situate crds vm | kubectl apply --server-side -f -"
        )

    async def _warn_if_node_missing(self, name: str) -> None:
        """Warn once if the node does not exist, for instance because its name is mistyped. It may appear later."""
        await self._store.wait_synced()
        try:
            await self._client.get(NODES, name)
        except NotFound:
            self._log.warning(
                "node not found, waiting for it",
                next_step="list the nodes with kubectl get nodes and name one with --node",
            )
        except KubeError as problem:  # nothing else depends on this check
            self._log.debug("node lookup failed", reason=str(problem))

    def _on_machine_change(self, old: Unstructured | None, new: Unstructured | None) -> None:
        known = new if new is not None else old
        assert known is not None, "a change has an old or a new object"
        key = (known.metadata.namespace, known.metadata.name)
        machine = None if new is None else self._read(key, new)
        running = self._running.get(key)
        wanted = machine is not None and is_handled(machine, self._node, self._tools.settings.scheduler.scheduler_name)
        if machine is None or not wanted:
            if running is not None and (new is None or machine is not None):
                self._stop_runner(key)
            elif running is not None:
                self._log.warning("VM unreadable, last known state kept", machine="/".join(key))
        elif running is not None and _identity(running.runner.machine) == _identity(machine):
            running.runner.update(machine)
        else:
            self._stop_runner(key)
            self._start_runner(key, machine)
        if new is None:
            self._reported_errors.pop(key, None)

    def _read(self, key: tuple[str, str], machine: Unstructured) -> MachineSnapshot | None:
        """Parse a VM. Only the agent of its node reports errors."""
        found = parse_machine(machine, self._tools.settings.scaling)
        if self._node not in (None, _node_of(machine)):
            self._reported_errors.pop(key, None)
        elif found.errors != self._reported_errors.get(key, ()):
            self._reported_errors[key] = found.errors
            for each in found.errors:
                self._log.warning("unreadable field on VM", machine="/".join(key), reason=str(each))
                self._record(reference(MACHINES, machine), WARNING, "Unreadable", str(each))
        return found.value

    def _start_runner(self, key: tuple[str, str], machine: MachineSnapshot) -> None:
        runner = self._make_runner(machine)
        assert self._group is not None, "the agent is not running"
        task = self._group.create_task(self._run_with_restarts(key, runner), name=f"vm {machine.ref}")
        self._running[key] = _RunnerTask(runner, task)
        self._tools.metrics.set_machines(len(self._running))

    def _stop_runner(self, key: tuple[str, str]) -> None:
        running = self._running.pop(key, None)
        if running is not None:
            running.task.cancel()
            self._tools.metrics.set_machines(len(self._running))
            self._log.info("VM handling stopped", machine="/".join(key))

    async def _run_with_restarts(self, key: tuple[str, str], runner: Runner) -> None:
        """Keep a runner running. A failure is an internal error, logged each time, and restarts the runner."""
        while True:
            try:
                await runner.run()
            except Exception:
                wait_s = self._rng.uniform(*RESTART_S)
                self._tools.metrics.count_restart()
                self._log.exception("VM handling failed, restarting", machine="/".join(key), seconds=wait_s)
                await asyncio.sleep(wait_s)
                newest = self._store.get(key[1], key[0])
                machine = None if newest is None else parse_machine(newest, self._tools.settings.scaling).value
                runner = self._running[key].runner = self._make_runner(machine or runner.machine)

    def _make_runner(self, machine: MachineSnapshot) -> Runner:
        config = self._tools.settings.config(self._rng.randint(0, MAX_JITTER_MS))
        return Runner(machine, self._tools, config, f"{self._rng.getrandbits(64):016x}")


def _node_of(machine: Unstructured) -> object:
    """Return the node, also of a VM that is unreadable otherwise."""
    status = machine.content.get("status")
    return status.get("node") if isinstance(status, dict) else None


def _identity(machine: MachineSnapshot) -> tuple[Ref, str, str]:
    """Return the identity of a run: another Pod or another address needs another run."""
    return machine.ref, machine.pod, machine.ip

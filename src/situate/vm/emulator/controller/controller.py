"""The emulator as a service: it always watches, and reconciles and writes while it leads.

All state between two reconciliations is in the watched objects. So a new leader or a restarted process continues from
them. Two reconciliations of one key never overlap, and each sees the answers to earlier writes of this process.
"""

from __future__ import annotations

import asyncio
from typing import Final

import structlog

from situate.kube.election.election import Leadership
from situate.kube.election.lease_record import LeaseName
from situate.kube.errors import KubeError
from situate.kube.events import RecordEvent
from situate.kube.queries.discovery import discover
from situate.kube.retry.backoff import Backoff
from situate.runtime.leadership.leader import ControllerContext, Leader
from situate.runtime.reconcile.outcomes import DONE, Result
from situate.runtime.reconcile.reconciler import Reconciler
from situate.runtime.reconcile.workqueue import WorkQueue
from situate.vm.emulator import Key, Kind, Settings, reconcile_object
from situate.vm.emulator.controller.apply import EmulatorApplier
from situate.vm.emulator.controller.informers import RESOURCES, EmulatorInformers

LEASE: Final = "situate-vm-machines"
_WORKERS: Final = 8
_MISSING: Final = Backoff(initial_s=0.5, cap_s=10.0)
_RETRY: Final = Backoff(initial_s=0.005, cap_s=10.0, jitter=0.25)
"""Longest wait of a VM after its user has corrected it."""


class MachinesController:
    """Service: `run` until `stop` or cancellation, which also release the Lease."""

    name = "vm machines"

    def __init__(
        self,
        settings: Settings,
        context: ControllerContext,
        *,
        record: RecordEvent,
        namespace: str | None = None,
    ) -> None:
        """`namespace`: of VMs, None: all."""
        self._client = context.client
        self._settings = settings
        self._wall = context.wall
        self._rng = context.rng
        self._problem: str | None = "the API server has not been checked for VirtualMachines yet"
        self._stopping = asyncio.Event()
        self.informers = EmulatorInformers(context.client, context.rng, namespace)
        self.queue: WorkQueue[Key] = WorkQueue(rng=context.rng, backoff=_RETRY)
        self.leader = Leader(self.name, context, LeaseName(context.candidacy.namespace, LEASE), self._lead)
        self._applier = EmulatorApplier(self.leader.client, self.informers, self.leader.actuator, record)
        self.informers.on_change(self._enqueue)
        self._log = structlog.get_logger().bind(controller=self.name)

    async def run(self) -> None:
        """Wait for the definitions, then watch and take part in the election. Raises internal errors."""
        if await self._wait_for_definitions():
            await self.leader.run(self.informers.reflectors.values())

    def stop(self) -> None:
        """End `run` in order: calls in flight are finished or refused, and the Lease is released."""
        self._stopping.set()
        self.leader.stop()

    def not_ready(self) -> str | None:
        """Return why it is not ready. A standby with complete lists is ready."""
        return self._problem or self.informers.not_ready()

    async def reconcile(self, key: Key) -> Result:
        """Reconcile one object, and send its write."""
        now = self._wall().timestamp()
        looked = reconcile_object(self.informers, key, now, self._settings)
        if looked.write is not None:
            await self._applier.apply(looked.write)
        if looked.requeue_at is None:
            return DONE
        return Result(requeue_after=max(0.0, looked.requeue_at - self._wall().timestamp()))

    async def _wait_for_definitions(self) -> bool:
        """Wait until the server serves both kinds. False: it was stopped before."""
        failures = 0
        while not self._stopping.is_set():
            problem = await self._missing_definition()
            if problem is None:
                self._problem = None
                return True
            if problem != self._problem:
                self._log.warning("VirtualMachines not available yet, retrying", error=problem)
            self._problem = problem
            failures += 1
            try:
                async with asyncio.timeout(_MISSING.delay_s(failures, self._rng)):
                    await self._stopping.wait()
            except TimeoutError:
                continue
        return False

    async def _missing_definition(self) -> str | None:
        for kind in (Kind.MACHINE, Kind.MIGRATION):
            resource = RESOURCES[kind]
            try:
                served = await discover(self._client, resource.group, resource.version, resource.plural)
            except KubeError as problem:
                return str(problem)
            if served is None:
                return (
                    f"the cluster does not serve {resource.group_resource}; "
                    "install it: situate crds vm | kubectl apply --server-side -f -"
                )
        return None

    async def _lead(self, _: Leadership) -> None:
        """Run one term. Nothing is written before everything has been listed again."""
        await self.leader.relist(self.informers)
        for key in self.informers.all_keys():
            self.queue.add(key)
        await Reconciler(self.name, self.queue, self.reconcile, workers=_WORKERS).run()

    def _enqueue(self, key: Key) -> None:
        if self.leader.leadership is not None:
            self.queue.add(key)

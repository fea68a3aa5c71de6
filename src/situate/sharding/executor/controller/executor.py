"""Run handlers for the objects assigned to this incarnation: a fenced version of KSched's `Executor`.

This module connects the parts and shuts them down. `objects` performs the steps of each object. `readiness` and `lease`
decide whether the executor may work.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from situate.kube.client import Client
from situate.kube.connect import connect, find_connection
from situate.kube.watch.reflector import Reflector
from situate.kube.watch.store import Store
from situate.objects.kinds.unstructured import Unstructured
from situate.runtime.process.manager import Manager
from situate.runtime.reconcile.outcomes import Result
from situate.runtime.reconcile.reconciler import Reconciler
from situate.sharding.executor.config import ExecutorConfig, ExecutorIdentity
from situate.sharding.executor.controller.environment import REAL_ENVIRONMENT, RuntimeEnvironment
from situate.sharding.executor.controller.lease import (
    LeaseCallbacks,
    LeaseIdentity,
    LeaseKeeper,
    LeaseThread,
    LoopHeartbeat,
)
from situate.sharding.executor.controller.objects import AssignedObjects, Request
from situate.sharding.executor.controller.readiness import TenureStarter
from situate.sharding.executor.controller.runs import Handler
from situate.sharding.executor.controller.work import FencedWriter, ObjectKind
from situate.sharding.leases.executor_report import ExecutorReport
from situate.sharding.leases.tenure import Tenure
from situate.sharding.model.field_paths import Content

_MOST_WORKERS: Final = 32


def connect_default_cluster() -> Client:
    """Return a client of the cluster of this Pod, or else of the cluster that kubectl would use."""
    return connect(find_connection(), random.Random())


class Executor:
    """A service: `run` until `stop`, which drains. `setup` adds it to a manager.

    executor = Executor(identity, handler, config, connect)
    executor.setup(manager)
    """

    def __init__(
        self,
        identity: ExecutorIdentity,
        handler: Handler,
        config: ExecutorConfig,
        connect: Callable[[], Client] = connect_default_cluster,
        surroundings: RuntimeEnvironment = REAL_ENVIRONMENT,
    ) -> None:
        """`connect` makes a client in the calling event loop: one for the work, one for the Lease."""
        self.identity = identity
        self.config = config
        self.name = f"executor {identity.id}"
        self.tenure = Tenure(config.times)
        self.store: Store[Unstructured] = Store(config.resource.plural)
        """Objects that are assigned to this executor's id."""
        self._connect = connect
        self._environment = surroundings
        self._objects = AssignedObjects(self.name, identity.incarnation, handler, config, self.tenure, surroundings)
        self._heartbeat = LoopHeartbeat(surroundings.now, config.stall_limit)
        self._begun = asyncio.Event()
        self._stopping = asyncio.Event()
        self._report = ExecutorReport(capacity=config.capacity)
        self._reflector: Reflector[Unstructured] | None = None
        self._keeper: LeaseKeeper | None = None
        self._thread: LeaseThread | None = None
        self.store.on_change(self._objects.handle_change)

    def setup(self, manager: Manager) -> None:
        """Add the executor to the manager. Later services start when the lease is held and the objects are listed."""
        manager.add(self, ready=self.wait_first_tenure)

    async def wait_first_tenure(self) -> None:
        """Wait until the executor may work for the first time."""
        await self._begun.wait()

    def not_ready(self) -> str | None:
        """Return why the executor may not work now, for the readiness probe; None if it may."""
        if self.tenure.is_valid(self._environment.now()):
            return None
        watching = self._reflector.not_ready() if self._reflector is not None else "the executor has not started"
        leasing = self._keeper.problem if self._keeper is not None else None
        return f"{self.name} holds no valid Lease: {watching or leasing or 'the Lease was not renewed in time'}"

    def stop(self) -> None:
        """End `run` after every handler has stopped, every object is released, and the Lease is released."""
        self._stopping.set()

    def owns(self, obj: Content | None = None, /, **kopf: Any) -> bool:
        """Return whether this process may work on the object now. Kopf's handlers call it as `when=`, with `body`."""
        return self._objects.may_work_on(obj if obj is not None else kopf["body"])

    async def reconcile(self, request: Request) -> Result:
        """Examine one object and take its next step."""
        return await self._objects.reconcile(request)

    async def run(self) -> None:
        """Run until `stop`, then stop the handlers, release the objects, and release the Lease.

        If the task is cancelled, stop the handlers, and release the Lease if none is left.
        """
        client = self._connect()
        reflector = self._reflector = self._make_reflector(client)
        kind = ObjectKind(self.config.resource, self.config.adapter, self.config.status_subresource)
        me, around = self.identity.incarnation, self._environment
        self._objects.writer = FencedWriter(client, kind, me, wall=around.wall, learn=reflector.learn)
        workers = max(2, min(self.config.concurrency, _MOST_WORKERS))
        reconciler = Reconciler(self.name, self._objects.queue, self.reconcile, workers=workers)
        minding = TenureStarter(
            self.name, self.tenure, reflector, self._objects, lambda: self._keeper, self._begun, around.now
        )
        lease = asyncio.create_task(self._keep_lease(), name=f"{self.name}: lease")
        others = [
            asyncio.create_task(reflector.run(), name=reflector.name),
            asyncio.create_task(reconciler.run(), name=f"{self.name}: objects"),
            asyncio.create_task(minding.run(), name=f"{self.name}: tenure"),
            asyncio.create_task(self._record_heartbeats(), name=f"{self.name}: heart"),
        ]
        draining = asyncio.create_task(self._drain(), name=f"{self.name}: drain")
        try:
            await asyncio.wait([lease, draining, *others], return_when=asyncio.FIRST_COMPLETED)
            _raise_first(lease, *others)
        finally:
            await self._objects.end_handlers()
            self._stop_lease()
            await asyncio.wait([lease])
            for task in (draining, *others):
                task.cancel()
            await asyncio.wait([draining, *others])
            await client.close()
        _raise_first(lease)

    def _make_reflector(self, client: Client) -> Reflector[Unstructured]:
        label, field = self.config.selectors(self.identity.id)
        return Reflector(
            client,
            self.config.resource,
            self.store,
            rng=self._environment.rng,
            namespace=self.config.namespace,
            label_selector=label,
            field_selector=field,
        )

    async def _keep_lease(self) -> None:
        """Renew the lease until it is stopped. API errors do not end it; a programming error is raised."""
        loop = asyncio.get_running_loop()
        lost = self._objects.cancel_handlers

        def lost_there() -> None:
            loop.call_soon_threadsafe(lost)

        if self._environment.own_thread:
            self._thread = LeaseThread(self._connect, lambda client: self._make_lease_keeper(client, lost_there))
            self._thread.start()
            await self._thread.wait_ended()
            return
        client = self._connect()
        try:
            await self._make_lease_keeper(client, lost).run()
        finally:
            await client.close()

    def _make_lease_keeper(self, client: Client, lost: Callable[[], None]) -> LeaseKeeper:
        identity, config, around = self.identity, self.config, self._environment
        name = config.lease_name(identity)
        of = LeaseIdentity(identity.namespace, name, identity.pod, identity.uid, config.pool, config.partition)
        patient = LeaseCallbacks(self._current_report, self._objects.is_busy, self._heartbeat.is_stalled, lost)
        self._keeper = LeaseKeeper(
            client, of, self.tenure, patient, now=around.now, wall=around.wall, end_process=around.end_process
        )
        return self._keeper

    def _stop_lease(self) -> None:
        if self._thread is not None:
            self._thread.stop()
        elif self._keeper is not None:
            self._keeper.stop()

    def _current_report(self) -> ExecutorReport:
        """Return the report for the annotation of the Lease. Callable from any thread."""
        return replace(self._report, metrics=dict(self.config.metrics()))

    async def _record_heartbeats(self) -> None:
        """Record progress of this event loop for the lease thread, as long as the loop runs."""
        while True:
            self._heartbeat.record_beat()
            if (held := self._objects.count_owned()) != self._report.open:
                self._report = replace(self._report, open=held)
            await asyncio.sleep(self._heartbeat.interval_s)

    async def _drain(self) -> None:
        """Wait for `stop`, then for the end of every handler and the release of every object that may be released."""
        await self._stopping.wait()
        self._objects.draining = True
        self._report = replace(self._report, draining=True)
        if self._thread is not None:
            self._thread.renew_now()
        elif self._keeper is not None:
            self._keeper.renew_now()
        while True:
            self._objects.enqueue_all()
            held = self._objects.count_owned() and self.tenure.is_valid(self._environment.now())
            if self._objects.is_idle() and not held:
                return
            await asyncio.sleep(self.config.times.retry_s / 2)


def _raise_first(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        if task.done() and not task.cancelled():
            task.result()

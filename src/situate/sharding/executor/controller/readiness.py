"""Whether an executor may work: check the progress of its watch, and begin tenures.

`lease` renews the Lease and ends tenures, in another thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from situate.kube.errors import KubeError
from situate.kube.watch.reflector import Reflector
from situate.objects.kinds.unstructured import Unstructured
from situate.sharding.executor.controller.lease import LeaseKeeper
from situate.sharding.executor.controller.objects import AssignedObjects
from situate.sharding.leases.tenure import Tenure


class TenureStarter:
    """A service that begins tenures: `run` until cancelled."""

    def __init__(
        self,
        name: str,
        tenure: Tenure,
        reflector: Reflector[Unstructured],
        objects: AssignedObjects,
        keeper: Callable[[], LeaseKeeper | None],
        begun: asyncio.Event,
        now: Callable[[], float],
    ) -> None:
        """`keeper` returns None until the keeper exists. `begun` is set with the first tenure."""
        self._tenure = tenure
        self._reflector = reflector
        self._objects = objects
        self._keeper = keeper
        self._first_tenure = begun
        self._now = now
        self._relisting: asyncio.Task[None] | None = None
        self._log = structlog.get_logger().bind(controller=name)

    async def run(self) -> None:
        deadline_s = self._tenure.times.renew_deadline_s
        seen, looked_at = -1, self._now()
        try:
            while True:
                now = self._now()
                counts = self._reflector.counts
                progress = counts.events + counts.bookmarks + counts.listings
                if progress != seen and self._reflector.store.synced:
                    seen = progress
                    self._tenure.record_known_objects(
                        looked_at
                    )  # any progress since then happened at that time or later
                looked_at = now
                if self._tenure.over:
                    await self._try_start()
                elif now - self._tenure.known_at > deadline_s / 2 and self._relisting is None:
                    self._relisting = asyncio.create_task(self._relist())
                self._objects.check_handlers()
                await asyncio.sleep(deadline_s / 20)
        finally:
            if self._relisting is not None:
                self._relisting.cancel()
                await asyncio.wait([self._relisting])

    async def _relist(self) -> None:
        """List the objects, because a watch without events may be broken."""
        sent_at = self._now()
        try:
            async with asyncio.timeout(self._tenure.times.renew_deadline_s / 2):
                await self._reflector.relist()
        except (KubeError, TimeoutError) as problem:
            self._log.warning("list of objects failed", error=str(problem) or "no answer")
        else:
            self._tenure.record_known_objects(sent_at)
        finally:
            self._relisting = None

    async def _try_start(self) -> None:
        """Begin a tenure if all conditions hold.

        Unless it is the first tenure of the Pod, forgo all owned objects: they were assigned under a lost lease.
        """
        keeper, objects, tenure = self._keeper(), self._objects, self._tenure
        if keeper is None or not keeper.holds_lease() or objects.is_busy() or objects.draining:
            return
        again = tenure.number > 0 or keeper.found_before
        if again:
            await self._relist()
        if not self._reflector.store.synced or objects.is_busy() or not tenure.may_begin(self._now()):
            return
        forgone = objects.forgo_owned() if again else 0
        tenure.begin()
        self._first_tenure.set()
        self._log.info("executor may work", tenure=tenure.number, forgone=forgone)
        objects.enqueue_all()

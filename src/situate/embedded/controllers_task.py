"""Drive the cluster's controllers in real time, in the event loop of the HTTP server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from situate.cluster.apiserver.api import Answer as ApiAnswer
from situate.cluster.apiserver.api import ApiServer, Handling
from situate.cluster.apiserver.controller_writes import ControllerWriter, answer_of
from situate.cluster.controllers import ControllerFactory, Machinery, MachinerySettings
from situate.cluster.controllers.machinery.actions import Rng
from situate.cluster.storage.effects import Effect
from situate.cluster.storage.store import Event

Drive = Callable[[Handling, Effect], Awaitable[ApiAnswer]]
"""Makes the webhook calls of a request."""


class MachineryTask:
    """The machinery of one API server. It runs until cancelled; a broken invariant ends it with an exception."""

    def __init__(
        self,
        api: ApiServer,
        clock: Callable[[], float],
        settings: MachinerySettings,
        rng: Rng,
        drive: Drive,
        *,
        further: Sequence[ControllerFactory] = (),
    ) -> None:
        self._clock = clock
        self._drive = drive
        self._woken = asyncio.Event()
        self._late: set[asyncio.Task[None]] = set()
        writer = ControllerWriter(api, clock, self._start_deferred_write)
        self.machinery = Machinery(writer, api.store, api.catalog, settings, rng, further=further)
        for table in api.store.tables():
            for stored in table.sorted_objects():
                self.machinery.observe(Event("ADDED", table.resource, stored.revision, None, stored))
        api.store.subscribe(self._observe)

    async def run(self) -> None:
        """Step whenever work is due. Requests get a turn between steps."""
        while True:
            self._woken.clear()
            now = self._clock()
            due = self.machinery.next_due()
            if due is not None and due <= now:
                self.machinery.step(now)
                await asyncio.sleep(0)
                continue
            try:
                async with asyncio.timeout(None if due is None else due - now):
                    await self._woken.wait()
            except TimeoutError:
                continue

    async def stop(self) -> None:
        """Cancel the writes that still wait for a webhook."""
        for task in tuple(self._late):
            task.cancel()
        await asyncio.gather(*self._late, return_exceptions=True)

    def _observe(self, event: Event) -> None:
        self.machinery.observe(event)
        self._woken.set()

    def _start_deferred_write(self, handling: Handling, effect: Effect, ticket: int) -> None:
        task = asyncio.get_running_loop().create_task(self._settle_deferred_write(handling, effect, ticket))
        self._late.add(task)
        task.add_done_callback(self._late.discard)

    async def _settle_deferred_write(self, handling: Handling, effect: Effect, ticket: int) -> None:
        self.machinery.settle(ticket, answer_of(await self._drive(handling, effect)))
        self._woken.set()

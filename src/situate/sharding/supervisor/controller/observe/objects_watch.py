"""Watch a supervisor's objects where a table of partitions selects them, and may change at any moment.

A server with sharded list and watch (KEP-5866) sends only these objects. From other servers all objects arrive, and the
store keeps only the identity of those that are not ours.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Final

import structlog

from situate.kube.errors import KubeError
from situate.kube.watch.reflector import Reflector
from situate.objects.kinds.unstructured import Unstructured

RETRY_S: Final = 1.0


class ObjectsWatch:
    """A service: `run` until cancelled. It waits for the first call of `select_shard`."""

    def __init__(self, reflector: Reflector[Unstructured]) -> None:
        self.reflector = reflector
        self.name = reflector.name
        self._choice = 0
        self._chosen = asyncio.Event()
        self._listed = asyncio.Event()
        self._one_listing = asyncio.Lock()
        self._log = structlog.get_logger().bind(resource=reflector.scope.resource.group_resource)

    def select_shard(self, shard_selector: str) -> None:
        """Watch these objects from now on; empty: all. They are listed again, and the watch restarts."""
        self.reflector.scope = replace(self.reflector.scope, shard_selector=shard_selector)
        self._choice += 1
        self._listed.clear()
        self._chosen.set()

    async def wait_listed(self) -> None:
        """Wait until the objects of the last choice have been listed."""
        await self._listed.wait()

    def not_ready(self) -> str | None:
        """See `Reflector.not_ready`."""
        return self.reflector.not_ready()

    def learn(self, new: Unstructured) -> None:
        """See `Reflector.learn`."""
        self.reflector.learn(new)

    async def relist(self) -> None:
        """List again, see `Reflector.relist`; a list of an earlier choice never follows one of a later choice."""
        async with self._one_listing:
            await self.reflector.relist()

    async def run(self) -> None:
        """Follow the server until cancelled; no answer of the server ends the run."""
        await self._chosen.wait()
        while True:
            self._chosen.clear()
            begun = self.reflector.store.synced
            following = asyncio.create_task(self.reflector.run(), name=self.name)
            listing = asyncio.create_task(self._list(begun))
            choosing = asyncio.create_task(self._chosen.wait())
            tasks = {following, listing, choosing}
            try:
                while not choosing.done():
                    done, tasks = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                    for each in done:
                        each.result()  # a failure here is a defect, not an answer of the server
            finally:
                for each in tasks:
                    each.cancel()
                if tasks:
                    await asyncio.wait(tasks)

    async def _list(self, begun: bool) -> None:
        """List the objects of the choice, with retries, and then set `wait_listed`.

        `begun`: the store has the objects of an earlier choice, and the watch continues from there, so they must be
        listed again. Otherwise the watch itself starts with a list.
        """
        choice = self._choice
        await self.reflector.store.wait_synced()
        while begun:
            try:
                await self.relist()
                break
            except KubeError as problem:
                self._log.warning("list of a partition's objects failed", error=str(problem))
                await asyncio.sleep(RETRY_S)
        if choice == self._choice:
            self._listed.set()

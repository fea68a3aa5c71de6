"""Keeps a supervisor's objects where a table says which are its own, and may say something else at any moment.

A server that knows shards (KEP-5866) is asked for those alone; of another one's answers the store keeps no more.
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
    """A service: `run` until cancelled. It waits for the first choice."""

    def __init__(self, reflector: Reflector[Unstructured]) -> None:
        self.reflector = reflector
        self.name = reflector.name
        self._choice = 0
        self._chosen = asyncio.Event()
        self._listed = asyncio.Event()
        self._one_listing = asyncio.Lock()
        self._log = structlog.get_logger().bind(resource=reflector.scope.resource.group_resource)

    def choose(self, shard_selector: str) -> None:
        """These objects from now on; empty: all. They are listed anew, and the watch begins again."""
        self.reflector.scope = replace(self.reflector.scope, shard_selector=shard_selector)
        self._choice += 1
        self._listed.clear()
        self._chosen.set()

    async def listed(self) -> None:
        """Until the objects of the last choice have been listed."""
        await self._listed.wait()

    def not_ready(self) -> str | None:
        """As the reflector's."""
        return self.reflector.not_ready()

    def learn(self, new: Unstructured) -> None:
        """As the reflector's."""
        self.reflector.learn(new)

    async def relist(self) -> None:
        """As the reflector's. One listing of an earlier choice never comes after one of a later choice."""
        async with self._one_listing:
            await self.reflector.relist()

    async def run(self) -> None:
        """Follows the server; no answer of it ends that."""
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
                        each.result()  # what fails here is no answer of the server, but a defect
            finally:
                for each in tasks:
                    each.cancel()
                if tasks:
                    await asyncio.wait(tasks)

    async def _list(self, begun: bool) -> None:
        """Until it has been done. `begun`: what the store has is of an earlier choice, and the watch goes on from it.

        Else the watch begins with a listing."""
        choice = self._choice
        await self.reflector.store.wait_synced()
        while begun:
            try:
                await self.relist()
                break
            except KubeError as problem:
                self._log.warning("the objects of a partition cannot be listed", error=str(problem))
                await asyncio.sleep(RETRY_S)
        if choice == self._choice:
            self._listed.set()

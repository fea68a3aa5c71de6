"""Our side of `bench.client`: situate's client and reflector."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random

from bench.client_task import Call, run
from bench.pods import to_create
from situate import __version__
from situate.kube.client import Client
from situate.kube.connect import connect
from situate.kube.login.connection import Connection
from situate.kube.patches import MergePatch
from situate.kube.watch.reflector import Reflector
from situate.kube.watch.store import Store
from situate.objects.decoding.codec import changes_decoder
from situate.objects.kinds.pods import Pod
from situate.objects.resources import PODS
from situate.runtime.process.logs import configure_logging


class Situate:
    version = __version__

    def __init__(self, client: Client) -> None:
        self._client = client

    def writes(self, kind: str) -> Call:
        client = self._client
        if kind == "create":
            return lambda number: client.create(PODS, to_create(f"pod-{number}"), "default")
        return lambda number: client.patch(
            PODS, "pod-1", MergePatch({"metadata": {"annotations": {"count": str(number)}}}), "default"
        )

    async def follow(self, events: int, keep: bool, begin: Callable[[], None]) -> int:
        if keep:
            return await self._follow_in_store(events, begin)
        page = await self._client.list_all(PODS)
        seen = 0
        decode_changes = changes_decoder(PODS)
        async with self._client.watch(PODS, resource_version=page.resource_version) as batches:
            async for lines in batches:
                if not seen:
                    begin()
                seen += len(decode_changes(lines))
                if seen >= events:
                    break
        return 0

    async def _follow_in_store(self, events: int, begin: Callable[[], None]) -> int:
        store: Store[Pod] = Store("pods")
        reflector = Reflector(self._client, PODS, store, rng=Random(1))
        done = asyncio.Event()
        seen = 0

        def count(old: Pod | None, new: Pod | None) -> None:
            nonlocal seen
            if not store.synced:
                return
            if not seen:
                begin()
            seen += 1
            if seen == events:
                done.set()

        store.on_change(count)
        following = asyncio.create_task(reflector.run())
        await done.wait()
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        return len(store)

    async def hold(self) -> Store[Pod]:
        store: Store[Pod] = Store("pods")
        reflector = Reflector(self._client, PODS, store, rng=Random(1))
        following = asyncio.create_task(reflector.run())
        await store.wait_synced()
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        return store

    async def close(self) -> None:
        await self._client.close()


async def _make(url: str) -> Situate:
    return Situate(connect(Connection(url, "bench"), Random(1)))


if __name__ == "__main__":
    configure_logging("warning")
    run(_make)

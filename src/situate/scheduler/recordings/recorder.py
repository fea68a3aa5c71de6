"""Watches a cluster and records every change that a scheduler would see, and the decisions of the scheduler there."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

from situate.kube.client import Client
from situate.kube.watch.reflector import Reflector
from situate.kube.watch.store import Store
from situate.objects.kinds.unstructured import Unstructured
from situate.objects.resources import NODES, PODS, ResourceType, unstructured
from situate.scheduler.controller.informers import NOT_ENDED
from situate.scheduler.recordings.files import RecordingFile
from situate.scheduler.recordings.format import (
    RECORDED_RESOURCES,
    EntryType,
    binding_line,
    equal_except_version,
    essential_fields,
    header_line,
    object_line,
    synced_line,
)

FLUSH_S: Final = 1.0
"""Longest time between two flushes: a process that is killed loses no more than the changes of this time."""


OTHERS_S: Final = 10.0
"""How long the recording waits for the first listing of resources that may be forbidden."""


class Recorder:
    """A service: `run` until cancelled. The stores hold all objects, with which each new part begins."""

    def __init__(
        self, client: Client, file: RecordingFile, *, wall: Callable[[], datetime], rng: random.Random
    ) -> None:
        self.events = 0
        """Changes written."""
        self.bindings = 0
        self.began = False
        """Whether the initial listing has been written."""
        self._file = file
        self._wall = wall
        self._began = 0.0
        self._listing = False
        self._changes: asyncio.Queue[tuple[ResourceType[Any], Unstructured | None, Unstructured | None]]
        self._changes = asyncio.Queue()
        self._stores: dict[ResourceType[Any], Store[Unstructured]] = {}
        self._reflectors: list[Reflector[Unstructured]] = []
        for resource in RECORDED_RESOURCES:
            raw = unstructured(
                resource.group, resource.version, resource.kind, resource.plural, namespaced=resource.namespaced
            )
            store: Store[Unstructured] = Store(resource.group_resource)
            fields = NOT_ENDED if resource is PODS else ""
            self._stores[resource] = store
            self._reflectors.append(Reflector(client, raw, store, rng=rng, field_selector=fields))

    async def run(self) -> None:
        """Record until cancelled. Raises `OSError` if the file cannot be written."""
        async with asyncio.TaskGroup() as group:
            for each in self._reflectors:
                group.create_task(each.run(), name=each.name)
            await self._wait_for_listing()
            self._begin_part()
            # `on_change` reports existing objects first, which are in the file already
            self._listing = True
            for resource, store in self._stores.items():
                store.on_change(self._change_handler(resource))
            self._listing = False
            self.began = True
            await self._write()

    async def _wait_for_listing(self) -> None:
        """Wait for nodes and pods; other resources that cannot be listed soon are recorded from when they can."""
        for resource in (NODES, PODS):
            await self._stores[resource].wait_synced()
        others = [asyncio.ensure_future(store.wait_synced()) for store in self._stores.values()]
        _, missing = await asyncio.wait(others, timeout=OTHERS_S)
        for each in missing:
            each.cancel()

    def _change_handler(
        self, resource: ResourceType[Any]
    ) -> Callable[[Unstructured | None, Unstructured | None], None]:
        def changed(old: Unstructured | None, new: Unstructured | None) -> None:
            if not self._listing:
                self._changes.put_nowait((resource, old, new))

        return changed

    def problems(self) -> list[str]:
        """Return the resources that cannot be watched at the moment."""
        return [f"{each.scope}: {each.problem}" for each in self._reflectors if each.problem is not None]

    async def _write(self) -> None:
        while True:
            try:
                async with asyncio.timeout(FLUSH_S):
                    change = await self._changes.get()
            except TimeoutError:
                self._file.flush()
                continue
            self._write_change(*change)
            if self._changes.empty():
                self._file.flush()
            if self._file.full:
                self._file.begin_part()
                self._begin_part()

    def _write_change(self, resource: ResourceType[Any], old: Unstructured | None, new: Unstructured | None) -> None:
        at = self._now() - self._began
        before = None if old is None else essential_fields(resource, old.content)
        after = None if new is None else essential_fields(resource, new.content)
        if before is not None and after is not None and equal_except_version(before, after):
            return
        replaced = before is not None and after is not None and _uid(before) != _uid(after)
        if before is not None and (after is None or replaced):
            self._file.write(object_line(at, "DELETED", before))
            before = None
        if after is not None:
            type_: EntryType = "ADDED" if before is None else "MODIFIED"
            self._file.write(object_line(at, type_, after))
            if resource is PODS and before is not None:
                self._note_binding(at, before, after)
        self.events += 1

    def _note_binding(self, at: float, before: dict[str, Any], after: dict[str, Any]) -> None:
        node = (after.get("spec") or {}).get("nodeName", "")
        if node and not (before.get("spec") or {}).get("nodeName"):
            meta = after["metadata"]
            self._file.write(binding_line(at, f"{meta.get('namespace', '')}/{meta.get('name', '')}", _uid(after), node))
            self.bindings += 1

    def _begin_part(self) -> None:
        self._began = self._now()
        self._file.write(header_line(self._wall()))
        for resource, store in self._stores.items():
            for each in store.list():
                self._file.write(object_line(0.0, "LISTED", essential_fields(resource, each.content)))
        self._file.write(synced_line(0.0))
        self._file.raise_limit()
        self._file.flush()

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


def _uid(content: dict[str, Any]) -> str:
    uid: str = content["metadata"].get("uid", "")
    return uid

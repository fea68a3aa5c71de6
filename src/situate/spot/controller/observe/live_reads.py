"""Live reads of a pod's controller, its workload and its pods, for cases in which the watch may lag.

There is one read for each controller at a time. Callers during a read share the next one. That read begins after all of
their calls, so it shows everything that they depend on. A burst of a hundred calls costs a few reads. Rule: P20.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import structlog

from situate.kube.client import Client
from situate.kube.errors import KubeError, NotFound
from situate.objects.kinds.selectors import LabelSelector
from situate.objects.resources import PODS
from situate.spot.admission.admit import UNREADABLE, LiveRead, NeedsRead
from situate.spot.controller.observe.trimmed_objects import REPLICASETS, WORKLOADS, to_plain_json
from situate.spot.model.pods_nodes_workloads import Owner, PodFacts
from situate.spot.nodes.node_signals import Signal
from situate.spot.workloads.owners import KINDS, Controller, ReplicaSetFacts, owner_facts, pod_facts, replica_set_facts


class LiveReads:
    """Shared live reads; `read` gives up after its time limit."""

    def __init__(self, client: Client, table: Sequence[Signal], within_s: float) -> None:
        self.table = table
        self.within_s = within_s
        self._client = client
        self._running: dict[str, asyncio.Task[LiveRead]] = {}
        self._next: dict[str, asyncio.Task[LiveRead]] = {}
        self._log = structlog.get_logger()

    async def read(self, needed: NeedsRead) -> LiveRead:
        """Read the current state; `UNREADABLE` if it does not come in time."""
        task = self._shared_read(needed)
        try:
            async with asyncio.timeout(self.within_s):
                return await asyncio.shield(task)
        except TimeoutError:
            self._log.warning("live read timed out", controller=str(needed.controller.name))
        except KubeError as problem:
            self._log.warning("live read failed", controller=needed.controller.name, error=str(problem))
        return UNREADABLE

    async def close(self) -> None:
        """Cancel all reads."""
        tasks = [*self._running.values(), *self._next.values()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _shared_read(self, needed: NeedsRead) -> asyncio.Task[LiveRead]:
        uid = needed.controller.uid
        running = self._running.get(uid)
        if running is None:
            return self._start_read(needed, None)
        following = self._next.get(uid)
        if following is None:
            following = self._next[uid] = self._start_read(needed, running)
        return following

    def _start_read(self, needed: NeedsRead, after: asyncio.Task[LiveRead] | None) -> asyncio.Task[LiveRead]:
        uid = needed.controller.uid
        task = asyncio.create_task(self._run_read(needed, after))
        if after is None:
            self._running[uid] = task
        task.add_done_callback(lambda done: self._on_read_end(uid, done))
        return task

    def _on_read_end(self, uid: str, task: asyncio.Task[LiveRead]) -> None:
        if self._running.get(uid) is task:
            del self._running[uid]
        if self._next.get(uid) is task:
            del self._next[uid]
        if not task.cancelled():
            task.exception()  # marks the exception as retrieved: the callers have it, or none waits any more

    async def _run_read(self, needed: NeedsRead, after: asyncio.Task[LiveRead] | None) -> LiveRead:
        uid = needed.controller.uid
        if after is not None:
            await asyncio.wait([after])
            current = asyncio.current_task()
            assert current is not None
            self._running[uid] = current
            self._next.pop(uid, None)
        async with asyncio.timeout(self.within_s):
            return await self._read_all(needed.namespace, needed.controller)

    async def _read_all(self, namespace: str, controller: Controller) -> LiveRead:
        """Read the controller first: pods created meanwhile then count as too many, never as missing."""
        began = asyncio.get_running_loop().time()
        try:
            if controller.kind in WORKLOADS:
                return replace(await self._read_direct_owner(namespace, controller), began_at=began)
            found = await self._client.get(REPLICASETS, controller.name, namespace)
        except NotFound:
            return LiveRead()
        facts = replica_set_facts(to_plain_json(found))
        if facts.uid != controller.uid:
            return LiveRead()
        pods = await self._list_pods(namespace, found.spec.selector, facts.uid)
        return LiveRead(await self._read_owner(facts), facts, pods, began)

    async def _read_direct_owner(self, namespace: str, controller: Controller) -> LiveRead:
        """Read a workload that controls its pods directly."""
        found = await self._client.get(WORKLOADS[controller.kind], controller.name, namespace)
        if found.metadata.uid != controller.uid:
            return LiveRead()
        owner = owner_facts(to_plain_json(found), KINDS[controller.kind], self.table)
        return LiveRead(owner, None, await self._list_pods(namespace, found.spec.selector, controller.uid))

    async def _read_owner(self, replica_set: ReplicaSetFacts) -> Owner | None:
        above = replica_set.controller
        if above is None or above.kind not in WORKLOADS:
            return None
        try:
            found = await self._client.get(WORKLOADS[above.kind], above.name, replica_set.namespace)
        except NotFound:
            return None
        if found.metadata.uid != above.uid:
            return None
        return owner_facts(to_plain_json(found), KINDS[above.kind], self.table, [replica_set])

    async def _list_pods(self, namespace: str, selector: LabelSelector, controller: str) -> tuple[PodFacts, ...]:
        """List by labels; the controller's uid decides which pods belong to it."""
        labels = ",".join(f"{key}={value}" for key, value in sorted(selector.match_labels.items()))
        page = await self._client.list_all(PODS, namespace, label_selector=labels)
        return tuple(facts for facts in map(pod_facts, page.items) if facts.controller == controller)

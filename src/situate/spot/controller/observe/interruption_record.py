"""Record of spot nodes that ended and came back, in an annotation on the Lease.

Advice, headroom and calm of pools depend on it, also after a change of leader. The leader writes the small annotation
only after such a change of nodes. A crash loses at most a few seconds of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import structlog

from situate.kube.client import Client
from situate.kube.errors import KubeError
from situate.kube.patches import MergePatch
from situate.kube.watch.store import Store
from situate.objects.kinds.leases import Lease
from situate.objects.resources import LEASES
from situate.runtime.reconcile.outcomes import Retriable
from situate.spot.model.counts import Nodes
from situate.spot.model.object_names import INTERRUPTIONS_ANNOTATION, NAME
from situate.spot.nodes.interruptions import InterruptionHistory, from_text, observe_nodes, to_text

_AGAIN_S: Final = 5.0
"""Delay after a failed write."""


class InterruptionRecord:
    """The interruption record; `run` is a task of the leader, `history` is the current record."""

    def __init__(self, nodes: Nodes, leases: Store[Lease], namespace: str, wall: Callable[[], float]) -> None:
        """`nodes`: the live map; `leases`: contains spot's Lease, which is in `namespace`."""
        self.history = InterruptionHistory()
        self._nodes = nodes
        self._leases = leases
        self._namespace = namespace
        self._wall = wall
        self._wake_event = asyncio.Event()
        self._log = structlog.get_logger()

    def wake(self) -> None:
        """Wake the task after a change of nodes."""
        self._wake_event.set()

    async def run(self, client: Client) -> None:
        """Record changes. Writes of `client` raise a `Retriable` if this process does not lead."""
        written = await self._read_annotation()
        self.history = from_text(written)
        while True:
            self._wake_event.clear()
            self.history = observe_nodes(self.history, self._nodes, self._wall())
            text = to_text(self.history)
            if text == written:
                await self._wake_event.wait()
            elif await self._write_annotation(client, text):
                written = text
            else:
                await asyncio.sleep(_AGAIN_S)

    async def read_history(self) -> InterruptionHistory:
        """Return the recorded history."""
        return from_text(await self._read_annotation())

    async def _read_annotation(self) -> str:
        await self._leases.wait_synced()
        lease = self._leases.get(NAME, self._namespace)
        return lease.metadata.annotations.get(INTERRUPTIONS_ANNOTATION, "") if lease is not None else ""

    async def _write_annotation(self, client: Client, text: str) -> bool:
        patch = MergePatch({"metadata": {"annotations": {INTERRUPTIONS_ANNOTATION: text}}})
        try:
            await client.patch(LEASES, NAME, patch, self._namespace)
        except (KubeError, Retriable) as problem:
            self._log.warning("write of the interruption record failed", error=str(problem))
            return False
        return True

"""Writes the capacity label onto nodes that say the same in their cloud's words, where that is asked for (P34).

The one write of this product on nodes, with a right of its own that is printed only then. Which node gets what is
decided in `capacity_label`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import structlog

from situate.kube.client import Client
from situate.kube.errors import Conflict, KubeError, NotFound
from situate.kube.patches import MergePatch
from situate.kube.watch.store import Store
from situate.objects.kinds.nodes import Node
from situate.objects.resources import NODES
from situate.runtime.leadership.actuator import Actuator
from situate.runtime.reconcile.outcomes import Retriable
from situate.spot.config.settings import SpotSettings
from situate.spot.nodes.capacity_label import capacity_patch

_AGAIN_S: Final = 5.0


class Labelling:
    """`run` is a task of the leader; it does nothing while the settings do not ask for it."""

    def __init__(self, nodes: Store[Node], settings: Callable[[], SpotSettings]) -> None:
        self._nodes = nodes
        self._settings = settings
        self._changed = asyncio.Event()
        self._log = structlog.get_logger()
        nodes.on_change(lambda _, __: self._changed.set())

    def wake(self) -> None:
        """The settings are others now."""
        self._changed.set()

    async def run(self, client: Client, actuator: Actuator) -> None:
        """Writes of `client` raise a `Retriable` when we do not lead."""
        while True:
            self._changed.clear()
            try:
                await self._label(client, actuator)
            except (KubeError, Retriable) as problem:
                self._log.warning("nodes cannot be labelled; it is tried again", error=str(problem))
                await asyncio.sleep(_AGAIN_S)
                continue
            await self._changed.wait()

    async def _label(self, client: Client, actuator: Actuator) -> None:
        settings = self._settings()
        if not settings.label_nodes:
            return
        for node in self._nodes.list():
            patch = capacity_patch(node, settings.table)
            if patch is None:
                continue
            name = node.metadata.name
            try:
                await actuator.write(client.patch(NODES, name, MergePatch(patch)))
            except (NotFound, Conflict):
                continue  # it is gone, or another machine by now; the watch tells
            self._log.info("a node is labelled", node=name, labels=patch["metadata"]["labels"])

"""Capacity labels for nodes that carry only the label of their cloud, if the setting enables them.

This is spot's only write to nodes. Its RBAC rule is printed only if the setting is on. `capacity_label` computes the
patch of each node. Rule: P34.
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


class NodeLabeller:
    """Labelling of nodes; `run` is a task of the leader and does nothing while the setting is off."""

    def __init__(self, nodes: Store[Node], settings: Callable[[], SpotSettings]) -> None:
        self._nodes = nodes
        self._settings = settings
        self._wake_event = asyncio.Event()
        self._log = structlog.get_logger()
        nodes.on_change(lambda _, __: self._wake_event.set())

    def wake(self) -> None:
        """Wake the task after a change of the settings."""
        self._wake_event.set()

    async def run(self, client: Client, actuator: Actuator) -> None:
        """Label nodes after each change. Writes of `client` raise a `Retriable` if this process does not lead."""
        while True:
            self._wake_event.clear()
            try:
                await self._label_nodes(client, actuator)
            except (KubeError, Retriable) as problem:
                self._log.warning("labelling of nodes failed, retrying", error=str(problem))
                await asyncio.sleep(_AGAIN_S)
                continue
            await self._wake_event.wait()

    async def _label_nodes(self, client: Client, actuator: Actuator) -> None:
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
                continue  # gone, or another machine of the same name; the watch shows it
            self._log.info("node labelled", node=name, labels=patch["metadata"]["labels"])

"""Record of the last valid policy of each workload in a ConfigMap, so that a new leader knows it.

The leader writes the record when a policy changes. Every replica follows it, and the commands read it.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from typing import Final

import structlog

from situate.kube.client import Client
from situate.kube.errors import AlreadyExists, Conflict, Forbidden, KubeError, NotFound
from situate.kube.patches import MergePatch
from situate.kube.watch.reflector import Reflector
from situate.kube.watch.reflectors import object_reflector
from situate.objects.kinds.config_maps import ConfigMap
from situate.objects.resources import CONFIGMAPS
from situate.runtime.reconcile.outcomes import Retriable
from situate.spot.model.object_names import POLICIES
from situate.spot.workloads.on_demand_policy import Policy
from situate.spot.workloads.policy_record import KEY, from_text, to_text

_WRITE_INTERVAL_S: Final = 1.0
"""Time between two writes, because each writes the whole object."""
_AGAIN_S: Final = 2.0
"""Delay after a failed write."""


class PolicyRecord:
    """The policy record; `read` precedes the first decision of a term, `run` is a task of the leader."""

    def __init__(
        self,
        client: Client,
        namespace: str,
        rng: random.Random,
        policies: Callable[[], Mapping[str, Policy]],
        recall: Callable[[Mapping[str, Policy]], None],
    ) -> None:
        """`policies`: those to record, by uid of the workload. `recall` gets all recorded policies at each change."""
        self.reflector: Reflector[ConfigMap] = object_reflector(client, CONFIGMAPS, POLICIES, namespace, rng)
        self._namespace = namespace
        self._policies = policies
        self._recall = recall
        self._wake_event = asyncio.Event()
        self._problem = ""
        self._log = structlog.get_logger()
        self.reflector.store.on_change(self._on_record_change)

    def wake(self) -> None:
        """Wake the task after a change of a policy."""
        self._wake_event.set()

    async def read(self) -> None:
        """Read the record. Raises the client's errors, except if reading the record is forbidden.

        If it is forbidden, the policy of a workload with an unreadable value is unknown, and none of its pods moves.
        """
        try:
            await self.reflector.relist()
        except Forbidden as problem:
            self._log.warning("read of the last valid policies forbidden", error=str(problem))

    async def run(self, client: Client) -> None:
        """Write changes. Writes of `client` raise a `Retriable` if this process does not lead."""
        while True:
            self._wake_event.clear()
            rest_s = _WRITE_INTERVAL_S if await self._write_if_changed(client) else _AGAIN_S
            await asyncio.sleep(rest_s)
            if rest_s == _WRITE_INTERVAL_S:
                await self._wake_event.wait()

    async def _write_if_changed(self, client: Client) -> bool:
        """Write the record if needed; return whether it is current."""
        known = self._stored_record()
        before = known.data.get(KEY, "") if known is not None else ""
        text, missing = to_text(self._policies(), from_text(before))
        if missing:
            self._warn_unrecorded(f"the record is full, so {missing} workloads are missing")
        if text == before:
            return True
        try:
            await self._write_record(client, known, text)
        except (Conflict, NotFound, AlreadyExists) as problem:
            self._warn_unrecorded(str(problem))
            await self._relist()
            return False
        except (KubeError, Retriable) as problem:
            self._warn_unrecorded(str(problem))
            return False
        if not missing:
            self._problem = ""
        return True

    async def _write_record(self, client: Client, known: ConfigMap | None, text: str) -> None:
        if known is None:
            new = {"metadata": {"name": POLICIES, "namespace": self._namespace}, "data": {KEY: text}}
            self.reflector.learn(await client.create(CONFIGMAPS, new, self._namespace))
            return
        patch = MergePatch({"metadata": {"resourceVersion": known.metadata.resource_version}, "data": {KEY: text}})
        self.reflector.learn(await client.patch(CONFIGMAPS, POLICIES, patch, self._namespace))

    async def _relist(self) -> None:
        try:
            await self.reflector.relist()
        except KubeError as problem:
            self._log.warning("read of the last valid policies failed", error=str(problem))

    def _stored_record(self) -> ConfigMap | None:
        return self.reflector.store.get(POLICIES, self._namespace)

    def _on_record_change(self, _: ConfigMap | None, new: ConfigMap | None) -> None:
        self._recall(from_text(new.data.get(KEY, "")) if new is not None else {})
        self._wake_event.set()

    def _warn_unrecorded(self, problem: str) -> None:
        """Log the problem once, however often the write is retried."""
        if problem != self._problem:
            self._problem = problem
            self._log.warning("valid policies not recorded yet", error=problem)

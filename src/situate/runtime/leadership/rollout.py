"""Where this process stands among the pods of its Deployment: how a rollout hands the lease over (spot P1, vm B44).

A pod of a newer revision that has caught up asks for the Lease by an annotation on it, and the holder gives way, so
that a rollout does not wait for the old pod to be stopped. Outside a cluster there is no pod, and nothing of this
happens.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Final

import structlog

from situate.kube.client import Client
from situate.kube.election.lease_record import LeaseName
from situate.kube.errors import KubeError
from situate.kube.patches import MergePatch
from situate.kube.watch.reflector import Reflector
from situate.kube.watch.store import Store
from situate.objects.kinds.leases import Lease
from situate.objects.kinds.meta import OwnerReference
from situate.objects.kinds.pods import Pod
from situate.objects.resources import LEASES

STANDS_ASIDE: Final = 3
"""Retry periods for which a pod that has given the Lease away leaves it to the one that asked."""

Revision = Callable[[OwnerReference, str], int | None]
"""Of a pod's controller, in that namespace: which revision of its Deployment it is; None where that is not known."""


class Standing:
    """What the pods of our own namespace say about us and the others."""

    def __init__(
        self,
        lease: LeaseName,
        leases: Reflector[Lease],
        pods: Store[Pod],
        revision: Revision,
        *,
        wants: str,
        pod: str,
        namespace: str,
    ) -> None:
        """`leases`: of our Lease alone; `wants`: the annotation; `pod`: our own, in `namespace`, empty outside a
        cluster."""
        self._name = lease
        self._leases = leases
        self._pods = pods
        self._revision_of = revision
        self._wants = wants
        self._pod = pod
        self._namespace = namespace
        self._log = structlog.get_logger().bind(lease=str(lease))

    @property
    def lease(self) -> Lease | None:
        return self._leases.store.get(self._name.name, self._name.namespace)

    async def keep_asking(self, client: Client, leading: Callable[[], bool], every_s: float) -> None:
        """A task of a process that has caught up, until cancelled."""
        while self._pod:
            if not leading():
                try:
                    await self.ask(client)
                except KubeError as problem:
                    self._log.warning("the lease cannot be asked for", error=str(problem))
            await asyncio.sleep(every_s)

    async def ask(self, client: Client) -> None:
        """One attempt of a candidate: asks for the Lease if a pod of an older revision holds it, and nobody asked."""
        mine, lease = self._revision(self._pod), self.lease
        if mine is None or lease is None or not lease.spec.holder_identity:
            return
        holder = self._revision(self._pod_of(lease.spec.holder_identity))
        if holder is None or holder >= mine or self._asking(lease, above=mine - 1) is not None:
            return
        wish = json.dumps({"pod": self._pod, "revision": mine}, separators=(",", ":"))
        patch = MergePatch({"metadata": {"annotations": {self._wants: wish}}})
        await client.patch(LEASES, self._name.name, patch, self._name.namespace)
        self._log.info("the lease is asked for", holder=lease.spec.holder_identity)

    async def wait_asked(self, changed: asyncio.Event, stopping: Callable[[], bool] = lambda: False) -> str:
        """Until a pod of a newer revision that is ready asks for the Lease; its name, or empty when we are to stop.

        `changed`: look again.
        """
        while True:
            changed.clear()
            if stopping():
                return ""
            mine, lease = self._revision(self._pod), self.lease
            if mine is not None and lease is not None:
                asking = self._asking(lease, above=mine)
                if asking is not None:
                    self._log.info("the lease is given to a newer revision", pod=asking)
                    return asking
            await changed.wait()

    def on_change(self, wake: Callable[[], None]) -> None:
        """Calls back whenever the Lease or a pod of our namespace changes."""

        def changed(old: Pod | None, new: Pod | None) -> None:
            seen = new or old
            if seen is not None and seen.metadata.namespace == self._namespace:
                wake()

        self._leases.store.on_change(lambda _, __: wake())
        if self._pod:
            self._pods.on_change(changed)

    def _asking(self, lease: Lease, above: int) -> str | None:
        """Who asks, if that is a pod that is ready and of a revision above this one; None otherwise."""
        try:
            wish = json.loads(lease.metadata.annotations.get(self._wants, "{}"))
        except (ValueError, RecursionError):
            return None
        name = wish.get("pod") if isinstance(wish, dict) else None
        if not isinstance(name, str):
            return None
        pod = self._pods.get(name, self._namespace)
        if pod is None or not pod.ready or pod.metadata.deletion_timestamp is not None:
            return None
        revision = self._revision(name)
        return name if revision is not None and revision > above else None

    def _pod_of(self, identity: str) -> str:
        """An identity begins with the name of its host, which is the pod's."""
        return identity.rpartition("_")[0]

    def _revision(self, pod: str) -> int | None:
        found = self._pods.get(pod, self._namespace) if pod else None
        controller = found.metadata.controller if found is not None else None
        return None if controller is None else self._revision_of(controller, self._namespace)

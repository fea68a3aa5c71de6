"""Hands the Lease to a Pod of a newer revision during a rollout.

A ready Pod of a newer revision requests the Lease by an annotation on it, and the holder releases it. A rollout
therefore does not wait until the old Pod stops. Outside a cluster there is no Pod, and the Lease is never handed over.
Rules: spot P1, vm B44.
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

STEP_DOWN_PERIODS: Final = 3
"""Retry periods for which a Pod that released the Lease does not compete, so that the requesting Pod acquires it."""

Revision = Callable[[OwnerReference, str], int | None]
"""Returns the revision of a Pod's controller within its Deployment, in that namespace; None if it is not known."""


class LeaseHandover:
    """The revisions of this process's Pod and of the other Pods in its namespace, and their requests for the Lease."""

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
        """Take the caches and the names of this process.

        `leases` holds only this product's Lease. `wants` is the annotation. `pod` is this process's own Pod, in
        `namespace`; empty outside a cluster.
        """
        self._name = lease
        self._leases = leases
        self._pods = pods
        self._revision_of = revision
        self._request_annotation = wants
        self._pod = pod
        self._namespace = namespace
        self._log = structlog.get_logger().bind(lease=str(lease))

    @property
    def lease(self) -> Lease | None:
        return self._leases.store.get(self._name.name, self._name.namespace)

    async def keep_requesting_lease(self, client: Client, leading: Callable[[], bool], every_s: float) -> None:
        """Request the Lease while not leading. A task of a process whose caches are complete, until cancelled."""
        while self._pod:
            if not leading():
                try:
                    await self.request_lease(client)
                except KubeError as problem:
                    self._log.warning("lease request failed", error=str(problem))
            await asyncio.sleep(every_s)

    async def request_lease(self, client: Client) -> None:
        """Request the Lease once, if a Pod of an older revision holds it.

        No request is made if a ready Pod of this revision or a newer one has made one.
        """
        mine, lease = self._revision(self._pod), self.lease
        if mine is None or lease is None or not lease.spec.holder_identity:
            return
        holder = self._revision(self._pod_name(lease.spec.holder_identity))
        if holder is None or holder >= mine or self._requesting_pod(lease, above=mine - 1) is not None:
            return
        wish = json.dumps({"pod": self._pod, "revision": mine}, separators=(",", ":"))
        patch = MergePatch({"metadata": {"annotations": {self._request_annotation: wish}}})
        await client.patch(LEASES, self._name.name, patch, self._name.namespace)
        self._log.info("lease requested", holder=lease.spec.holder_identity)

    async def wait_for_request(self, changed: asyncio.Event, stopping: Callable[[], bool] = lambda: False) -> str:
        """Wait until a ready Pod of a newer revision requests the Lease; return its name, or empty if stopping.

        `changed` triggers the next check.
        """
        while True:
            changed.clear()
            if stopping():
                return ""
            mine, lease = self._revision(self._pod), self.lease
            if mine is not None and lease is not None:
                asking = self._requesting_pod(lease, above=mine)
                if asking is not None:
                    self._log.info("lease handed over to a newer revision", pod=asking)
                    return asking
            await changed.wait()

    def on_change(self, wake: Callable[[], None]) -> None:
        """Call `wake` on every change of the Lease or of a Pod in this namespace."""

        def changed(old: Pod | None, new: Pod | None) -> None:
            seen = new or old
            if seen is not None and seen.metadata.namespace == self._namespace:
                wake()

        self._leases.store.on_change(lambda _, __: wake())
        if self._pod:
            self._pods.on_change(changed)

    def _requesting_pod(self, lease: Lease, above: int) -> str | None:
        """Return the Pod that requests the Lease, if it is ready and its revision is above this one; else None."""
        try:
            wish = json.loads(lease.metadata.annotations.get(self._request_annotation, "{}"))
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

    def _pod_name(self, identity: str) -> str:
        """Return the Pod's name: an identity starts with its host name."""
        return identity.rpartition("_")[0]

    def _revision(self, pod: str) -> int | None:
        found = self._pods.get(pod, self._namespace) if pod else None
        controller = found.metadata.controller if found is not None else None
        return None if controller is None else self._revision_of(controller, self._namespace)

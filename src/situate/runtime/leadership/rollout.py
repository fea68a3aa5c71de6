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

from situate.kube.errors import KubeError
from situate.kube.patches import MergePatch
from situate.kube.watch.reflectors import object_reflector
from situate.kube.watch.store import Store
from situate.objects.kinds.leases import Lease
from situate.objects.kinds.meta import OwnerReference
from situate.objects.kinds.pods import Pod
from situate.objects.resources import LEASES
from situate.runtime.leadership.leader import Leader, WatchedStores

STEP_DOWN_PERIODS: Final = 3
"""Retry periods for which a Pod that released the Lease does not compete, so that the requesting Pod acquires it."""

Revision = Callable[[OwnerReference, str], int | None]
"""Returns the revision of a Pod's controller within its Deployment, in that namespace; None if it is not known."""


class LeaseHandover:
    """The revisions of this process's Pod and of the other Pods in its namespace, and their requests for the Lease."""

    def __init__(
        self,
        leader: Leader,
        pods: Store[Pod],
        revision: Revision,
        *,
        wants: str,
        pod: str,
        namespace: str,
    ) -> None:
        """Take the leadership and the names of this process.

        `wants` is the annotation. `pod` is this process's own Pod, in `namespace`; empty outside a cluster.
        """
        assert leader.lease is not None, "without an election there is no Lease to hand over"
        self._leader = leader
        self._name = leader.lease
        self.leases = object_reflector(
            leader.context.client, LEASES, self._name.name, self._name.namespace, leader.context.rng
        )
        """A watch that holds only this product's Lease."""
        self._pods = pods
        self._revision_of = revision
        self._request_annotation = wants
        self._pod = pod
        self._namespace = namespace
        self._log = structlog.get_logger().bind(lease=str(self._name))

    @property
    def lease(self) -> Lease | None:
        return self.leases.store.get(self._name.name, self._name.namespace)

    async def keep_requesting_lease(self, informers: WatchedStores) -> None:
        """Request the Lease while not leading, once the stores are complete. Run until cancelled.

        So a Pod of a newer revision does not wait until the older one stops.
        """
        await informers.wait_synced()
        while self._pod:
            if not self._leader.is_leading():
                try:
                    await self.request_lease()
                except KubeError as problem:
                    self._log.warning("lease request failed", error=str(problem))
            await asyncio.sleep(self._leader.times.retry_s)

    def yield_lease(self) -> None:
        """Release the Lease, and do not compete until the requesting Pod has acquired it."""
        self._leader.step_down(STEP_DOWN_PERIODS)

    async def request_lease(self) -> None:
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
        await self._leader.election_client.patch(LEASES, self._name.name, patch, self._name.namespace)
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

        self.leases.store.on_change(lambda _, __: wake())
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

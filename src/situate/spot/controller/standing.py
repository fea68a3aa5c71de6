"""Where this process stands among the pods of its Deployment: the label that leads questions to it, and hand-over (P1).

Both pods of a Deployment are Ready; the Service selects a label besides, which the one that answers puts on its own pod
and takes off all others. A pod of a newer revision asks for the Lease by an annotation on it, so that a rollout does
not wait for the old pod to be stopped. Outside a cluster there is no pod, and nothing of this happens.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

import structlog

from situate.kube.client import Client
from situate.kube.patches import MergePatch
from situate.kube.reflector import Reflector
from situate.objects.coordination import Lease
from situate.objects.pods import Pod
from situate.objects.resources import LEASES, PODS
from situate.runtime.marking import Mark, keep_marked
from situate.spot.controller.watched import Watched
from situate.spot.names import LEADS, NAME, WANTS
from situate.spot.observed import Cluster


class Standing:
    """What the pods of our own namespace say about us and the others."""

    def __init__(
        self,
        watched: Watched,
        leases: Reflector[Lease],
        cluster: Cluster,
        *,
        pod: str,
        namespace: str,
        lease_namespace: str,
    ) -> None:
        """`pod`: our own; empty outside a cluster. `leases`: of our Lease alone."""
        self._watched = watched
        self._leases = leases
        self._pod = pod
        self._namespace = namespace
        self._lease_namespace = lease_namespace
        self._cluster = cluster
        self._log = structlog.get_logger()

    @property
    def lease(self) -> Lease | None:
        return self._leases.store.get(NAME, self._lease_namespace)

    async def mark(self, client: Client) -> None:
        """A task of the leader: keeps the label where it belongs.

        Writes of `client` raise a `Retriable` when we do not lead.
        """
        mark = Mark(self._namespace, self._pod, LEADS, "true")
        await keep_marked(mark, client, lambda pod, patch: client.patch(PODS, pod, patch, self._namespace))

    async def ask(self, client: Client) -> None:
        """One attempt of a candidate: asks for the Lease if a pod of an older revision holds it, and nobody asked."""
        mine, lease = self._revision(self._pod), self.lease
        if mine is None or lease is None or not lease.spec.holder_identity:
            return
        holder = self._revision(self._pod_of(lease.spec.holder_identity))
        if holder is None or holder >= mine or self._asking(lease, above=mine - 1) is not None:
            return
        wish = json.dumps({"pod": self._pod, "revision": mine}, separators=(",", ":"))
        patch = MergePatch({"metadata": {"annotations": {WANTS: wish}}})
        await client.patch(LEASES, NAME, patch, self._lease_namespace)
        self._log.info("the lease is asked for", holder=lease.spec.holder_identity)

    async def wait_asked(self, changed: asyncio.Event, stopping: Callable[[], bool]) -> str:
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
            self._watched.pods.store.on_change(changed)

    def _asking(self, lease: Lease, above: int) -> str | None:
        """Who asks, if that is a pod that is ready and of a revision above this one; None otherwise."""
        try:
            wish = json.loads(lease.metadata.annotations.get(WANTS, "{}"))
        except (ValueError, RecursionError):
            return None
        name = wish.get("pod") if isinstance(wish, dict) else None
        if not isinstance(name, str):
            return None
        pod = self._watched.pods.store.get(name, self._namespace)
        if pod is None or not pod.ready or pod.metadata.deletion_timestamp is not None:
            return None
        revision = self._revision(name)
        return name if revision is not None and revision > above else None

    def _pod_of(self, identity: str) -> str:
        """An identity begins with the name of its host, which is the pod's."""
        return identity.rpartition("_")[0]

    def _revision(self, pod: str) -> int | None:
        """Which revision of its Deployment a pod is of, by its ReplicaSet; None where that cannot be told."""
        found = self._watched.pods.store.get(pod, self._namespace) if pod else None
        controller = found.metadata.controller if found is not None else None
        if controller is None:
            return None
        replica_set = self._cluster.replica_sets.get(controller.uid)
        return replica_set.number if replica_set is not None else None

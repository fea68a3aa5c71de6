"""Heartbeats of the simulated kubelets: a Lease every ten seconds by default, the node's status every five minutes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from situate.cluster.controllers.machinery.actions import (
    NO_WRITES,
    Action,
    Create,
    Patch,
    ReconcileResult,
    Refusal,
    sequential_writes,
    uid_patch,
)
from situate.cluster.controllers.machinery.changes import Change
from situate.cluster.controllers.machinery.controllers import Controller, ControllerContext
from situate.cluster.controllers.machinery.tables import LEASES, NODES, Key, Obj
from situate.cluster.controllers.node.kubelets import KubeletStates
from situate.cluster.controllers.node.nodes import ready_status
from situate.cluster.controllers.node.pods import condition
from situate.cluster.errors.times import micro_timestamp

LEASE_NAMESPACE = "kube-node-lease"
_STATUS_PERIOD = 300.0


class HeartbeatController(Controller):
    """Controller of heartbeats. Keys are nodes."""

    name = "heartbeat"
    user = "system:node"
    manager = "kubelet"
    watches = frozenset({NODES, LEASES})

    def __init__(self, cluster: ControllerContext, kubelets: KubeletStates) -> None:
        self._cluster = cluster
        self._kubelets = kubelets
        self._settings = cluster.settings.kubelet
        self._renewed: dict[str, float] = {}
        self._reported: dict[str, float] = {}
        self._numbers: dict[str, int] = {}

    def observe(self, change: Change, now: float) -> Iterator[Key]:  # noqa: ARG002  # the protocol's
        if change.resource == NODES:
            if change.new is None:
                self._renewed.pop(change.last.name, None)
                self._reported.pop(change.last.name, None)
            else:
                yield change.key
        elif change.resource == LEASES and change.new is None and change.last.namespace == LEASE_NAMESPACE:
            self._renewed.pop(change.last.name, None)
            yield "", change.last.name

    def reconcile(self, key: Key, now: float) -> ReconcileResult:
        node = self._cluster.get(NODES, *key)
        if node is None or not self._kubelets.is_running(key[1]):
            return NO_WRITES
        actions: list[Action] = []
        status = self._update_status(key[1], node, now)
        if status is not None:
            actions.append(status)
        due = []
        if self._settings.lease_renewal > 0:
            if now >= self._renewed.get(key[1], float("-inf")) + self._settings.lease_renewal:
                actions.append(self._renew_lease(node, now))
                self._renewed[key[1]] = now
            due = [self._renewed[key[1]] + self._settings.lease_renewal]
            due.append(self._reported.get(key[1], now) + _STATUS_PERIOD)
        return sequential_writes(actions, min(due, default=None))

    def handle_refusal(self, key: Key, refusal: Refusal) -> None:
        """Try again at the next reconcile instead of the next renewal."""
        self._renewed.pop(key[1], None)
        if isinstance(refusal.action, Patch) and refusal.action.resource == NODES:
            self._reported.pop(key[1], None)

    def _update_status(self, name: str, node: Obj, now: float) -> Patch | None:
        ready = condition(node, "Ready")
        fine = ready is not None and ready.get("status") == "True" and (node["status"].get("allocatable"))
        fresh = self._settings.lease_renewal <= 0 or now < self._reported.setdefault(name, now) + _STATUS_PERIOD
        if fine and fresh:
            return None
        self._reported[name] = now
        return uid_patch(NODES, node, {"status": ready_status(node, self._address(name), now)}, "status")

    def _renew_lease(self, node: Obj, now: float) -> Action:
        name = node["metadata"]["name"]
        spec: dict[str, Any] = {
            "holderIdentity": name,
            "leaseDurationSeconds": self._settings.lease_duration,
            "renewTime": micro_timestamp(now),
        }
        if self._cluster.store.get(LEASES, LEASE_NAMESPACE, name) is not None:
            return Patch(LEASES, LEASE_NAMESPACE, name, {"spec": spec})
        owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": node["metadata"]["uid"]}
        metadata = {"name": name, "namespace": LEASE_NAMESPACE, "ownerReferences": [owner]}
        body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
        return Create(LEASES, LEASE_NAMESPACE, body)

    def _address(self, name: str) -> str:
        """Return the InternalIP of the n-th node seen: 10.0.0.1, 10.0.0.2, ..."""
        number = self._numbers.setdefault(name, len(self._numbers) + 1)
        return ".".join(str(part) for part in ((10 << 24) + number).to_bytes(4, "big"))

"""Pods and Leases of executors in a history of decisions, as a supervisor's watches deliver them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from situate.objects.kinds.leases import Lease, LeaseSpec
from situate.objects.kinds.meta import Condition, ObjectMeta
from situate.objects.kinds.nodes import Node, NodeSpec, Taint
from situate.objects.kinds.pods import (
    Container,
    ContainerState,
    ContainerStateTerminated,
    ContainerStatus,
    Pod,
    PodSpec,
    PodStatus,
)
from situate.sharding.executor.next_step import Me
from situate.sharding.leases.membership import OUT_OF_SERVICE, lease_name
from situate.sharding.model.names import CORDON, EXECUTOR, EXECUTOR_UID, POOL

NAMESPACE: Final = "work"
SELECTOR: Final = "app=reports"
POOL_NAME: Final = "pool"
_BEGAN: Final = datetime(2026, 1, 1, tzinfo=UTC)
_LABELS: Final = {"app": "reports"}


@dataclass(slots=True)
class Host:
    """A pod with an executor, as the API shows it."""

    name: str
    uid: str
    born: float
    ready: bool = True
    selected: bool = True
    """Whether it has the labels by which executors are selected."""
    cordoned: bool = False
    terminating: bool = False
    terminated: bool = False
    """Whether the kubelet has reported the end of its container."""
    there: bool = True

    def pod(self) -> Pod:
        state = ContainerState(terminated=ContainerStateTerminated() if self.terminated else None)
        ready = self.ready and not self.terminated
        return Pod(
            ObjectMeta(
                name=self.name,
                namespace=NAMESPACE,
                uid=self.uid,
                labels=_LABELS if self.selected else {},
                annotations={CORDON: "true"} if self.cordoned else {},
                creation_timestamp=_BEGAN + timedelta(seconds=self.born),
                deletion_timestamp=_BEGAN if self.terminating else None,
            ),
            PodSpec(node_name=f"node-{self.uid}", containers=(Container(name="executor"),)),
            PodStatus(
                phase="Running",
                conditions=(Condition("Ready", str(ready)),),
                container_statuses=(ContainerStatus("executor", ready, state=state),),
            ),
        )


def lease_of(me: Me, renewed: float, wall_s: float, *, held: bool) -> Lease:
    """Build the Lease as the executor wrote it.

    `renewed` distinguishes renewals. `wall_s` is the error of its clock.
    """
    said = _BEGAN + timedelta(seconds=renewed + wall_s)
    return Lease(
        ObjectMeta(
            name=lease_name(POOL_NAME, me.id, me.uid),
            namespace=NAMESPACE,
            labels={POOL: POOL_NAME},
            annotations={EXECUTOR: me.id, EXECUTOR_UID: me.uid},
        ),
        LeaseSpec(me.uid if held else "", 15, _BEGAN, said),
    )


def lost_node(host: Host) -> Node:
    """Build the node of a host with the taint for out of service."""
    return Node(ObjectMeta(name=f"node-{host.uid}"), NodeSpec(taints=(Taint(key=OUT_OF_SERVICE, effect="NoExecute"),)))

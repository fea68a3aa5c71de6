"""Leases, pods, nodes and objects for tests of sharding: each says only what matters."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

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
from situate.objects.values.timestamps import micro_time, rfc3339
from situate.sharding.leases.membership import OUT_OF_SERVICE, lease_name
from situate.sharding.model.names import CORDON, EPOCH, EXECUTOR, EXECUTOR_UID, FINALIZER, PARTITION, POOL, STATUS

WALL = datetime(2026, 1, 1, tzinfo=UTC)
"""When the monotonic clock shows 0."""
NAMESPACE = "work"
LABELS = {"app": "reports"}


def wall(now: float) -> datetime:
    return WALL + timedelta(seconds=now)


def lease(
    pod: str,
    uid: str,
    renewed: float = 0,
    *,
    held: bool = True,
    cordoned: bool = False,
    report: str | None = None,
    duration: int = 15,
    labels: Mapping[str, str] | None = None,
) -> Lease:
    """An executor's Lease, renewed at that second by the executor's own clock."""
    annotations = {EXECUTOR: pod, EXECUTOR_UID: uid}
    if report is not None:
        annotations[STATUS] = report
    if cordoned:
        annotations[CORDON] = "true"
    return Lease(
        ObjectMeta(
            name=lease_name("pool", pod, uid),
            namespace=NAMESPACE,
            labels={POOL: "pool", PARTITION: "0", **(labels or {})},
            annotations=annotations,
        ),
        LeaseSpec(uid if held else "", duration, wall(0), wall(renewed)),
    )


def pod(
    name: str,
    uid: str,
    *,
    ready: bool | None = True,
    container_ready: bool = True,
    terminated: bool = False,
    deleting: bool = False,
    cordoned: bool = False,
    labels: Mapping[str, str] = LABELS,
    revision: str = "",
    created: float = 0,
    node: str = "node",
) -> Pod:
    """An executor's pod with one container; `ready` None: no such condition."""
    state = ContainerState(terminated=ContainerStateTerminated() if terminated else None)
    return Pod(
        ObjectMeta(
            name=name,
            namespace=NAMESPACE,
            uid=uid,
            labels={**labels, **({"pod-template-hash": revision} if revision else {})},
            annotations={CORDON: "true"} if cordoned else {},
            creation_timestamp=wall(created),
            deletion_timestamp=wall(created) if deleting else None,
        ),
        PodSpec(node_name=node, containers=(Container(name="executor"),)),
        PodStatus(
            phase="Running",
            conditions=() if ready is None else (Condition("Ready", str(ready)),),
            container_statuses=(ContainerStatus("executor", container_ready and not terminated, state=state),),
        ),
    )


def node(name: str = "node", *, out_of_service: bool = False) -> Node:
    taints = (Taint(key=OUT_OF_SERVICE, effect="NoExecute"),) if out_of_service else ()
    return Node(ObjectMeta(name=name), NodeSpec(taints=taints))


def report(
    uid: str = "o1",
    *,
    executor: str | None = None,
    executor_uid: str | None = None,
    epoch: int | None = None,
    completed: float | None = None,
    successful: bool | None = None,
    created: float = -1_000_000,
    deleting: bool = False,
    finalizers: tuple[str, ...] = (),
    ours: bool = False,
    annotations: Mapping[str, str] | None = None,
    owner: str = "",
    version: int = 1,
) -> dict[str, Any]:
    """A custom resource; `ours`: it has our finalizer; `completed`: when, on the clock that starts at WALL."""
    held = (*finalizers, *((FINALIZER,) if ours else ()))
    marks = {
        **({EPOCH: str(epoch)} if epoch is not None else {}),
        **({EXECUTOR_UID: executor_uid} if executor_uid is not None else {}),
        **(annotations or {}),
    }
    status = {
        **({"completedAt": micro_time(wall(completed))} if completed is not None else {}),
        **({"successful": successful} if successful is not None else {}),
    }
    return {
        "apiVersion": "batch.example.com/v1",
        "kind": "Report",
        "metadata": {
            "name": uid,
            "namespace": NAMESPACE,
            "uid": uid,
            "resourceVersion": str(version),
            "creationTimestamp": rfc3339(wall(created)),
            **({"deletionTimestamp": rfc3339(WALL)} if deleting else {}),
            **({"finalizers": list(held)} if held else {}),
            **({"annotations": marks} if marks else {}),
            **({"ownerReferences": [{"uid": owner, "controller": True}]} if owner else {}),
        },
        "spec": {"pages": 3, **({"assignedTo": executor} if executor is not None else {})},
        **({"status": status} if status else {}),
    }


def changed(lease: Lease, **annotations: str) -> Lease:
    """The same claim with other annotations."""
    metadata = msgspec.structs.replace(lease.metadata, annotations={**lease.metadata.annotations, **annotations})
    return msgspec.structs.replace(lease, metadata=metadata)

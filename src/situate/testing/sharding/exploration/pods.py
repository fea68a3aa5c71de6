"""Pods and Leases of executors in a small world, as the watches of a supervisor deliver them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from situate.objects.kinds.leases import Lease, LeaseSpec
from situate.objects.kinds.meta import Condition, ObjectMeta
from situate.objects.kinds.pods import (
    Container,
    ContainerState,
    ContainerStatus,
    Pod,
    PodSpec,
    PodStatus,
)
from situate.sharding.executor.next_step import Incarnation
from situate.sharding.leases.membership import lease_name
from situate.sharding.model.names import CORDON, EXECUTOR, EXECUTOR_UID, POOL

NAMESPACE: Final = "work"
SELECTOR: Final = "app=reports"
POOL_NAME: Final = "pool"
_START_TIME: Final = datetime(2026, 1, 1, tzinfo=UTC)
_LABELS: Final = {"app": "reports"}


def pod_of(me: Incarnation, *, cordoned: bool) -> Pod:
    """Return the running and ready Pod of an executor."""
    return Pod(
        ObjectMeta(
            name=me.id,
            namespace=NAMESPACE,
            uid=me.uid,
            labels=_LABELS,
            annotations={CORDON: "true"} if cordoned else {},
            creation_timestamp=_START_TIME,
        ),
        PodSpec(node_name=f"node-{me.uid}", containers=(Container(name="executor"),)),
        PodStatus(
            phase="Running",
            conditions=(Condition("Ready", "True"),),
            container_statuses=(ContainerStatus("executor", True, state=ContainerState()),),
        ),
    )


def lease_of(me: Incarnation, renewed: float, wall_s: float, *, held: bool) -> Lease:
    """Return the Lease of an executor.

    `renewed` (seconds) differs for each renewal. `wall_s` is the error of the clock of the executor, in seconds.
    """
    said = _START_TIME + timedelta(seconds=renewed + wall_s)
    return Lease(
        ObjectMeta(
            name=lease_name(POOL_NAME, me.id, me.uid),
            namespace=NAMESPACE,
            labels={POOL: POOL_NAME},
            annotations={EXECUTOR: me.id, EXECUTOR_UID: me.uid},
        ),
        LeaseSpec(me.uid if held else "", 15, _START_TIME, said),
    )

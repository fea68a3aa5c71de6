"""Every name that sharding writes on objects, leases and pods: keys, condition types, reasons, causes.

The values of the annotations are read and written in `situate.sharding.model.object_view` and
`situate.sharding.leases.membership`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

PREFIX: Final = "sharding.situate.dev/"

EPOCH: Final = PREFIX + "epoch"
"""Annotation of an object: its fencing number, 0 or absent when it was never assigned."""
EXECUTOR_UID: Final = PREFIX + "executor-uid"
"""Annotation of an object and of an executor's Lease: the incarnation, a pod's UID."""
TERM: Final = PREFIX + "term"
"""Annotation of an object: the term of the supervisor that assigned it."""
ASSIGNED_AT: Final = PREFIX + "assigned-at"
"""Annotation of an object: RFC 3339, by the supervisor's clock."""
WHY: Final = PREFIX + "why"
"""Annotation of an object: one of `Cause`."""
DRAIN: Final = PREFIX + "drain"
"""Annotation of an object, `EPOCH DEADLINE CAUSE`: its holder is asked to stop and release it."""
REVOKED: Final = PREFIX + "revoked"
"""Annotation of an object, `EPOCH CAUSE UID EXECUTOR`: taken from a holder that has not agreed and may run until its
lease would have run out. The next assignment removes it."""
LOSSES: Final = PREFIX + "losses"
"""Annotation of an object: when its holders were lost, RFC 3339 times joined by commas, the latest last."""
ARCHIVE_HOLD: Final = PREFIX + "archive-hold"
"""Annotation of an object; `true`: never archived by age."""
MIGRATABLE: Final = PREFIX + "migratable"
"""Annotation of an object; `false`: never moved voluntarily."""
ARCHIVED: Final = PREFIX + "archived"
"""Annotation of an object: the digest of its verified record in the archive."""
PRIORITY: Final = PREFIX + "priority"
"""Annotation of an object: an integer; the larger goes first when no executor has room."""
EXECUTOR_SELECTOR: Final = PREFIX + "executor-selector"
"""Annotation of an object: a label selector over executors' labels."""
RESTORING: Final = PREFIX + "restoring"
"""A label that no executor has: what is being restored selects it, so that nobody works on it before it is whole."""

EXECUTOR: Final = PREFIX + "executor"
"""Label of an object, for watches: the executor's id, or what stands for it. Annotation of a Lease: the pod's name."""
POOL: Final = PREFIX + "pool"
"""Label of an executor's Lease."""
PARTITION: Final = PREFIX + "partition"
"""Label of an executor's Lease."""
STATUS: Final = PREFIX + "status"
"""Annotation of an executor's Lease, and of supervisors': what its holder reports of itself, as JSON."""
CORDON: Final = PREFIX + "cordon"
"""Annotation of an executor's pod or Lease; `true`: no new objects, and those that it has are drained."""

FINALIZER: Final = PREFIX + "archive"
"""The default of the finalizer that keeps an object until it is archived."""

ASSIGNED: Final = "Assigned"
"""Condition type of an object."""
ARCHIVE_FAILED: Final = "ArchiveFailed"
"""Condition type of an object."""


class Reason(StrEnum):
    """Why the condition `Assigned` is what it is."""

    ASSIGNED = "Assigned"
    NO_EXECUTORS = "NoExecutors"
    NO_HEALTHY_EXECUTORS = "NoHealthyExecutors"
    NO_CAPACITY = "NoCapacity"
    JITTER = "Jitter"
    DRAINING = "Draining"
    QUARANTINED = "Quarantined"
    WRITE_REFUSED = "WriteRefused"
    """The API server refuses the supervisor's assignment."""


class Cause(StrEnum):
    """Why an object was assigned, or is drained."""

    NEW = "new"
    LOST = "lost"
    DRAIN = "drain"
    REBALANCE = "rebalance"
    DELETE = "delete"
    """Of a drain only: the object is being deleted."""
    EDITED = "edited"
    """Of a revocation only: somebody else has changed the assignment."""


class Failure(StrEnum):
    """`status.reason` of objects that the supervisor completes itself."""

    EXECUTOR_LOST = "ExecutorLost"
    REASSIGN_LIMIT = "ReassignLimit"

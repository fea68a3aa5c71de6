"""Name every key, condition type, reason and cause that sharding uses on objects, Leases and pods.

`situate.sharding.model.object_view` and `situate.sharding.leases.membership` parse and write the values of the
annotations.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

PREFIX: Final = "sharding.situate.dev/"

EPOCH: Final = PREFIX + "epoch"
"""Annotation of an object: its fencing number; 0 or absent if it was never assigned."""
EXECUTOR_UID: Final = PREFIX + "executor-uid"
"""Annotation of an object and of an executor's Lease: the incarnation, a pod's UID."""
TERM: Final = PREFIX + "term"
"""Annotation of an object: the term of the supervisor that assigned it."""
ASSIGNED_AT: Final = PREFIX + "assigned-at"
"""Annotation of an object: RFC 3339, by the supervisor's clock."""
WHY: Final = PREFIX + "why"
"""Annotation of an object: one of `Cause`."""
DRAIN: Final = PREFIX + "drain"
"""Annotation of an object, `EPOCH DEADLINE CAUSE`: a request to its holder to stop and release the object."""
REVOKED: Final = PREFIX + "revoked"
"""Annotation of an object, `EPOCH CAUSE UID EXECUTOR`: revoked from a holder without an ack.

The holder may run until its Lease would have expired. The next assignment removes the annotation.
"""
LOSSES: Final = PREFIX + "losses"
"""Annotation of an object: the times at which its holders were lost, in RFC 3339, joined by commas, latest last."""
ARCHIVE_HOLD: Final = PREFIX + "archive-hold"
"""Annotation of an object; `true`: never archived by age."""
MIGRATABLE: Final = PREFIX + "migratable"
"""Annotation of an object; `false`: never moved voluntarily."""
ARCHIVED: Final = PREFIX + "archived"
"""Annotation of an object: the digest of its verified record in the archive."""
PRIORITY: Final = PREFIX + "priority"
"""Annotation of an object: an integer; larger values go first when no executor has free capacity."""
EXECUTOR_SELECTOR: Final = PREFIX + "executor-selector"
"""Annotation of an object: a label selector over executors' labels."""
RESTORING: Final = PREFIX + "restoring"
"""A label that no executor has.

An object that is being restored selects this label, so that no executor gets it before the restore is complete.
"""

EXECUTOR: Final = PREFIX + "executor"
"""Label of an object, for watches: the executor's id or its hash. Annotation of a Lease: the pod's name."""
POOL: Final = PREFIX + "pool"
"""Label of an executor's Lease."""
PARTITION: Final = PREFIX + "partition"
"""Label of an executor's Lease."""
STATUS: Final = PREFIX + "status"
"""Annotation of an executor's or a supervisors' Lease: the status report of its holder, as JSON."""
CORDON: Final = PREFIX + "cordon"
"""Annotation of an executor's pod or Lease; `true`: it gets no new objects, and its objects are drained."""

FINALIZER: Final = PREFIX + "archive"
"""Default name of the finalizer that holds back a deletion until the object is archived."""

ASSIGNED: Final = "Assigned"
"""Condition type of an object."""
ARCHIVE_FAILED: Final = "ArchiveFailed"
"""Condition type of an object."""


class Reason(StrEnum):
    """Reasons of the condition `Assigned`."""

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
    """Causes of an assignment, a drain or a revoke."""

    NEW = "new"
    LOST = "lost"
    DRAIN = "drain"
    REBALANCE = "rebalance"
    DELETE = "delete"
    """Only of a drain: the object is being deleted."""
    EDITED = "edited"
    """Only of a revoke: another client changed the assignment."""


class Failure(StrEnum):
    """Values of `status.reason` for objects that the supervisor completes itself."""

    EXECUTOR_LOST = "ExecutorLost"
    REASSIGN_LIMIT = "ReassignLimit"

"""Names that must occur in a block of histories of sharding, so that the histories cover their claims."""

from __future__ import annotations

from typing import Final

FAULTS: Final[dict[str, tuple[str, ...]]] = {
    "executor paused past its lease, a write in flight": (
        "PauseExecutor",
        "resumed after its lease",
        "write of an executor refused: INVALID",
        "write of an executor refused: CONFLICT",
        "write of an executor refused: FORBIDDEN",
    ),
    "event loop blocked, cancellation ignored": ("BlockExecutor", "StubbornExecutor", "process ended itself"),
    "killed between every pair of calls": (
        *(f"killed {when} {call}" for when in ("before", "after") for call in ("renewal", "status", "release")),
        *(f"killed {when} {call}" for when in ("before", "after") for call in ("assign", "requestdrain")),
        *(f"killed {when} {call}" for when in ("before", "after") for call in ("archive", "read archive")),
        *(f"killed {when} {call}" for when in ("before", "after") for call in ("finalizer", "delete", "claim")),
        *("killed at revoke", "killed before read object", "killed after read object", "KillExecutor"),
        "KillSupervisor",
    ),
    "two supervisors, the old leader wakes up": ("PauseSupervisor", "leader killed", "term"),
    "response lost after commit": ("answer lost",),
    "409, 429, 500, 410, gaps, reordered and late events": (
        *("write in conflict", "request refused", "request lost", "CutWatches"),
        *("event lost", "events swapped", "event delayed"),
    ),
    "one-way partitions": ("Partition to", "Partition from", "Partition both"),
    "clocks off, fast or slow": ("SetClock", "clocks drift"),
    "node lost, force delete, same name, label removed, flapping, joins, rolling restart": (
        *("LoseNode", "ForceDelete", "LoseLabel", "Flap", "JoinMany", "RollingRestart"),
    ),
    "archive": (
        *("archive: error", "archive: stored but timed out", "archive: read missing", "archive: read corrupt"),
        *("archive: read back another digest", "archive: too large", "archive: outage"),
    ),
    "same name again; foreign finalizers": ("Recreate", "name used again", "ForeignFinalizer"),
    "a user edits": (*("assignment edited", "edit refused", "RemoveFinalizer", "EditObject", "DeleteObject"),),
    "actions": (
        *("assigned: new", "assigned: lost", "assigned: drain", "assigned: edited", "asked to drain", "revoked", "ack"),
        *("completed", "failed: ExecutorLost", "finalizer removed", "deleted", "lease released", "lease lost"),
    ),
    "fencing": ("fencing: clients", "fencing: policy", "fencing: both"),
    "judged while all is calm": (
        *("judged: S4", "judged: L1", "judged: L2 ended", "judged: L2 silent", "judged: L2 given up"),
        *("judged: L2 taken back", "judged: L3"),
    ),
}
"""Rows of the spec's fault table, with the names that must occur for each in a block of seeds.

The last rows hold each kind of action, and the kinds of fencing.
"""

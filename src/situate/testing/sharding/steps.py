"""Steps of a history of sharding: each is a value that is written to a file and read from it.

Numbers select among the present objects or processes, modulo their count. So a step always has a target.
"""

from __future__ import annotations

from typing import Literal

import msgspec

Network = Literal[
    "request lost", "answer lost", "refused", "conflict", "late writes", "late events", "event lost", "events swapped"
]
Trouble = Literal["error", "stored but timed out", "read missing", "read corrupt", "read back another digest"]
ExecutorCall = Literal["renewal", "status", "release", "read object"]
SupervisorCall = Literal[
    "assign", "requestdrain", "revoke", "archive", "read archive", "finalizer", "delete", "claim", "read object"
]


class _Step(msgspec.Struct, frozen=True, tag_field="step", rename="camel"):
    """A step of a history. `wait` virtual seconds pass after it."""

    wait: float


class Pass(_Step, frozen=True, tag=True):
    """Do nothing."""


class Create(_Step, frozen=True, tag=True):
    count: int


class PauseExecutor(_Step, frozen=True, tag=True):
    """Pause an executor (SIGSTOP) with a write on its way, and resume it after `seconds` (SIGCONT)."""

    executor: int
    seconds: float


class BlockExecutor(_Step, frozen=True, tag=True):
    """Block the event loop of an executor for `seconds`."""

    executor: int
    seconds: float


class StubbornExecutor(_Step, frozen=True, tag=True):
    """Let handlers of an executor ignore their cancellation from now on."""

    executor: int


class KillExecutor(_Step, frozen=True, tag=True):
    """Kill an executor (SIGKILL). Another one replaces it."""

    executor: int
    terminated: bool
    """Whether the kubelet reports the end."""


class KillExecutorAt(_Step, frozen=True, tag=True):
    """Kill an executor (SIGKILL) before its next such call leaves, or after the server has carried it out."""

    executor: int
    call: ExecutorCall
    before: bool


class EndExecutor(_Step, frozen=True, tag=True):
    """End an executor (SIGTERM). Another one replaces it."""

    executor: int


class PauseSupervisor(_Step, frozen=True, tag=True):
    """Pause the leader, if there is one."""

    seconds: float


class KillSupervisor(_Step, frozen=True, tag=True):
    """Kill the leader, if there is one. Another one starts."""


class KillSupervisorAt(_Step, frozen=True, tag=True):
    """Kill the leader at its next such call."""

    call: SupervisorCall
    before: bool


class Storm(_Step, frozen=True, tag=True):
    kind: Network


class Calm(_Step, frozen=True, tag=True):
    """End the faults of network and archive."""


class CutWatches(_Step, frozen=True, tag=True):
    """Let supervisors list again, as after a 410."""


class Partition(_Step, frozen=True, tag=True):
    """Cut a process off, in one direction or both."""

    who: Literal["executor", "leader"]
    number: int
    direction: Literal["to", "from", "both"]
    seconds: float


class SetClock(_Step, frozen=True, tag=True):
    """Set the wall clock of a supervisor off by `by` seconds from now on."""

    supervisor: int
    by: float


class LoseNode(_Step, frozen=True, tag=True):
    """Silence an executor's node and make its pod unready.

    With `declared`, the node gets the taint for out of service.
    """

    executor: int
    declared: bool


class ForceDelete(_Step, frozen=True, tag=True):
    """Delete a pod while its process goes on. With `again`, one of the same name comes at once."""

    executor: int
    again: bool


class LoseLabel(_Step, frozen=True, tag=True):
    executor: int


class Flap(_Step, frozen=True, tag=True):
    """Make an executor unready, and ready again after `seconds`."""

    executor: int
    seconds: float


class Cordon(_Step, frozen=True, tag=True):
    executor: int
    on: bool


class JoinMany(_Step, frozen=True, tag=True):
    count: int


class RollingRestart(_Step, frozen=True, tag=True):
    """End each executor in turn. Another one of its name replaces it."""


class ArchiveTrouble(_Step, frozen=True, tag=True):
    kind: Trouble


class ArchiveRefuses(_Step, frozen=True, tag=True):
    """Let the archive refuse records as too large."""


class ArchiveDown(_Step, frozen=True, tag=True):
    """Let the archive be down for `seconds`, or until the next calm."""

    seconds: float


class Complete(_Step, frozen=True, tag=True):
    """Let a handler complete its object at once, so that there is work for the archive."""

    object: int


class DeleteObject(_Step, frozen=True, tag=True):
    """Delete an object as a user."""

    object: int


class Recreate(_Step, frozen=True, tag=True):
    """Delete an object as a user, and create one of the same name as soon as it is gone."""

    object: int


class ForeignFinalizer(_Step, frozen=True, tag=True):
    object: int
    on: bool


class EditAssignment(_Step, frozen=True, tag=True):
    """Clear or change the executor of an object as a user."""

    object: int
    to: int
    """Number of an executor. Below 0: clear the field."""


class RemoveFinalizer(_Step, frozen=True, tag=True):
    """Remove our finalizer as a user."""

    object: int


class EditObject(_Step, frozen=True, tag=True):
    """Edit spec and labels as a user, which must succeed."""

    object: int


AnyStep = (
    Pass
    | Create
    | PauseExecutor
    | BlockExecutor
    | StubbornExecutor
    | KillExecutor
    | KillExecutorAt
    | EndExecutor
    | PauseSupervisor
    | KillSupervisor
    | KillSupervisorAt
    | Storm
    | Calm
    | CutWatches
    | Partition
    | SetClock
    | LoseNode
    | ForceDelete
    | LoseLabel
    | Flap
    | Cordon
    | JoinMany
    | RollingRestart
    | ArchiveTrouble
    | ArchiveRefuses
    | ArchiveDown
    | Complete
    | DeleteObject
    | Recreate
    | ForeignFinalizer
    | EditAssignment
    | RemoveFinalizer
    | EditObject
)

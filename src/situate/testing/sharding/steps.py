"""What may happen in a history of sharding: each step a value that can be written to a file and read again.

Numbers choose among what is there at that moment, counted round: a step is never void because somebody is gone.
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
    """Something that is done, after which `wait` virtual seconds pass."""

    wait: float


class Pass(_Step, frozen=True, tag=True):
    """Nothing."""


class Create(_Step, frozen=True, tag=True):
    count: int


class PauseExecutor(_Step, frozen=True, tag=True):
    """SIGSTOP, and SIGCONT so much later; a write of its is under way."""

    executor: int
    seconds: float


class BlockExecutor(_Step, frozen=True, tag=True):
    """Its event loop stands still for so long."""

    executor: int
    seconds: float


class StubbornExecutor(_Step, frozen=True, tag=True):
    """Handlers that it begins from now on ignore their cancellation."""

    executor: int


class KillExecutor(_Step, frozen=True, tag=True):
    """SIGKILL; another one comes in its place."""

    executor: int
    terminated: bool
    """The kubelet says so."""


class KillExecutorAt(_Step, frozen=True, tag=True):
    """SIGKILL before its next such call leaves, or after the server has carried it out."""

    executor: int
    call: ExecutorCall
    before: bool


class EndExecutor(_Step, frozen=True, tag=True):
    """SIGTERM; another one comes in its place."""

    executor: int


class PauseSupervisor(_Step, frozen=True, tag=True):
    """The leader, if somebody leads."""

    seconds: float


class KillSupervisor(_Step, frozen=True, tag=True):
    """The leader, if somebody leads; another one is started."""


class KillSupervisorAt(_Step, frozen=True, tag=True):
    """Whoever leads."""

    call: SupervisorCall
    before: bool


class Storm(_Step, frozen=True, tag=True):
    kind: Network


class Calm(_Step, frozen=True, tag=True):
    """Of network and archive."""


class CutWatches(_Step, frozen=True, tag=True):
    """Supervisors list anew, as after an answer 410."""


class Partition(_Step, frozen=True, tag=True):
    """Of one process, in one direction or both."""

    who: Literal["executor", "leader"]
    number: int
    direction: Literal["to", "from", "both"]
    seconds: float


class SetClock(_Step, frozen=True, tag=True):
    """The wall clock of a supervisor is wrong by so much from now on."""

    supervisor: int
    by: float


class LoseNode(_Step, frozen=True, tag=True):
    """It falls silent, and its pod is unready; `declared`: somebody taints it as out of service."""

    executor: int
    declared: bool


class ForceDelete(_Step, frozen=True, tag=True):
    """The pod is gone, its process goes on; `again`: one of the same name comes at once."""

    executor: int
    again: bool


class LoseLabel(_Step, frozen=True, tag=True):
    executor: int


class Flap(_Step, frozen=True, tag=True):
    """Unready, and ready again after so long."""

    executor: int
    seconds: float


class Cordon(_Step, frozen=True, tag=True):
    executor: int
    on: bool


class JoinMany(_Step, frozen=True, tag=True):
    count: int


class RollingRestart(_Step, frozen=True, tag=True):
    """Each executor in turn ends, and another one of its name comes."""


class ArchiveTrouble(_Step, frozen=True, tag=True):
    kind: Trouble


class ArchiveRefuses(_Step, frozen=True, tag=True):
    """As too large."""


class ArchiveDown(_Step, frozen=True, tag=True):
    """Until it is calm, or so long."""

    seconds: float


class Complete(_Step, frozen=True, tag=True):
    """A handler ends at once; so that there is something to archive."""

    object: int


class DeleteObject(_Step, frozen=True, tag=True):
    """By a user."""

    object: int


class Recreate(_Step, frozen=True, tag=True):
    """A user deletes an object, and makes one of the same name as soon as it is gone."""

    object: int


class ForeignFinalizer(_Step, frozen=True, tag=True):
    object: int
    on: bool


class EditAssignment(_Step, frozen=True, tag=True):
    """A user clears or changes the executor."""

    object: int
    to: int
    """Of an executor; below 0: cleared."""


class RemoveFinalizer(_Step, frozen=True, tag=True):
    """A user takes ours away."""

    object: int


class EditObject(_Step, frozen=True, tag=True):
    """A user's own edit of spec and labels, which succeeds."""

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

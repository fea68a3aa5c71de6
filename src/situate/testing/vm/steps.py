"""What may happen in a history of vm: each step a value that can be written to a file and read again.

Numbers of machines, nodes and pods are taken modulo how many there are.
"""

from __future__ import annotations

from typing import Literal

from situate.testing.histories.steps import Calm, CutWatches, KillLeader, Pass, Step, StopLeader


class Wish(Step, frozen=True, tag=True):
    """From now on the machine's agent wants so many units of CPU and of memory."""

    machine: int
    cpu: int
    memory: int


class Misask(Step, frozen=True, tag=True):
    """An agent repeats its request, reorders two, or lies in one (F5)."""

    machine: int
    how: Literal["repeat", "reorder", "huge last permit", "zero unit", "other pod", "no JSON"]


class Burst(Step, frozen=True, tag=True):
    """So many requests within a second (F16)."""

    requests: int


class Create(Step, frozen=True, tag=True):
    """A machine more."""

    cpus: int
    migratable: bool


class Recreate(Step, frozen=True, tag=True):
    """Deleted and there again under the same name at once; preferably one that moves, or for which another moves."""

    machine: int
    whom: Literal["moving", "beneficiary", "any"]


class EvictMachine(Step, frozen=True, tag=True):
    """Somebody tries to evict a machine's pod, as `kubectl drain` does: it is moved instead (B48)."""

    machine: int


class Relabel(Step, frozen=True, tag=True):
    """Somebody edits a machine, preferably one that moves (F15)."""

    machine: int
    what: Literal["immovable", "movable", "overcommit", "no overcommit"]


class Hypervise(Step, frozen=True, tag=True):
    """From now on its hypervisor behaves so, for every machine (F7)."""

    how: Literal["refuse", "stall", "slow", "fail", "well"]


class SpoilTarget(Step, frozen=True, tag=True):
    """Something befalls the pod that a machine moves into, or its node (F6)."""

    how: Literal["crash", "delete", "cordon"]


class LoseNode(Step, frozen=True, tag=True):
    """A node is deleted with all that runs there, and joins again empty after a while (F8)."""

    which: Literal["source", "target", "any"]
    node: int
    seconds: float


class ShrinkNode(Step, frozen=True, tag=True):
    """Its allocatable falls to so many CPUs less than it had at first; 0 restores it (F11)."""

    node: int
    cpus: int


class Cordon(Step, frozen=True, tag=True):
    node: int
    on: bool


class Drain(Step, frozen=True, tag=True):
    node: int
    on: bool


class Intrude(Step, frozen=True, tag=True):
    """Another scheduler binds a pod, preferably where room is being made (F10)."""

    node: int
    cpus: int


class AddPod(Step, frozen=True, tag=True):
    """A plain pod that we have to place."""

    cpus: int


class Leave(Step, frozen=True, tag=True):
    """A plain pod goes (N10)."""

    pod: int


class Defer(Step, frozen=True, tag=True):
    """A plain pod is resized by others: its kubelet puts that off, or has admitted it before anybody else (F13)."""

    pod: int
    admitted: bool


class MoveByHand(Step, frozen=True, tag=True):
    """Somebody creates a migration of his own (F12)."""

    machine: int


class DropMigration(Step, frozen=True, tag=True):
    """Somebody deletes a migration (F12); by force, so that its controller has no time to end it."""

    migration: int
    forced: bool


class KillLeaderAt(Step, frozen=True, tag=True):
    """SIGKILL at the leader's next write of a kind: when it would leave, or when it was carried out (F3)."""

    message: Literal["migration", "cancel", "hand-over", "approval", "binding", "any"]
    answered: bool


class PauseLeaderAt(Step, frozen=True, tag=True):
    """SIGSTOP there instead, for so many seconds: it wakes up as a stale leader if that is longer than its Lease."""

    message: Literal["migration", "cancel", "hand-over", "approval", "binding", "any"]
    answered: bool
    seconds: float


class Storm(Step, frozen=True, tag=True):
    """Bad weather of one kind between our processes and the API server, until the next calm."""

    kind: Literal["request lost", "answer lost", "refused", "conflict", "busy", "invalid", "late events", "late writes"]


class SetClock(Step, frozen=True, tag=True):
    """The wall clock of our processes jumps to be off by so many seconds (F14)."""

    seconds: float


class AwaitMove(Step, frozen=True, tag=True):
    """Time passes until a machine is moved, but no more than so many seconds."""

    most: float
    claimed: bool = False
    """Moved for another machine, which claims the room that it leaves."""


WorldStep = (
    Wish
    | Misask
    | Burst
    | Create
    | Recreate
    | EvictMachine
    | Relabel
    | Hypervise
    | SpoilTarget
    | LoseNode
    | ShrinkNode
    | Cordon
    | Drain
    | Intrude
    | AddPod
    | Leave
    | Defer
    | MoveByHand
    | DropMigration
)
"""What agents, users, machines and others do."""
ProcessStep = KillLeader | KillLeaderAt | PauseLeaderAt | StopLeader | Storm | Calm | CutWatches | SetClock
"""What happens to processes of ours and to messages."""
AnyStep = WorldStep | ProcessStep | Pass | AwaitMove

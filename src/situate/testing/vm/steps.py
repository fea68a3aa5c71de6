"""Steps of a history of vm: each is a value that is written to a file and read from it.

Numbers of VMs, nodes and pods are taken modulo their count.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from situate.testing.histories.steps import (
    Calm,
    CutWatches,
    KillLeader,
    KillLeaderAt,
    Pass,
    PauseLeaderAt,
    Step,
    StopLeader,
    Storm,
)

Message: TypeAlias = Literal["migration", "cancel", "hand-over", "approval", "binding", "any"]
"""Kinds of writes at which the leader dies or pauses (F3)."""


class Wish(Step, frozen=True, tag=True):
    """Set the units of CPU and memory that the VM's agent requests from now on."""

    machine: int
    cpu: int
    memory: int


class Misask(Step, frozen=True, tag=True):
    """Let an agent repeat a request, reorder two, or lie in one (F5)."""

    machine: int
    how: Literal["repeat", "reorder", "huge last permit", "zero unit", "other pod", "no JSON"]


class Burst(Step, frozen=True, tag=True):
    """Send this many requests within a second (F16)."""

    requests: int


class Create(Step, frozen=True, tag=True):
    """Create another VM."""

    cpus: int
    migratable: bool


class Recreate(Step, frozen=True, tag=True):
    """Delete a VM and recreate it under the same name, preferably one that migrates, or a beneficiary."""

    machine: int
    whom: Literal["moving", "beneficiary", "any"]


class EvictMachine(Step, frozen=True, tag=True):
    """Evict a VM's pod, as `kubectl drain` does. vm live-migrates the VM instead (B48)."""

    machine: int


class Relabel(Step, frozen=True, tag=True):
    """Edit a VM, preferably one that migrates (F15)."""

    machine: int
    what: Literal["immovable", "movable", "overcommit", "no overcommit"]


class Hypervise(Step, frozen=True, tag=True):
    """Set the behaviour of the hypervisor for every VM (F7)."""

    how: Literal["refuse", "stall", "slow", "fail", "well"]


class SpoilTarget(Step, frozen=True, tag=True):
    """Let the target pod of a migration fail, or be deleted, or its node be cordoned (F6)."""

    how: Literal["crash", "delete", "cordon"]


class LoseNode(Step, frozen=True, tag=True):
    """Delete a node with all its pods. It joins again, empty, after `seconds` (F8)."""

    which: Literal["source", "target", "any"]
    node: int
    seconds: float


class ShrinkNode(Step, frozen=True, tag=True):
    """Lower the allocatable of a node by `cpus` CPUs below its initial value. 0 restores it (F11)."""

    node: int
    cpus: int


class Cordon(Step, frozen=True, tag=True):
    node: int
    on: bool


class Drain(Step, frozen=True, tag=True):
    node: int
    on: bool


class Intrude(Step, frozen=True, tag=True):
    """Let another scheduler bind a pod, preferably to a node where a migration frees capacity (F10)."""

    node: int
    cpus: int


class AddPod(Step, frozen=True, tag=True):
    """Create a plain pod for our scheduler."""

    cpus: int


class Leave(Step, frozen=True, tag=True):
    """Delete a plain pod (N10)."""

    pod: int


class Defer(Step, frozen=True, tag=True):
    """Let another tool resize a plain pod. Its kubelet defers the resize, or admits it before anything else (F13)."""

    pod: int
    admitted: bool


class MoveByHand(Step, frozen=True, tag=True):
    """Create a migration as a user does (F12)."""

    machine: int


class DropMigration(Step, frozen=True, tag=True):
    """Delete a migration as a user does (F12). With `forced`, its controller has no time to end it."""

    migration: int
    forced: bool


class SetClock(Step, frozen=True, tag=True):
    """Set the wall clock of our processes off by `seconds` (F14)."""

    seconds: float


class AwaitMove(Step, frozen=True, tag=True):
    """Let time pass until a VM migrates, but at most `most` seconds."""

    most: float
    claimed: bool = False
    """Whether the migration must have a beneficiary, which claims the freed capacity."""


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
"""Steps of agents, users, VMs and other tools."""
ProcessStep = (
    KillLeader | KillLeaderAt[Message] | PauseLeaderAt[Message] | StopLeader | Storm | Calm | CutWatches | SetClock
)
"""Steps that affect our processes and messages."""
AnyStep = WorldStep | ProcessStep | Pass | AwaitMove

"""Steps that histories of every product share: values drawn from a seed, written to a file and read from it."""

from __future__ import annotations

import msgspec


class Step(msgspec.Struct, frozen=True, tag_field="step", rename="camel"):
    """A step of a history. `wait` virtual seconds pass after it."""

    wait: float


class KillLeader(Step, frozen=True, tag=True):
    """Kill the leader (SIGKILL). A new process replaces it later."""


class KillStandby(Step, frozen=True, tag=True):
    """Kill a standby (SIGKILL). The leader is not affected."""


class PauseLeader(Step, frozen=True, tag=True):
    """Stop the leader's process for `seconds` (SIGSTOP).

    It resumes as a stale leader if that is longer than its Lease.
    """

    seconds: float


class StopLeader(Step, frozen=True, tag=True):
    """End the leader in order (SIGTERM), with a hand-over of the Lease."""


class Calm(Step, frozen=True, tag=True):
    """End all network faults."""


class CutWatches(Step, frozen=True, tag=True):
    """End every watch. With `compact`, the server refuses to resume a watch and answers 410."""

    compact: bool


class ServerDown(Step, frozen=True, tag=True):
    """Let the API server answer none of our processes for `seconds`."""

    seconds: float


class Pass(Step, frozen=True, tag=True):
    """Let time pass."""

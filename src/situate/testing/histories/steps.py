"""What happens in histories of every product: steps as values, drawn from a seed, written to and read from a file."""

from __future__ import annotations

import msgspec


class Step(msgspec.Struct, frozen=True, tag_field="step", rename="camel"):
    """Something that is done, after which `wait` virtual seconds pass."""

    wait: float


class KillLeader(Step, frozen=True, tag=True):
    """SIGKILL; a new process takes its place after a while."""


class KillStandby(Step, frozen=True, tag=True):
    """So; whoever leads is not concerned."""


class PauseLeader(Step, frozen=True, tag=True):
    """SIGSTOP for so many seconds: it wakes up as a stale leader if that is longer than its Lease."""

    seconds: float


class StopLeader(Step, frozen=True, tag=True):
    """SIGTERM: an orderly end, which hands the Lease over."""


class Calm(Step, frozen=True, tag=True):
    """Bad weather is over."""


class CutWatches(Step, frozen=True, tag=True):
    """Every watch ends; with `compact`, going on from where it was is refused with 410."""

    compact: bool


class ServerDown(Step, frozen=True, tag=True):
    """The API server answers our processes nothing for so many seconds."""

    seconds: float


class Pass(Step, frozen=True, tag=True):
    """Time passes."""

"""Histories as files, and the steps that those of every product share. Both are drawn from a seed."""

from __future__ import annotations

from typing import Generic, Self, TypeVar

import msgspec

Message_co = TypeVar("Message_co", bound=str, covariant=True)
"""The kinds of messages at which a history acts, as a `Literal` of the product."""


class StoredHistory(msgspec.Struct, frozen=True, rename="camel"):
    """A history as a file. Each product adds its settings and steps."""

    seed: int

    def to_json(self) -> bytes:
        return msgspec.json.format(msgspec.json.encode(self), indent=1)

    @classmethod
    def from_json(cls, data: bytes) -> Self:
        """Read a history. Raises `msgspec.ValidationError` for input that `to_json` did not write."""
        return msgspec.json.decode(data, type=cls)


class Step(msgspec.Struct, frozen=True, tag_field="step", rename="camel"):
    """A step of a history. `wait` virtual seconds pass after it."""

    wait: float


class KillLeader(Step, frozen=True, tag=True):
    """Kill the leader (SIGKILL). A new process replaces it later."""


class KillLeaderAt(Step, Generic[Message_co], frozen=True, tag=True):
    """Kill the leader (SIGKILL) at its next message of a kind, if it sends one soon.

    The leader dies before the message leaves, so that its decision is lost. Or the server carries the message out, and
    the leader dies before the answer arrives.
    """

    message: Message_co
    answered: bool


class KillStandby(Step, frozen=True, tag=True):
    """Kill a standby (SIGKILL). The leader is not affected."""


class PauseLeader(Step, frozen=True, tag=True):
    """Stop the leader's process for `seconds` (SIGSTOP).

    It resumes as a stale leader if that is longer than its Lease.
    """

    seconds: float


class PauseLeaderAt(Step, Generic[Message_co], frozen=True, tag=True):
    """Pause the leader for `seconds` (SIGSTOP) around its next message of a kind, like `KillLeaderAt`.

    It resumes as a stale leader if that is longer than its Lease.
    """

    message: Message_co
    answered: bool
    seconds: float


class StopLeader(Step, frozen=True, tag=True):
    """End the leader in order (SIGTERM), with a hand-over of the Lease."""


class Storm(Step, frozen=True, tag=True):
    """Start one kind of network fault between our processes and the API server, until the next calm."""

    kind: str


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


class CordonNode(Step, frozen=True, tag=True):
    """Make a node unschedulable."""

    node: int


class RestoreNodes(Step, frozen=True, tag=True):
    """Make every node whole, healthy and schedulable again."""


ProcessStep = (
    KillLeader
    | KillLeaderAt[str]
    | KillStandby
    | PauseLeader
    | PauseLeaderAt[str]
    | StopLeader
    | Storm
    | Calm
    | CutWatches
    | ServerDown
    | Pass
)
"""Steps that `process_faults` performs."""

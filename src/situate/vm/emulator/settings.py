"""At which pace the stand-in works."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Settings:
    """Times are seconds."""

    poll_s: float = 1.0
    """Between two looks at a move that copies (C34)."""
    wait_s: float = 1.0
    """Until what waits for something else is looked at again."""
    scale_s: float = 0.0
    """How long a machine takes to change its size, where it does not say so itself (`hypervisor.Behaviour`)."""
    handover_s: float = 10.0
    """How long the source of a move with a claim waits for the hand-over to be written (see the package)."""
    image: str = "vm-runner"
    """Of runner pods, where a machine names none."""
    compat: bool = False
    """A second migration of a machine waits instead of failing as Busy (D11)."""

"""Times and defaults of the emulator."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Settings:
    """Times are seconds."""

    poll_s: float = 1.0
    """Time between two reconciliations of a copying migration (C34)."""
    wait_s: float = 1.0
    """Time until an object that waits for another one is reconciled again."""
    scale_s: float = 0.0
    """Time for a change of size, if the VM does not set it itself (`hypervisor.Behaviour`)."""
    handover_s: float = 10.0
    """Time that the source of a migration with a claim waits for the hand-over record (see the package)."""
    image: str = "vm-runner"
    """Image of runner Pods, if a VM names none."""
    compat: bool = False
    """A second migration of a VM waits instead of failing as Busy (D11)."""

"""What comes of one event."""

from __future__ import annotations

from dataclasses import dataclass

from situate.vm.model.actions import Action
from situate.vm.model.state import State


@dataclass(frozen=True, slots=True)
class Decision:
    """Another ledger, and what has to be done for it to be true of the cluster."""

    state: State
    actions: tuple[Action, ...] = ()
    wake_at: float | None = None
    """A beat is due then, seconds of the epoch; None: nothing waits for time."""

"""The result of one event: the next state, the actions and the next wake-up time."""

from __future__ import annotations

from dataclasses import dataclass

from situate.vm.model.actions import Action
from situate.vm.model.state import LedgerState


@dataclass(frozen=True, slots=True)
class Decision:
    """The next state, and the actions that make the cluster match it."""

    state: LedgerState
    actions: tuple[Action, ...] = ()
    wake_at: float | None = None
    """When the next `TimerFired` is due, in seconds of the epoch. None: nothing waits for time."""

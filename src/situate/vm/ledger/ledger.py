"""The ledger of a process: plugin and controller read it, and it changes only through `Ledger.apply`.

`situate.vm.ledger.step` decides the changes, event by event. The actions of an event wait here until the controller
takes them. So a plugin that reserves a Pod during a scheduling cycle performs no writes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from situate.framework.cycle.handle import Handle
from situate.vm.ledger.migrations.planner import Planner
from situate.vm.ledger.step import PLANNER, step
from situate.vm.model.actions import Action
from situate.vm.model.events import Event, NodeObserved, NodeRemoved, TimerFired
from situate.vm.model.node_fit import largest_total
from situate.vm.model.policy import Rules
from situate.vm.model.resource_amounts import Amounts
from situate.vm.model.state import LedgerState


@dataclass(slots=True)
class PluginCounts:
    """Counts of plugin calls since the process began, for the metrics."""

    calls: Counter[tuple[str, bool]] = field(default_factory=Counter)
    """Calls, by method and whether the Pod's namespace is ignored."""
    failures: Counter[tuple[str, bool]] = field(default_factory=Counter)
    """Rejections and errors, with the same keys."""
    should_deny: int = 0
    """Pods that were reserved although the node was over budget with them (C22)."""
    unplaced: int = 0
    """Scheduling cycles that found no node."""
    unplaced_for_held_capacity: int = 0
    """Scheduling cycles that failed only because capacity is held for others (B4)."""


class Ledger:
    """The mutable ledger of one process. Times are seconds of the epoch."""

    def __init__(self, rules: Rules, clock: Callable[[], float], may_write: Callable[[], bool]) -> None:
        """Create an empty ledger. `may_write` returns whether this process holds the Lease now."""
        self.rules = rules
        self.state = LedgerState(resources=len(rules.resources))
        self.planner: Planner = PLANNER
        """Chooses the VMs to migrate and their targets."""
        self.counts = PluginCounts()
        self.largest = Amounts.zero(len(rules.resources))
        """The largest Total of any node, for each resource. Scores are relative to it (C20, D17)."""
        self.wake_at: float | None = None
        """When the next `TimerFired` is due, in seconds of the epoch. None: nothing waits for time."""
        self.handle: Handle | None = None
        """Handle of the engine that runs the plugin. None until the plugin runs."""
        self.paused: dict[str, str] = {}
        """By UID of each target Pod that waits at Permit: the key of its migration (N24)."""
        self.broken: Exception | None = None
        """The exception of an event that the ledger could not apply.

        The ledger lacks that event and must not be used any more.
        """
        self.listeners: list[Callable[[], None]] = []
        """Functions to call after each event. They must not block."""
        self.clock = clock
        self.may_write = may_write
        self._actions: list[Action] = []

    def begin(self) -> None:
        """Start a term as leader: drop the state and all pending actions."""
        self.state = LedgerState(resources=len(self.rules.resources))
        self.largest = Amounts.zero(len(self.rules.resources))
        self.wake_at = None
        self.paused = {}
        self.broken = None
        self._actions = []

    def apply(self, event: Event) -> None:
        """Apply an event. Its actions wait until `take_actions` returns them."""
        try:
            decision = step(self.state, event, self.clock(), self.rules, self.planner)
        except Exception as problem:
            self.broken = problem
            self._notify_listeners()
            raise
        self.state = decision.state
        self._actions += decision.actions
        self.wake_at = decision.wake_at
        if isinstance(event, NodeObserved | NodeRemoved):
            self._update_largest()
        self._notify_listeners()

    def apply_timer(self) -> None:
        """Clear `wake_at` and apply a time event."""
        self.wake_at = None
        self.apply(TimerFired())

    def take_actions(self) -> list[Action]:
        """Return the pending actions in order and remove them from the ledger."""
        taken, self._actions = self._actions, []
        return taken

    def independent_copy(self) -> Ledger:
        """Return an independent copy with the same state. Its actions are never performed."""
        twin = Ledger(self.rules, self.clock, self.may_write)
        twin.state, twin.largest, twin.planner = self.state, self.largest, self.planner
        return twin

    def _notify_listeners(self) -> None:
        for listener in self.listeners:
            listener()

    def _update_largest(self) -> None:
        """Update the largest Total. With `compat`, it never falls, as in neondatabase/autoscaling."""
        now = largest_total(self.state.nodes.values(), self.state.resources)
        self.largest = self.largest.maximum(now) if self.rules.compat else now

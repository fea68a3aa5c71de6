"""The one ledger of a process: what plugin and shell both look at, and the only door through which it changes.

What may change in it is decided by `situate.vm.ledger.step`, event by event. What an event asks for is queued here
until the shell takes it, so that a plugin that books a pod in the midst of a cycle performs nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from situate.framework.cycle.handle import Handle
from situate.vm.ledger.migrations.planner import Planner
from situate.vm.ledger.step import PLANNER, step
from situate.vm.model.actions import Action
from situate.vm.model.events import Beat, Event, NodeGone, NodeSeen
from situate.vm.model.node_fit import largest
from situate.vm.model.policy import Rules
from situate.vm.model.resource_amounts import Amounts
from situate.vm.model.state import State


@dataclass(slots=True)
class Counts:
    """What plugin calls have come to since the process began; metrics show it (C32)."""

    calls: Counter[tuple[str, bool]] = field(default_factory=Counter)
    """By method and whether the pod's namespace is ignored."""
    failures: Counter[tuple[str, bool]] = field(default_factory=Counter)
    """Rejections and errors, likewise."""
    should_deny: int = 0
    """Pods that were reserved although the node was over its budget with them (C22)."""
    unplaced: int = 0
    """Cycles of pods that no node could take."""
    unplaced_for_held_room: int = 0
    """Those of them that a node would have taken if no room of it were held for others (B4)."""


class Ledger:
    """Mutable, of one process; times are seconds of the epoch."""

    def __init__(self, rules: Rules, clock: Callable[[], float], may_write: Callable[[], bool]) -> None:
        """`may_write`: whether this process leads at this very moment (B44)."""
        self.rules = rules
        self.state = State(resources=len(rules.resources))
        self.planner: Planner = PLANNER
        """Who says who moves whither."""
        self.counts = Counts()
        self.largest = Amounts.zero(len(rules.resources))
        """The largest Total of any node, a resource each: what scores compare with (C20, D17)."""
        self.wake_at: float | None = None
        """When a `Beat` is due; None: nothing waits for time."""
        self.handle: Handle | None = None
        """Lent by the engine in which the plugin is at work; None before there is one."""
        self.paused: dict[str, str] = {}
        """By uid the targets that Permit holds, and the key of the move of each (N24)."""
        self.broken: Exception | None = None
        """A defect: an event could not be decided on. The ledger lacks it from then on, and nobody may rely on it."""
        self.listeners: list[Callable[[], None]] = []
        """Called after each event; none of them may block."""
        self.clock = clock
        self.may_write = may_write
        self._actions: list[Action] = []

    def begin(self) -> None:
        """A term begins: nothing is known, and nothing that an earlier one asked for is to be done."""
        self.state = State(resources=len(self.rules.resources))
        self.largest = Amounts.zero(len(self.rules.resources))
        self.wake_at = None
        self.paused = {}
        self.broken = None
        self._actions = []

    def apply(self, event: Event) -> None:
        """What happened is true from now on; what it asks for waits in `taken`."""
        try:
            decision = step(self.state, event, self.clock(), self.rules, self.planner)
        except Exception as problem:
            self.broken = problem
            self._tell()
            raise
        self.state = decision.state
        self._actions += decision.actions
        self.wake_at = decision.wake_at
        if isinstance(event, NodeSeen | NodeGone):
            self._measure()
        self._tell()

    def beat(self) -> None:
        """Time has passed: `wake_at` is no more."""
        self.wake_at = None
        self.apply(Beat())

    def taken(self) -> list[Action]:
        """What has to be done, in order; it is forgotten here."""
        taken, self._actions = self._actions, []
        return taken

    def apart(self) -> Ledger:
        """One that knows the same; what becomes of it is nothing to this one, and nothing of it is performed."""
        twin = Ledger(self.rules, self.clock, self.may_write)
        twin.state, twin.largest, twin.planner = self.state, self.largest, self.planner
        return twin

    def _tell(self) -> None:
        for listener in self.listeners:
            listener()

    def _measure(self) -> None:
        """With `compat` the largest one never falls, as in the reference."""
        now = largest(self.state.nodes.values(), self.state.resources)
        self.largest = self.largest.most(now) if self.rules.compat else now

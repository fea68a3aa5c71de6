"""The course of an interleaving: the ledger, its world, and the messages between both.

Watches delay and repeat events but preserve the order of each object, as in Kubernetes. Answers and writes are lost,
applied without our knowledge, or applied late. The scheduler dies and restarts from the objects. Every step is checked.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from situate.testing.vm.interleavings.interleaving_world import InterleavingAgent, InterleavingWorld
from situate.testing.vm.invariants.rules import (
    LedgerStep,
    broken_invariants,
    restart_losses,
    under_reserved_pods,
    unjustified_moves,
)
from situate.vm.ledger.step import step
from situate.vm.model.actions import Action, Approve, NoteMoved, Notify, ResizePod, StartMove, slot_of, written_object
from situate.vm.model.events import (
    Event,
    MigrationObserved,
    MigrationRemoved,
    NodeObserved,
    NodeRemoved,
    PodObserved,
    PodRemoved,
    TimerFired,
    WriteResult,
)
from situate.vm.model.migrations import BeneficiaryKind
from situate.vm.model.policy import Rules
from situate.vm.model.resource_amounts import Amounts
from situate.vm.model.state import LedgerState

RULES: Final = Rules()
_ANSWERED_ACTIONS: Final = (Approve, ResizePod, NoteMoved)
"""Writes whose answer contains the present object."""
_CONTESTED_FROM: Final = 0.97
"""Luck from which a write conflicts: another client has just written the object, and the server answers 409 or 422."""
MOST_TICKS: Final = 100
"""Maximum number of `TimerFired` events at one moment. Each checks one pod and one node."""


class Violation(AssertionError):
    """An invariant does not hold. The message contains the seed."""


@dataclass
class LedgerRun:
    seed: int
    rules: Rules = RULES
    now: float = 0.0
    state: LedgerState = field(default_factory=LedgerState)
    world: InterleavingWorld = field(default_factory=InterleavingWorld)
    story: list[tuple[float, Event] | Action | str] = field(default_factory=list)
    happened: Counter[str] = field(default_factory=Counter)
    """Counts of started migrations, of claims by their end, and so on. A history without them shows nothing."""

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        """Random choices, of the current step alone once it has begun."""
        self.at_step = 0
        self.agents: dict[str, InterleavingAgent] = {}
        self.undelivered_events: dict[str, deque[Event]] = {}
        """Events that watches have not delivered yet, by object."""
        self.writes: deque[Action] = deque()
        self.late_writes: list[tuple[Action, object]] = []
        """Writes still on their way although we gave them up, each with the version of its object that it tests."""
        self.versions: Counter[str] = Counter()
        """By VM: how often it was written."""
        self.outcomes: list[tuple[WriteResult, Event | None]] = []
        """Results of writes, with the object from the answer if there was one."""
        self.reserved_nodes: dict[str, str] = {}
        """Pods that a cycle of ours has reserved and not bound."""
        self.has_faults = True
        self.wake_at: float | None = None

    def step(self, event: Event) -> None:
        self.story.append((self.now, event))
        decision = step(self.state, event, self.now, self.rules)
        if self.rng.random() < 0.05 and step(self.state, event, self.now, self.rules) != decision:
            self.check((f"I10: {event} leads to two different decisions",))
        stepped = LedgerStep(self.state, event, decision, self.now, self.rules)
        self.state, self.wake_at = decision.state, decision.wake_at
        self.story += decision.actions
        self.check(broken_invariants(stepped))
        self.check(unjustified_moves(stepped))
        self.check(under_reserved_pods(self.state, self._used_amounts()))
        for action in decision.actions:
            self._submit(action)
            self.happened[type(action).__name__] += 1
            if isinstance(action, StartMove) and action.claim is not None:
                self.happened["link of a chain"] += action.claim.beneficiary.kind is BeneficiaryKind.TARGET
            if isinstance(action, Notify):
                self.happened[str(action.fields.get("outcome", action.reason))] += 1

    def check(self, problems: Iterable[str]) -> None:
        found = list(problems)
        if found:
            raise Violation("\n".join((f"seed {self.seed}:", *found)))

    def story_lines(self) -> list[str]:
        """Return one line for each event with its time, and one for each resulting action."""
        return [f"{each[0]:g} {each[1]}" if isinstance(each, tuple) else f"    {each}" for each in self.story]

    def _used_amounts(self) -> dict[str, Amounts]:
        return {
            vm.runs_in: vm.use.maximum(self.agents[vm.name].permit if vm.name in self.agents else vm.use)
            for vm in self.world.machines.values()
        }

    def start(self) -> None:
        self.state = LedgerState()
        self.undelivered_events, self.outcomes, self.reserved_nodes = {}, [], {}
        self.writes.clear()
        for event in self.world.listing():
            self.step(event)
        self.check(restart_losses(self.state, (vm.runs_in for vm in self.world.machines.values()), self.world.pod))

    def restart(self) -> None:
        """Restart the scheduler. Open requests are never answered, and writes on their way may still be carried out."""
        self.story.append("-- restart")
        self.late_writes += [
            (action, self._machine_version(action)) for action in self.writes if self.rng.random() < 0.2
        ]
        for agent in self.agents.values():
            agent.waits_for = None
        self.start()

    def deliver_event(self) -> None:
        waiting_ = [key for key, events in self.undelivered_events.items() if events]
        if waiting_:
            event = self.undelivered_events[self.rng.choice(waiting_)].popleft()
            self.step(event)
            if self.has_faults and self.rng.random() < 0.05:
                self.happened["told twice"] += 1
                self.step(event)

    def deliver_all_events(self) -> None:
        while any(self.undelivered_events.values()):
            self.deliver_event()

    def queue_events(self, events: Iterable[Event]) -> None:
        for event in events:
            self.undelivered_events.setdefault(_object_key(event), deque()).append(event)

    def _submit(self, action: Action) -> None:
        """Queue a write. It replaces an unsent older write of the same slot (as `Applier` does)."""
        if (written := written_object(action)) is not None:
            slot = written, slot_of(action)
            self.writes = deque(each for each in self.writes if (written_object(each), slot_of(each)) != slot)
        self.writes.append(action)

    def send_next_write(self) -> bool:
        """Send a write and return whether there was one. Each object has one open write at a time."""
        under_way = {written_object(written.action) for written, _ in self.outcomes} - {None}
        action = next((each for each in self.writes if written_object(each) not in under_way), None)
        if action is None:
            return False
        self.writes.remove(action)
        self._send(action, self.rng.random())
        return True

    def _send(self, action: Action, luck: float) -> None:
        if self.has_faults and luck < 0.05:
            self.happened["write lost"] += 1
            self.outcomes.append((WriteResult(action, "unknown"), None))
            self.late_writes.append((action, self._machine_version(action)))
            return
        contested = self.has_faults and luck >= _CONTESTED_FROM
        events = None if contested else self._perform_action(action)
        self.story.append(f"{type(action).__name__} was {'refused' if events is None else 'carried out'}")
        self.queue_events(events or ())
        outcome = "refused" if events is None else "unknown" if self.has_faults and luck < 0.1 else "ok"
        self.happened[f"write {outcome}"] += 1
        answered = events[0] if events and outcome == "ok" and isinstance(action, _ANSWERED_ACTIONS) else None
        self.outcomes.append((WriteResult(action, outcome), answered))

    def land_late_write(self) -> None:
        """Carry a late write out.

        An approval tests that its VM is unchanged since it was sent (`situate.vm.api.patches`).
        """
        if self.late_writes:
            action, version = self.late_writes.pop(0)
            if version == self._machine_version(action):
                self.queue_events(self._perform_action(action) or ())

    def _perform_action(self, action: Action) -> list[Event] | None:
        events = self.world.perform(action, self.now)
        if events and isinstance(action, Approve | NoteMoved):
            self.versions[action.machine.name] += 1
        return events

    def _machine_version(self, action: Action) -> object:
        """Return the version of an approval's VM across all writers. None for other actions, which test no version."""
        if not isinstance(action, Approve):
            return None
        vm = self.world.machines.get(action.machine.name)
        return self.versions[action.machine.name], None if vm is None else replace(vm)

    def deliver_outcome(self) -> None:
        if self.outcomes:
            written, answered = self.outcomes.pop(0)
            if answered is not None:
                self._deliver_object(answered)
            self.step(written)

    def _deliver_object(self, answered: Event) -> None:
        """Deliver an answer's object like an event, and drop older events of it (`Reflector.learn`)."""
        coming = self.undelivered_events.get(_object_key(answered), deque())
        if any(each is answered for each in coming):
            while coming.popleft() is not answered:
                self.happened["overtaken by an answer"] += 1
            self.step(answered)

    def pass_time(self) -> None:
        self.now += self.rng.choice((0.1, 1.0, 5.0, 5.0, 20.0))
        self.tick_while_due()

    def tick_while_due(self) -> None:
        """Repeat `TimerFired` events as long as another one is due at once."""
        for _ in range(MOST_TICKS):
            self.step(TimerFired())
            if self.wake_at is None or self.wake_at > self.now:
                return
        self.check((f"B42: another wake-up is due at {self.wake_at}, and the time is {self.now}",))

    def random_fitting_node(self, amount: Amounts, but: str = "") -> str:
        fits = [name for name in self.state.nodes if name != but and amount.fits_within(self.state.available(name, ""))]
        return self.rng.choice(fits) if fits else ""


def _object_key(event: Event) -> str:
    match event:
        case NodeObserved(node=node):
            return f"node {node.name}"
        case NodeRemoved(name=name):
            return f"node {name}"
        case PodObserved(pod=pod):
            return f"pod {pod.uid}"
        case PodRemoved(uid=uid):
            return f"pod {uid}"
        case MigrationObserved(name=name) | MigrationRemoved(name=name):
            return f"migration {name}"
    raise AssertionError(f"{event} is not an event of a watch")

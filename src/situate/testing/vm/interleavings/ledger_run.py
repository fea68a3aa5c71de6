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

from situate.testing.vm.interleavings.interleaving_world import Agent, Town
from situate.testing.vm.invariants.rules import (
    Stepped,
    broken,
    changed_by_a_restart,
    moved_for_the_ignored,
    too_little_booked,
)
from situate.vm.ledger.step import step
from situate.vm.model.actions import Action, Approve, NoteMoved, ResizePod, StartMove, Tell, slot_of, written_to
from situate.vm.model.events import (
    Beat,
    Event,
    MigrationGone,
    MigrationSeen,
    NodeGone,
    NodeSeen,
    PodGone,
    PodSeen,
    Written,
)
from situate.vm.model.migrations import BeneficiaryKind
from situate.vm.model.policy import Rules
from situate.vm.model.resource_amounts import Amounts
from situate.vm.model.state import State

RULES: Final = Rules()
_LEARNT: Final = (Approve, ResizePod, NoteMoved)
"""Writes whose answer contains the present object."""
_CONTESTED_FROM: Final = 0.97
"""Luck from which a write conflicts: another client has just written the object, and the server answers 409 or 422."""
MOST_BEATS: Final = 100
"""Maximum number of `Beat` events at one moment. Each checks one pod and one node."""


class Violation(AssertionError):
    """An invariant does not hold. The message contains the seed."""


@dataclass
class Course:
    seed: int
    rules: Rules = RULES
    now: float = 0.0
    state: State = field(default_factory=State)
    world: Town = field(default_factory=Town)
    story: list[tuple[float, Event] | Action | str] = field(default_factory=list)
    happened: Counter[str] = field(default_factory=Counter)
    """Counts of started migrations, of claims by their end, and so on. A history without them shows nothing."""

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        """Random choices, of the current step alone once it has begun."""
        self.at_step = 0
        self.agents: dict[str, Agent] = {}
        self.told: dict[str, deque[Event]] = {}
        """Events that watches have not delivered yet, by object."""
        self.writes: deque[Action] = deque()
        self.late: list[tuple[Action, object]] = []
        """Writes still on their way although we gave them up, each with the version of its object that it tests."""
        self.versions: Counter[str] = Counter()
        """By VM: how often it was written."""
        self.outcomes: list[tuple[Written, Event | None]] = []
        """Results of writes, with the object from the answer if there was one."""
        self.placed: dict[str, str] = {}
        """Pods that a cycle of ours has reserved and not bound."""
        self.troubled = True
        self.wake_at: float | None = None

    def step(self, event: Event) -> None:
        self.story.append((self.now, event))
        decision = step(self.state, event, self.now, self.rules)
        if self.rng.random() < 0.05 and step(self.state, event, self.now, self.rules) != decision:
            self.check((f"I10: {event} leads to two different decisions",))
        stepped = Stepped(self.state, event, decision, self.now, self.rules)
        self.state, self.wake_at = decision.state, decision.wake_at
        self.story += decision.actions
        self.check(broken(stepped))
        self.check(moved_for_the_ignored(stepped))
        self.check(too_little_booked(self.state, self._uses()))
        for action in decision.actions:
            self._submit(action)
            self.happened[type(action).__name__] += 1
            if isinstance(action, StartMove) and action.claim is not None:
                self.happened["link of a chain"] += action.claim.beneficiary.kind is BeneficiaryKind.TARGET
            if isinstance(action, Tell):
                self.happened[str(action.fields.get("outcome", action.reason))] += 1

    def check(self, problems: Iterable[str]) -> None:
        found = list(problems)
        if found:
            raise Violation("\n".join((f"seed {self.seed}:", *found)))

    def told_story(self) -> list[str]:
        """Return one line for each event with its time, and one for each resulting action."""
        return [f"{each[0]:g} {each[1]}" if isinstance(each, tuple) else f"    {each}" for each in self.story]

    def _uses(self) -> dict[str, Amounts]:
        return {
            vm.runs_in: vm.use.most(self.agents[vm.name].permit if vm.name in self.agents else vm.use)
            for vm in self.world.machines.values()
        }

    def start(self) -> None:
        self.state = State()
        self.told, self.outcomes, self.placed = {}, [], {}
        self.writes.clear()
        for event in self.world.listing():
            self.step(event)
        self.check(
            changed_by_a_restart(self.state, (vm.runs_in for vm in self.world.machines.values()), self.world.pod)
        )

    def restart(self) -> None:
        """Restart the scheduler. Open requests are never answered, and writes on their way may still be carried out."""
        self.story.append("-- restart")
        self.late += [(action, self._version(action)) for action in self.writes if self.rng.random() < 0.2]
        for agent in self.agents.values():
            agent.waits_for = None
        self.start()

    def tell(self) -> None:
        waiting_ = [key for key, events in self.told.items() if events]
        if waiting_:
            event = self.told[self.rng.choice(waiting_)].popleft()
            self.step(event)
            if self.troubled and self.rng.random() < 0.05:
                self.happened["told twice"] += 1
                self.step(event)

    def drain_told(self) -> None:
        while any(self.told.values()):
            self.tell()

    def seen(self, events: Iterable[Event]) -> None:
        for event in events:
            self.told.setdefault(_object(event), deque()).append(event)

    def _submit(self, action: Action) -> None:
        """Queue a write. It replaces an unsent older write of the same slot (as `Performing` does)."""
        if (written := written_to(action)) is not None:
            slot = written, slot_of(action)
            self.writes = deque(each for each in self.writes if (written_to(each), slot_of(each)) != slot)
        self.writes.append(action)

    def write(self) -> bool:
        """Send a write and return whether there was one. Each object has one open write at a time."""
        under_way = {written_to(written.action) for written, _ in self.outcomes} - {None}
        action = next((each for each in self.writes if written_to(each) not in under_way), None)
        if action is None:
            return False
        self.writes.remove(action)
        self._send(action, self.rng.random())
        return True

    def _send(self, action: Action, luck: float) -> None:
        if self.troubled and luck < 0.05:
            self.happened["write lost"] += 1
            self.outcomes.append((Written(action, "unknown"), None))
            self.late.append((action, self._version(action)))
            return
        contested = self.troubled and luck >= _CONTESTED_FROM
        events = None if contested else self._perform(action)
        self.story.append(f"{type(action).__name__} was {'refused' if events is None else 'carried out'}")
        self.seen(events or ())
        outcome = "refused" if events is None else "unknown" if self.troubled and luck < 0.1 else "ok"
        self.happened[f"write {outcome}"] += 1
        answered = events[0] if events and outcome == "ok" and isinstance(action, _LEARNT) else None
        self.outcomes.append((Written(action, outcome), answered))

    def write_late(self) -> None:
        """Carry a late write out.

        An approval tests that its VM is unchanged since it was sent (`situate.vm.api.patches`).
        """
        if self.late:
            action, version = self.late.pop(0)
            if version == self._version(action):
                self.seen(self._perform(action) or ())

    def _perform(self, action: Action) -> list[Event] | None:
        events = self.world.perform(action, self.now)
        if events and isinstance(action, Approve | NoteMoved):
            self.versions[action.machine.name] += 1
        return events

    def _version(self, action: Action) -> object:
        """Return the version of an approval's VM across all writers. None for other actions, which test no version."""
        if not isinstance(action, Approve):
            return None
        vm = self.world.machines.get(action.machine.name)
        return self.versions[action.machine.name], None if vm is None else replace(vm)

    def hear(self) -> None:
        if self.outcomes:
            written, answered = self.outcomes.pop(0)
            if answered is not None:
                self._learn(answered)
            self.step(written)

    def _learn(self, answered: Event) -> None:
        """Deliver an answer's object like an event, and drop older events of it (`Reflector.learn`)."""
        coming = self.told.get(_object(answered), deque())
        if any(each is answered for each in coming):
            while coming.popleft() is not answered:
                self.happened["overtaken by an answer"] += 1
            self.step(answered)

    def pass_time(self) -> None:
        self.now += self.rng.choice((0.1, 1.0, 5.0, 5.0, 20.0))
        self.beat()

    def beat(self) -> None:
        """Repeat `Beat` events as long as another one is due at once."""
        for _ in range(MOST_BEATS):
            self.step(Beat())
            if self.wake_at is None or self.wake_at > self.now:
                return
        self.check((f"B42: another wake-up is due at {self.wake_at}, and the time is {self.now}",))

    def room_for(self, amount: Amounts, but: str = "") -> str:
        fits = [name for name in self.state.nodes if name != but and amount.within(self.state.avail(name, ""))]
        return self.rng.choice(fits) if fits else ""


def _object(event: Event) -> str:
    match event:
        case NodeSeen(node=node):
            return f"node {node.name}"
        case NodeGone(name=name):
            return f"node {name}"
        case PodSeen(pod=pod):
            return f"pod {pod.uid}"
        case PodGone(uid=uid):
            return f"pod {uid}"
        case MigrationSeen(name=name) | MigrationGone(name=name):
            return f"migration {name}"
    raise AssertionError(f"{event} is not an event of a watch")

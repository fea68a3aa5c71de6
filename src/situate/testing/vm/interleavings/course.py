"""The course of an interleaving: the ledger, its world, and what is under way between the two.

Watches delay and repeat but keep the order of each object, as they do; answers and writes are lost, applied without our
knowing, or applied late; the scheduler dies and starts from what the objects say. Every step is checked.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from situate.testing.vm.interleavings.town import Agent, Town
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
"""What is written to an object of which the answer says how it is now."""
_CONTESTED_FROM: Final = 0.97
"""Of writes, by luck: somebody else has just written the object, and the server refuses ours (409, 422)."""
MOST_BEATS: Final = 100
"""At one moment: each looks at one pod and one node."""


class Violation(AssertionError):
    """An invariant does not hold; the message has the seed."""


@dataclass
class Course:
    seed: int
    rules: Rules = RULES
    now: float = 0.0
    state: State = field(default_factory=State)
    world: Town = field(default_factory=Town)
    story: list[tuple[float, Event] | Action | str] = field(default_factory=list)
    happened: Counter[str] = field(default_factory=Counter)
    """Moves begun, claims by how they ended, and so on: a history that nothing happens in shows nothing."""

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        """Of this step alone, once it has begun."""
        self.at_step = 0
        self.agents: dict[str, Agent] = {}
        self.told: dict[str, deque[Event]] = {}
        """What watches have yet to tell, by object."""
        self.writes: deque[Action] = deque()
        self.late: list[tuple[Action, object]] = []
        """Writes that are under way though we gave them up, each with the version of its object that it tests."""
        self.versions: Counter[str] = Counter()
        """By machine: so often it was written."""
        self.outcomes: list[tuple[Written, Event | None]] = []
        """What became of writes; with what their object is by the answer, if there was one."""
        self.placed: dict[str, str] = {}
        """Pods that a cycle of ours has reserved and not bound."""
        self.troubled = True
        self.wake_at: float | None = None

    def step(self, event: Event) -> None:
        self.story.append((self.now, event))
        decision = step(self.state, event, self.now, self.rules)
        if self.rng.random() < 0.05 and step(self.state, event, self.now, self.rules) != decision:
            self.check((f"I10: {event} is decided in two ways",))
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
        """A line for each event with its time, and one for each action that it led to."""
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
        """Requests under way are never answered; writes under way may still be carried out."""
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
        """What was decided before and has not been sent goes: this says more (as `Performing`)."""
        if (written := written_to(action)) is not None:
            slot = written, slot_of(action)
            self.writes = deque(each for each in self.writes if (written_to(each), slot_of(each)) != slot)
        self.writes.append(action)

    def write(self) -> bool:
        """Whether there was one to be sent: of each object one at a time, until its answer is heard."""
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
        """An approval tests that nobody has written its machine since it was sent (`situate.vm.api.patches`)."""
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
        """Of an approval's machine, by whoever writes it; None of all others, which test no version."""
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
        """The answer is told as an event is, and events of before are older than that (`Reflector.learn`)."""
        coming = self.told.get(_object(answered), deque())
        if any(each is answered for each in coming):
            while coming.popleft() is not answered:
                self.happened["overtaken by an answer"] += 1
            self.step(answered)

    def pass_time(self) -> None:
        self.now += self.rng.choice((0.1, 1.0, 5.0, 5.0, 20.0))
        self.beat()

    def beat(self) -> None:
        """As long as another one is due at once."""
        for _ in range(MOST_BEATS):
            self.step(Beat())
            if self.wake_at is None or self.wake_at > self.now:
                return
        self.check((f"B42: another beat is due at {self.wake_at}, and it is {self.now}",))

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
    raise AssertionError(f"{event} is nothing that a watch tells")

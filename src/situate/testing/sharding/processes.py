"""Processes of a history of decisions: each with a clock of its own, turns that may be withheld, and a way to others.

What is due for a process that stands still waits for it, in order; what is due for a dead one is forgotten. A message
that has left is carried out whatever becomes of its sender.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import TypeVar

from situate.sim.timeline import Due, Timeline
from situate.testing.sharding.store import Refused

_T = TypeVar("_T")
Call = Callable[[], object]


@dataclass(slots=True)
class Weather:
    """What the network does to messages. Chances are between 0 and 1."""

    lose_request: float = 0.0
    lose_answer: float = 0.0
    """Carried out; whoever asked hears nothing."""
    refuse: float = 0.0
    """429, 500, 503: not carried out."""
    conflict: float = 0.0
    """409 without another write."""
    late_writes_s: float = 0.0
    """A write of an executor may take so much longer."""
    late_events_s: float = 0.0
    lose_event: float = 0.0
    swap_events: float = 0.0
    """The chance that an event is so late that another one overtakes it."""


class Surroundings:
    """One timeline, one random source and one weather for all processes."""

    def __init__(self, seed: int) -> None:
        self.timeline = Timeline()
        self.rng = Random(f"sharding {seed}")
        self.weather = Weather()
        self.happened: Counter[str] = Counter()

    @property
    def now(self) -> float:
        return self.timeline.now

    def latency(self) -> float:
        return 0.001 + 0.02 * self.rng.random()

    def chance(self, name: str, share: float) -> bool:
        """Draws, and counts what it decided. Nothing is drawn in calm weather."""
        if share <= 0.0 or self.rng.random() >= share:
            return False
        self.happened[name] += 1
        return True


class Process:
    """One life of a process."""

    def __init__(self, world: Surroundings, name: str, speed: float) -> None:
        self.world = world
        self.name = name
        self.speed = speed
        """Seconds of its monotonic clock in one true second."""
        self.alive = True
        self.paused = False
        self.blocked = False
        """Its event loop stands still; what has a thread of its own goes on."""
        self.deaf = False
        """Nothing reaches it."""
        self.mute = False
        """Nothing that it sends arrives."""
        self.dies_at: tuple[str, str] | None = None
        """The next message of this kind is its last: `before` it leaves, or `after` it was carried out."""
        self._offset = world.rng.uniform(0, 1e5)
        self._backlog: deque[tuple[Call, bool]] = deque()

    def now(self) -> float:
        return self.world.now * self.speed + self._offset

    def after(self, seconds: float, call: Call, *, thread: bool = False) -> Due:
        """By its own clock. `thread`: also while the event loop stands still."""
        return self.world.timeline.after(max(0.0, seconds) / self.speed, partial(self.turn, call, thread=thread))

    def turn(self, call: Call, *, thread: bool = False) -> None:
        """Now, or as soon as it has turns again."""
        if not self.alive:
            return
        if self.paused or (self.blocked and not thread):
            self._backlog.append((call, thread))
        else:
            call()

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> None:
        """Everything is late, and comes in the order in which it was due."""
        self.paused = self.blocked = False
        waiting, self._backlog = self._backlog, deque()
        for call, thread in waiting:
            self.turn(call, thread=thread)

    def die(self) -> None:
        self.alive = False
        self._backlog.clear()

    def ask(
        self,
        kind: str,
        carry_out: Callable[[], _T],
        answered: Callable[[_T | Refused | None], object],
        *,
        timeout_s: float = 5.0,
        late_s: float = 0.0,
        thread: bool = False,
    ) -> None:
        """One request. `answered` is told what came back; None: nothing did within the time-out.

        `late_s`: so much later than usual it may arrive. Kinds that begin with `read` are no writes.
        """
        world, weather = self.world, self.world.weather
        dies = self.dies_at is not None and self.dies_at[0] == kind
        if dies and self.dies_at == (kind, "before"):
            world.happened[f"killed before {kind}"] += 1
            world.happened[f"killed at {kind}"] += 1
            self.die()
            return
        there = world.latency() + (late_s * world.rng.random() if late_s else 0.0)
        back = there + world.latency()

        def arrive() -> None:
            lost = self.mute or world.chance("request lost", weather.lose_request)
            answer: _T | Refused | None = None
            if not lost:
                if world.chance("request refused", weather.refuse):
                    answer = Refused.FAILED
                elif not kind.startswith("read") and world.chance("write in conflict", weather.conflict):
                    answer = Refused.CONFLICT
                else:
                    answer = carry_out()
                if dies and self.alive:
                    world.happened[f"killed after {kind}"] += 1
                    world.happened[f"killed at {kind}"] += 1
                    self.die()
                    return
                if back > timeout_s or world.chance("answer lost", weather.lose_answer):
                    answer = None
            wait = back - there if answer is not None else max(0.0, timeout_s / self.speed - there)
            world.timeline.after(wait, partial(deliver, answer))

        def deliver(answer: _T | Refused | None) -> None:
            if self.deaf and answer is not None:
                world.timeline.after(timeout_s, partial(self.turn, partial(answered, None), thread=thread))
                return
            self.turn(partial(answered, answer), thread=thread)

        world.timeline.after(there, arrive)

    def tell(self, call: Call) -> None:
        """A watch event; it may be late, lost or overtaken by others."""
        world, weather = self.world, self.world.weather
        if world.chance("event lost", weather.lose_event):
            return
        delay = world.latency()
        if weather.late_events_s:
            world.happened["event delayed"] += 1
            delay += weather.late_events_s * world.rng.random()
        elif world.chance("events swapped", weather.swap_events):
            delay += 1.0
        world.timeline.after(delay, partial(self._hear, call))

    def _hear(self, call: Call) -> None:
        if not self.deaf:
            self.turn(call)

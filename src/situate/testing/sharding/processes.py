"""Processes of a history of decisions: each has its own clock, turns that can be withheld, and calls to others.

Work due for a paused process waits for it, in order. Work due for a dead process is dropped. A message that has left is
carried out, even if its sender dies.
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
    """The faults of the network. Chances are between 0 and 1."""

    lose_request: float = 0.0
    lose_answer: float = 0.0
    """Chance that a request is carried out and its answer is lost."""
    refuse: float = 0.0
    """Chance that a request is not carried out and gets a 429, 500 or 503."""
    conflict: float = 0.0
    """Chance of a 409 without another write."""
    late_writes_s: float = 0.0
    """Maximum extra delay of an executor's write."""
    late_events_s: float = 0.0
    lose_event: float = 0.0
    swap_events: float = 0.0
    """Chance that an event is so late that another one overtakes it."""


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
        """Draw whether a fault occurs, and count it. With a share of 0, draw nothing."""
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
        """Seconds of its monotonic clock per true second."""
        self.alive = True
        self.paused = False
        self.blocked = False
        """Whether its event loop is blocked. Work with its own thread goes on."""
        self.deaf = False
        """Whether no message reaches it."""
        self.mute = False
        """Whether none of its messages arrives."""
        self.dies_at: tuple[str, str] | None = None
        """The next message of this kind is its last: it dies `before` it leaves, or `after` it is carried out."""
        self._offset = world.rng.uniform(0, 1e5)
        self._backlog: deque[tuple[Call, bool]] = deque()

    def now(self) -> float:
        return self.world.now * self.speed + self._offset

    def after(self, seconds: float, call: Call, *, thread: bool = False) -> Due:
        """Call after this time by its own clock. With `thread`, also while the event loop is blocked."""
        return self.world.timeline.after(max(0.0, seconds) / self.speed, partial(self.turn, call, thread=thread))

    def turn(self, call: Call, *, thread: bool = False) -> None:
        """Call now, or as soon as the process has turns again."""
        if not self.alive:
            return
        if self.paused or (self.blocked and not thread):
            self._backlog.append((call, thread))
        else:
            call()

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> None:
        """Run all late calls in the order in which they were due."""
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
        """Send one request. `answered` gets the answer, or None if there was none within the time-out.

        `late_s` is the maximum extra delay of its arrival. Kinds that begin with `read` are no writes.
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
        """Deliver a watch event. It may be late, lost or overtaken by others."""
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

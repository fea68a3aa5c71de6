"""What the chapters on sharding see: executors, the renders they have, and what the work itself has logged."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DemoExecutor:
    """A pod, and the process that plays it."""

    name: str
    state: str
    """What a person would call it: starts, runs, drains, ends, killed."""
    revision: str


@dataclass(frozen=True, slots=True)
class DemoRender:
    name: str
    executor: str
    """To whom it is assigned; empty while to nobody."""
    works: bool
    """That executor has begun."""
    held: bool
    """It goes on until it is let go."""
    done: bool
    began_at: int = 0
    """The frame at which its holder went on."""
    kept: int = 0
    """The frame of the last checkpoint; 0: there is none."""


@dataclass(frozen=True, slots=True)
class ShardScene:
    """Everything at one moment."""

    executors: tuple[DemoExecutor, ...]
    """By name."""
    renders: tuple[DemoRender, ...]
    """Those that are in the cluster, by name."""
    made: int
    """Renders that the story has made so far."""

    @property
    def held(self) -> tuple[DemoRender, ...]:
        return tuple(each for each in self.renders if each.held)

    @property
    def left(self) -> int:
        """So many have left the cluster."""
        return self.made - len(self.renders)

    def on(self, executor: str) -> tuple[DemoRender, ...]:
        return tuple(each for each in self.renders if each.executor == executor and not each.done)

    def all_held_work(self, *, without: str = "") -> bool:
        """On executors that run, and none on that one."""
        running = {each.name for each in self.executors if each.state == "runs"} - {without}
        return all(each.works and each.executor in running for each in self.held)


def overlaps(log: Iterable[str]) -> list[str]:
    """What must not be in the work's own log: a run that went on after a later one of the same object had begun, or
    one that was begun or done twice."""
    latest: dict[str, int] = {}
    seen: dict[str, set[str]] = defaultdict(set)
    found = []
    for line in map(json.loads, log):
        token, what = line["token"], line["what"]
        uid, _, epoch = token.partition(":")
        if int(epoch) < latest.get(uid, 0):
            found.append(f"{token} went on when epoch {latest[uid]} had begun")
        latest[uid] = max(int(epoch), latest.get(uid, 0))
        if what in seen[token] and what != "frame":
            found.append(f"{token} was {what} twice")
        seen[token].add(what)
    return found


def runs(log: Iterable[str]) -> int:
    """How many there were."""
    return len({json.loads(line)["token"] for line in log})

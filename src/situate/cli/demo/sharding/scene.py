"""Observed state of the chapters on sharding: executors, their renders, and the log of the work itself."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DemoExecutor:
    """Pod of an executor, with its process."""

    name: str
    state: str
    """starts, runs, drains, ends or killed."""
    revision: str


@dataclass(frozen=True, slots=True)
class DemoRender:
    name: str
    executor: str
    """Executor to which it is assigned; empty without one."""
    in_progress: bool
    """Whether that executor has begun."""
    held: bool
    """Whether it continues until it is released."""
    done: bool
    began_at: int = 0
    """Frame at which its holder continued."""
    checkpoint_frame: int = 0
    """Frame of the last checkpoint; 0 without one."""


@dataclass(frozen=True, slots=True)
class ShardScene:
    """State of the cluster at one moment."""

    executors: tuple[DemoExecutor, ...]
    """By name."""
    renders: tuple[DemoRender, ...]
    """Renders in the cluster, by name."""
    created_count: int
    """Renders that the story has created so far."""

    @property
    def held_renders(self) -> tuple[DemoRender, ...]:
        return tuple(each for each in self.renders if each.held)

    @property
    def departed_count(self) -> int:
        """Number of renders that have left the cluster."""
        return self.created_count - len(self.renders)

    def renders_on(self, executor: str) -> tuple[DemoRender, ...]:
        return tuple(each for each in self.renders if each.executor == executor and not each.done)

    def all_held_in_progress(self, *, without: str = "") -> bool:
        """Return whether all held renders are in progress on running executors other than `without`."""
        running = {each.name for each in self.executors if each.state == "runs"} - {without}
        return all(each.in_progress and each.executor in running for each in self.held_renders)

    def __str__(self) -> str:
        """Describe the scene in one line, for errors."""
        executors = ", ".join(
            f"{each.name} ({each.state}) {len(self.renders_on(each.name))}" for each in self.executors
        )
        idle = [f"{each.name} of {each.executor or 'no executor'}" for each in self.renders if not each.in_progress]
        return f"{executors or 'no executors'}; {len(self.renders)} renders, not running: {', '.join(idle) or 'none'}"


def log_errors(log: Iterable[str]) -> list[str]:
    """Return errors in the work's own log.

    An error is a run that continued after a later run of the same object had begun, or a run that began or ended twice.
    """
    latest: dict[str, int] = {}
    seen: dict[str, set[str]] = defaultdict(set)
    found = []
    for line in map(json.loads, log):
        token, what = line["token"], line["what"]
        uid, _, epoch = token.partition(":")
        if int(epoch) < latest.get(uid, 0):
            found.append(f"{token} continued after epoch {latest[uid]} had begun")
        latest[uid] = max(int(epoch), latest.get(uid, 0))
        if what in seen[token] and what != "frame":
            found.append(f"{token} logged {what} twice")
        seen[token].add(what)
    return found


def run_count(log: Iterable[str]) -> int:
    """Return the number of runs."""
    return len({json.loads(line)["token"] for line in log})

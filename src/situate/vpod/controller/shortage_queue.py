"""Whose turn it is among vpods that are short, once there may be room for them (L5).

The queue hands a vpod out only when its last decision has been written, and its own events bring it up at any time. So
whoever comes up before its turn waits for those whose turn it is, for a moment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from situate.runtime.reconcile.workqueue import WorkQueue
from situate.vpod.model.records import Entry
from situate.vpod.model.vpod import Key
from situate.vpod.placement.decide import turn
from situate.vpod.state.state import State

GIVES_WAY_S: Final = 1.0
"""The longest wait for others: a write that is lost takes longer, and must not hold up everybody."""


class Turns:
    """One round of retries: those that are due, in their order, and those that came up too early."""

    def __init__(self, queue: WorkQueue[Key]) -> None:
        self._queue = queue
        self._due: dict[Key, None] = {}
        self._until = 0.0
        self._waiting: dict[Key, None] = {}

    def begin(self, keys: Iterable[Key]) -> None:
        """These are tried now, the first in front; each has been or will be queued."""
        self._due = dict.fromkeys(keys)
        self._until = asyncio.get_running_loop().time() + GIVES_WAY_S

    def gives_way(self, state: State, key: Key) -> bool:
        """Whether there is room and somebody else's turn comes first; the key is queued again after that."""
        entry = state.vpods.get(key)
        if entry is None or entry.short_since is None or not state.open:
            return False
        first = self._first(state)
        if first is None or turn(first) >= turn(entry):
            return False
        self._waiting[key] = None
        return True

    def tried(self, key: Key) -> None:
        """It has been decided: what is left of the room is for the next."""
        self._due.pop(key, None)
        self._waiting.pop(key, None)
        if self._waiting and (not self._due or next(iter(self._due)) in self._waiting):
            for each in self._waiting:
                self._queue.add(each)
            self._waiting.clear()

    def _first(self, state: State) -> Entry | None:
        """Whose turn it is; None when the round is over."""
        if asyncio.get_running_loop().time() >= self._until:
            self._due.clear()
        while self._due:
            key = next(iter(self._due))
            entry = state.vpods.get(key)
            if entry is not None and entry.short_since is not None and not entry.ruled_out:
                return entry
            del self._due[key]
        return None

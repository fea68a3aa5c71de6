"""The order of vpods with a shortage, once there may be capacity for them.

The work queue returns a vpod only after its last decision is written, and its own events enqueue a vpod at any time. A
vpod that comes too early therefore waits for a moment until the vpods before it have been scheduled. Rule L5.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from situate.runtime.reconcile.workqueue import WorkQueue
from situate.vpod.model.records import VPodEntry
from situate.vpod.model.vpod import Key
from situate.vpod.placement.decide import retry_sort_key
from situate.vpod.state.state import State

LONGEST_WAIT_S: Final = 1.0
"""Seconds; the longest wait for earlier vpods. A lost write takes longer and must not delay all vpods."""


class ShortageQueue:
    """One round of retries: the vpods that are due, in order, and the vpods that came too early."""

    def __init__(self, queue: WorkQueue[Key]) -> None:
        self._queue = queue
        self._due: dict[Key, None] = {}
        self._until = 0.0
        self._waiting: dict[Key, None] = {}

    def start_round(self, keys: Iterable[Key]) -> None:
        """Start a round in the given order. Each key is in the work queue already, or the caller adds it."""
        self._due = dict.fromkeys(keys)
        self._until = asyncio.get_running_loop().time() + LONGEST_WAIT_S

    def must_wait(self, state: State, key: Key) -> bool:
        """Return whether there is capacity and another vpod comes first. If so, the key is queued again after that
        vpod.
        """
        entry = state.vpods.get(key)
        if entry is None or entry.short_since is None or not state.open:
            return False
        first = self._next_due(state)
        if first is None or retry_sort_key(first) >= retry_sort_key(entry):
            return False
        self._waiting[key] = None
        return True

    def mark_decided(self, key: Key) -> None:
        """Note that the vpod has been decided. The remaining capacity is for the next vpod."""
        self._due.pop(key, None)
        self._waiting.pop(key, None)
        if self._waiting and (not self._due or next(iter(self._due)) in self._waiting):
            for each in self._waiting:
                self._queue.add(each)
            self._waiting.clear()

    def _next_due(self, state: State) -> VPodEntry | None:
        """Return the first vpod that is due, or None if the round is over."""
        if asyncio.get_running_loop().time() >= self._until:
            self._due.clear()
        while self._due:
            key = next(iter(self._due))
            entry = state.vpods.get(key)
            if entry is not None and entry.short_since is not None and not entry.is_limited_by_rule:
                return entry
            del self._due[key]
        return None

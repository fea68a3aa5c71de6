"""Refused creates: a rise of a ReplicaSet's FailedCreate Event ends reservations whose pods never came.

There is one Event per ReplicaSet. It names no pod, and after some failures it is updated only now and then. So the
leader reads the ReplicaSet and its pods live, and ends as many entries as pods are missing. A recently answered pod may
still be on its way to the store. Therefore only entries older than the Event end, and the read waits until their pods
could arrive. Rule: P21.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from situate.objects.kinds.events import CoreEvent
from situate.spot.admission.admit import UNREADABLE, LiveRead, NeedsRead
from situate.spot.admission.ledger import ARRIVAL_S, Ledger, Slot
from situate.spot.workloads.owners import Controller


@dataclass(frozen=True, slots=True)
class _RefusedCreate:
    needed: NeedsRead
    noted_at: float


class RefusedCreates:
    """Refused creates; `observe_event` receives changes of Events, `run` is a task of the leader.

    Standbys record nothing.
    """

    def __init__(self, read: Callable[[NeedsRead], Awaitable[LiveRead]], clock: Callable[[], float]) -> None:
        """`clock`: the clock of the ledger."""
        self._read = read
        self._clock = clock
        self._running = False
        self._waiting: dict[str, _RefusedCreate] = {}  # by uid of the ReplicaSet, the oldest first
        self._wake_event = asyncio.Event()

    def observe_event(self, old: CoreEvent | None, new: CoreEvent | None) -> None:
        if not self._running or new is None or (old is not None and _occurrence_count(new) <= _occurrence_count(old)):
            return
        about = new.involved_object
        self._add_refusal(NeedsRead(about.namespace, Controller("apps/v1", about.kind, about.name, about.uid)))

    async def run(self, change: Callable[[Callable[[Ledger], Ledger]], None]) -> None:
        """Process refused creates. `change` applies a step to the current ledger. Ignores Events before the term."""
        self._running = True
        try:
            while True:
                self._wake_event.clear()
                while self._waiting:
                    refused = self._waiting.pop(next(iter(self._waiting)))
                    await asyncio.sleep(refused.noted_at + ARRIVAL_S - self._clock())
                    await self._end_reservations(refused, change)
                await self._wake_event.wait()
        finally:
            self._running = False
            self._waiting.clear()

    async def _end_reservations(
        self, refused: _RefusedCreate, change: Callable[[Callable[[Ledger], Ledger]], None]
    ) -> None:
        live = await self._read(refused.needed)
        if live is UNREADABLE:
            return
        younger = False

        def step(ledger: Ledger) -> Ledger:
            nonlocal younger
            after, younger = remove_refused_creates(ledger, live, refused.noted_at)
            return after

        change(step)
        if younger:
            self._add_refusal(refused.needed)

    def _add_refusal(self, needed: NeedsRead) -> None:
        """Record the ReplicaSet; if it is waiting already, the first record stays."""
        self._waiting.setdefault(needed.controller.uid, _RefusedCreate(needed, self._clock()))
        self._wake_event.set()


def remove_refused_creates(ledger: Ledger, live: LiveRead, before: float) -> tuple[Ledger, bool]:
    """Remove entries older than `before` whose pods the ReplicaSet still lacks.

    Also return whether younger entries without pods are left; they need another read.
    """
    replica_set = live.replica_set
    if replica_set is None or replica_set.controller is None:
        return ledger, False
    slot = Slot(replica_set.controller.uid, replica_set.revision)
    open_entries = [
        entry
        for entry in ledger.reservations.get(slot, ())
        if entry.replica_set == replica_set.uid and not any(entry.fulfilled_by(pod) for pod in live.pods)
    ]
    old = sum(entry.decided_at < before for entry in open_entries)
    lacking = replica_set.replicas - sum(pod.active for pod in live.pods)
    after = ledger.without_refused_creates(slot, replica_set.uid, live.pods, min(old, lacking))
    return after, len(open_entries) > old and lacking > old


def _occurrence_count(event: CoreEvent) -> int:
    """Return how often the event has occurred."""
    return max(event.count, event.series.count if event.series is not None else 0, 1)

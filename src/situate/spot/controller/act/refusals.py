"""Pods that were admitted and never came: a rise of a ReplicaSet's FailedCreate Event ends their reservations (P21).

One Event per ReplicaSet is all there is, it names no pod, and after some it is written only now and then; so the
ReplicaSet and its pods are read, and as many entries end as pods are missing. A pod that was answered a moment ago may
still be on its way into the store: only entries from before the news end, and the read waits until those have arrived.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from situate.objects.kinds.events import CoreEvent
from situate.spot.admission.admit import UNREADABLE, LiveRead, NeedsRead
from situate.spot.admission.ledger import ARRIVED_S, Ledger, Slot
from situate.spot.workloads.owners import Controller


@dataclass(frozen=True, slots=True)
class _Refused:
    needed: NeedsRead
    noted_at: float


class Refusals:
    """`noted` takes the changes of the store of Events; `run` is a task of the leader. Others remember nothing."""

    def __init__(self, read: Callable[[NeedsRead], Awaitable[LiveRead]], clock: Callable[[], float]) -> None:
        """`clock`: that of the ledger."""
        self._read = read
        self._clock = clock
        self._running = False
        self._waiting: dict[str, _Refused] = {}  # by uid of the ReplicaSet, the oldest news first
        self._some = asyncio.Event()

    def noted(self, old: CoreEvent | None, new: CoreEvent | None) -> None:
        if not self._running or new is None or (old is not None and _times(new) <= _times(old)):
            return
        about = new.involved_object
        self._note(NeedsRead(about.namespace, Controller("apps/v1", about.kind, about.name, about.uid)))

    async def run(self, change: Callable[[Callable[[Ledger], Ledger]], None]) -> None:
        """`change` applies a step to the ledger of now. What was noted before a term is none of its business."""
        self._running = True
        try:
            while True:
                self._some.clear()
                while self._waiting:
                    refused = self._waiting.pop(next(iter(self._waiting)))
                    await asyncio.sleep(refused.noted_at + ARRIVED_S - self._clock())
                    await self._end(refused, change)
                await self._some.wait()
        finally:
            self._running = False
            self._waiting.clear()

    async def _end(self, refused: _Refused, change: Callable[[Callable[[Ledger], Ledger]], None]) -> None:
        live = await self._read(refused.needed)
        if live is UNREADABLE:
            return
        younger = False

        def step(ledger: Ledger) -> Ledger:
            nonlocal younger
            after, younger = without_refused(ledger, live, refused.noted_at)
            return after

        change(step)
        if younger:
            self._note(refused.needed)

    def _note(self, needed: NeedsRead) -> None:
        """News about a ReplicaSet that waits already come with the first."""
        self._waiting.setdefault(needed.controller.uid, _Refused(needed, self._clock()))
        self._some.set()


def without_refused(ledger: Ledger, live: LiveRead, before: float) -> tuple[Ledger, bool]:
    """The ledger without entries from before then of pods that the ReplicaSet still lacks.

    And whether younger entries of such pods are left: they want another look.
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
    after = ledger.after_live_read(slot, replica_set.uid, live.pods, min(old, lacking))
    return after, len(open_entries) > old and lacking > old


def _times(event: CoreEvent) -> int:
    """How often it has happened."""
    return max(event.count, event.series.count if event.series is not None else 0, 1)

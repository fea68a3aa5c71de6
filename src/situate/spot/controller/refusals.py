"""Pods that were admitted and never came: a rise of a ReplicaSet's FailedCreate Event ends their reservations (P21).

One Event per ReplicaSet is all there is, and it names no pod; so the ReplicaSet and its pods are read, and as many
entries end as pods are missing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from situate.objects.events import CoreEvent
from situate.spot.admission import UNREADABLE, LiveRead, NeedsRead
from situate.spot.ledger import Ledger, Slot
from situate.spot.owners import Controller


class Refusals:
    """`noted` takes the changes of the store of Events; `run` is a task of the leader."""

    def __init__(self, read: Callable[[NeedsRead], Awaitable[LiveRead]]) -> None:
        self._read = read
        self._waiting: dict[str, NeedsRead] = {}  # by uid of the ReplicaSet
        self._some = asyncio.Event()

    def noted(self, old: CoreEvent | None, new: CoreEvent | None) -> None:
        if new is None or (old is not None and _times(new) <= _times(old)):
            return
        about = new.involved_object
        self._waiting[about.uid] = NeedsRead(about.namespace, Controller("apps/v1", about.kind, about.name, about.uid))
        self._some.set()

    def forget(self) -> None:
        """What came before a term is none of its business: its ledger is empty."""
        self._waiting.clear()

    async def run(self, change: Callable[[Callable[[Ledger], Ledger]], None]) -> None:
        """`change` applies a step to the ledger of now."""
        self.forget()
        while True:
            self._some.clear()
            while self._waiting:
                _, needed = self._waiting.popitem()
                live = await self._read(needed)
                if live is not UNREADABLE:
                    change(lambda ledger, needed=needed, live=live: ended(ledger, needed, live))  # type: ignore[misc]  # bound now
            await self._some.wait()


def ended(ledger: Ledger, refused: NeedsRead, live: LiveRead) -> Ledger:
    """The ledger without the entries of pods that the ReplicaSet still lacks."""
    replica_set = live.replica_set
    if replica_set is None or replica_set.controller is None:
        return ledger
    lacking = replica_set.replicas - sum(pod.active for pod in live.pods)
    slot = Slot(replica_set.controller.uid, replica_set.revision)
    return ledger.after_live_read(slot, refused.controller.uid, live.pods, lacking)


def _times(event: CoreEvent) -> int:
    """How often it has happened."""
    return max(event.count, event.series.count if event.series is not None else 0, 1)

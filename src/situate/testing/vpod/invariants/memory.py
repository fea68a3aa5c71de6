"""Checks of a process's memory of its own decisions (S6), and of a new leader's first decisions (B2)."""

from __future__ import annotations

from situate.testing.vpod.world.world import VPodWorld
from situate.vpod.model.records import NO_PLACES, Places, VPodEntry
from situate.vpod.model.vpod import Key
from situate.vpod.placement.decide import Decision
from situate.vpod.state.state import State


class ReservationMemory:
    """Last results by process. They belong to one state and are dropped with it."""

    def __init__(self, world: VPodWorld) -> None:
        self._world = world
        self._began: dict[str, tuple[list[VPodEntry], frozenset[int]]] = {}  # all known vpods when the term began
        self._results: dict[str, tuple[State, dict[Key, tuple[VPodEntry, Places | None]]]] = {}
        # with the entry known by that name then; None: decided, and changed by another writer since

    def check_first_decision(self, identity: str, state: State, decision: Decision) -> str | None:
        """Check B2: the first decision of a term starts from the status, so that all running vreplicas are known."""
        results = self._results_of(identity, state)
        entry = state.vpods[decision.key]
        first = decision.key not in results or results[decision.key][0] is not entry
        results[decision.key] = entry, decision.reservation
        if not first or entry.deleting or id(entry) not in self._began[identity][1]:
            return None
        runs = {ordinal: vreplicas for ordinal, vreplicas in entry.status.items() if vreplicas > 0}
        begun = decision.base if decision.base is not None else NO_PLACES
        if begun != runs:
            return f"B2: a new leader finds {decision.key} on {runs} and begins with {dict(begun)}"
        return None

    def record_eviction(self, key: Key) -> None:
        """Record that the evictor removed a placement without a decision. A decision about the rest follows soon."""
        for _, results in self._results.values():
            if key in results:
                results[key] = results[key][0], None

    def breach_in(self, identity: str, state: State) -> str | None:
        """Check S6: the reservation of each vpod is its last result, and absent vpods have none.

        A status written by another writer is adopted and counts from then on.
        """
        results = self._results_of(identity, state)
        for key, entry in state.vpods.items():
            if entry.reserved is not None and not entry.listed:
                return f"S6: {identity} keeps a reservation for {key}, which does not exist"
            known, result = results.get(key, (entry, None))
            if known is entry and result is not None and result != (entry.reserved or NO_PLACES):
                if str(key) in self._world.adopted_keys:
                    results[key] = entry, None
                    continue
                return f"S6: {identity} decided {dict(result)} for {key} and has reserved {entry.reserved}"
        self._world.adopted_keys.clear()
        return None

    def _results_of(self, identity: str, state: State) -> dict[Key, tuple[VPodEntry, Places | None]]:
        known = self._results.get(identity)
        if known is None or known[0] is not state:
            known = self._results[identity] = (state, {})
            entries = list(state.vpods.values())  # held here, so that no other entry gets the same id
            self._began[identity] = entries, frozenset(map(id, entries))
        return known[1]

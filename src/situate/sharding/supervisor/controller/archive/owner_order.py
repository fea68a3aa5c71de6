"""Relate owners and dependents of one kind: dependents are archived first, because they are deleted with the owner."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from math import inf

from situate.sharding.assignment.archive_steps import owners_due_in
from situate.sharding.model.object_view import ObjectView
from situate.sharding.model.supervisor_config import SupervisorConfig
from situate.sharding.supervisor.controller.observe.object_index import Listing


class Family:
    """The owners and dependents of one term. With propagation `Orphan` the order does not matter."""

    def __init__(
        self, listing: Listing, config: SupervisorConfig, propagation: str, wall: Callable[[], datetime]
    ) -> None:
        self.listing = listing
        self._config = config
        self._together = propagation != "Orphan"
        self._wall = wall

    def owners_due_s(self, view: ObjectView) -> float:
        """Return the value of `Situation.owners_due_s`."""
        if not self._together or not view.owner_uid:
            return inf
        return owners_due_in(view, self._config, self._wall(), self.listing.rank, self.listing.owner)

    def dependents(self, view: ObjectView) -> Iterable[ObjectView]:
        """Return the value of `Situation.dependents`."""
        return self.listing.dependents(view) if self._together else ()

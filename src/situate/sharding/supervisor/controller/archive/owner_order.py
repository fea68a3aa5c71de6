"""Relate owners and dependents of one kind: dependents are archived first, because they are deleted with the owner."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from math import inf

from situate.sharding.assignment.archive_steps import owners_archive_due_s
from situate.sharding.model.object_view import ObjectView
from situate.sharding.model.supervisor_config import SupervisorConfig
from situate.sharding.supervisor.controller.observe.object_index import ObjectIndex


class OwnerOrder:
    """The owners and dependents of one term. With propagation `Orphan` the order does not matter."""

    def __init__(
        self, listing: ObjectIndex, config: SupervisorConfig, propagation: str, wall: Callable[[], datetime]
    ) -> None:
        self.index = listing
        self._config = config
        self._dependents_first = propagation != "Orphan"
        self._wall = wall

    def owners_due_s(self, view: ObjectView) -> float:
        """Return the value of `Situation.owners_due_s`."""
        if not self._dependents_first or not view.owner_uid:
            return inf
        return owners_archive_due_s(view, self._config, self._wall(), self.index.rank, self.index.owner)

    def dependents(self, view: ObjectView) -> Iterable[ObjectView]:
        """Return the value of `Situation.dependents`."""
        return self.index.dependents(view) if self._dependents_first else ()

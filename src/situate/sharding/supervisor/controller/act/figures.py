"""Sum up the state of a supervisor; the metrics and the report on the Lease show the same figures."""

from __future__ import annotations

from collections.abc import Callable

from situate.sharding.assignment.desired_executors import SizingConfig, SizingState, desired_executors
from situate.sharding.supervisor.controller.act.metrics import Figures
from situate.sharding.supervisor.controller.observe.cache import SupervisorCache
from situate.sharding.supervisor.controller.observe.object_index import NO_HOLDER


class FigureCollector:
    """The figures of one process."""

    def __init__(self, standby: SupervisorCache, sizing: SizingConfig | None, now: Callable[[], float]) -> None:
        """`sizing`: None if the desired executors are not computed."""
        self._cache = standby
        self._sizing = sizing
        self._now = now
        self._smoothed = SizingState()

    def figures(self) -> Figures:
        """Return the state now, without the figures of the archive queue."""
        standby, now = self._cache, self._now()
        members, listing = standby.observer.members(), standby.index
        unassigned = len(listing.objects_of_holder(NO_HOLDER))
        removed_at = standby.observer.removed_at
        orphaned = [now - at for uid, at in removed_at.items() if listing.objects_of_holder(uid)]
        desired = None
        if self._sizing is not None:
            wanted = desired_executors(self._smoothed, self._sizing, sum(listing.open.values()) + unassigned, now)
            desired, self._smoothed = wanted.desired, wanted.state
        return Figures(
            members, now, dict(listing.open), unassigned, max(orphaned, default=0.0), desired_executors=desired
        )

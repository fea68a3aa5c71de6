"""Check at intervals whether objects must move to balance the executors; off unless a goal is set.

`situate.sharding.rebalancing` decides which objects move, and when. A move is a drain with an ack; the worker that
decides on the object requests it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import structlog

from situate.sharding.executor.controller.objects import Request
from situate.sharding.model.executors import ExecutorStatus, Members
from situate.sharding.model.object_view import ObjectView
from situate.sharding.rebalancing import (
    PlacedObject,
    RebalanceConfig,
    RebalanceState,
    RebalanceView,
    may_move,
    rebalance,
)
from situate.sharding.supervisor.controller.observe.object_index import ObjectIndex

CHECK_S: Final = 5.0
"""Seconds between two checks; a goal must be missed for a minute before any object moves."""
_LIVE: Final = (ExecutorStatus.HEALTHY, ExecutorStatus.FULL)


class Rebalancer:
    """The rebalancing of one term."""

    def __init__(
        self, config: RebalanceConfig, listing: ObjectIndex, weight_of: Callable[[ObjectView], int] | None
    ) -> None:
        self._config = config
        self._index = listing
        self._weight_of = weight_of
        self._state = RebalanceState()
        self._why = ""
        self._log = structlog.get_logger()

    def objects_to_drain(self, members: Members, now: float) -> list[Request]:
        """Return the objects that must be drained for the balance."""
        live = [each.id for each in members.current.values() if each.status in _LIVE]
        held = [self._placed_object(view, members) for view in self._index.views.values() if not view.completed]
        surface = RebalanceView(held, live, members.changed_at, members.one_revision)
        found = rebalance(self._state, self._config, surface, now)
        self._state = found.state
        if found.moves or found.why != self._why:
            self._log.info("rebalancing evaluated", moves=len(found.moves), why=found.why)
        self._why = found.why
        return [self._index.requests[move.uid] for move in found.moves]

    def _placed_object(self, view: ObjectView, members: Members) -> PlacedObject:
        holder = None if view.drain is not None else members.living.get(view.executor_uid)
        weight = 1 if self._weight_of is None else max(1, self._weight_of(view))
        movable = may_move(migratable=view.migratable, completed=False, remaining_work_s=None, move_cost_s=0.0)
        return PlacedObject(view.uid, "" if holder is None else holder.id, weight, movable and not view.deleting)

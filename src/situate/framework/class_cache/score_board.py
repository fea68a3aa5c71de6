"""Totals of many classes, updated together.

If Pods of many kinds arrive in turn, each kind finds as many changed nodes as there are kinds. Evaluating one changed
node for all kinds takes as many operations as evaluating all these nodes for one kind, but happens only once. A Pod
thus costs the rescoring of one node. A meter evaluates a node for all kinds
(`situate.framework.class_cache.resource_scorers`).

The totals of the classes are the rows of one array, so a node is a column.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from situate.framework.class_cache.pod_class import PodClass
from situate.framework.class_cache.resource_scorers import NO_ROOM, Meter, MeteringPlugin, Narrow, Readings
from situate.framework.class_cache.running_maximum import BLOCK, LONG
from situate.framework.class_cache.static_scores import Standing
from situate.framework.cycle.cycle import call
from situate.framework.plugin_api.plugin import FilterPlugin
from situate.framework.pod.pods import PodTemplate
from situate.framework.profile.profile import Weighted
from situate.framework.results.verdict import Indices, Mask
from situate.framework.snapshot.node_table import NodeTable
from situate.framework.snapshot.snapshot import Snapshot

ROOM: Final = 128
"""Maximum number of classes of one board."""
_SHARE: Final = 10
"""If more than one node in this number changed, learning the requested classes again is cheaper."""

_BOARDS: Final = 16
"""Maximum number of boards."""
_STALE: Final = 2**10
"""Number of changes that a board has missed at which its members count as unused."""


class Boards:
    """The boards of one profile, and the meters of its plugins; mutable."""

    def __init__(self, filters: Sequence[FilterPlugin], scores: Sequence[Weighted]) -> None:
        """Take all plugins that read amounts on a node."""
        self._filters = filters
        self._scores = scores
        plugins = (*filters, *(each.plugin for each in scores))
        self._metering = next((plugin for plugin in plugins if isinstance(plugin, MeteringPlugin)), None)
        self._nodes: NodeTable | None = None
        self._lineage: object = None
        self._meters: dict[frozenset[str], Meter | None] = {}
        """On `_nodes`; by the set of filters that skip the Pods."""
        self._boards: list[Board] = []
        """On `_nodes`, for snapshots of `_lineage`."""

    def meter(self, standing: Standing, nodes: NodeTable) -> Meter | None:
        """Return the meter for Pods with this standing; None if there is none."""
        if self._nodes is not nodes:
            self._nodes = nodes
            self._meters.clear()
            self._boards.clear()
        unfiltered = standing.unfiltered
        if unfiltered not in self._meters:
            filters = [plugin for plugin in self._filters if plugin.name not in unfiltered]
            plugin, found = self._metering, None
            if plugin is not None:
                found = call(plugin, "Score", plugin.meter, filters, self._scores, nodes)
            self._meters[unfiltered] = found
        return self._meters[unfiltered]

    def admit(self, known: PodClass, template: PodTemplate, snapshot: Snapshot) -> None:
        """Let a board update the class from now on, if there is a meter and a board with a free row.

        The class must be up to date.
        """
        meter = self.meter(known.standing, snapshot.nodes)
        asked = None if meter is None else meter.asked(template)
        board = None if meter is None or asked is None else self._with_room(meter, snapshot)
        if board is not None:
            board.join(known, asked)

    def clear(self) -> None:
        """Drop all boards, after the caller has dropped all classes."""
        self._boards.clear()

    def _with_room(self, meter: Meter, snapshot: Snapshot) -> Board | None:
        """Return a board with a free row, its members up to date; None if there is none."""
        if self._lineage is not snapshot.lineage:
            self._lineage = snapshot.lineage
            self._boards.clear()
        for board in self._boards:
            if board.meter is meter and not board.full:
                board.catch_up(snapshot)
                return board
        if len(self._boards) < _BOARDS:
            self._boards.append(Board(meter, snapshot.count))
            return self._boards[-1]
        oldest = min(self._boards, key=lambda board: board.position)
        if oldest.meter is not meter or snapshot.log_position - oldest.position < _STALE:
            return None
        oldest.forget()
        return oldest


class Board:
    """The classes of one meter, and so of one node table; mutable."""

    def __init__(self, meter: Meter, nodes: int) -> None:
        self.meter = meter
        self.position = 0
        """The position in the change log up to which the members are up to date."""
        self._members: list[PodClass] = []
        self._asked: list[Any] = []
        # rows that were never written take no memory
        self._totals: Narrow = np.empty((ROOM, nodes), np.int16)
        self._bounds: Narrow | None = np.empty((ROOM, -(-nodes // BLOCK)), np.int16) if nodes >= LONG else None
        """(classes, blocks): the bounds of their `Maxima`."""
        self._refusing: Mask = np.zeros(nodes, np.bool_)
        """(nodes,): whether a member had a negative total at the last evaluation."""
        self._readings: Readings | None = None
        """None if the members have changed since."""
        self._settled: list[Narrow] | None = None
        """The distinct settled totals of the members; None if those of a member have changed since."""
        self._places: Indices | None = None
        """The index in `_settled` for each member; None if all share one."""
        self._here: Narrow = np.empty(ROOM, np.int16)
        """The entries of `_settled` for one row."""
        self._own: Narrow = np.empty(ROOM, np.int16)
        """The entry of each member for that row."""

    @property
    def full(self) -> bool:
        return len(self._members) == ROOM

    def join(self, known: PodClass, asked: Any) -> None:
        """Let the board update the class from now on. The class and the members must be up to date now."""
        place = len(self._members)
        self._totals[place] = known.total
        known.total = self._totals[place]
        known.board = self
        known.bounds = None if self._bounds is None else self._bounds[place]
        known.maxima = None
        self._members.append(known)
        self._asked.append(asked)
        self._refusing |= known.total < 0
        self.position = known.position
        self._readings = self._settled = None

    def catch_up(self, snapshot: Snapshot) -> bool:
        """Update the members. If that is not possible, drop them and return False."""
        if not self._members:
            return True
        changed = snapshot.changed_since(self.position)
        if changed is None:
            self.forget()
            return False
        if not changed:
            return True
        self.position += len(changed)
        rows: list[int] = changed
        if len(changed) > 1:
            rows = sorted(set(changed))
            if len(rows) * _SHARE > self._totals.shape[1]:
                self.forget()
                return False
        if self._readings is None:
            self._readings = self.meter.readings(self._asked)
        now, passes = self._readings.at(snapshot.load, rows)
        if len(rows) == 1:
            self._write_one(rows[0], now[:, 0], None if passes is None else passes[:, 0])
        else:
            self._write(rows, now, passes)
        return True

    def resettled(self) -> None:
        """Record that a member has new settled totals."""
        self._settled = None

    def forget(self) -> None:
        """Remove all members. Each of these classes must be learned again."""
        for member in self._members:
            member.lineage = None
        self._members.clear()
        self._asked.clear()
        self._refusing[:] = False
        self._readings = self._settled = None

    def _write_one(self, row: int, now: Narrow, passes: Mask | None) -> None:
        """Run `_write` for a single row, the usual case."""
        settled = self._settled or self._arranged()
        here, own = self._here, self._own[: len(now)]
        if self._places is None:
            own.fill(settled[0].item(row))
        else:
            for place, each in enumerate(settled):
                here[place] = each.item(row)
            here.take(self._places, out=own, mode="clip")  # indices are valid; `clip` needs no buffer
        np.add(now, own, out=now)
        column = self._totals[: len(now), row]
        if passes is not None or self._refusing.item(row):
            if passes is not None:
                now[~passes] = NO_ROOM
            self._tell(column.reshape(-1, 1), now.reshape(-1, 1))
            self._refusing[row] = np.count_nonzero(now < 0)
        column[:] = now
        if self._bounds is not None:
            self._raise(row, now)

    def _write(self, rows: list[int], now: Narrow, passes: Mask | None) -> None:
        settled = self._settled or self._arranged()
        if self._places is None:
            now += settled[0].take(rows)
        else:
            now += np.array([each.take(rows) for each in settled]).take(self._places, axis=0)
        if passes is not None:
            now[~passes] = NO_ROOM
        totals = self._totals[: len(now)]
        if passes is not None or self._refusing.take(rows).any():
            self._tell(totals.take(rows, axis=1), now)
            self._refusing[rows] = (now < 0).any(axis=0)
        totals[:, rows] = now
        if self._bounds is not None:
            for place, row in enumerate(rows):
                self._raise(row, now[:, place])

    def _raise(self, row: int, now: Narrow) -> None:
        assert self._bounds is not None
        block = self._bounds[: len(now), row // BLOCK]
        np.maximum(block, now, out=block)

    def _tell(self, before: Narrow, now: Narrow) -> None:
        """Report changed feasibility, (members, rows), to each member concerned."""
        for place in np.flatnonzero(((before ^ now) < 0).any(axis=1)).tolist():
            some = before[place] < 0, now[place] < 0
            self._members[place].feasible_changed(
                int(np.count_nonzero(some[0])) - int(np.count_nonzero(some[1])), more=bool((some[0] & ~some[1]).any())
            )

    def _arranged(self) -> list[Narrow]:
        settled = {id(member.settled): member.settled for member in self._members}
        self._settled = list(settled.values())
        self._places = None
        if len(settled) > 1:
            place = {identity: place for place, identity in enumerate(settled)}
            self._places = np.array([place[id(member.settled)] for member in self._members], dtype=np.intp)
        return self._settled

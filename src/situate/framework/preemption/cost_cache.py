"""Preemption costs cached from one Pod to the next with the same template and priority.

If only amounts decide, the cost on a node depends on the Pods there, on the Pods nominated to it and on the budgets.
The next such Pod therefore computes costs only for nodes where one of these changed, by
`situate.framework.preemption.costs`. Then it compares all nodes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from situate.framework.cycle.cycle import PodsByNominatedNode
from situate.framework.pod.pods import PodInfo
from situate.framework.preemption.costs import Amounts, Checks, costs, nominated_amounts
from situate.framework.profile.profile import Profile
from situate.framework.results.verdict import Indices, Mask
from situate.framework.snapshot.snapshot import Snapshot

Cost = tuple[int, int, int, int, float]
"""Violated budgets, highest priority, sum of priorities, number of victims, and the negative earliest start."""

_FEW: Final = 8
"""Up to this number, nodes are evaluated one by one."""
_NO_HELP: Final = -1
"""Marks, in place of the number of violations, a node where evictions do not help."""


class CostCache:
    """Preemption costs of Pods of one template and priority on the nodes of one table; mutable."""

    def __init__(self, count: int, heeded: object) -> None:
        """Create an empty cache for this number of nodes. `heeded` is the object whose id is in the plan's key."""
        self._key_object = heeded
        self._lineage: object = None
        self._position = 0
        self._budgets: object = None
        self._nominated_amounts: list[Amounts] = []
        self._known: Mask = np.zeros(count, dtype=np.bool_)
        self._violations: Amounts = np.full(count, _NO_HELP, dtype=np.int64)
        self._costs: tuple[NDArray[Any], ...] = (
            *(np.zeros(count, dtype=np.int64) for _ in range(3)),
            np.zeros(count, dtype=np.float64),
        )
        """Highest priority, sum of priorities, number of victims, and the negative earliest start."""

    def bring_up_to_date(
        self,
        pod: PodInfo,
        snapshot: Snapshot,
        nodes: Indices,
        checks: Checks,
        nominations: PodsByNominatedNode,
        judge: Callable[[int], Cost | None],
    ) -> None:
        """Compute the missing costs on these nodes. The snapshot has all nodes, and `checks` are complete.

        `judge` computes the cost of one node, which is faster if few nodes have changed.
        """
        self._drop_outdated(snapshot, checks, nominations)
        unknown = nodes[~self._known.take(nodes)]
        if not len(unknown):
            return
        self._known[unknown] = True
        self._violations[unknown] = _NO_HELP
        if len(unknown) > _FEW:
            found = costs(pod, snapshot, unknown, checks, nominations)
            columns = found.violations, found.highest, found.total, found.victims, -found.earliest
            for column, values in zip((self._violations, *self._costs), columns, strict=True):
                column[found.nodes] = values
            return
        for node in unknown.tolist():
            cost = judge(node)
            if cost is not None:
                for column, value in zip((self._violations, *self._costs), cost, strict=True):
                    column[node] = value

    def cheapest_node(self, nodes: Indices) -> int | None:
        """Return the best of these nodes, the first among equals; None if evictions help on none of them."""
        left = nodes[self._violations.take(nodes) != _NO_HELP]
        if not len(left):
            return None
        for criterion in (self._violations, *self._costs):
            here = criterion.take(left)
            lowest = here == here.min()
            if not lowest.all():
                left = left[lowest]
        return int(left.min())

    def _drop_outdated(self, snapshot: Snapshot, checks: Checks, nominations: PodsByNominatedNode) -> None:
        """Drop the costs of nodes that have changed since they were computed."""
        kept = [nominated_amounts(need, nominations, snapshot.count) for need in checks.needs]
        changed = snapshot.rows_changed_since(self._position) if snapshot.lineage is self._lineage else None
        if (
            changed is None
            or self._budgets is not snapshot.catalog.budgets
            or len(kept) != len(self._nominated_amounts)
        ):
            self._known[:] = False
        else:
            self._known[changed] = False
            for before, now in zip(self._nominated_amounts, kept, strict=True):
                self._known[before != now] = False
        self._lineage, self._position = snapshot.lineage, snapshot.log_position
        self._budgets = snapshot.catalog.budgets
        self._nominated_amounts = [amounts.copy() for amounts in kept]


def cost_cache_for(profile: Profile, pod: PodInfo, snapshot: Snapshot) -> CostCache:
    """Return the cached costs for Pods of this template and priority."""
    key = ("preemption", id(profile), pod.template, pod.priority)
    return snapshot.nodes.plan(key, lambda: CostCache(len(snapshot.nodes), profile))

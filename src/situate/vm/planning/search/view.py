"""The input of one planning: state, time, rules, target nodes and the requester."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

import numpy as np

from situate.vm.model.migrations import Move
from situate.vm.model.node_columns import column
from situate.vm.model.pods_and_nodes import Pod
from situate.vm.model.policy import Rules
from situate.vm.model.resource_amounts import Amounts
from situate.vm.model.state import LedgerState
from situate.vm.planning.candidates import Candidate, Requester, price, stay_reason
from situate.vm.planning.rules.concurrency import is_ongoing, limit_reason
from situate.vm.planning.rules.cooldown import avoidance_end
from situate.vm.planning.rules.migration_cost import cost, surplus_share
from situate.vm.planning.search.cheapest_cover import cheapest_cover
from situate.vm.planning.search.packing import assign_nodes, fit_together
from situate.vm.planning.targets import Fits, Targets, accept_any_node

MAX_TARGETS_PER_CANDIDATE: Final = 24
"""Limit on the targets that are determined for one VM through filters.

A plan of more migrations than this may miss a way.
"""


@dataclass(frozen=True, slots=True, eq=False)
class PlanningView:
    state: LedgerState
    now: float
    rules: Rules
    fits: Fits
    targets: Targets
    requester: Requester | None
    """None: no Pod waits."""

    @classmethod
    def from_state(
        cls, state: LedgerState, now: float, rules: Rules, fits: Fits, asker: Requester | None
    ) -> PlanningView:
        return cls(state, now, rules, fits, Targets.from_state(state, rules), asker)

    @property
    def moves(self) -> tuple[Move, ...]:
        """Migrations that count for the concurrency limits."""
        return tuple(move for move in self.state.moves.values() if is_ongoing(move))

    def limit_reason(self, node: str) -> str:
        """Return why no migration may leave the node now. Empty: one may."""
        return limit_reason(self.moves, node, "", self.rules)

    def without_target(self, node: str) -> PlanningView:
        """Return the view without this node as a target."""
        takes = self.targets.open.copy()
        takes[self.targets.names.index(node)] = False
        return replace(self, targets=replace(self.targets, open=takes))

    def stay_reason(self, pod: Pod) -> str:
        """Return why the VM does not migrate. Empty: it may."""
        return stay_reason(self.state, pod, self.now, self.rules, self.requester)

    def movable_candidates(self, node: str, need: Amounts, but: str = "") -> tuple[Candidate, ...]:
        """Return the VMs on the node that may migrate, without their targets, by creation time and then UID."""
        pods = [pod for pod in self.state.nodes[node].pods.values() if pod.uid != but and not self.stay_reason(pod)]
        return tuple(sorted((self.candidate(pod, node, need) for pod in pods), key=lambda each: each.order))

    def candidates(self, node: str, need: Amounts) -> tuple[Candidate, ...]:
        """Return the VMs on the node that may migrate and have a target."""
        return self.with_targets(self.movable_candidates(node, need))

    def candidate(self, pod: Pod, node: str, need: Amounts, amount: Amounts | None = None) -> Candidate:
        """Return the candidate for a Pod. `amount` is the amount on the target, if it differs from that on its node."""
        machine = pod.machine
        assert machine is not None
        held = pod.counted_amount(pod.reserved)
        surplus = surplus_share(held, need, self.state.nodes[node].total)
        costs = cost(pod, machine, surplus, self.now, self.rules)
        return Candidate(pod, machine, node, held if amount is None else amount, costs)

    def least_price(self, pod: Pod) -> int:
        """Return the least price of migrating the VM: with no capacity freed beyond the need."""
        assert pod.machine is not None
        return price(cost(pod, pod.machine, 0.0, self.now, self.rules))

    def with_targets(self, movers: Sequence[Candidate]) -> tuple[Candidate, ...]:
        """Return the VMs with their targets, without those that have none.

        One target more than there are VMs is enough: at least one remains, whatever the others take. Filters take time,
        so for very many VMs fewer targets are determined.
        """
        enough = 1 + (len(movers) if self.fits is accept_any_node else min(len(movers), MAX_TARGETS_PER_CANDIDATE))
        found = [
            replace(each, targets=tuple(islice(self.accepting_nodes(each, self._nodes_with_capacity(each)), enough)))
            for each in movers
        ]
        return tuple(each for each in found if each.targets)

    def accepting_nodes(self, mover: Candidate, indices: Iterable[int]) -> Iterator[int]:
        """Yield the nodes of these that accept the VM, whatever their capacity. Never its own node."""
        names, failed = self.targets.names, bool(self.state.failures)
        for index in indices:
            if names[index] == mover.node:
                continue
            if failed and avoidance_end(self.state, mover.machine, names[index]) > self.now:
                continue
            if self.fits is accept_any_node or self.fits(mover.pod.uid, names[index]):
                yield index

    def _nodes_with_capacity(self, mover: Candidate) -> list[int]:
        return np.flatnonzero(self.targets.fitting_nodes(mover.amount)).tolist()

    def cover(self, movers: Sequence[Candidate], need: Amounts) -> tuple[Candidate, ...]:
        """Return the cheapest VMs that cover the need and whose targets fit together. Empty: none."""
        return cheapest_candidates(movers, need, self.fit)

    def fit(self, movers: Sequence[Candidate]) -> bool:
        """Return whether their targets fit together."""
        if all(len(each.targets) >= len(movers) for each in movers):
            return True
        wishes = [each.targets for each in movers]
        return fit_together([each.amount.values for each in movers], wishes, self._capacity_by_node(wishes))

    def best_targets(self, movers: Sequence[Candidate]) -> tuple[str, ...] | None:
        """Return the best target for each VM while the others find one too. None: they do not fit together."""
        orders = [
            self.targets.nodes_by_score(self._nodes_with_capacity(each), each.amount, self.rules) for each in movers
        ]
        wishes = [
            list(islice(self.accepting_nodes(each, order), len(movers)))
            for each, order in zip(movers, orders, strict=True)
        ]
        found = assign_nodes([each.amount.values for each in movers], wishes, self._capacity_by_node(wishes))
        return None if found is None else tuple(self.targets.names[index] for index in found)

    def _capacity_by_node(self, wishes: Sequence[Sequence[int]]) -> dict[int, list[int]]:
        room = self.targets.capacity
        return {index: room[:, index].tolist() for wished in wishes for index in wished}


def cheapest_candidates(
    movers: Sequence[Candidate], need: Amounts, fit: Callable[[Sequence[Candidate]], bool]
) -> tuple[Candidate, ...]:
    """Return the cheapest set that covers the need and fits. Empty: none. Ties go by the given order."""
    freed = column([each.amount for each in movers], len(need)).T
    wanted = column([need], len(need))[:, 0].tolist()
    prices = [each.price for each in movers]
    found = cheapest_cover(prices, freed, wanted, lambda chosen: fit([movers[number] for number in chosen]))
    return tuple(movers[number] for number in found)

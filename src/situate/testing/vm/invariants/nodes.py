"""Checks of nodes: no node exceeds its Total (I1), and the reasons to leave one (I9)."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final

from situate.testing.vm.invariants.objects import Obj, annotation_of, name_of, total_of
from situate.testing.vm.invariants.usage import UsageCounter
from situate.testing.vm.world.history_world import VmHistoryWorld
from situate.vm.api.well_known import DRAIN, EVACUATE
from situate.vm.model.resource_amounts import Amounts

_NOTHING: Final = Amounts.zero()


class NodeChecks:
    """The node checks of one history."""

    def __init__(self, place: VmHistoryWorld, counting: UsageCounter, breach: Callable[[str], None]) -> None:
        self._world = place
        self._usage = counting
        self._breach = breach
        self.excess_by_node: dict[str, Amounts] = {}
        """By node: its excess over Total at the last check."""
        self.facts: dict[str, list[tuple[float, Amounts]]] = {}
        """By node: time and amount of capacity that others took."""
        self.pressed_at: dict[str, float] = {}
        """By node: when there was last a reason to leave it."""
        self.recent_sums: deque[tuple[float, dict[str, Amounts]]] = deque(maxlen=200)
        """Times of the checks, with the used amounts of each node."""

    def record_fact(self, node: str, amount: Amounts) -> None:
        """Record that others took this amount of the node, which vm could not refuse."""
        self.facts.setdefault(node, []).append((self._world.now, amount))

    def check_totals(self, machines: Mapping[str, Obj]) -> None:
        """Check I1: no node exceeds its Total, or exceeds it further, by more than the amounts that others took.

        The facts of all times count, because an earlier grant may be used much later.
        """
        sums, now = self._usage.sums_by_node(machines), self._world.now
        self.recent_sums.append((now, sums))
        for node in self._usage.table("nodes"):
            name = node["metadata"]["name"]
            excess = (sums.get(name, _NOTHING) - total_of(node)).positive_part()
            grown = (excess - self.excess_by_node.get(name, _NOTHING)).positive_part()
            self.excess_by_node[name] = excess
            if not grown:
                continue
            allowed = sum((amount for _, amount in self.facts.get(name, ())), _NOTHING)
            if excess.exceeds(allowed):
                self._breach(f"I1: node {name} is over its total by {excess.values}, {grown.values} more than before")

    def record_pressure(self, machines: Mapping[str, Obj]) -> None:
        """Record the nodes that a VM has a reason to leave (I9)."""
        demand = self._usage.demand_by_node(machines)
        for node in self._usage.table("nodes"):
            name = name_of(node)
            if DRAIN in (node["metadata"].get("annotations") or {}) or demand.get(name, _NOTHING).exceeds(
                self._usage.watermark_of(node)
            ):
                self.pressed_at[name] = self._world.now
        for machine in machines.values():
            if text := annotation_of(machine, EVACUATE):
                runner = (machine.get("status") or {}).get("podName", "")
                pod = self._world.object("pods", machine["metadata"]["namespace"], runner)
                name = str(json.loads(text)["node"])
                if pod is not None and pod["spec"].get("nodeName") == name:
                    self.pressed_at[name] = self._world.now

"""Checks of nodes: no node exceeds its Total (I1), and the reasons to leave one (I9)."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final

from situate.testing.vm.invariants.objects import Obj, name_of, note, total_of
from situate.testing.vm.invariants.usage import Counting
from situate.testing.vm.world.history_world import Place
from situate.vm.api.well_known import DRAIN, EVACUATE
from situate.vm.model.resource_amounts import Amounts

_NOTHING: Final = Amounts.zero()


class NodesSeen:
    """The node checks of one history."""

    def __init__(self, place: Place, counting: Counting, breach: Callable[[str], None]) -> None:
        self._place = place
        self._counting = counting
        self._breach = breach
        self.full: dict[str, Amounts] = {}
        """By node: its excess over Total at the last check."""
        self.facts: dict[str, list[tuple[float, Amounts]]] = {}
        """By node: time and amount of capacity that others took."""
        self.pressed: dict[str, float] = {}
        """By node: when there was last a reason to leave it."""
        self.lately: deque[tuple[float, dict[str, Amounts]]] = deque(maxlen=200)
        """Times of the checks, with the used amounts of each node."""

    def fact(self, node: str, amount: Amounts) -> None:
        """Record that others took this amount of the node, which vm could not refuse."""
        self.facts.setdefault(node, []).append((self._place.now, amount))

    def look(self, machines: Mapping[str, Obj]) -> None:
        """Check I1: no node exceeds its Total, or exceeds it further, by more than the amounts that others took.

        The facts of all times count, because an earlier grant may be used much later.
        """
        sums, now = self._counting.sums(machines), self._place.now
        self.lately.append((now, sums))
        for node in self._counting.table("nodes"):
            name = node["metadata"]["name"]
            excess = (sums.get(name, _NOTHING) - total_of(node)).positive()
            grown = (excess - self.full.get(name, _NOTHING)).positive()
            self.full[name] = excess
            if not grown:
                continue
            allowed = sum((amount for _, amount in self.facts.get(name, ())), _NOTHING)
            if excess.exceeds(allowed):
                self._breach(f"I1: node {name} is over its total by {excess.values}, {grown.values} more than before")

    def press(self, machines: Mapping[str, Obj]) -> None:
        """Record the nodes that a VM has a reason to leave (I9)."""
        demand = self._counting.demand(machines)
        for node in self._counting.table("nodes"):
            name = name_of(node)
            if DRAIN in (node["metadata"].get("annotations") or {}) or demand.get(name, _NOTHING).exceeds(
                self._counting.watermark(node)
            ):
                self.pressed[name] = self._place.now
        for machine in machines.values():
            if text := note(machine, EVACUATE):
                runner = (machine.get("status") or {}).get("podName", "")
                pod = self._place.object("pods", machine["metadata"]["namespace"], runner)
                name = str(json.loads(text)["node"])
                if pod is not None and pod["spec"].get("nodeName") == name:
                    self.pressed[name] = self._place.now

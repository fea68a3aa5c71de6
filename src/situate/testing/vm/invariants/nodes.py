"""Nodes, as a history sees them: none comes over its size (I1), and who has a reason to leave one (I9)."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final

from situate.testing.vm.invariants.objects import Obj, name_of, note, total_of
from situate.testing.vm.invariants.usage import Counting
from situate.testing.vm.world.place import Place
from situate.vm.api.well_known import DRAIN, EVACUATE
from situate.vm.model.resource_amounts import Amounts

_NOTHING: Final = Amounts.zero()


class NodesSeen:
    """Of one history."""

    def __init__(self, place: Place, counting: Counting, breach: Callable[[str], None]) -> None:
        self._place = place
        self._counting = counting
        self._breach = breach
        self.full: dict[str, Amounts] = {}
        """Excess of each node as it was last."""
        self.facts: dict[str, list[tuple[float, Amounts]]] = {}
        """By node: when others took how much of it."""
        self.pressed: dict[str, float] = {}
        """When somebody had last a reason to leave a node."""
        self.lately: deque[tuple[float, dict[str, Amounts]]] = deque(maxlen=200)
        """What was used of each node, and when."""

    def fact(self, node: str, amount: Amounts) -> None:
        """Others have taken so much of the node, and nobody could refuse it."""
        self.facts.setdefault(node, []).append((self._place.now, amount))

    def look(self, machines: Mapping[str, Obj]) -> None:
        """I1: over its Total, or further over it, comes no node but by as much as others have taken of it.

        Whenever that was: what was granted before is perhaps used long after.
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
        """Notes which nodes somebody has a reason to leave (I9)."""
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

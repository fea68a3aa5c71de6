"""The fewest pods that demand fills and the most pods that are used, computed by the rules from objects on the server.

The leader's memory gives only two facts: the vpods that a rule keeps short, and the pods that hold anything.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from situate.testing.vpod.world.world import TENANTS, VPodWorld
from situate.vpod.model.vpod import Key
from situate.vpod.scaling.drain import occupied_pod_count
from situate.vpod.state.fairness_limits import Rule
from situate.vpod.state.state import State


class SourceDemand(NamedTuple):
    """A ConsumerGroup on the server."""

    wanted: int
    placed: int
    weight: int


class LastDecision(NamedTuple):
    """The last decision for a vpod."""

    at: float
    wanted: int
    left: int
    rule: Rule | None
    """The rule that leaves some vreplicas over. None if the cause is a lack of capacity."""


class Demand:
    """The demand of all sources. The creator of this object changes it."""

    def __init__(self, world: VPodWorld, asked: Mapping[str, SourceDemand], tried: Mapping[str, LastDecision]) -> None:
        self._world = world
        self._settings = world.settings
        self._demands = asked
        self._last_decisions = tried

    def filled_pods(self, state: State, replicas: int) -> int:
        """Return the minimum number of pods: those that the demand fills.

        Vreplicas that a rule leaves over do not count, because they trigger no scale-up.
        """
        targets = {
            key: min(asked.placed, asked.wanted) if self._is_ruled_out(state, key) else asked.wanted
            for key, asked in self._demands.items()
        }
        units = self._total_units(targets, replicas)
        if self._settings.quota is not None and self._settings.weights:
            units -= len(TENANTS)  # a vreplica of weight 2 may not fit into the rest of a share
        pods = -(-units // self._world.capacity)
        most = self._settings.max_replicas
        return pods if most is None else min(pods, most)

    def used_pods(self, state: State, replicas: int) -> int:
        """Return the maximum number of pods: those that the demand needs, wherever its vreplicas are.

        Two cases count every pod that holds anything: no drain may move vreplicas away, or vreplicas of one pod may fit
        on no other pod that has free capacity.
        """
        settings = self._settings
        least = settings.min_replicas
        targets = {key: max(asked.wanted, least) if asked.wanted else 0 for key, asked in self._demands.items()}
        pods = max(least, -(-self._total_units(targets, replicas) // self._world.capacity))
        fits_anywhere = not (settings.weights or settings.predicates or settings.topology_required)
        if settings.drain and fits_anywhere and settings.quota is None:
            return pods
        return max(pods, occupied_pod_count(state), replicas if self._lacks_a_pod(state) else 0)

    def _total_units(self, targets: Mapping[str, int], replicas: int) -> int:
        """Return the units of all targets. A namespace counts up to its share of the pods, or up to its running units.

        A namespace over its share gets a message about it and is no demand (B11).
        """
        wanted: Counter[str] = Counter()
        runs: Counter[str] = Counter()
        for key, asked in self._demands.items():
            namespace = Key.parse(key).namespace
            wanted[namespace] += targets[key] * asked.weight
            runs[namespace] += min(asked.placed, targets[key]) * asked.weight
        if self._settings.quota is None:
            return wanted.total()
        most, capacity = self._settings.max_replicas, self._world.capacity
        asked_for = sum(asked.wanted * asked.weight for asked in self._demands.values())
        pods = max(replicas * capacity, asked_for) if most is None else most * capacity
        share = int(self._settings.quota * pods)
        return sum(min(units, max(share, runs[namespace])) for namespace, units in wanted.items())

    def _lacks_a_pod(self, state: State) -> bool:
        """Return whether a vpod is short although capacity is free.

        Its vreplicas fit nowhere, or a domain lags behind. The set then needs one more pod (B8, B10), however many pods
        are empty.
        """
        for key, asked in self._demands.items():
            if asked.placed >= asked.wanted:
                continue
            tried = self._last_decisions.get(key)
            by_topology = tried is None or tried.rule is None or tried.rule is Rule.TOPOLOGY
            if self._settings.topology_required and by_topology:
                return True
            if self._settings.weights and not self._is_ruled_out(state, key):
                return True
        return False

    def _is_ruled_out(self, state: State, key: str) -> bool:
        tried, entry = self._last_decisions.get(key), state.vpods.get(Key.parse(key))
        return (entry is not None and entry.is_limited_by_rule) or (tried is not None and tried.rule is not None)

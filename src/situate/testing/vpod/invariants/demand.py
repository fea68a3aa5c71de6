"""How many pods the demand fills at the least, and how many are used at the most: by the words of the reference, from
what is on the server. From the leader's memory comes only who is kept short by a rule, and which pods hold anything.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from situate.testing.vpod.world.world import TENANTS, VPodWorld
from situate.vpod.model.vpod import Key
from situate.vpod.scaling.drain import occupied
from situate.vpod.state.fairness_limits import Rule
from situate.vpod.state.state import State


class Asked(NamedTuple):
    """A ConsumerGroup on the server."""

    wanted: int
    placed: int
    weight: int


class Tried(NamedTuple):
    """The last decision for a vpod."""

    at: float
    wanted: int
    left: int
    rule: Rule | None
    """What leaves some of it over, if not the lack of room."""


class Demand:
    """Of what the sources ask for, which is changed by whoever made this."""

    def __init__(self, world: VPodWorld, asked: Mapping[str, Asked], tried: Mapping[str, Tried]) -> None:
        self._world = world
        self._settings = world.settings
        self._asked = asked
        self._tried = tried

    def filled(self, state: State, replicas: int) -> int:
        """No fewer pods hold the demand: those that it would fill. For what a rule leaves over nobody is woken."""
        targets = {
            key: min(asked.placed, asked.wanted) if self._is_ruled_out(state, key) else asked.wanted
            for key, asked in self._asked.items()
        }
        units = self._units(targets, replicas)
        if self._settings.quota is not None and self._settings.weights:
            units -= len(TENANTS)  # a vreplica of weight 2 may not fit into what is left of a share
        pods = -(-units // self._world.capacity)
        most = self._settings.max_replicas
        return pods if most is None else min(pods, most)

    def used(self, state: State, replicas: int) -> int:
        """No more pods are used: those that the demand needs, wherever it lies.

        Whatever holds anything counts where nothing is moved off a pod to make the set smaller, and where what lies on
        a pod may fit on no other although they have room.
        """
        settings = self._settings
        least = settings.min_replicas
        targets = {key: max(asked.wanted, least) if asked.wanted else 0 for key, asked in self._asked.items()}
        pods = max(least, -(-self._units(targets, replicas) // self._world.capacity))
        fits_anywhere = not (settings.weights or settings.predicates or settings.topology_required)
        if settings.drain and fits_anywhere and settings.quota is None:
            return pods
        return max(pods, occupied(state), replicas if self._lacks_a_pod(state) else 0)

    def _units(self, targets: Mapping[str, int], replicas: int) -> int:
        """Of each namespace no more than its share of the pods, but for what runs: who is over its share is told so and
        is no demand (B11)."""
        wanted: Counter[str] = Counter()
        runs: Counter[str] = Counter()
        for key, asked in self._asked.items():
            namespace = Key.parse(key).namespace
            wanted[namespace] += targets[key] * asked.weight
            runs[namespace] += min(asked.placed, targets[key]) * asked.weight
        if self._settings.quota is None:
            return wanted.total()
        most, capacity = self._settings.max_replicas, self._world.capacity
        asked_for = sum(asked.wanted * asked.weight for asked in self._asked.values())
        pods = max(replicas * capacity, asked_for) if most is None else most * capacity
        share = int(self._settings.quota * pods)
        return sum(min(units, max(share, runs[namespace])) for namespace, units in wanted.items())

    def _lacks_a_pod(self, state: State) -> bool:
        """Whether somebody is short although there is room: its vreplicas fit into none of it, or a domain lags behind.
        One pod more is needed then (B8, B10), however many hold nothing."""
        for key, asked in self._asked.items():
            if asked.placed >= asked.wanted:
                continue
            tried = self._tried.get(key)
            by_topology = tried is None or tried.rule is None or tried.rule is Rule.TOPOLOGY
            if self._settings.topology_required and by_topology:
                return True
            if self._settings.weights and not self._is_ruled_out(state, key):
                return True
        return False

    def _is_ruled_out(self, state: State, key: str) -> bool:
        tried, entry = self._tried.get(key), state.vpods.get(Key.parse(key))
        return (entry is not None and entry.ruled_out) or (tried is not None and tried.rule is not None)

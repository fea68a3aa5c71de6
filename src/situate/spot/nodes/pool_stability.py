"""Stability of spot pools: whether pods may return to a pool.

A pool is calm if it has a usable node of some age and had no interruption for a while. If nodes come back soon after
their end twice, the pool is at risk for hours, so that pods do not move back and forth. The memory passes from one
observation of the nodes to the next. A new leader rebuilds it from the recorded history. Rules: B26, B27.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from situate.spot.model.counts import Nodes
from situate.spot.model.pods_nodes_workloads import Capacity, NodeState
from situate.spot.model.policy_limits import Limits
from situate.spot.nodes.interruptions import InterruptionHistory


@dataclass(frozen=True, slots=True)
class PoolMemory:
    interrupted_at: float | None = None
    """Latest end of one of its nodes; None if none ended."""
    flaps: tuple[float, ...] = ()
    """Recent times at which nodes came back too soon."""
    distrusted_until: float = 0.0


@dataclass(frozen=True, slots=True)
class Pools:
    """Memory of all pools, and the usable spot nodes at the latest observation, by name."""

    memories: Mapping[str, PoolMemory] = field(default_factory=dict)
    usable: Mapping[str, str] | None = None
    """Node to pool; None before the first observation, which records no interruption."""


def observe_pools(pools: Pools, nodes: Nodes, now: float, limits: Limits) -> Pools:
    """Return the memory after an observation of the nodes."""
    spot = {node.name: node for node in nodes.values() if node.capacity is Capacity.SPOT and not node.ending}
    usable = {name: node.pool for name, node in spot.items()}
    if pools.usable is None:
        return Pools(pools.memories, usable)
    memories = dict(pools.memories)
    for name in sorted(pools.usable.keys() - usable.keys()):
        pool = pools.usable[name]
        memories[pool] = replace(memories.get(pool, PoolMemory()), interrupted_at=now)
    for name in sorted(usable.keys() - pools.usable.keys()):
        memories[usable[name]] = _record_arrival(memories.get(usable[name], PoolMemory()), now, limits)
    return Pools(memories, usable)


def restore_pools(history: InterruptionHistory, nodes: Nodes, limits: Limits) -> Pools:
    """Rebuild the memory before the first observation of a process, from recorded ends and returns in order of time.

    A node that came while no leader recorded is known by its age. If the record names fewer pools than a wave had, the
    wave counts for all existing pools.
    """
    spot = [node for node in nodes.values() if node.capacity is Capacity.SPOT and not node.ending]
    happened: list[tuple[float, int, str]] = []  # ends before returns of the same moment
    for wave in history.waves:
        pools = set(wave.pools)
        if sum(wave.pools.values()) < wave.nodes:
            pools.update(node.pool for node in spot)
        happened += ((at, 0, pool) for pool in pools for at in {wave.began, wave.last})
    happened += ((each.at, 1, each.pool) for each in history.returns)
    recorded = {each.node for each in history.returns}
    happened += ((node.created, 1, node.pool) for node in spot if node.name not in recorded)
    memories: dict[str, PoolMemory] = {}
    for at, came, pool in sorted(happened):
        memory = memories.get(pool, PoolMemory())
        if came:
            memories[pool] = _record_arrival(memory, at, limits)
        else:
            memories[pool] = replace(memory, interrupted_at=at)
    return Pools({pool: memory for pool, memory in memories.items() if memory.interrupted_at is not None})


def _record_arrival(pool: PoolMemory, now: float, limits: Limits) -> PoolMemory:
    """Record the arrival of a node: soon after an end it is a flap, and at most one flap for each end."""
    if pool.interrupted_at is None or now - pool.interrupted_at >= limits.returns.flap_s:
        return pool
    if pool.flaps and pool.flaps[-1] >= pool.interrupted_at:
        return pool
    flaps = tuple(at for at in (*pool.flaps, now) if now - at < limits.returns.distrust_s)
    if len(flaps) < limits.returns.flaps:
        return replace(pool, flaps=flaps)
    return replace(pool, flaps=flaps, distrusted_until=now + limits.returns.distrust_s)


def calm_pools(pools: Pools, nodes: Nodes, now: float, limits: Limits) -> frozenset[str]:
    """Return the pools to which pods may return."""
    return frozenset(pool for pool, at in _calm_times(pools, nodes, limits).items() if now >= at)


def next_calm_time(pools: Pools, nodes: Nodes, now: float, limits: Limits) -> float | None:
    """Return the time at which the next pool becomes calm if nothing happens; None if no pool waits for that."""
    return min((at for at in _calm_times(pools, nodes, limits).values() if at > now), default=None)


def _calm_times(pools: Pools, nodes: Nodes, limits: Limits) -> dict[str, float]:
    """Return, for each pool with a usable node, the time from which it is calm."""
    newest: dict[str, float] = {}
    for node in nodes.values():
        if node.capacity is Capacity.SPOT and node.state is NodeState.OK:
            newest[node.pool] = max(newest.get(node.pool, 0.0), node.created)
    found: dict[str, float] = {}
    for pool, created in newest.items():
        memory = pools.memories.get(pool, PoolMemory())
        quiet = -math.inf if memory.interrupted_at is None else memory.interrupted_at + limits.returns.calm_s
        found[pool] = max(created + limits.returns.node_age_s, quiet, memory.distrusted_until)
    return found


def seconds_until_calm(pools: Pools, now: float, limits: Limits) -> float | None:
    """Return the seconds until time alone may make a pool calm; None if no pool waits for that."""
    waits = [
        left
        for memory in pools.memories.values()
        for left in (
            memory.distrusted_until - now,
            (memory.interrupted_at + limits.returns.calm_s - now) if memory.interrupted_at is not None else 0.0,
        )
        if left > 0
    ]
    return min(waits, default=None)

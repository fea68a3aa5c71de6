"""Whether spot can be trusted again, pool by pool (B26, B27): remembered from one look at the nodes to the next, and by
a new leader recalled from what the one before has recorded.

A pool is calm when it has a usable node of some age and nothing in it was reclaimed for a while. Nodes that come back
soon after they went, twice, put the pool at risk for hours, so that nothing moves to and fro.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from situate.spot.model.counts import Nodes
from situate.spot.model.pods_nodes_workloads import Capacity, NodeState
from situate.spot.model.policy_limits import Limits
from situate.spot.nodes.interruptions import History


@dataclass(frozen=True, slots=True)
class PoolMemory:
    interrupted_at: float | None = None
    """When a node of it last ended; None if none did."""
    flaps: tuple[float, ...] = ()
    """When nodes came back too soon, lately."""
    distrusted_until: float = 0.0


@dataclass(frozen=True, slots=True)
class Pools:
    """Memory of all pools, and the usable spot nodes that were there at the last look, by name."""

    memories: Mapping[str, PoolMemory] = field(default_factory=dict)
    usable: Mapping[str, str] | None = None
    """Node to pool; None before the first look, which interrupts nothing."""


def observed(pools: Pools, nodes: Nodes, now: float, limits: Limits) -> Pools:
    """After a look at the nodes."""
    spot = {node.name: node for node in nodes.values() if node.capacity is Capacity.SPOT and not node.ending}
    usable = {name: node.pool for name, node in spot.items()}
    if pools.usable is None:
        return Pools(pools.memories, usable)
    memories = dict(pools.memories)
    for name in sorted(pools.usable.keys() - usable.keys()):
        pool = pools.usable[name]
        memories[pool] = replace(memories.get(pool, PoolMemory()), interrupted_at=now)
    for name in sorted(usable.keys() - pools.usable.keys()):
        memories[usable[name]] = _arrived(memories.get(usable[name], PoolMemory()), now, limits)
    return Pools(memories, usable)


def recalled(history: History, nodes: Nodes, limits: Limits) -> Pools:
    """Before the first look of a process: ends and returns as they were recorded, one after the other.

    A node that came while nobody recorded is known by its age. A wave of more pools than were written down is one of
    all pools that there are.
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
            memories[pool] = _arrived(memory, at, limits)
        else:
            memories[pool] = replace(memory, interrupted_at=at)
    return Pools({pool: memory for pool, memory in memories.items() if memory.interrupted_at is not None})


def _arrived(pool: PoolMemory, now: float, limits: Limits) -> PoolMemory:
    """A node came: too soon after one went, it is a flap. However many come back after one wave, that is one."""
    if pool.interrupted_at is None or now - pool.interrupted_at >= limits.flap_s:
        return pool
    if pool.flaps and pool.flaps[-1] >= pool.interrupted_at:
        return pool
    flaps = tuple(at for at in (*pool.flaps, now) if now - at < limits.distrust_s)
    if len(flaps) < limits.flaps:
        return replace(pool, flaps=flaps)
    return replace(pool, flaps=flaps, distrusted_until=now + limits.distrust_s)


def calm_pools(pools: Pools, nodes: Nodes, now: float, limits: Limits) -> frozenset[str]:
    """The pools that pods may return to."""
    return frozenset(pool for pool, at in _calm_from(pools, nodes, limits).items() if now >= at)


def calm_at(pools: Pools, nodes: Nodes, now: float, limits: Limits) -> float | None:
    """When the next pool is calm if nothing happens to it; None if none waits for that."""
    return min((at for at in _calm_from(pools, nodes, limits).values() if at > now), default=None)


def _calm_from(pools: Pools, nodes: Nodes, limits: Limits) -> dict[str, float]:
    """From when on each pool that has a usable node is calm."""
    newest: dict[str, float] = {}
    for node in nodes.values():
        if node.capacity is Capacity.SPOT and node.state is NodeState.OK:
            newest[node.pool] = max(newest.get(node.pool, 0.0), node.created)
    found: dict[str, float] = {}
    for pool, created in newest.items():
        memory = pools.memories.get(pool, PoolMemory())
        quiet = -math.inf if memory.interrupted_at is None else memory.interrupted_at + limits.calm_s
        found[pool] = max(created + limits.node_age_s, quiet, memory.distrusted_until)
    return found


def next_calm(pools: Pools, now: float, limits: Limits) -> float | None:
    """Seconds until a pool may become calm by time alone; None if none waits for that."""
    waits = [
        left
        for memory in pools.memories.values()
        for left in (
            memory.distrusted_until - now,
            (memory.interrupted_at + limits.calm_s - now) if memory.interrupted_at is not None else 0.0,
        )
        if left > 0
    ]
    return min(waits, default=None)

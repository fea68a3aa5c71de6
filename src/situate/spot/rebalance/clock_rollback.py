"""Correction of remembered times that are in the future because a clock was ahead and was set back.

Waiting for such times could take days. Periods that began at such a time begin now instead. Rule: F15.
"""

from __future__ import annotations

from dataclasses import replace

from situate.spot.model.policy_limits import Limits
from situate.spot.nodes.pool_stability import PoolMemory, Pools
from situate.spot.rebalance.decision import State
from situate.spot.workloads.cluster_objects import WorkloadMemory


def correct_future_times(state: State, limits: Limits, now: float) -> State:
    """Return the state with corrected times; the same object if no time is too far ahead."""
    memories = {uid: memory for uid, memory in state.memories.items() if _is_ahead(memory, limits, now)}
    pools = {name: pool for name, pool in state.pools.memories.items() if _pool_is_ahead(pool, limits, now)}
    if not memories and not pools and max(state.moved_at, default=now) <= now:
        return state
    return replace(
        state,
        memories={**state.memories, **{uid: _correct_memory(memory, limits, now) for uid, memory in memories.items()}},
        pools=Pools(
            {**state.pools.memories, **{name: _correct_pool(pool, limits, now) for name, pool in pools.items()}},
            state.pools.usable,
        ),
        moved_at=tuple(min(at, now) for at in state.moved_at),
    )


def _is_ahead(memory: WorkloadMemory, limits: Limits, now: float) -> bool:
    returned = memory.returned_at is not None and memory.returned_at > now
    awaited = memory.awaited_since is not None and memory.awaited_since > now
    return memory.moved_at > now or returned or awaited or memory.stopped_until > now + limits.evictions.stop_s


def _correct_memory(memory: WorkloadMemory, limits: Limits, now: float) -> WorkloadMemory:
    return replace(
        memory,
        moved_at=min(memory.moved_at, now),
        returned_at=None if memory.returned_at is None else min(memory.returned_at, now),
        stopped_until=min(memory.stopped_until, now + limits.evictions.stop_s),
        awaited_since=None if memory.awaited_since is None else min(memory.awaited_since, now),
    )


def _pool_is_ahead(pool: PoolMemory, limits: Limits, now: float) -> bool:
    interrupted = pool.interrupted_at is not None and pool.interrupted_at > now
    return interrupted or max(pool.flaps, default=now) > now or pool.distrusted_until > now + limits.returns.distrust_s


def _correct_pool(pool: PoolMemory, limits: Limits, now: float) -> PoolMemory:
    return replace(
        pool,
        interrupted_at=None if pool.interrupted_at is None else min(pool.interrupted_at, now),
        flaps=tuple(min(at, now) for at in pool.flaps),
        distrusted_until=min(pool.distrusted_until, now + limits.returns.distrust_s),
    )

"""How often objects move when executors are replaced or join, on virtual time, beside a hash ring (B5, B6)."""

from __future__ import annotations

from math import ceil
from random import Random
from typing import Any

from tests.sharding.movement import ring_rollout_moves_per_object

from bench.shard_place import Bench
from bench.shard_played import imbalance, rollout_moves_per_object
from bench.shard_table import Peer, heading, line

_RING_P50 = {3: 1.07, 5: 1.11, 10: 1.15}


async def rollout(bench: Bench) -> dict[str, Any]:
    """B5; the ring's keys and names are drawn anew for each number of executors."""
    size = bench.size
    heading(f"B5 moves for each object, ordered replacement with one surge pod, {size.played_each} objects an executor")
    ours: dict[int, float] = {}
    ring: dict[int, float] = {}
    for executors in size.rollouts:
        ours[executors] = rollout_moves_per_object(executors, size.played_each)
        ring[executors] = ring_rollout_moves_per_object(executors, size.ring_keys, Random(executors))
        line(f"{executors} executors", ours[executors], most=1.10, peer=Peer(ring[executors], "ring, in this run"))
    most = max(size.rollouts)
    return {
        "rollout_moves_per_object": round(ours[most], 3),
        "ring_moves_per_object": round(ring[most], 3),
        "rollout_moves_by_executors": {str(key): round(value, 3) for key, value in ours.items()},
        "ring_moves_by_executors": {str(key): round(value, 3) for key, value in ring.items()},
    }


async def balance(bench: Bench) -> dict[str, Any]:
    """B6: as many join as there are."""
    count = bench.size.rollouts[-1]
    executors, objects = count // 2, count * bench.size.played_each
    title = f"B6 most open objects of an executor by the mean, {executors} executors, {count - executors} join"
    heading(f"{title}, {objects} objects")
    before, after = imbalance(executors, count - executors, objects)
    mean = bench.size.played_each
    line("when they have joined", before)
    line("after convergence", after, most=ceil(1.25 * mean) / mean, peer=Peer(_RING_P50[count], "ring, median"))
    return {"imbalance": round(after, 3), "imbalance_before": round(before, 3)}

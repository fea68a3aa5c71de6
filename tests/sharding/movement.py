"""Executors that come and go while objects stay open: how often an object moves, by strategy and by a ring."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

from situate.sharding.model.errors import NoHealthyExecutors
from situate.sharding.model.executors import ExecutorStatus
from situate.sharding.partitions.hash_ring import HashRing
from situate.sharding.rebalancing import (
    PlacedObject,
    RebalanceConfig,
    RebalanceDecision,
    RebalanceState,
    RebalanceView,
    rebalance,
)
from situate.sharding.strategies import MinScheduled, ObjectFacts, Placer


class Pool:
    """Objects, each on the executor that a strategy chose."""

    def __init__(self) -> None:
        self.placer = Placer(MinScheduled())
        self.where: dict[str, str] = {}
        self.moves = 0

    def join(self, executor: str) -> None:
        self.placer.observe_executor(executor, ExecutorStatus.HEALTHY)

    def place(self, uid: str, preferred: frozenset[str] = frozenset()) -> None:
        obj = ObjectFacts(uid)
        try:
            executor = self.placer.choose_among(obj, preferred) if preferred else self.placer.choose_executor(obj)
        except NoHealthyExecutors:
            executor = self.placer.choose_executor(obj)
        self.moves += uid in self.where
        self.where[uid] = executor
        self.placer.observe_scheduled(ObjectFacts(uid, executor=executor))

    def drain(self, executor: str, preferred: frozenset[str] = frozenset()) -> None:
        """It gets nothing more, its objects go elsewhere, and then it goes."""
        self.placer.observe_executor(executor, ExecutorStatus.DRAINING)
        for uid in [uid for uid, holder in self.where.items() if holder == executor]:
            self.place(uid, preferred)
        self.placer.observe_executor(executor, None)

    def counts(self) -> Counter[str]:
        return Counter(self.where.values())


def rollout_moves_per_object(executors: int, objects_each: int) -> float:
    """Ordered replacement with one surge pod: a new one joins, an old one is drained, and so on."""
    pool = Pool()
    for number in range(executors):
        pool.join(f"old-{number}")
    for number in range(executors * objects_each):
        pool.place(f"o{number}")
    newest: frozenset[str] = frozenset()
    for number in range(executors):
        pool.join(f"new-{number}")
        newest |= {f"new-{number}"}
        pool.drain(f"old-{number}", newest)
    assert set(pool.counts()) == newest
    return pool.moves / len(pool.where)


def ring_rollout_moves_per_object(executors: int, keys: int, names: random.Random) -> float:
    """The same on a ring, where everything goes at once to whoever owns its hash."""
    ring = HashRing(f"operator-7c8bc4fc9d-{names.getrandbits(25):05x}" for _ in range(executors))
    old = list(ring.members)
    objects = [f"example.com/Job/default/job-{number}" for number in range(keys)]
    owners = [ring.owner(key) for key in objects]
    moves = 0
    for leaver in old:
        for step in ("join", "leave"):
            newcomer = f"operator-6d4cf56db6-{names.getrandbits(25):05x}"
            ring = ring.with_member(newcomer) if step == "join" else ring.without_member(leaver)
            after = [ring.owner(key) for key in objects]
            moves += sum(was != now for was, now in zip(owners, after, strict=True))
            owners = after
    return moves / keys


def rebalanced_for(
    objects: Sequence[PlacedObject],
    live: Sequence[str],
    config: RebalanceConfig,
    seconds: int,
    vary: random.Random | None = None,
) -> list[tuple[int, RebalanceDecision]]:
    """What is decided every ten seconds while moves are made at once and loads vary within the tolerance."""
    state, held, found = RebalanceState(), list(objects), []
    for now in range(0, seconds, 10):
        seen = held if vary is None else [_varied(each, vary, config.load_tolerance) for each in held]
        decision = rebalance(state, config, RebalanceView(seen, live), float(now))
        state = decision.state
        targets = {move.uid: move.target for move in decision.moves}
        held = [PlacedObject(each.uid, targets.get(each.uid, each.executor), each.load, each.movable) for each in held]
        found.append((now, decision))
    return found


def _varied(each: PlacedObject, vary: random.Random, share: float) -> PlacedObject:
    return PlacedObject(each.uid, each.executor, each.load * vary.uniform(1 - share, 1 + share), each.movable)

"""Placing, the autoscaler and the drain together, through random histories in which nobody else scales.

Ten seconds pass between steps. Schedules, beats, status writes and pods coming up follow their triggers as the
controller lets them, on healthy nodes; the promises of sections 7, 12 and 13 are checked at every instant.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest

from situate.vpod.model.options import DrainOptions, Options, PolicyName, Shrink, Topology
from situate.vpod.model.pod_classes import Cause, NodeFacts, PodFacts
from situate.vpod.model.vpod import Key, PlainVPod
from situate.vpod.placement.decide import MoveCause, commit
from situate.vpod.scaling import drain
from situate.vpod.scaling.autoscaler import AutoscalerMemory, apply_drain, decide_round
from situate.vpod.scaling.demand import pods_needed
from situate.vpod.state.state import State
from situate.vpod.state.vpod_view import VPodView

TICK = 10.0
BEAT = 100.0
ZONES = "abc"


class Cluster:
    """One StatefulSet under its autoscaler. Pods come up `delay` ticks after they have been asked for."""

    def __init__(self, options: Options, rng: random.Random) -> None:
        self.rng = rng
        self.options = options
        self.now = 0.0
        self.vpods: dict[Key, PlainVPod] = {}
        self.state = State.rebuild(options, 0, [], [], 0.0, [NodeFacts(f"n{i}", zone) for i, zone in enumerate(ZONES)])
        self.memory = AutoscalerMemory()
        self.pending: dict[int, int] = {}  # ordinals without a pod, and in how many ticks it comes
        self.next_beat = BEAT
        self.due: list[Key] = []
        self.again: dict[Key, float] = {}  # as the work queue's delayed entries, which outlive the drain
        self.scale_ups: list[float] = []
        self.beats = 0
        self.seen: Counter[str] = Counter()

    def want(self, name: str, vreplicas: int, weight: int = 1) -> None:
        key = Key("ns", name)
        known = self.vpods.get(key) or PlainVPod(key, 0, weight=weight)
        self.vpods[key] = replace(known, vreplicas=vreplicas)
        self.state.observe_vpod(self.vpods[key], self.now)
        self.due.append(key)

    def delete(self, name: str) -> None:
        if self.vpods.pop(Key("ns", name), None) is not None:
            self.state.remove_vpod(Key("ns", name), self.now)

    def tick(self) -> None:
        self.now += TICK
        self.state.advance(self.now)
        self._pods_come_up()
        short = self._schedule()
        if self.now >= self.next_beat:
            self.next_beat = self.now + BEAT
            self._beat(may_shrink=True)
        elif short:
            self._beat(may_shrink=False)
        self._check()

    def _pods_come_up(self) -> None:
        for ordinal, ticks in list(self.pending.items()):
            self.pending[ordinal] = ticks - 1
            if ticks == 0:
                del self.pending[ordinal]
                self.state.observe_pod(PodFacts(f"s-{ordinal}", f"n{ordinal % len(ZONES)}"), self.now)

    def _schedule(self) -> bool:
        """Due vpods, short ones, and those that a drain moves; whether any is short."""
        short = [key for key, entry in self.state.vpods.items() if entry.short_since is not None]
        again = [key for key, at in self.again.items() if at <= self.now]
        keys = dict.fromkeys([*self.due, *short, *again, *drain.vpods_on_drained_pods(self.state)])
        self.due = []
        for key in keys:
            vpod = self.vpods.get(key)
            if vpod is None:
                continue
            before = sum((self.state.vpods[key].reserved or {}).values())
            leaves = self._amount_on_drained(key)
            decision = drain.schedule_during_drain(self.state, vpod, self.now)
            commit(self.state, decision)
            self.again.pop(key, None)
            if (at := drain.next_retry_time(self.state, key)) is not None:
                self.again[key] = at
            after = sum(decision.reservation.values())
            assert after >= min(before, decision.wanted), "a vreplica that ran has no place any more"
            assert decision.moves.get(MoveCause.DRAIN, 0) <= leaves, "B4: more moves than had to leave"
            assert not decision.moves.get(MoveCause.LOSS, 0), "nothing was lost here"
            self.seen.update({cause.value: n for cause, n in decision.moves.items()})
            if self.rng.random() < 0.9:  # else the write is lost, and comes with the next decision
                self.vpods[key] = replace(vpod, placements=decision.placements)
                self.state.observe_vpod(self.vpods[key], self.now)
            else:
                self.due.append(key)
        return any(entry.short_since is not None for entry in self.state.vpods.values())

    def _amount_on_drained(self, key: Key) -> int:
        held = VPodView.from_state(self.state, self.vpods[key]).start
        return sum(n for ordinal, n in held.items() if self.state.verdict(ordinal).cause is Cause.DRAINING)

    def _beat(self, may_shrink: bool) -> None:
        self.beats += 1
        decided = decide_round(self.state, self.memory, self.now, may_shrink)
        self.memory = apply_drain(self.state, decided)
        self.seen["drain"] += decided.drain is not None
        self.due += drain.vpods_on_drained_pods(self.state)
        before, after = self.state.replicas, decided.replicas
        if after == before:
            return
        if after < before:
            assert may_shrink, "a trigger may not shrink"
            assert not self.state.is_used_from(after), "S8: cut while something lies there"
            self.seen["down"] += 1
        else:
            self.scale_ups.append(self.now)
            self.seen["up"] += 1
        self.state.observe_replicas(after, self.now, ours=True)
        for ordinal in range(after, before):
            if self.pending.pop(ordinal, None) is None:
                self.state.remove_pod(f"s-{ordinal}", self.now)
        for ordinal in range(before, after):
            self.pending[ordinal] = self.rng.randrange(4)

    def _check(self) -> None:
        capacity = self.options.capacity
        for ordinal, slot in self.state.slots.items():
            assert slot.adding <= capacity, "S1"
            assert ordinal < self.state.replicas or not slot.adding, "B4: something lies beyond spec.replicas"

    def satisfied(self) -> bool:
        """What `minReplicas` adds is best effort, so more than wanted is fine."""
        return all(sum(p.vreplicas for p in vpod.placements) >= vpod.vreplicas for vpod in self.vpods.values())


def random_options(rng: random.Random) -> Options:
    return Options(
        "ns",
        "s",
        rng.choice([2, 3, 5, 8]),
        policy=rng.choice(list(PolicyName)),
        min_replicas=rng.choice([0, 0, 0, 2]),
        scale_down_stabilization=rng.choice([0.0, 100.0, 300.0]),
        drain=DrainOptions(settle=rng.choice([0.0, 10.0]), timeout=600.0, surge=rng.choice([0, 0, 1, 3])),
        shrink=rng.choice(list(Shrink)),
        topology=rng.choice(list(Topology)),
    )


def history(seed: int) -> Cluster:
    rng = random.Random(seed)
    weighted = rng.random() < 0.3
    cluster = Cluster(random_options(rng), rng)
    for _ in range(150):
        roll = rng.random()
        name = rng.choice("uvwxyz")
        if roll < 0.15:
            cluster.want(name, rng.choice([0, 1, 2, 4, 7, 12, 20]), 2 if weighted and name > "w" else 1)
        elif roll < 0.17:
            cluster.delete(name)
        cluster.tick()
    return cluster


@pytest.mark.rule("vpod:S8", "vpod:B4", "vpod:B5", "vpod:D6", "vpod:D19")
@pytest.mark.parametrize("first_seed", range(0, 80, 10))
def test_scaling_keeps_its_promises_and_comes_to_rest(first_seed: int) -> None:
    seen: Counter[str] = Counter()
    for seed in range(first_seed, first_seed + 10):
        try:
            cluster = history(seed)
            comes_to_rest(cluster)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        seen += cluster.seen
    assert {"up", "down", "drain"} <= (+seen).keys()


def comes_to_rest(cluster: Cluster) -> None:
    """Demand stands still from now on."""
    start, beats = cluster.now, cluster.beats
    while cluster.beats < beats + 3 or cluster.pending:
        cluster.tick()
    calm = cluster.now
    options = cluster.options
    period = options.scale_down_stabilization + options.drain.settle + options.drain.timeout
    while cluster.now < calm + period + 5 * BEAT:
        cluster.tick()
    late = [at - start for at in cluster.scale_ups if at > calm]
    assert not late, f"B5: scaled up {late} s after demand stood still"
    assert cluster.satisfied(), "B5: not every vpod is satisfied"
    if options.policy is not PolicyName.POLICY and all(v.weight == 1 for v in cluster.vpods.values()):
        assert cluster.state.replicas == max(pods_needed(cluster.state), options.min_replicas), "L4: unused pods stay"

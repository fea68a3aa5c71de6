"""Knative's scheduler as a library: for controllers of others that schedule their own resources.

`StatefulSetScheduler` reads what it is given, listers and a scale client, and answers `schedule`; the consumer writes
the placements into its status. Callables may be plain or awaitable: with plain ones the answers are plain. Deciding
is `situate.vpod.placement.decide`; the product's own controller does not come through here.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable, Generator, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from situate.vpod.controller.scale_cache import ScaleCache
from situate.vpod.model.options import Options
from situate.vpod.model.pod_classes import NodeFacts, PodFacts
from situate.vpod.model.vpod import (
    Evictor,
    Key,
    Placement,
    Scale,
    ScaleClient,
    Scheduler,
    SchedulerFunc,
    VPod,
    VPodLister,
)
from situate.vpod.placement import rebalance
from situate.vpod.placement.decide import Decision, MoveCause, commit, schedule_all
from situate.vpod.scaling import autoscaler, drain
from situate.vpod.scaling.autoscaler import Beat, Memory
from situate.vpod.scaling.scale_cache import ScaleCacheConfig
from situate.vpod.state.state import State

T = TypeVar("T")

Steps = Generator[Any, Any, T]
"""Yields what a callable answered, plain or awaitable, and is sent the plain answer."""


@dataclass(frozen=True, slots=True)
class SchedulerConfig:
    """What one StatefulSet's scheduler needs. Raises ValueError without a lister of pods."""

    options: Options
    scale_client: ScaleClient
    vpod_lister: VPodLister
    pod_lister: Callable[[], Iterable[PodFacts] | Awaitable[Iterable[PodFacts]]] | None = None
    node_lister: Callable[[], Iterable[NodeFacts] | Awaitable[Iterable[NodeFacts]]] | None = None
    """None: nodes cannot be listed, and are trusted."""
    evictor: Evictor | None = None
    """None: what has to move is placed elsewhere when it is scheduled next."""
    scale_cache: ScaleCacheConfig = field(default_factory=ScaleCacheConfig)

    def __post_init__(self) -> None:
        if self.pod_lister is None:
            raise ValueError(f"scheduler of StatefulSet {self.options.statefulset}: pod_lister is missing")


class StatefulSetScheduler:
    """Schedules vpods on the pods of one StatefulSet, and sizes it while it leads."""

    def __init__(self, config: SchedulerConfig, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.config = config
        self.is_leader = False
        self.scales = ScaleCache(
            config.options.statefulset_namespace, config.scale_client, config.scale_cache, clock=clock
        )
        self._clock = clock
        self._state = State(config.options, now=clock())
        self._memory = Memory()
        self._rebalanced_at: float | None = None
        self._lock = asyncio.Lock()
        self._triggered = asyncio.Event()

    @property
    def state(self) -> State:
        """What is known and counted; read it, do not change it."""
        return self._state

    def schedule(self, vpod: VPod) -> list[Placement] | Awaitable[list[Placement]]:
        """Sorted by ordinal. Raises NotEnoughReplicas with what could be placed; a failed read changes nothing (D3)."""
        return self._run(self._schedule(vpod))

    def schedule_all(self, wanted: Iterable[tuple[VPod, int]]) -> dict[Key, Decision] | Awaitable[dict[Key, Decision]]:
        """V4: sources and their numbers of vreplicas in, placements out; a shortage is an answer here."""
        return self._run(self._schedule_all(list(wanted)))

    def promote(self) -> Awaitable[None] | None:
        """Begins to lead: forgets cached scales, reserves what the statuses say (D1). Twice is once (B2)."""
        return self._run(self._promote())

    def demote(self) -> None:
        """Stops leading; reservations stay until the next promotion replaces them."""
        self.is_leader = False
        self._memory = Memory()

    def reserved(self) -> dict[Key, dict[str, int]]:
        """A copy of the reservations: vreplicas by pod name by vpod."""
        name = self.config.options.statefulset_name
        return {
            key: {f"{name}-{ordinal}": vreplicas for ordinal, vreplicas in places.items()}
            for key, places in self._state.reservations().items()
        }

    def autoscale(self, may_shrink: bool) -> Beat | Awaitable[Beat | None] | None:
        """One beat of the leader, carried out; None for a follower, which changes nothing."""
        return self._run(self._autoscale(may_shrink))

    def rebalance(self) -> dict[Key, list[Placement]] | Awaitable[dict[Key, list[Placement]]]:
        """One interval's opt-in moves (B7), reserved: the placements that the consumer has to write, by vpod."""
        return self._run(self._rebalance())

    def resync(self) -> Awaitable[None] | None:
        """Drops the reservations of vpods that are gone (D24); due every three refresh periods."""
        return self._run(self._resync())

    async def run(self) -> None:
        """Beats until cancelled: every refresh period with permission to shrink, on a shortage without.

        A beat that fails is tried again, without that permission, after the retry period, until one succeeds.
        """
        options = self.config.options
        due = self._clock() + options.refresh_period
        while True:
            with suppress(TimeoutError):  # the refresh period is over
                await asyncio.wait_for(self._triggered.wait(), max(0.0, due - self._clock()))
            self._triggered.clear()
            may_shrink = self._clock() >= due
            if may_shrink:
                due = self._clock() + options.refresh_period
            try:
                beat = await _awaited(self.autoscale(may_shrink))
            except Exception:
                # whatever a client raises, the next beat may succeed; the caller's client is the place to log it
                await asyncio.sleep(options.retry_period)
                self._triggered.set()
                continue
            if beat is not None and beat.wake_at is not None:
                due = min(due, beat.wake_at)

    def _schedule(self, vpod: VPod) -> Steps[list[Placement]]:
        now = self._clock()
        yield from self._observe(now)
        self._state.observe_vpod(vpod, now)
        decision = drain.place(self._state, vpod, now)
        commit(self._state, decision)
        if decision.wakes_autoscaler:
            self._triggered.set()
        return list(decision.result(self.config.options.statefulset))

    def _schedule_all(self, wanted: list[tuple[VPod, int]]) -> Steps[dict[Key, Decision]]:
        now = self._clock()
        yield from self._observe(now)
        decisions = schedule_all(self._state, wanted, now)
        if any(decision.wakes_autoscaler for decision in decisions.values()):
            self._triggered.set()
        return decisions

    def _resync(self) -> Steps[None]:
        now = self._clock()
        self._state.drop_unlisted((yield from self._observe(now)), now)

    def _rebalance(self) -> Steps[dict[Key, list[Placement]]]:
        now = self._clock()
        yield from self._observe(now)
        moved: dict[Key, list[Placement]] = {}
        if not self.is_leader or not rebalance.is_due(self._state, self._rebalanced_at, now, rollout=False):
            return moved
        self._rebalanced_at = now
        allowed = rebalance.moves_allowed(self._state)
        for key in rebalance.candidates(self._state):
            decision = rebalance.rebalanced(self._state, key, now, allowed)
            if decision is not None:
                commit(self._state, decision)
                allowed -= decision.moves[MoveCause.REBALANCE]
                moved[key] = list(decision.placements)
        return moved

    def _promote(self) -> Steps[None]:
        if self.is_leader:
            return
        self.scales.reset()
        self._memory = Memory()
        yield from self._resync()
        self._state.reserve_from_status()
        self.is_leader = True
        self._triggered.set()

    def _autoscale(self, may_shrink: bool) -> Steps[Beat | None]:
        if not self.is_leader:
            return None
        now = self._clock()
        name = self.config.options.statefulset_name
        if self.config.options.safe:
            # D21: a write goes out on what was read for it
            scale: Scale = yield self.config.scale_client.get_scale(name)
            self.scales.observe(scale)
        else:
            scale = yield self.scales.get_scale(name)
        self._state.drop_unlisted((yield from self._observe(now, scale)), now)
        beat = autoscaler.beat(self._state, self._memory, now, may_shrink)
        self._memory = autoscaler.apply(self._state, beat)
        if beat.replicas != scale.spec_replicas:
            changed = Scale(scale.namespace, name, beat.replicas, scale.status_replicas, scale.resource_version)
            yield self.scales.update_scale(name, changed)
            self._state.observe_replicas(beat.replicas, now, ours=True)
        if self.config.evictor is not None:
            yield from self._evict((*beat.evictions, *drain.evictions(self._state)))
        return beat

    def _evict(self, evictions: Iterable[drain.Eviction]) -> Steps[None]:
        """In order; the first failure ends it, and the next beat begins anew."""
        assert self.config.evictor is not None
        for eviction in evictions:
            entry = self._state.vpods.get(eviction.key)
            slot = self._state.slots.get(eviction.ordinal)
            if entry is None:
                continue
            pod = slot.pod if slot is not None else None
            yield self.config.evictor(pod, entry.as_vpod(), eviction.placement)
            if self.config.options.safe:
                drain.evicted(self._state, eviction)

    def _observe(self, now: float, scale: Scale | None = None) -> Steps[list[Key]]:
        """The vpods that are listed. All is read before any of it is remembered: a failed read changes nothing (D3)."""
        config = self.config
        assert config.pod_lister is not None
        if scale is None:
            scale = yield self.scales.get_scale(config.options.statefulset_name)
        pods: Iterable[PodFacts] = yield config.pod_lister()
        nodes: Iterable[NodeFacts] | None = (yield config.node_lister()) if config.node_lister is not None else None
        vpods: Iterable[VPod] = yield config.vpod_lister()
        return self._remember(scale, list(pods), None if nodes is None else list(nodes), list(vpods), now)

    def _remember(
        self, scale: Scale, pods: list[PodFacts], nodes: list[NodeFacts] | None, vpods: list[VPod], now: float
    ) -> list[Key]:
        state = self._state
        state.observe_replicas(scale.spec_replicas, now)
        if nodes is not None:
            for gone in state.nodes.keys() - {node.name for node in nodes}:
                state.node_gone(gone, now)
            for node in nodes:
                state.observe_node(node, now)
        names = {pod.name for pod in pods}
        for lost in [s.name for s in state.slots.values() if s.pod is not None and s.name not in names]:
            state.pod_gone(lost, now)
        for pod in pods:
            state.observe_pod(pod, now)
        for vpod in vpods:
            state.observe_vpod(vpod, now)
        return [vpod.key for vpod in vpods]

    def _run(self, steps: Steps[T]) -> T | Awaitable[T]:
        """To the end if nothing is awaitable; else something to await, which takes its turn after calls before it."""
        if self._lock.locked():
            return self._after(steps, None)
        answer: Any = None
        while True:
            try:
                answer = steps.send(answer)
            except StopIteration as end:
                result: T = end.value
                return result
            if inspect.isawaitable(answer):
                return self._after(steps, answer)

    async def _after(self, steps: Steps[T], answer: Awaitable[Any] | None) -> T:
        async with self._lock:
            value: Any = None if answer is None else await answer
            while True:
                try:
                    value = steps.send(value)
                except StopIteration as end:
                    result: T = end.value
                    return result
                if inspect.isawaitable(value):
                    value = await value


@dataclass(frozen=True, slots=True)
class _Function:
    """A plain function as a Scheduler."""

    function: SchedulerFunc

    def schedule(self, vpod: VPod) -> list[Placement] | Awaitable[list[Placement]]:
        return self.function(vpod)


def as_scheduler(function: SchedulerFunc) -> Scheduler:
    """Adapts a function; each schedule calls it exactly once."""
    return _Function(function)


async def _awaited(answer: T | Awaitable[T]) -> T:
    return await answer if inspect.isawaitable(answer) else answer

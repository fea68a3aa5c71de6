"""Knative's scheduler as a library, for other controllers that schedule their own resources.

`StatefulSetScheduler` reads from the given listers and scale client, and returns placements from `schedule`. The
consumer writes the placements to its status. Callables may be plain or awaitable; with plain callables the answers are
plain. `situate.vpod.placement.decide` makes the decisions. The product's own controller does not use this module.
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
from situate.vpod.scaling.autoscaler import AutoscalerMemory, RoundDecision
from situate.vpod.scaling.scale_cache import ScaleCacheConfig
from situate.vpod.state.state import State

T = TypeVar("T")

Steps = Generator[Any, Any, T]
"""Yields the answer of a callable, plain or awaitable, and receives the plain answer."""


@dataclass(frozen=True, slots=True)
class SchedulerConfig:
    """The inputs of one StatefulSet's scheduler. Raises ValueError without a lister of Pods."""

    options: Options
    scale_client: ScaleClient
    vpod_lister: VPodLister
    pod_lister: Callable[[], Iterable[PodFacts] | Awaitable[Iterable[PodFacts]]] | None = None
    node_lister: Callable[[], Iterable[NodeFacts] | Awaitable[Iterable[NodeFacts]]] | None = None
    """None: nodes cannot be listed, and all nodes count as healthy."""
    evictor: Evictor | None = None
    """None: a vpod that has to move is placed elsewhere at its next schedule."""
    scale_cache: ScaleCacheConfig = field(default_factory=ScaleCacheConfig)

    def __post_init__(self) -> None:
        if self.pod_lister is None:
            raise ValueError(f"scheduler of StatefulSet {self.options.statefulset}: pod_lister is missing")


class StatefulSetScheduler:
    """A scheduler that places vpods on the Pods of one StatefulSet, and sizes the StatefulSet while it leads."""

    def __init__(self, config: SchedulerConfig, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.config = config
        self.is_leader = False
        self.scales = ScaleCache(
            config.options.statefulset_namespace, config.scale_client, config.scale_cache, clock=clock
        )
        self._clock = clock
        self._state = State(config.options, now=clock())
        self._memory = AutoscalerMemory()
        self._rebalanced_at: float | None = None
        self._lock = asyncio.Lock()
        self._triggered = asyncio.Event()

    @property
    def state(self) -> State:
        """The known objects and counts; read-only for callers."""
        return self._state

    def schedule(self, vpod: VPod) -> list[Placement] | Awaitable[list[Placement]]:
        """Return the placements sorted by ordinal. A failed read changes nothing.

        Raises NotEnoughReplicas with the partial placements. Rule D3.
        """
        return self._run_steps(self._schedule(vpod))

    def schedule_all(self, wanted: Iterable[tuple[VPod, int]]) -> dict[Key, Decision] | Awaitable[dict[Key, Decision]]:
        """Place each source with its number of vreplicas, and return the decisions.

        A shortage is no exception. Rule V4.
        """
        return self._run_steps(self._schedule_all(list(wanted)))

    def promote(self) -> Awaitable[None] | None:
        """Begin to lead: forget cached scales and reserve the placements of the statuses.

        A second promotion has the same result as the first (B2). Rule D1.
        """
        return self._run_steps(self._promote())

    def demote(self) -> None:
        """Stop leading. The reservations stay until the next promotion replaces them."""
        self.is_leader = False
        self._memory = AutoscalerMemory()

    def reserved(self) -> dict[Key, dict[str, int]]:
        """Return a copy of the reservations: vreplicas by Pod name, by vpod."""
        name = self.config.options.statefulset_name
        return {
            key: {f"{name}-{ordinal}": vreplicas for ordinal, vreplicas in places.items()}
            for key, places in self._state.reservations().items()
        }

    def autoscale(self, may_shrink: bool) -> RoundDecision | Awaitable[RoundDecision | None] | None:
        """Run one round of the autoscaler and write its result. A follower changes nothing and returns None."""
        return self._run_steps(self._autoscale(may_shrink))

    def rebalance(self) -> dict[Key, list[Placement]] | Awaitable[dict[Key, list[Placement]]]:
        """Reserve the opt-in moves of one interval, and return the placements for the consumer to write, by vpod."""
        return self._run_steps(self._rebalance())

    def resync(self) -> Awaitable[None] | None:
        """Drop the reservations of vpods that are gone.

        Call this every three refresh periods. Rule D24.
        """
        return self._run_steps(self._resync())

    async def run(self) -> None:
        """Run rounds until cancelled: one that may shrink after every refresh period, one that may not after a
        shortage.

        A failed round is repeated after the retry period, without permission to shrink, until one succeeds.
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
                beat = await _resolve_answer(self.autoscale(may_shrink))
            except Exception:
                # the next round may succeed, whatever the client raised; the caller's client can log the error
                await asyncio.sleep(options.retry_period)
                self._triggered.set()
                continue
            if beat is not None and beat.wake_at is not None:
                due = min(due, beat.wake_at)

    def _schedule(self, vpod: VPod) -> Steps[list[Placement]]:
        now = self._clock()
        yield from self._observe(now)
        self._state.observe_vpod(vpod, now)
        decision = drain.schedule_during_drain(self._state, vpod, now)
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
        for key in rebalance.rebalance_candidates(self._state):
            decision = rebalance.rebalance_vpod(self._state, key, now, allowed)
            if decision is not None:
                commit(self._state, decision)
                allowed -= decision.moves[MoveCause.REBALANCE]
                moved[key] = list(decision.placements)
        return moved

    def _promote(self) -> Steps[None]:
        if self.is_leader:
            return
        self.scales.reset()
        self._memory = AutoscalerMemory()
        yield from self._resync()
        self._state.reserve_from_status()
        self.is_leader = True
        self._triggered.set()

    def _autoscale(self, may_shrink: bool) -> Steps[RoundDecision | None]:
        if not self.is_leader:
            return None
        now = self._clock()
        name = self.config.options.statefulset_name
        if self.config.options.safe:
            # D21: a write needs a fresh read
            scale: Scale = yield self.config.scale_client.get_scale(name)
            self.scales.observe(scale)
        else:
            scale = yield self.scales.get_scale(name)
        self._state.drop_unlisted((yield from self._observe(now, scale)), now)
        beat = autoscaler.decide_round(self._state, self._memory, now, may_shrink)
        self._memory = autoscaler.apply_drain(self._state, beat)
        if beat.replicas != scale.spec_replicas:
            changed = Scale(scale.namespace, name, beat.replicas, scale.status_replicas, scale.resource_version)
            yield self.scales.update_scale(name, changed)
            self._state.observe_replicas(beat.replicas, now, ours=True)
        if self.config.evictor is not None:
            yield from self._evict((*beat.evictions, *drain.drain_evictions(self._state)))
        return beat

    def _evict(self, evictions: Iterable[drain.Eviction]) -> Steps[None]:
        """Evict in order. The first failure ends the evictions, and the next round computes them again."""
        assert self.config.evictor is not None
        for eviction in evictions:
            entry = self._state.vpods.get(eviction.key)
            slot = self._state.slots.get(eviction.ordinal)
            if entry is None:
                continue
            pod = slot.pod if slot is not None else None
            yield self.config.evictor(pod, entry.as_vpod(), eviction.placement)
            if self.config.options.safe:
                drain.record_eviction(self._state, eviction)

    def _observe(self, now: float, scale: Scale | None = None) -> Steps[list[Key]]:
        """Return the keys of the listed vpods.

        The state changes only after all reads have succeeded. Rule D3.
        """
        config = self.config
        assert config.pod_lister is not None
        if scale is None:
            scale = yield self.scales.get_scale(config.options.statefulset_name)
        pods: Iterable[PodFacts] = yield config.pod_lister()
        nodes: Iterable[NodeFacts] | None = (yield config.node_lister()) if config.node_lister is not None else None
        vpods: Iterable[VPod] = yield config.vpod_lister()
        return self._update_state(scale, list(pods), None if nodes is None else list(nodes), list(vpods), now)

    def _update_state(
        self, scale: Scale, pods: list[PodFacts], nodes: list[NodeFacts] | None, vpods: list[VPod], now: float
    ) -> list[Key]:
        state = self._state
        state.observe_replicas(scale.spec_replicas, now)
        if nodes is not None:
            for gone in state.nodes.keys() - {node.name for node in nodes}:
                state.remove_node(gone, now)
            for node in nodes:
                state.observe_node(node, now)
        names = {pod.name for pod in pods}
        for lost in [s.name for s in state.slots.values() if s.pod is not None and s.name not in names]:
            state.remove_pod(lost, now)
        for pod in pods:
            state.observe_pod(pod, now)
        for vpod in vpods:
            state.observe_vpod(vpod, now)
        return [vpod.key for vpod in vpods]

    def _run_steps(self, steps: Steps[T]) -> T | Awaitable[T]:
        """Run to the end if nothing is awaitable. Otherwise return an awaitable, which runs after the earlier calls."""
        if self._lock.locked():
            return self._run_after_earlier(steps, None)
        answer: Any = None
        while True:
            try:
                answer = steps.send(answer)
            except StopIteration as end:
                result: T = end.value
                return result
            if inspect.isawaitable(answer):
                return self._run_after_earlier(steps, answer)

    async def _run_after_earlier(self, steps: Steps[T], answer: Awaitable[Any] | None) -> T:
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
class _FunctionScheduler:
    """A Scheduler that calls a plain function."""

    function: SchedulerFunc

    def schedule(self, vpod: VPod) -> list[Placement] | Awaitable[list[Placement]]:
        return self.function(vpod)


def as_scheduler(function: SchedulerFunc) -> Scheduler:
    """Adapt a function to the Scheduler protocol. Each schedule calls the function exactly once."""
    return _FunctionScheduler(function)


async def _resolve_answer(answer: T | Awaitable[T]) -> T:
    return await answer if inspect.isawaitable(answer) else answer

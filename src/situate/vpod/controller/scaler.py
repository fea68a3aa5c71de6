"""The autoscaler's loop: rounds, drains, evictions and writes of the scale. Only the leader runs it.

`situate.vpod.scaling.autoscaler` decides each round. `PlacementReconciler` moves the vpods on drained Pods.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

import structlog

from situate.kube.client import Client
from situate.kube.errors import ApiError, Conflict, KubeError, NotFound
from situate.objects.resources import STATEFULSETS
from situate.runtime.leadership.actuator import Actuator
from situate.runtime.reconcile.outcomes import Retriable
from situate.vpod.controller.apply import PlacementReconciler
from situate.vpod.controller.notify import Notifier
from situate.vpod.model.options import Options
from situate.vpod.scaling.autoscaler import AutoscalerMemory, RoundDecision, apply_drain, decide_round
from situate.vpod.scaling.drain import Eviction, record_eviction

MISSING_BACKOFF_S: Final = (5.0, 300.0)
"""First and longest pause in seconds while the StatefulSet does not exist (D20)."""
_MOST_CONFLICTS: Final = 5
"""Consecutive rounds that lose against another writer before a conflict counts as a failure."""


class Scaler:
    """The sizing half of one StatefulSet's scheduler."""

    def __init__(
        self,
        placing: PlacementReconciler,
        client: Client,
        reporter: Notifier,
        options: Callable[[], Options],
        *,
        actuator: Actuator,
        evict: Callable[[Eviction], Awaitable[bool]],
    ) -> None:
        """Store the collaborators. `evict` removes one placement and returns whether it is gone.

        `options` returns the present options.
        """
        self._reconciler = placing
        self._client = client
        self._notifier = reporter
        self._options = options
        self._actuator = actuator
        self._evict = evict
        self._trigger_event = asyncio.Event()
        self._memory = AutoscalerMemory()
        self._missing_pause_s = 0.0
        self._shrink_due = float("inf")
        self._log = structlog.get_logger().bind(controller="vpod autoscaler")

    def wake(self) -> None:
        """Start a round that may only scale up, as soon as possible. Several calls before the round cause one round."""
        self._trigger_event.set()

    def schedule_round(self, when: float) -> None:
        """Schedule a round that may shrink at this time of the loop, unless an earlier one is due.

        The controller calls this after a drain has emptied its Pods.
        """
        if when < self._shrink_due:
            self._shrink_due = when
            self._trigger_event.set()

    async def run(self) -> None:
        """Run rounds until cancelled. A failed round is repeated after `retryPeriod`, without permission to shrink."""
        self._memory = AutoscalerMemory()
        self._shrink_due = _now() + self._options().refresh_period
        self._trigger_event.set()  # a new leader runs a round at once
        while True:
            await _wait_for_event(self._trigger_event, self._shrink_due - _now())
            self._trigger_event.clear()
            may_shrink = _now() >= self._shrink_due
            if may_shrink:
                self._shrink_due = _now() + self._options().refresh_period
            try:
                wake_at = await self._run_round(may_shrink)
            except NotFound:
                await self._wait_for_statefulset()
                continue
            except (KubeError, Retriable) as problem:
                self._log.warning("round of the autoscaler failed, retrying", error=str(problem))
                self._notifier.count_failed_round()
                await asyncio.sleep(self._options().retry_period)
                self._trigger_event.set()
                continue
            self._missing_pause_s = 0.0
            if wake_at is not None:
                self._shrink_due = max(min(self._shrink_due, wake_at), _now())

    async def _run_round(self, may_shrink: bool) -> float | None:
        """Run one round, and return the time of the next round that may shrink, if it is earlier than the refresh."""
        for _ in range(_MOST_CONFLICTS):
            try:
                return await self._try_round(may_shrink)
            except Conflict:
                continue  # another client wrote the scale: read and decide again (D21)
        return await self._try_round(may_shrink)

    async def _try_round(self, may_shrink: bool) -> float | None:
        options = self._options()
        namespace, name = options.statefulset_namespace, options.statefulset_name
        scale = await self._client.get_scale(STATEFULSETS, name, namespace)
        state = self._reconciler.state
        if state is None:
            return None
        self._reconciler.observe_replicas(scale.spec.replicas, scale.metadata.resource_version)
        decided = decide_round(state, self._memory, _now(), may_shrink)
        drain_before = state.drain
        self._memory = apply_drain(state, decided)
        self._notifier.report_round(state, decided, drain_before)
        if state.drain is not None and state.drain != drain_before:
            self._reconciler.queue_vpods_from(state.drain.target)
        elif drain_before is not None and state.drain is None:
            self._reconciler.retry_shortages()
        if decided.replicas != scale.spec.replicas:
            await self._write_scale(decided, scale.spec.replicas, scale.metadata.resource_version)
        await self._evict_all(decided.evictions)
        return decided.wake_at

    async def _evict_all(self, evictions: Iterable[Eviction]) -> None:
        """Evict in order. A failure for one vpod does not stop the others, but the round fails in the end.

        In the reference profile the first failure ends the round.
        """
        failure: KubeError | None = None
        for eviction in evictions:
            try:
                gone = await self._evict(eviction)
            except KubeError as problem:
                if not self._options().safe:
                    raise
                failure, gone = failure or problem, False
            state = self._reconciler.state
            if gone and state is not None:
                record_eviction(state, eviction)
                self._notifier.count_eviction()
            self._reconciler.queue.add(eviction.key)
        if failure is not None:
            raise failure

    async def _write_scale(self, decided: RoundDecision, before: int, version: str) -> None:
        options = self._options()
        namespace, name = options.statefulset_namespace, options.statefulset_name
        self._reconciler.expect_replicas(decided.replicas)
        try:
            written = await self._actuator.write(
                self._client.update_scale(STATEFULSETS, name, decided.replicas, namespace, resource_version=version)
            )
        except (ApiError, Retriable) as problem:
            if isinstance(problem, Retriable) or problem.status < 500:
                self._reconciler.expect_replicas(
                    None
                )  # the write was refused, so another client wrote a scale with this number
            raise
        self._log.info("StatefulSet scaled", before=before, after=decided.replicas, needed=decided.needed)
        self._notifier.notify_scale(before, decided)
        self._reconciler.observe_replicas(written.spec.replicas, written.metadata.resource_version)

    async def _wait_for_statefulset(self) -> None:
        """Report the missing StatefulSet once, then wait longer each time; continue at once when a watch shows it."""
        first, longest = MISSING_BACKOFF_S
        if not self._missing_pause_s:
            self._notifier.notify_missing_statefulset()
        self._missing_pause_s = min(max(first, 2 * self._missing_pause_s), longest)
        self._reconciler.statefulset_event.clear()  # the watch showed the set before the set was deleted
        await _wait_for_event(self._reconciler.statefulset_event, self._missing_pause_s)
        self._trigger_event.set()


async def _wait_for_event(event: asyncio.Event, at_most_s: float) -> None:
    """Wait until the event is set or the time is over."""
    if at_most_s <= 0:
        return
    set_ = asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait([set_], timeout=at_most_s)
    finally:
        set_.cancel()


def _now() -> float:
    return asyncio.get_running_loop().time()

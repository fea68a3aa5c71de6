"""The autoscaler's loop: rounds, drains, evictions and writes of the scale. Only the leader runs it.

`situate.vpod.scaling.autoscaler` decides each round. `Placing` moves the vpods on drained Pods.
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
from situate.vpod.controller.apply import Placing
from situate.vpod.controller.notify import Reporter
from situate.vpod.model.options import Options
from situate.vpod.scaling.autoscaler import Beat, Memory, apply, beat
from situate.vpod.scaling.drain import Eviction, evicted

MISSING_BACKOFF_S: Final = (5.0, 300.0)
"""First and longest pause in seconds while the StatefulSet does not exist (D20)."""
_MOST_CONFLICTS: Final = 5
"""Consecutive rounds that lose against another writer before a conflict counts as a failure."""


class Scaling:
    """The sizing half of one StatefulSet's scheduler."""

    def __init__(
        self,
        placing: Placing,
        client: Client,
        reporter: Reporter,
        options: Callable[[], Options],
        *,
        actuator: Actuator,
        evict: Callable[[Eviction], Awaitable[bool]],
    ) -> None:
        """Store the collaborators. `evict` removes one placement and returns whether it is gone.

        `options` returns the present options.
        """
        self._placing = placing
        self._client = client
        self._reporter = reporter
        self._options = options
        self._actuator = actuator
        self._evict = evict
        self._triggered = asyncio.Event()
        self._memory = Memory()
        self._missing_pause_s = 0.0
        self._shrink_due = float("inf")
        self._log = structlog.get_logger().bind(controller="vpod autoscaler")

    def wake(self) -> None:
        """Start a round that may only scale up, as soon as possible. Several calls before the round cause one round."""
        self._triggered.set()

    def hasten(self, when: float) -> None:
        """Schedule a round that may shrink at this time of the loop, unless an earlier one is due.

        The controller calls this after a drain has emptied its Pods.
        """
        if when < self._shrink_due:
            self._shrink_due = when
            self._triggered.set()

    async def run(self) -> None:
        """Run rounds until cancelled. A failed round is repeated after `retryPeriod`, without permission to shrink."""
        self._memory = Memory()
        self._shrink_due = _now() + self._options().refresh_period
        self._triggered.set()  # a new leader runs a round at once
        while True:
            await _wait(self._triggered, self._shrink_due - _now())
            self._triggered.clear()
            may_shrink = _now() >= self._shrink_due
            if may_shrink:
                self._shrink_due = _now() + self._options().refresh_period
            try:
                wake_at = await self._beat(may_shrink)
            except NotFound:
                await self._statefulset_missing()
                continue
            except (KubeError, Retriable) as problem:
                self._log.warning("round of the autoscaler failed, retrying", error=str(problem))
                self._reporter.beat_failed()
                await asyncio.sleep(self._options().retry_period)
                self._triggered.set()
                continue
            self._missing_pause_s = 0.0
            if wake_at is not None:
                self._shrink_due = max(min(self._shrink_due, wake_at), _now())

    async def _beat(self, may_shrink: bool) -> float | None:
        """Run one round, and return the time of the next round that may shrink, if it is earlier than the refresh."""
        for _ in range(_MOST_CONFLICTS):
            try:
                return await self._beat_once(may_shrink)
            except Conflict:
                continue  # another client wrote the scale: read and decide again (D21)
        return await self._beat_once(may_shrink)

    async def _beat_once(self, may_shrink: bool) -> float | None:
        options = self._options()
        namespace, name = options.statefulset_namespace, options.statefulset_name
        scale = await self._client.get_scale(STATEFULSETS, name, namespace)
        state = self._placing.state
        if state is None:
            return None
        self._placing.saw_replicas(scale.spec.replicas, scale.metadata.resource_version)
        decided = beat(state, self._memory, _now(), may_shrink)
        drain_before = state.drain
        self._memory = apply(state, decided)
        self._reporter.beat(state, decided, drain_before)
        if state.drain is not None and state.drain != drain_before:
            self._placing.replace_all(state.drain.target)
        elif drain_before is not None and state.drain is None:
            self._placing.retry_short()
        if decided.replicas != scale.spec.replicas:
            await self._write(decided, scale.spec.replicas, scale.metadata.resource_version)
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
            state = self._placing.state
            if gone and state is not None:
                evicted(state, eviction)
                self._reporter.evicted()
            self._placing.queue.add(eviction.key)
        if failure is not None:
            raise failure

    async def _write(self, decided: Beat, before: int, version: str) -> None:
        options = self._options()
        namespace, name = options.statefulset_namespace, options.statefulset_name
        self._placing.asked_for(decided.replicas)
        try:
            written = await self._actuator.write(
                self._client.update_scale(STATEFULSETS, name, decided.replicas, namespace, resource_version=version)
            )
        except (ApiError, Retriable) as problem:
            if isinstance(problem, Retriable) or problem.status < 500:
                self._placing.asked_for(None)  # the write was refused, so another client wrote a scale with this number
            raise
        self._log.info("StatefulSet scaled", before=before, after=decided.replicas, needed=decided.needed)
        self._reporter.scaled(before, decided)
        self._placing.saw_replicas(written.spec.replicas, written.metadata.resource_version)

    async def _statefulset_missing(self) -> None:
        """Report the missing StatefulSet once, then wait longer each time; continue at once when a watch shows it."""
        first, longest = MISSING_BACKOFF_S
        if not self._missing_pause_s:
            self._reporter.statefulset_missing()
        self._missing_pause_s = min(max(first, 2 * self._missing_pause_s), longest)
        self._placing.statefulset_seen.clear()  # the watch showed the set before the set was deleted
        await _wait(self._placing.statefulset_seen, self._missing_pause_s)
        self._triggered.set()


async def _wait(event: asyncio.Event, at_most_s: float) -> None:
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

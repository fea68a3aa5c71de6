"""One StatefulSet's scheduler as a service: it always watches, and it decides and writes only while it leads.

Everything runs on one event loop. The time is the loop's time, so a simulated loop runs the same code.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Container
from dataclasses import replace
from datetime import datetime
from typing import Final

import structlog

from situate.kube.client import Client
from situate.kube.election.election import Candidacy, ElectionNews, Elector, Leadership
from situate.kube.election.lease_record import LeaseName
from situate.kube.errors import KubeError
from situate.runtime.leadership.actuator import Actuator
from situate.runtime.reconcile.outcomes import Retriable
from situate.runtime.reconcile.reconciler import Reconciler
from situate.runtime.reconcile.workqueue import WorkQueue
from situate.vpod.config.settings import StatefulSetSettings
from situate.vpod.controller.apply import SHORTAGE_RETRY_S, Audit, Placing, no_audit
from situate.vpod.controller.informers import Watched
from situate.vpod.controller.notify import Record, Reporter, VPodMetrics
from situate.vpod.controller.policies import Policies
from situate.vpod.controller.scaler import Scaling
from situate.vpod.model.options import Options
from situate.vpod.model.vpod import Key
from situate.vpod.state.knative_json import differences

_PROMOTION_RETRY_S: Final = 1.0
_CHECKS_EVERY_REFRESHES: Final = 3
"""Number of refresh periods between two comparisons of the state with a rebuilt one."""


class NotLeading(Retriable):
    """A write was refused because this process does not lead."""


class VPodController:
    """A service: `run` lasts until `stop` or cancellation, and then the Lease is released."""

    def __init__(
        self,
        settings: StatefulSetSettings,
        client: Client,
        candidacy: Candidacy,
        *,
        record: Record,
        metrics: VPodMetrics,
        wall: Callable[[], datetime],
        rng: random.Random,
        election_client: Client | None = None,
        workers: int = 16,
        observe_election: Callable[[ElectionNews], None] = lambda _: None,
        audit: Audit = no_audit,
        served: Container[str] | None = None,
    ) -> None:
        """Create the service without starting it.

        `election_client`: a client whose rate limit the other requests cannot exhaust; None means `client`.

        `workers`: the largest number of vpods that are reconciled at the same time. `served`: as for `Placing`.
        """
        self.settings = settings
        self.name = f"vpod {settings.stateful_set_namespace}/{settings.stateful_set_name}"
        self.watched = Watched.of(settings, client, rng)
        self._options = settings.options()
        self._workers = workers
        self._leadership: Leadership | None = None
        self._reporter = Reporter(self._options, metrics, record)
        self.queue: WorkQueue[Key] = WorkQueue(rng=rng)
        self._actuator = Actuator(self._may_write)
        self.placing = Placing(
            self.watched,
            client,
            self.queue,
            self._reporter,
            actuator=self._actuator,
            wall=wall,
            wake_autoscaler=self._wake_autoscaler,
            drained=self._drained,
            audit=audit,
            served=served,
        )
        self.scaling = Scaling(
            self.placing,
            client,
            self._reporter,
            lambda: self._options,
            actuator=self._actuator,
            evict=self.placing.evict,
        )
        self._policies = Policies(self.watched, settings, record, self._policies_changed)
        self._rng = rng
        self.elector = Elector(
            election_client or client,
            LeaseName(candidacy.namespace, settings.lease_name),
            candidacy.identity,
            self._lead,
            wall_clock=wall,
            rng=rng,
            times=candidacy.times,
            observe=observe_election,
        )
        self._log = structlog.get_logger().bind(controller="vpod", statefulset=self._options.statefulset)

    async def run(self) -> None:
        """Watch, and take part in the election. Programming errors are raised."""
        async with asyncio.TaskGroup() as group:
            watches = [group.create_task(each.run(), name=each.name) for each in self.watched.reflectors()]
            await group.create_task(self.elector.run(), name=self.elector.name)
            for watch in watches:
                watch.cancel()

    def stop(self) -> None:
        """End `run` in an orderly way: writes in flight are finished or refused, and the Lease is released."""
        self.elector.stop()

    def not_ready(self) -> str | None:
        """Return the reason why this process is not ready, or None. A standby with synced stores is ready."""
        return self.watched.not_ready()

    def reconfigure(self, settings: StatefulSetSettings) -> None:
        """Apply new settings without a restart.

        The watches stay those of the start. Rule B15.
        """
        self.settings = settings
        self._policies.reconfigure(settings)
        self._take(replace(settings.options(), placing=self._policies.placing, removing=self._policies.removing))

    def _take(self, options: Options) -> None:
        self._options = options
        self.placing.reconfigure(options)
        self.scaling.wake()

    def _policies_changed(self) -> None:
        placing, removing = self._policies.placing, self._policies.removing
        self._take(replace(self._options, placing=placing, removing=removing))

    async def _lead(self, leadership: Leadership) -> None:
        """Run one term as leader.

        No decision is made before the state is rebuilt from fresh listings. Rule D1.
        """
        self._leadership = leadership
        try:
            await self._promote()
            reconciler = Reconciler("vpod", self.queue, self.placing.reconcile, workers=self._workers)
            async with asyncio.TaskGroup() as group:
                group.create_task(reconciler.run())
                group.create_task(self.scaling.run())
                group.create_task(self._check())
                group.create_task(self._retry_short())
                group.create_task(self._rebalance())
        finally:
            self.placing.demote()
            await self._actuator.finish()
            self._leadership = None

    async def _promote(self) -> None:
        await self.watched.wait_synced()
        while True:
            try:
                await self.watched.relist()
                break
            except KubeError as problem:
                self._log.warning("initial list failed, retrying", error=str(problem))
            await asyncio.sleep(_PROMOTION_RETRY_S)
        self.placing.promote(self._options)
        self._log.info("state rebuilt", vpods=len(self.placing.state.vpods) if self.placing.state else 0)

    async def _check(self) -> None:
        """Compare the state with fresh listings at intervals; the listings win."""
        while True:
            await asyncio.sleep(_CHECKS_EVERY_REFRESHES * self._options.refresh_period)
            try:
                await self.watched.relist()
            except KubeError as problem:
                self._log.warning("comparison with a listing failed", error=str(problem))
                continue
            state = self.placing.state
            if state is None:
                return
            rebuilt = self.placing.rebuilt(self._options, asyncio.get_running_loop().time())
            found = differences(state, rebuilt)
            if found:
                self._reporter.repaired(found)
                self.placing.replace_state(rebuilt)

    async def _retry_short(self) -> None:
        """Retry vpods with a shortage in order, at intervals."""
        while True:
            await asyncio.sleep(SHORTAGE_RETRY_S)
            self.placing.report_blocking()
            self.placing.retry_short_again()

    async def _rebalance(self) -> None:
        while True:
            await asyncio.sleep(self._options.rebalance.interval)
            await self.placing.rebalance()

    def _may_write(self) -> None:
        """Raise NotLeading unless this process leads now, by its own clock."""
        if self._leadership is None or not self._leadership.valid_now():
            raise NotLeading(f"{self.name}: another process may lead now, so nothing is written", after_s=1.0)

    def _wake_autoscaler(self) -> None:
        self.scaling.wake()

    def _drained(self, when: float) -> None:
        self.scaling.hasten(when)

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
from situate.kube.election.election import Candidacy, ElectionEvent, Elector, Leadership
from situate.kube.election.lease_record import LeaseName
from situate.kube.errors import KubeError
from situate.runtime.leadership.actuator import Actuator
from situate.runtime.reconcile.outcomes import Retriable
from situate.runtime.reconcile.reconciler import Reconciler
from situate.runtime.reconcile.workqueue import WorkQueue
from situate.vpod.config.settings import StatefulSetSettings
from situate.vpod.controller.apply import SHORTAGE_RETRY_S, DecisionAudit, PlacementReconciler, no_audit
from situate.vpod.controller.informers import Informers
from situate.vpod.controller.notify import EventRecorder, Notifier, VPodMetrics
from situate.vpod.controller.policies import Policies
from situate.vpod.controller.scaler import Scaler
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
        record: EventRecorder,
        metrics: VPodMetrics,
        wall: Callable[[], datetime],
        rng: random.Random,
        election_client: Client | None = None,
        workers: int = 16,
        observe_election: Callable[[ElectionEvent], None] = lambda _: None,
        audit: DecisionAudit = no_audit,
        served: Container[str] | None = None,
    ) -> None:
        """Create the service without starting it.

        `election_client`: a client whose rate limit the other requests cannot exhaust; None means `client`.

        `workers`: the largest number of vpods that are reconciled at the same time. `served`: as for
        `PlacementReconciler`.
        """
        self.settings = settings
        self.name = f"vpod {settings.stateful_set_namespace}/{settings.stateful_set_name}"
        self.informers = Informers.create(settings, client, rng)
        self._options = settings.options()
        self._workers = workers
        self._leadership: Leadership | None = None
        self._notifier = Notifier(self._options, metrics, record)
        self.queue: WorkQueue[Key] = WorkQueue(rng=rng)
        self._actuator = Actuator(self._may_write)
        self.reconciler = PlacementReconciler(
            self.informers,
            client,
            self.queue,
            self._notifier,
            actuator=self._actuator,
            wall=wall,
            wake_autoscaler=self._wake_autoscaler,
            drained=self._on_drained,
            audit=audit,
            served=served,
        )
        self.scaler = Scaler(
            self.reconciler,
            client,
            self._notifier,
            lambda: self._options,
            actuator=self._actuator,
            evict=self.reconciler.evict,
        )
        self._policies = Policies(self.informers, settings, record, self._on_policies_change)
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
            watches = [group.create_task(each.run(), name=each.name) for each in self.informers.reflectors()]
            await group.create_task(self.elector.run(), name=self.elector.name)
            for watch in watches:
                watch.cancel()

    def stop(self) -> None:
        """End `run` in an orderly way: writes in flight are finished or refused, and the Lease is released."""
        self.elector.stop()

    def not_ready(self) -> str | None:
        """Return the reason why this process is not ready, or None. A standby with synced stores is ready."""
        return self.informers.not_ready()

    def reconfigure(self, settings: StatefulSetSettings) -> None:
        """Apply new settings without a restart.

        The watches stay those of the start. Rule B15.
        """
        self.settings = settings
        self._policies.reconfigure(settings)
        self._apply_options(
            replace(settings.options(), placing=self._policies.placing, removing=self._policies.removing)
        )

    def _apply_options(self, options: Options) -> None:
        self._options = options
        self.reconciler.reconfigure(options)
        self.scaler.wake()

    def _on_policies_change(self) -> None:
        placing, removing = self._policies.placing, self._policies.removing
        self._apply_options(replace(self._options, placing=placing, removing=removing))

    async def _lead(self, leadership: Leadership) -> None:
        """Run one term as leader.

        No decision is made before the state is rebuilt from fresh listings. Rule D1.
        """
        self._leadership = leadership
        try:
            await self._promote()
            reconciler = Reconciler("vpod", self.queue, self.reconciler.reconcile, workers=self._workers)
            async with asyncio.TaskGroup() as group:
                group.create_task(reconciler.run())
                group.create_task(self.scaler.run())
                group.create_task(self._check_state())
                group.create_task(self._retry_shortages())
                group.create_task(self._rebalance_periodically())
        finally:
            self.reconciler.demote()
            await self._actuator.wait_answers()
            self._leadership = None

    async def _promote(self) -> None:
        await self.informers.wait_synced()
        while True:
            try:
                await self.informers.relist()
                break
            except KubeError as problem:
                self._log.warning("initial list failed, retrying", error=str(problem))
            await asyncio.sleep(_PROMOTION_RETRY_S)
        self.reconciler.promote(self._options)
        self._log.info("state rebuilt", vpods=len(self.reconciler.state.vpods) if self.reconciler.state else 0)

    async def _check_state(self) -> None:
        """Compare the state with fresh listings at intervals; the listings win."""
        while True:
            await asyncio.sleep(_CHECKS_EVERY_REFRESHES * self._options.refresh_period)
            try:
                await self.informers.relist()
            except KubeError as problem:
                self._log.warning("comparison with a listing failed", error=str(problem))
                continue
            state = self.reconciler.state
            if state is None:
                return
            rebuilt = self.reconciler.rebuild_state(self._options, asyncio.get_running_loop().time())
            found = differences(state, rebuilt)
            if found:
                self._notifier.log_repair(found)
                self.reconciler.replace_state(rebuilt)

    async def _retry_shortages(self) -> None:
        """Retry vpods with a shortage in order, at intervals."""
        while True:
            await asyncio.sleep(SHORTAGE_RETRY_S)
            self.reconciler.report_blocking()
            self.reconciler.retry_changed_shortages()

    async def _rebalance_periodically(self) -> None:
        while True:
            await asyncio.sleep(self._options.rebalance.interval)
            await self.reconciler.rebalance()

    def _may_write(self) -> None:
        """Raise NotLeading unless this process leads now, by its own clock."""
        if self._leadership is None or not self._leadership.is_valid():
            raise NotLeading(f"{self.name}: another process may lead now, so nothing is written", after_s=1.0)

    def _wake_autoscaler(self) -> None:
        self.scaler.wake()

    def _on_drained(self, when: float) -> None:
        self.scaler.schedule_round(when)

"""One StatefulSet's scheduler as a service: it always watches, and it decides and writes only while it leads.

Everything runs on one event loop. The time is the loop's time, so a simulated loop runs the same code.
"""

from __future__ import annotations

import asyncio
from collections.abc import Container
from dataclasses import replace
from typing import Final

import structlog

from situate.kube.election.election import Leadership
from situate.kube.election.lease_record import LeaseName
from situate.kube.errors import KubeError
from situate.kube.events import RecordEvent
from situate.runtime.leadership.leader import ControllerContext, Leader
from situate.runtime.reconcile.reconciler import Reconciler
from situate.runtime.reconcile.workqueue import WorkQueue
from situate.vpod.config.settings import StatefulSetSettings
from situate.vpod.controller.apply import SHORTAGE_RETRY_S, DecisionAudit, PlacementReconciler, no_audit
from situate.vpod.controller.informers import Informers
from situate.vpod.controller.notify import Notifier, VPodMetrics
from situate.vpod.controller.policies import Policies
from situate.vpod.controller.scaler import Scaler
from situate.vpod.model.options import Options
from situate.vpod.model.vpod import Key
from situate.vpod.state.knative_json import differences

_CHECKS_EVERY_REFRESHES: Final = 3
"""Number of refresh periods between two comparisons of the state with a rebuilt one."""


class VPodController:
    """A service: `run` lasts until `stop` or cancellation, and then the Lease is released."""

    def __init__(
        self,
        settings: StatefulSetSettings,
        context: ControllerContext,
        *,
        record: RecordEvent,
        metrics: VPodMetrics,
        workers: int = 16,
        audit: DecisionAudit = no_audit,
        served: Container[str] | None = None,
    ) -> None:
        """Create the service without starting it.

        `workers`: the largest number of vpods that are reconciled at the same time. `served`: as for
        `PlacementReconciler`.
        """
        self.settings = settings
        self.name = f"vpod {settings.stateful_set_namespace}/{settings.stateful_set_name}"
        self.informers = Informers.create(settings, context.client, context.rng)
        self._options = settings.options()
        self._workers = workers
        self._notifier = Notifier(self._options, metrics, record)
        self.queue: WorkQueue[Key] = WorkQueue(rng=context.rng)
        lease = LeaseName(context.candidacy.namespace, settings.lease_name)
        self.leader = Leader(self.name, context, lease, self._lead)
        self.reconciler = PlacementReconciler(
            self.informers,
            self.leader.client,
            self.queue,
            self._notifier,
            actuator=self.leader.actuator,
            wall=context.wall,
            wake_autoscaler=self._wake_autoscaler,
            drained=self._on_drained,
            audit=audit,
            served=served,
        )
        self.scaler = Scaler(
            self.reconciler,
            self.leader.client,
            self._notifier,
            lambda: self._options,
            actuator=self.leader.actuator,
            evict=self.reconciler.evict,
        )
        self._policies = Policies(self.informers, settings, record, self._on_policies_change)
        self._log = structlog.get_logger().bind(controller="vpod", statefulset=self._options.statefulset)

    async def run(self) -> None:
        """Watch, and take part in the election. Programming errors are raised."""
        await self.leader.run(self.informers.reflectors())

    def stop(self) -> None:
        """End `run` in an orderly way: writes in flight are finished or refused, and the Lease is released."""
        self.leader.stop()

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

    async def _lead(self, _: Leadership) -> None:
        """Run one term as leader.

        No decision is made before the state is rebuilt from fresh listings. Rule D1.
        """
        try:
            await self.leader.relist(self.informers)
            self.reconciler.promote(self._options)
            self._log.info("state rebuilt", vpods=len(self.reconciler.state.vpods) if self.reconciler.state else 0)
            reconciler = Reconciler("vpod", self.queue, self.reconciler.reconcile, workers=self._workers)
            async with asyncio.TaskGroup() as group:
                group.create_task(reconciler.run())
                group.create_task(self.scaler.run())
                group.create_task(self._check_state())
                group.create_task(self._retry_shortages())
                group.create_task(self._rebalance_periodically())
        finally:
            self.reconciler.demote()

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

    def _wake_autoscaler(self) -> None:
        self.scaler.wake()

    def _on_drained(self, when: float) -> None:
        self.scaler.schedule_round(when)

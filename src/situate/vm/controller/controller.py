"""vm as a service: one scheduler process under its own name, with a plugin that asks the ledger of this process.

The scheduler (`situate.scheduler`) watches, elects, places and binds. This module adds the rest. All of it runs on one
event loop and uses its time, so a simulated loop runs the same code.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import structlog
from msgspec import structs

from situate.framework.engine.engine import Engine
from situate.framework.pod.pods import PodInfo
from situate.framework.queue.queued_pod import QueueState
from situate.kube.client import Client
from situate.kube.errors import KubeError
from situate.kube.events import RecordActionEvent
from situate.kube.queries.server_version import server_version
from situate.kube.watch.reflector import Reflector
from situate.objects.kinds.meta import OwnerReference
from situate.objects.resources import PODS, REPLICASETS
from situate.runtime.leadership.actuator import Actuator
from situate.runtime.leadership.leader import ControllerContext, Leader
from situate.runtime.leadership.leader_label import LeaderLabel, maintain_leader_label
from situate.runtime.leadership.rollout import LeaseHandover
from situate.runtime.reconcile.outcomes import BrokenInvariant
from situate.scheduler.controller.action_writer import ExtenderClient
from situate.scheduler.controller.controller import SchedulerController
from situate.scheduler.metrics.metrics import SchedulerMetrics
from situate.vm.api.well_known import SCHEDULER_LABEL, WANTS
from situate.vm.config.settings import CERTIFICATE_LIFE_S
from situate.vm.controller.apply import Applier
from situate.vm.controller.informers import VmInformers
from situate.vm.controller.metrics import VmMetrics
from situate.vm.controller.notify import Notifier
from situate.vm.controller.observe import Observer
from situate.vm.controller.setup import VmSetup, scheduler_setup
from situate.vm.ledger.ledger import Ledger
from situate.vm.model.actions import Notify
from situate.vm.model.migrations import Move, Stage
from situate.vm.placement.plugin import NAME, VirtualMachines
from situate.vm.placement.target_filter import TargetFilter, planner_with_filter

if TYPE_CHECKING:
    from situate.vm.server.certificates import Certificates
    from situate.vm.server.eviction_webhook import EvictionWebhook

REVISION: Final = "deployment.kubernetes.io/revision"
"""Annotation of a ReplicaSet."""


class StartupTooSlow(Exception):
    """The start took too long. Raised only with `compat`; it ends the process, as in upstream (C30)."""


class VmController:
    """Service: `run` until `stop` or cancellation, which also release the Lease."""

    name = "vm"

    def __init__(
        self,
        setup: VmSetup,
        context: ControllerContext,
        *,
        record: RecordActionEvent,
        metrics: SchedulerMetrics,
        vm_metrics: VmMetrics,
        extending: ExtenderClient,
        stopwatch: Callable[[], float] = time.perf_counter,
        rebuilding: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        """Arguments as for `SchedulerController`."""
        self.setup = setup
        rules = setup.rules
        self._context = context
        self._clock = Clock(context.wall)
        self._stopwatch = stopwatch
        self._metrics = vm_metrics
        self._system = setup.system
        self._backend = setup.system.backend(rules)
        self.informers = VmInformers.create(context.client, context.rng, self._system, self._backend)
        self.ledger = Ledger(rules, self._clock.now, self._may_write)
        self._ledger_changed = asyncio.Event()
        self.ledger.listeners.append(self._ledger_changed.set)
        self._notifier = Notifier(self.informers, record)
        self.observer = Observer(self.informers, self._system, self._backend, self.ledger, self._notifier)
        plugin = VirtualMachines(self.ledger, self._system, self.observer.read_pod, context.rng.getrandbits(32))
        self._engine: Engine | None = None
        self._wake_scheduler: Callable[[], None] = lambda: None
        self._applier: Applier | None = None
        self.actuator: Actuator | None = None
        """Sender of the writes of this term; None while this process does not lead."""
        self.scheduler = SchedulerController(
            scheduler_setup(setup, plugin),
            context,
            record=record,
            metrics=metrics,
            extending=extending,
            stopwatch=stopwatch,
            rebuilding=rebuilding,
            name=self.name,
            informers=self.informers.all,
            embedded_product=self,
        )
        self.certificates: Certificates | None = None
        self._eviction_webhook: EvictionWebhook | None = None
        if setup.issues_certificate or setup.evictions is not None:
            # import the web server and cryptography only for certificates of the installation
            from situate.vm.server.certificates import Certificates

            self.certificates = Certificates(
                self.leader.client,
                namespace=setup.namespace,
                life_s=CERTIFICATE_LIFE_S if setup.evictions is None else setup.evictions.certificate_life_s,
                for_webhook=setup.evictions is not None,
                wall=context.wall,
                rng=context.rng,
            )
        if self.certificates is not None and setup.evictions is not None:
            from situate.vm.server.eviction_webhook import EvictionWebhook

            self._eviction_webhook = EvictionWebhook(
                setup.evictions,
                self,
                self.leader.client,
                self._notify,
                self.certificates,
                call_timeout_s=setup.call_timeout_s,
            )
        self._lease_handover = LeaseHandover(
            self.leader,
            self.informers.all.pods.store,
            self._revision,
            wants=WANTS,
            pod=setup.pod,
            namespace=setup.namespace,
        )
        self._rollout = asyncio.Event()
        self._lease_handover.on_change(self._rollout.set)
        vm_metrics.set_ledger(
            self.ledger,
            lambda: self._engine is not None,
            lambda: 0 if self._applier is None else self._applier.failing_objects,
        )
        self._log = structlog.get_logger().bind(controller=self.name)

    async def run(self) -> None:
        """Run all tasks of the process. Raises internal errors."""
        await self.scheduler.run(
            self._own_reflectors(),
            *map(self._warn_if_not_served, self.informers.all.further),
            self._lease_handover.keep_requesting_lease(self.informers.all),
        )

    def stop(self) -> None:
        """End `run` in order: calls in flight are answered or refused, and the Lease is released."""
        self.scheduler.stop()

    def not_ready(self) -> str | None:
        """Return why the process is not ready. A standby with complete lists is ready."""
        return self.scheduler.not_ready()

    def reflectors(self) -> Iterator[Reflector[Any]]:
        yield from self.scheduler.reflectors()
        yield from self._own_reflectors()

    def _own_reflectors(self) -> Iterator[Reflector[Any]]:
        """Return the reflectors of the process itself, not of its decisions."""
        if self.setup.pod:
            yield self._lease_handover.leases
        if self.certificates is not None:
            yield from self.certificates.reflectors()

    @property
    def leader(self) -> Leader:
        """The scheduler's leadership, which both share."""
        return self.scheduler.leader

    def begin(self, engine: Engine, stir: Callable[[], None]) -> None:
        """Begin a term: build the ledger from fresh lists, without any grant yet (C30, B43).

        Grants begin later, because plans ask the plugins of the engine, and the engine has not received the objects
        yet.
        """
        self._engine, self._wake_scheduler = engine, stir
        self._clock.begin()
        began = self._stopwatch()
        self.ledger.begin()
        self.ledger.planner = planner_with_filter(TargetFilter(engine, self.ledger, self._system))
        self.observer.load_objects()
        seconds = self._stopwatch() - began
        if seconds > self.setup.startup_s and self.setup.rules.compat:
            raise StartupTooSlow(
                f"processing the initial list took {seconds:.1f} s, allowed: {self.setup.startup_s:g} s (vm.startup)"
            )
        state = self.ledger.state
        self._log.info(
            "ledger created", nodes=len(state.nodes), pods=len(state.where), moves=len(state.moves), seconds=seconds
        )

    async def serve(self, client: Client, actuator: Actuator) -> None:
        """Carry out decisions and act on time, until cancelled."""
        await self._detect_resize_support(client)
        self.actuator = actuator
        self.observer.complete_listing()
        performing = self._applier = Applier(
            client,
            actuator,
            self.informers,
            self._backend,
            self.ledger,
            self._notifier,
            self._metrics,
            wake=self._activate_rejected_pods,
            wall=self._context.wall,
            rng=self._context.rng,
            call_timeout_s=self.setup.call_timeout_s,
        )
        async with asyncio.TaskGroup() as group:
            group.create_task(performing.run(self.setup.workers))
            group.create_task(self._submit_actions(performing))
            group.create_task(self._label_leader_pod(client, actuator))
            group.create_task(self._yield_lease())
            if self.certificates is not None:
                group.create_task(self.certificates.run())
            if self._eviction_webhook is not None:
                group.create_task(self._eviction_webhook.run())

    async def _detect_resize_support(self, client: Client) -> None:
        """Find out before any grant whether the server resizes Pods (B36). Without an answer, assume that it does."""
        try:
            async with asyncio.timeout(self.setup.call_timeout_s):
                version = await server_version(client)
        except (KubeError, TimeoutError) as problem:
            self._log.warning("version of the API server not known", error=str(problem))
            return
        resizes = version.is_at_least(1, 33)
        if resizes != self.ledger.rules.server_resizes:
            self._log.info("support for in-place resize detected", resizes=resizes, server=version.git_version)
            self.ledger.rules = structs.replace(self.ledger.rules, server_resizes=resizes)
            self.observer.load_objects()

    async def _label_leader_pod(self, client: Client, actuator: Actuator) -> None:
        """Keep the scheduler's name as a label on the leader's Pod alone (B44): agents ask that Pod (C17)."""
        namespace = self.setup.namespace
        mark = LeaderLabel(namespace, self.setup.pod, SCHEDULER_LABEL, self.setup.rules.scheduler_name)
        await maintain_leader_label(
            mark, client, lambda pod, patch: actuator.write(client.patch(PODS, pod, patch, namespace))
        )

    async def _yield_lease(self) -> None:
        await self._lease_handover.wait_for_request(self._rollout)
        self._lease_handover.yield_lease()

    def _revision(self, controller: OwnerReference, namespace: str) -> int | None:
        """Return the revision of a Deployment from its ReplicaSet."""
        found = self.informers.all.others[REPLICASETS].store.get(controller.name, namespace)
        if found is None or found.metadata.uid != controller.uid:
            return None
        text = found.metadata.annotations.get(REVISION, "")
        return int(text) if text.isdecimal() else None

    def _notify(self, told: Notify) -> None:
        self._notifier.notify(told)
        self._metrics.count_event(told.reason)

    def end(self) -> None:
        self.observer.end()
        self._engine = self._applier = self.actuator = None

    def _may_write(self) -> bool:
        return self.leader.is_leading()

    async def _submit_actions(self, performing: Applier) -> None:
        """Submit the actions of each event, and of time when it is due."""
        moves = self.ledger.state.moves
        while True:
            self._ledger_changed.clear()
            self._submit_pending(performing)
            if self.ledger.wake_at is not None and self.ledger.wake_at <= self.ledger.clock():
                # planning takes time, so submit earlier grants first
                await asyncio.sleep(0)
                self.ledger.apply_timer()
                self._submit_pending(performing)
            if self.ledger.state.moves is not moves:
                former, moves = moves, self.ledger.state.moves
                self._release_targets(former)
            if self._ledger_changed.is_set():
                await asyncio.sleep(0)  # events that this task causes must not starve other tasks
                continue
            due = self.ledger.wake_at
            try:
                async with asyncio.timeout(None if due is None else max(0.0, due - self.ledger.clock())):
                    await self._ledger_changed.wait()
            except TimeoutError:
                continue

    def _submit_pending(self, performing: Applier) -> None:
        if self.ledger.broken is not None:
            self._metrics.count_panic()
            raise BrokenInvariant("the ledger could not apply an event") from self.ledger.broken
        performing.submit(self.ledger.take_actions())

    def _activate_rejected_pods(self, node: str) -> None:
        """Retry Pods at once for which the ledger lacked capacity and now has enough on this node (D16)."""
        assert self._engine is not None
        self._activate(
            waiting.info.uid
            for waiting in self._engine.queue
            if waiting.place is not QueueState.ACTIVE
            and NAME in waiting.rejectors
            and self._has_capacity(node, waiting.info)
        )

    def _has_capacity(self, node: str, info: PodInfo) -> bool:
        pod, state = self.observer.read_pod(info.pod).value, self.ledger.state
        return (
            pod is not None
            and node in state.nodes
            and pod.counted_amount(pod.reserved).fits_within(state.available(node, info.uid))
        )

    def _release_targets(self, former: Mapping[str, Move]) -> None:
        """After changes of migrations, retry their waiting target Pods and release those that Permit holds (N24).

        A target Pod with a new target node is retried, whichever plugin rejected it before (B14).
        """
        moves = self.ledger.state.moves
        led = {key for key, move in moves.items() if key in former and former[key].target_node != move.target_node}
        engine, handle = self._engine, self.ledger.handle
        assert engine is not None
        self._activate(
            waiting.info.uid
            for waiting in engine.queue
            if (made_for := self._system.migration_of(waiting.info.pod)) is not None
            and (NAME in waiting.rejectors or str(made_for) in led)
        )
        for uid, key in list(self.ledger.paused.items()):
            move = self.ledger.state.moves.get(key)
            if handle is None or (move is not None and move.stage is Stage.ENDING):
                continue
            del self.ledger.paused[uid]
            if move is None or move.stage is Stage.FAILED:
                handle.reject(uid, "the migration of this target Pod is gone")
            else:
                handle.allow(uid)
            self._wake_scheduler()

    def _activate(self, uids: Iterator[str]) -> None:
        found = list(uids)
        if found and self.ledger.handle is not None:
            self.ledger.handle.activate(found)
            self._wake_scheduler()

    async def _warn_if_not_served(self, reflector: Reflector[Any]) -> None:
        """Log once that the cluster lacks a resource. Nothing can be migrated then, but plain Pods are placed."""
        await reflector.not_served.wait()
        self._log.warning(
            "resource not served by the cluster, waiting for its definition",
            resource=reflector.scope.resource.group_resource,
            next_step=self._system.install_hint,
        )


class Clock:
    """Seconds since the epoch that never jump: the wall clock is read only when a term begins (F14)."""

    def __init__(self, wall: Callable[[], datetime]) -> None:
        self._wall = wall
        self._offset: float | None = None

    def begin(self) -> None:
        self._offset = self._wall().timestamp() - asyncio.get_running_loop().time()

    def now(self) -> float:
        if self._offset is None:
            self.begin()
        assert self._offset is not None
        return self._offset + asyncio.get_running_loop().time()

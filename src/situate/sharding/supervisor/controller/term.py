"""Run one term of a supervisor: decide on each object after a relevant change, and carry out the decision.

A decision is synchronous; only writes are awaited, each one independently. The results of a decision are stored before
the first await, so that each decision knows all earlier ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from datetime import timedelta
from typing import Any, Final, TypeAlias, assert_never

import structlog

from situate.archive.protocol import Archiver
from situate.kube.errors import Conflict, KubeError, NotFound
from situate.kube.events import RecordEvent
from situate.kube.retry.backoff import Backoff
from situate.runtime.metrics import Metrics
from situate.runtime.reconcile.outcomes import DONE, Result, Retriable
from situate.runtime.reconcile.reconciler import Reconcile, Reconciler
from situate.runtime.reconcile.workqueue import WorkQueue
from situate.sharding.assignment.decide import decide
from situate.sharding.executor.controller.environment import RuntimeEnvironment
from situate.sharding.executor.controller.objects import Request
from situate.sharding.model.actions import (
    Archive,
    Assign,
    Complete,
    Delete,
    PatchAction,
    RemoveFinalizer,
    ReportCompleted,
    RequestDrain,
    Revoke,
    write_of,
)
from situate.sharding.model.decision_inputs import INITIAL_MEMORY, ClusterView, Decision, Memory, MoveLimit, Verdict
from situate.sharding.model.errors import RuleFailed
from situate.sharding.model.names import Cause, Reason
from situate.sharding.model.object_view import DrainRequest, ObjectView
from situate.sharding.strategies import facts_of
from situate.sharding.supervisor.controller.act.conditions import ConditionWriter
from situate.sharding.supervisor.controller.act.notify import Notifier
from situate.sharding.supervisor.controller.act.writer import Sender
from situate.sharding.supervisor.controller.archive.owner_order import OwnerOrder
from situate.sharding.supervisor.controller.archive.queue import ArchiveQueue, Clocks
from situate.sharding.supervisor.controller.observe.cache import SupervisorCache
from situate.sharding.supervisor.controller.rebalancer import CHECK_S, Rebalancer
from situate.sharding.supervisor.controller.triggers import Triggers
from situate.sharding.supervisor.controller.turns import Turns

RETRY: Final = Backoff(initial_s=1.0, cap_s=300.0)
"""Back-off of one object after a failed call."""
MOST_CONFLICTS: Final = 3
"""Consecutive conflicts on an object after which the next attempt waits for the back-off."""
MOST_CONDITION_WRITES: Final = 8
"""Maximum number of conditions written in parallel."""
CallAction: TypeAlias = PatchAction | Delete | Archive
"""An action that is carried out by calls; `ReportCompleted` needs none."""


class SupervisorTerm:
    """One term: `run` until cancelled."""

    def __init__(
        self,
        standby: SupervisorCache,
        sender: Sender,
        archiver: Archiver | None,
        record: RecordEvent,
        around: RuntimeEnvironment,
        relist: Callable[[], Awaitable[None]],
        metrics: Metrics | None = None,
    ) -> None:
        """`relist` compares the stores with fresh lists. `metrics` counts the attempts; None: they are not counted."""
        self.queue: WorkQueue[Request] = WorkQueue(rng=around.rng, backoff=RETRY)
        """Queue of `reconcile`."""
        self.term = sender.term
        scope, config = standby.scope, standby.config
        self._cache = standby
        self._scope = scope
        self._config = config
        self._index = standby.index
        self._sender = sender
        self._environment = around
        self._relist = relist
        self._metrics = metrics
        self._counts = standby.counts
        self.condition_writer = ConditionWriter(sender, scope, standby.index, record, around.rng, around.wall)
        self._owner_order = OwnerOrder(standby.index, config, scope.archive_propagation, around.wall)
        self.archive: ArchiveQueue | None = None
        """None: no archive is configured."""
        if archiver is not None:
            clocks = Clocks(around.now, around.wall)
            again = self.queue.add_after
            self.archive = ArchiveQueue(
                archiver,
                sender,
                scope,
                config,
                self._owner_order,
                self.condition_writer,
                clocks,
                around.rng,
                again,
                self._counts,
            )
        self._notifier = Notifier(self.condition_writer, self._counts, self.term)
        self._memories: dict[str, Memory] = {}
        """By UID."""
        self._limit = MoveLimit(config.max_forced_moves_per_s)
        self._unsure: set[Request] = set()
        """Objects whose last write has an unknown outcome, or that another client wrote."""
        self._rebalancer = Rebalancer(scope.rebalance, standby.index, scope.weight_of)
        self._moves: set[Request] = set()
        """Objects that must be drained for the balance."""
        self._turns = Turns(self.queue, standby.index, standby.waiting, config.max_parallel_drains)
        self.triggers = Triggers(self.queue, standby, self._turns)
        self._last_pace = around.now(), self._counts.writes
        self._log = structlog.get_logger().bind(term=self.term)

    async def run(self, *beside: Coroutine[Any, Any, None]) -> None:
        """Run until cancelled, together with the coroutines `beside`. Raises only on a defect in situate."""
        scope, name = self._scope, self._scope.resource.group_resource
        services = [
            self._make_reconciler(f"supervisor of {name}", self.queue, self.reconcile, scope.write_concurrency),
            self._make_reconciler(
                f"conditions of {name}",
                self.condition_writer.queue,
                self.condition_writer.reconcile,
                MOST_CONDITION_WRITES,
            ),
        ]
        if (archive := self.archive) is not None:
            workers = scope.archive_concurrency
            services.append(self._make_reconciler(f"archive of {name}", archive.queue, archive.reconcile, workers))
        try:
            self.triggers.enqueue_all()
            async with asyncio.TaskGroup() as group:
                for each in services:
                    group.create_task(each.run(), name=each.name)
                for other in beside:
                    group.create_task(other)
                group.create_task(self._sweep(), name=f"sweep of {name}")
                if scope.rebalance.goal is not None:
                    group.create_task(self._balance(), name=f"balance of {name}")
        finally:
            await self._sender.wait_writes()

    def _make_reconciler(
        self, name: str, queue: WorkQueue[Request], reconcile: Reconcile[Request], workers: int
    ) -> Reconciler[Request]:
        if self._metrics is None:
            return Reconciler(name, queue, reconcile, workers=workers)
        self._metrics.add_queue(name, queue)
        return Reconciler(name, queue, reconcile, workers=workers, observe=self._metrics.observe_attempts(name))

    def pace(self) -> tuple[float, float]:
        """Return the wait of the oldest queued object in seconds, and the writes per second since the last call.

        The first call counts the writes from the start of the term.
        """
        now, writes = self._environment.now(), self._counts.writes
        since, before = self._last_pace
        self._last_pace = now, writes
        elapsed = now - since
        return self.queue.statistics().oldest_wait_s, (writes - before) / elapsed if elapsed > 0 else 0.0

    def handle_change(self, request: Request, before: ObjectView | None, view: ObjectView | None) -> None:
        """Handle a change of an object; `view` None: it is gone."""
        if before is not None and (view is None or view.uid != before.uid):
            self._memories.pop(before.uid, None)
            self._turns.forget(request)
            self._moves.discard(request)
            self.condition_writer.forget(request)
        self._notifier.record_unreadable(request, before, view)
        self.triggers.enqueue_affected(request, before, view)

    async def reconcile(self, request: Request) -> Result:
        """Decide on one object and carry out the decision; the result contains the time of the next one."""
        for _ in range(MOST_CONFLICTS):
            if request in self._unsure:
                await self._read_again(request)
            view = await self._wait_holder_known(request)
            if view is None:
                return DONE
            try:
                decision = self._decide(request, view)
            except RuleFailed as problem:
                return self._handle_rule_failure(request, view, problem)
            orders: list[CallAction] = [each for each in decision.actions if not isinstance(each, ReportCompleted)]
            if request in self._moves:
                self._moves.discard(request)
                orders = orders or self._rebalance_drain(request, view)
            if not orders:
                return self._finish_without_actions(request, view, decision)
            try:
                await self._apply(request, view, orders)
                return DONE  # the watch shows the writes, which leads to the next decision
            except Conflict:
                self._counts.rejected += 1
                self._unsure.add(request)
            except KubeError as problem:
                self._unsure.add(request)
                self._notifier.record_refusal(request, view, orders, problem, self.queue.failures(request))
                raise
            finally:
                self._cache.finish_write(request)
                self._turns.enqueue_drains()
        raise Retriable(f"{request}: other clients changed the object before each attempt, so nothing was written")

    async def _wait_holder_known(self, request: Request) -> ObjectView | None:
        """Return the object once it is known whether its holder is removed; None: the object is gone."""
        observer = self._cache.observer
        while (view := self._index.views.get(request)) is not None:
            since = self._index.since[request]
            uid = view.executor_uid or (view.revoked.executor_uid if view.revoked is not None else "")
            if view.completed or not observer.is_uncertain(uid, since):
                return view
            await observer.confirm(uid, since)
        return None

    def _decide(self, request: Request, view: ObjectView) -> Decision:
        """Decide on one object, store the new memory, and count the actions from now on."""
        standby, around = self._cache, self._environment
        situation = ClusterView(
            now=around.now(),
            wall=around.wall(),
            members=standby.observer.members(),
            choose=standby.placer.choose,
            term=self._sender.term_for(view),
            config=self._config,
            adapter=standby.adapter,
            has_archiver=self.archive is not None,
            ownership=standby.ownership,
            rank=self._index.rank,
            owners_due_s=self._owner_order.owners_due_s,
            dependents=self._owner_order.dependents,
            drains=len(self._index.drains),
            limit=self._limit,
        )
        decision = decide(view, self._memories.get(view.uid, INITIAL_MEMORY), situation)
        self._memories[view.uid] = decision.memory
        self._limit = decision.limit
        for action in decision.actions:
            if isinstance(action, Assign):
                standby.assume_assignment(request, view, action)
            elif isinstance(action, RequestDrain):
                self._index.count_drain_request(request)
            elif isinstance(action, ReportCompleted):
                standby.report_completed(view)
        return decision

    async def _apply(self, request: Request, view: ObjectView, orders: Sequence[CallAction]) -> None:
        """Carry out the actions in order; each acts on the object that the previous one returned."""
        for action in orders:
            match action:
                case Assign() | RequestDrain() | Revoke() | Complete() | RemoveFinalizer():
                    write = write_of(action, view, self._cache.adapter)
                    if write.operations:
                        view = await self._sender.patch(request, write)
                    was_refused = self._counts.refusal
                    self._notifier.record_write(request, view, action)
                    if was_refused:  # the policy accepts writes again: refused writes need not wait for their back-off
                        self.triggers.enqueue_all()
                case Delete(uid):
                    await self._sender.delete(request, uid)
                case Archive(delete):
                    assert self.archive is not None, "nothing is archived without an archive"
                    self.archive.begin(request, view.uid, delete=delete)
                case _ as never:
                    assert_never(never)

    def _handle_rule_failure(self, request: Request, view: ObjectView, problem: RuleFailed) -> Result:
        """Leave an object alone because a user's rule failed on it; other objects are not affected."""
        self._notifier.record_rule_failure(view, problem)
        if view.completed:
            self.condition_writer.set_archive_failure(request, str(problem))
        else:
            self.condition_writer.set_verdict(request, view, Verdict(False, Reason.QUARANTINED, str(problem)))
        return Result(self._config.requeue_delay)

    def _finish_without_actions(self, request: Request, view: ObjectView, decision: Decision) -> Result:
        """Finish a decision without actions: set the condition, and give other objects their turn."""
        self.condition_writer.set_verdict(request, view, decision.verdict)
        self._turns.record_no_action(request, view, facts_of(view, self._scope.weight_of), decision.verdict)
        if decision.wake_at is None:
            return DONE
        return Result(max(0.001, decision.wake_at - self._environment.now()))

    async def _read_again(self, request: Request) -> None:
        """Read the object from the API server, because events may be late."""
        view = await self._sender.read(request)
        self._unsure.discard(request)
        if view is None and (before := self._cache.record_object(request, None)) is not None:
            self.handle_change(request, before, None)

    def _rebalance_drain(self, request: Request, view: ObjectView) -> list[CallAction]:
        """Return the drain request for the balance, if the object still has a living holder."""
        living = view.executor_uid in self._cache.observer.members().living
        settled = view.completed or view.deleting or view.drain is not None or view.faults
        if settled or not living or not self._turns.may_drain():
            return []
        self._index.count_drain_request(request)
        deadline = self._environment.wall() + timedelta(seconds=self._config.drain_timeout)
        return [RequestDrain(DrainRequest(view.epoch, deadline, Cause.REBALANCE))]

    async def _balance(self) -> None:
        while True:
            for request in self._rebalancer.objects_to_drain(self._cache.observer.members(), self._environment.now()):
                self._moves.add(request)
                self.queue.add(request)
            await asyncio.sleep(CHECK_S)

    async def _sweep(self) -> None:
        """Relist and re-evaluate everything every `requeue_delay`, to repair missed events."""
        while True:
            try:
                await self._relist()
            except KubeError as problem:
                self._log.warning("comparison with a listing failed", error=str(problem))
            self.triggers.enqueue_all()
            await self._delete_leftover_leases()
            await asyncio.sleep(self._config.requeue_delay)

    async def _delete_leftover_leases(self) -> None:
        """Delete the Leases of removed executors of which nothing else is left.

        A Lease stays while objects still name its executor. If the pod exists after all, a process that starts in it
        learns from the Lease that the objects were assigned to an earlier process.
        """
        observer = self._cache.observer
        for leftover in observer.leftovers():
            if self._index.objects_of_holder(leftover.executor_uid):
                continue
            try:
                await self._sender.delete_lease(leftover)
            except (NotFound, Conflict):
                pass  # another client deleted the Lease, or its executor is alive
            except (KubeError, Retriable) as problem:
                self._log.warning("deletion of an unneeded Lease failed", lease=leftover.lease, error=str(problem))
                continue
            observer.forget_leftover(leftover)

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
from situate.kube.retry.backoff import Backoff
from situate.runtime.metrics import Metrics
from situate.runtime.reconcile.outcomes import DONE, Result, Retriable
from situate.runtime.reconcile.reconciler import Reconcile, Reconciler
from situate.runtime.reconcile.workqueue import WorkQueue
from situate.sharding.assignment.decide import decide
from situate.sharding.executor.controller.environment import Surroundings
from situate.sharding.executor.controller.objects import Request
from situate.sharding.model.actions import (
    Archive,
    Assign,
    Complete,
    Delete,
    Patching,
    RemoveFinalizer,
    RequestDrain,
    Revoke,
    TellCompleted,
    write_of,
)
from situate.sharding.model.decision_inputs import NEW, Decision, Memory, MoveLimit, Situation, Verdict
from situate.sharding.model.errors import RuleFailed
from situate.sharding.model.names import Cause, Reason
from situate.sharding.model.object_view import DrainRequest, ObjectView
from situate.sharding.strategies import facts_of
from situate.sharding.supervisor.controller.act.conditions import Record, Saying
from situate.sharding.supervisor.controller.act.notify import Telling
from situate.sharding.supervisor.controller.act.writer import Sender
from situate.sharding.supervisor.controller.archive.owner_order import Family
from situate.sharding.supervisor.controller.archive.queue import ArchiveQueue, Clocks
from situate.sharding.supervisor.controller.observe.cache import Standby
from situate.sharding.supervisor.controller.rebalancer import LOOK_S, Balancing
from situate.sharding.supervisor.controller.triggers import Looking
from situate.sharding.supervisor.controller.turns import Turns

RETRY: Final = Backoff(initial_s=1.0, cap_s=300.0)
"""Back-off of one object after a failed call."""
MOST_CONFLICTS: Final = 3
"""Consecutive conflicts on an object after which the next attempt waits for the back-off."""
SAYING: Final = 8
"""Maximum number of conditions written in parallel."""
Order: TypeAlias = Patching | Delete | Archive
"""An action that is carried out by calls; `TellCompleted` needs none."""


class Supervising:
    """One term: `run` until cancelled."""

    def __init__(
        self,
        standby: Standby,
        sender: Sender,
        archiver: Archiver | None,
        record: Record,
        around: Surroundings,
        relist: Callable[[], Awaitable[None]],
        metrics: Metrics | None = None,
    ) -> None:
        """`relist` compares the stores with fresh lists. `metrics` counts the attempts; None: they are not counted."""
        self.queue: WorkQueue[Request] = WorkQueue(rng=around.rng, backoff=RETRY)
        """Queue of `reconcile`."""
        self.term = sender.term
        scope, config = standby.scope, standby.config
        self._standby = standby
        self._scope = scope
        self._config = config
        self._listing = standby.listing
        self._sender = sender
        self._around = around
        self._relist = relist
        self._metrics = metrics
        self._counts = standby.counts
        self.saying = Saying(sender, scope, standby.listing, record, around.rng, around.wall)
        self._family = Family(standby.listing, config, scope.archive_propagation, around.wall)
        self.archive: ArchiveQueue | None = None
        """None: no archive is configured."""
        if archiver is not None:
            clocks = Clocks(around.now, around.wall)
            again = self.queue.add_after
            self.archive = ArchiveQueue(
                archiver, sender, scope, config, self._family, self.saying, clocks, around.rng, again, self._counts
            )
        self._telling = Telling(self.saying, self._counts, self.term)
        self._memories: dict[str, Memory] = {}
        """By UID."""
        self._limit = MoveLimit(config.max_forced_moves_per_s)
        self._unsure: set[Request] = set()
        """Objects whose last write has an unknown outcome, or that another client wrote."""
        self._balancing = Balancing(scope.rebalance, standby.listing, scope.weight_of)
        self._moves: set[Request] = set()
        """Objects that must be drained for the balance."""
        self._turns = Turns(self.queue, standby.listing, standby.waiting, config.max_parallel_drains)
        self.looking = Looking(self.queue, standby, self._turns)
        self._asked = around.now(), self._counts.writes
        self._log = structlog.get_logger().bind(term=self.term)

    async def run(self, *beside: Coroutine[Any, Any, None]) -> None:
        """Run until cancelled, together with the coroutines `beside`. Raises only on a defect in situate."""
        scope, name = self._scope, self._scope.resource.group_resource
        services = [
            self._service(f"supervisor of {name}", self.queue, self.reconcile, scope.write_concurrency),
            self._service(f"conditions of {name}", self.saying.queue, self.saying.reconcile, SAYING),
        ]
        if (archive := self.archive) is not None:
            workers = scope.archive_concurrency
            services.append(self._service(f"archive of {name}", archive.queue, archive.reconcile, workers))
        try:
            self.looking.at_all()
            async with asyncio.TaskGroup() as group:
                for each in services:
                    group.create_task(each.run(), name=each.name)
                for other in beside:
                    group.create_task(other)
                group.create_task(self._sweep(), name=f"sweep of {name}")
                if scope.rebalance.goal is not None:
                    group.create_task(self._balance(), name=f"balance of {name}")
        finally:
            await self._sender.finish()

    def _service(
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
        now, writes = self._around.now(), self._counts.writes
        since, before = self._asked
        self._asked = now, writes
        elapsed = now - since
        return self.queue.statistics().oldest_wait_s, (writes - before) / elapsed if elapsed > 0 else 0.0

    def changed(self, request: Request, before: ObjectView | None, view: ObjectView | None) -> None:
        """Handle a change of an object; `view` None: it is gone."""
        if before is not None and (view is None or view.uid != before.uid):
            self._memories.pop(before.uid, None)
            self._turns.forget(request)
            self._moves.discard(request)
            self.saying.forget(request)
        self._telling.unreadable(request, before, view)
        self.looking.changed(request, before, view)

    async def reconcile(self, request: Request) -> Result:
        """Decide on one object and carry out the decision; the result contains the time of the next one."""
        for _ in range(MOST_CONFLICTS):
            if request in self._unsure:
                await self._read_again(request)
            view = await self._beyond_doubt(request)
            if view is None:
                return DONE
            try:
                decision = self._decided(request, view)
            except RuleFailed as problem:
                return self._left_alone(request, view, problem)
            orders: list[Order] = [each for each in decision.actions if not isinstance(each, TellCompleted)]
            if request in self._moves:
                self._moves.discard(request)
                orders = orders or self._voluntary(request, view)
            if not orders:
                return self._rested(request, view, decision)
            try:
                await self._act(request, view, orders)
                return DONE  # the watch shows the writes, which leads to the next decision
            except Conflict:
                self._counts.rejected += 1
                self._unsure.add(request)
            except KubeError as problem:
                self._unsure.add(request)
                self._telling.refused(request, view, orders, problem, self.queue.failures(request))
                raise
            finally:
                self._standby.settle(request)
                self._turns.next_drains()
        raise Retriable(f"{request}: other clients changed the object before each attempt, so nothing was written")

    async def _beyond_doubt(self, request: Request) -> ObjectView | None:
        """Return the object once it is known whether its holder is removed; None: the object is gone."""
        observer = self._standby.observer
        while (view := self._listing.views.get(request)) is not None:
            since = self._listing.since[request]
            uid = view.executor_uid or (view.revoked.executor_uid if view.revoked is not None else "")
            if view.completed or not observer.in_doubt(uid, since):
                return view
            await observer.confirm(uid, since)
        return None

    def _decided(self, request: Request, view: ObjectView) -> Decision:
        """Decide on one object, store the new memory, and count the actions from now on."""
        standby, around = self._standby, self._around
        situation = Situation(
            now=around.now(),
            wall=around.wall(),
            members=standby.observer.members(),
            choose=standby.placer.choose,
            term=self._sender.term_for(view),
            config=self._config,
            adapter=standby.adapter,
            has_archiver=self.archive is not None,
            ownership=standby.owned,
            rank=self._listing.rank,
            owners_due_s=self._family.owners_due_s,
            dependents=self._family.dependents,
            drains=len(self._listing.drains),
            limit=self._limit,
        )
        decision = decide(view, self._memories.get(view.uid, NEW), situation)
        self._memories[view.uid] = decision.memory
        self._limit = decision.limit
        for action in decision.actions:
            if isinstance(action, Assign):
                standby.promise(request, view, action)
            elif isinstance(action, RequestDrain):
                self._listing.ask(request)
            elif isinstance(action, TellCompleted):
                standby.complete(view)
        return decision

    async def _act(self, request: Request, view: ObjectView, orders: Sequence[Order]) -> None:
        """Carry out the actions in order; each acts on the object that the previous one returned."""
        for action in orders:
            match action:
                case Assign() | RequestDrain() | Revoke() | Complete() | RemoveFinalizer():
                    write = write_of(action, view, self._standby.adapter)
                    if write.operations:
                        view = await self._sender.patch(request, write)
                    was_refused = self._counts.refusal
                    self._telling.done(request, view, action)
                    if was_refused:  # the policy accepts writes again: refused writes need not wait for their back-off
                        self.looking.at_all()
                case Delete(uid):
                    await self._sender.delete(request, uid)
                case Archive(delete):
                    assert self.archive is not None, "nothing is archived without an archive"
                    self.archive.begin(request, view.uid, delete=delete)
                case _ as never:
                    assert_never(never)

    def _left_alone(self, request: Request, view: ObjectView, problem: RuleFailed) -> Result:
        """Leave an object alone because a user's rule failed on it; other objects are not affected."""
        self._telling.rule_failed(view, problem)
        if view.completed:
            self.saying.archive_failed(request, str(problem))
        else:
            self.saying.verdict(request, view, Verdict(False, Reason.QUARANTINED, str(problem)))
        return Result(self._config.requeue_delay)

    def _rested(self, request: Request, view: ObjectView, decision: Decision) -> Result:
        """Finish a decision without actions: set the condition, and give other objects their turn."""
        self.saying.verdict(request, view, decision.verdict)
        self._turns.rested(request, view, facts_of(view, self._scope.weight_of), decision.verdict)
        if decision.wake_at is None:
            return DONE
        return Result(max(0.001, decision.wake_at - self._around.now()))

    async def _read_again(self, request: Request) -> None:
        """Read the object from the API server, because events may be late."""
        view = await self._sender.read(request)
        self._unsure.discard(request)
        if view is None and (before := self._standby.saw(request, None)) is not None:
            self.changed(request, before, None)

    def _voluntary(self, request: Request, view: ObjectView) -> list[Order]:
        """Return the drain request for the balance, if the object still has a living holder."""
        living = view.executor_uid in self._standby.observer.members().living
        settled = view.completed or view.deleting or view.drain is not None or view.faults
        if settled or not living or not self._turns.may_drain():
            return []
        self._listing.ask(request)
        deadline = self._around.wall() + timedelta(seconds=self._config.drain_timeout)
        return [RequestDrain(DrainRequest(view.epoch, deadline, Cause.REBALANCE))]

    async def _balance(self) -> None:
        while True:
            for request in self._balancing.due(self._standby.observer.members(), self._around.now()):
                self._moves.add(request)
                self.queue.add(request)
            await asyncio.sleep(LOOK_S)

    async def _sweep(self) -> None:
        """Relist and re-evaluate everything every `requeue_delay`, to repair missed events."""
        while True:
            try:
                await self._relist()
            except KubeError as problem:
                self._log.warning("comparison with a listing failed", error=str(problem))
            self.looking.at_all()
            await self._clear()
            await asyncio.sleep(self._config.requeue_delay)

    async def _clear(self) -> None:
        """Delete the Leases of removed executors of which nothing else is left.

        A Lease stays while objects still name its executor. If the pod exists after all, a process that starts in it
        learns from the Lease that the objects were assigned to an earlier process.
        """
        observer = self._standby.observer
        for leftover in observer.leftovers():
            if self._listing.held_by(leftover.executor_uid):
                continue
            try:
                await self._sender.clear(leftover)
            except (NotFound, Conflict):
                pass  # another client deleted the Lease, or its executor is alive
            except (KubeError, Retriable) as problem:
                self._log.warning("deletion of an unneeded Lease failed", lease=leftover.lease, error=str(problem))
                continue
            observer.cleared(leftover)

"""Applies decisions: bindings, evictions, conditions.

A performer accepts decisions without waiting, and reports the outcome of each to the engine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final, Protocol, assert_never

import structlog

from situate.framework.cycle.cycle import PluginFailed
from situate.framework.engine.decisions import Binding, Decision, Failed, Placed, PlacedRun, Refused, Waiting
from situate.framework.plugin_api.actions import Action, Evict, Nominate
from situate.framework.pod.pods import PodInfo, PodKey
from situate.framework.results.status import Code
from situate.runtime.reconcile.outcomes import BrokenInvariant
from situate.scheduler.controller.action_writer import ActionWriter, TermContext
from situate.scheduler.controller.api_dispatcher import Dispatcher, Relevance, run_within_term
from situate.scheduler.controller.bind import NotBound
from situate.scheduler.controller.pod_conditions import (
    POD_SCHEDULED,
    SCHEDULER_ERROR,
    UNSCHEDULABLE,
    ConditionChange,
    StatusChange,
)

_AHEAD_FACTOR: Final = 2
"""Decisions may be ahead of sent calls by this factor of the calls in flight."""


class Applier(Protocol):
    """Applies decisions. One for each term."""

    @property
    def free_placements(self) -> int:
        """Number of placements it accepts now; it stirs the loop when it accepts more."""
        ...

    def apply(self, decision: Decision | PlacedRun, began: float, seconds: float) -> None:
        """Accept a decision, without waiting. `began` is the start of its cycle; `seconds` is the cycle's duration."""
        ...

    def apply_actions(self, actions: Iterable[Action]) -> None:
        """Perform actions that plugins request apart from any placement."""
        ...

    async def run(self) -> None:
        """Perform the accepted decisions until cancelled."""
        ...


class LiveApplier:
    """Binds, preempts, and writes the outcome on the pods."""

    def __init__(self, means: TermContext) -> None:
        self._context = means
        self._engine = means.engine
        self.action_writer = ActionWriter(means)
        self._dispatcher = Dispatcher(means.in_flight, self._on_sent)
        self._group: asyncio.TaskGroup | None = None
        self.unsent: set[str] = set()
        """Uids of pods whose binding waits for its turn or its answer; bindings with slow preparation do not count."""
        self._held: dict[str, float] = {}
        """By uid: since when a plugin's Permit has held a pod."""
        self._log = structlog.get_logger()

    @property
    def free_placements(self) -> int:
        busy = len(self.unsent)
        if not self._context.actuator.may_write():
            return 0  # another process may lead by now, so decisions made here could not be written
        return _AHEAD_FACTOR * self._context.in_flight - busy if busy <= self._context.in_flight else 0

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            self._group = group
            await self._dispatcher.run()

    def apply(self, decision: Decision | PlacedRun, began: float, seconds: float) -> None:
        match decision:
            case PlacedRun():
                for placed in decision:
                    self._submit(_BindCall(self, placed, began))
            case Placed():
                self._submit(_BindCall(self, decision, began))
            case Refused():
                self._refuse(decision, seconds)
            case Failed():
                self._fail(decision.pod.info, decision.error, seconds, decision.cause)
            case Waiting():
                # the engine returns it again when its permits are granted or have timed out
                info = decision.pod.info
                self._held[info.uid] = self._context.clock()
                self._dispatcher.submit(_StatusCall(self, info.key, info.uid, StatusChange(nominate=decision.node)))
            case _:
                assert_never(decision)
        if self._held and not isinstance(decision, PlacedRun | Waiting):
            self._end_permit_wait(decision)

    def _end_permit_wait(self, decision: Placed | Refused | Failed) -> None:
        info = decision.pod.info
        since = self._held.pop(info.uid, None)
        if since is not None:
            result = "Success" if isinstance(decision, Placed) else "Unschedulable"
            self._context.notifier.metrics.record_permit_wait(result, self._context.clock() - since)
            if not isinstance(decision, Placed):
                self._requeue_pod(info)

    def _requeue_pod(self, info: PodInfo) -> None:
        """Feed the current state of a pod that lost its node to the engine, and drop the nomination in its status."""
        self._context.engine_feed.feed_pod(info.namespace, info.name, info.uid)
        self._engine.nominations.remove(info.uid)

    def apply_actions(self, actions: Iterable[Action]) -> None:
        for action in actions:
            if isinstance(action, Nominate):
                change = StatusChange(nominate=action.node)
                self._dispatcher.submit(_StatusCall(self, action.pod, action.uid, change))
            else:
                assert self._group is not None
                self._group.create_task(run_within_term(self._perform_requested(action)))

    def _submit(self, bind: _BindCall) -> None:
        self.unsent.add(bind.uid)
        self._dispatcher.submit(bind)

    def _on_sent(self) -> None:
        if len(self.unsent) <= self._context.in_flight:
            self._context.stir()

    def _refuse(self, refused: Refused, seconds: float) -> None:
        message = self._context.notifier.report_refused(refused, seconds)
        info = refused.pod.info
        claim = ConditionChange(POD_SCHEDULED, "False", UNSCHEDULABLE, message)
        self._dispatcher.submit(_StatusCall(self, info.key, info.uid, StatusChange(claim, refused.nominate)))
        evictions = [action for action in refused.actions if isinstance(action, Evict)]
        if evictions:
            self._context.notifier.metrics.record_victims(len(evictions))
            self._preempt(refused, evictions, refused.nominate or "")
        self.apply_actions(action for action in refused.actions if not isinstance(action, Evict))

    def _preempt(self, refused: Refused, evictions: list[Evict], node: str) -> None:
        left = {each.uid for each in evictions}

        def ended(uid: str) -> None:
            left.discard(uid)
            if not left:
                self._engine.evictions_sent(refused, self._context.clock())
                self._context.stir()

        for eviction in evictions:
            held = self._engine.reject(eviction.uid, "DefaultPreemption", "preempted", self._context.clock())
            if held is not None:  # it was not bound yet, so no pod has to be deleted
                self.apply(held, self._context.clock(), 0.0)
                ended(eviction.uid)
            else:
                self._dispatcher.submit(_EvictionCall(self, eviction, refused.pod.info, node, ended))

    def _fail(self, info: PodInfo, error: str, seconds: float, cause: Exception | None = None) -> None:
        self._context.notifier.report_failed(info, error, seconds, cause)
        claim = ConditionChange(POD_SCHEDULED, "False", SCHEDULER_ERROR, error)
        self._dispatcher.submit(_StatusCall(self, info.key, info.uid, StatusChange(claim, nominate="")))

    # The work of calls

    async def bind(self, placed: Placed, began: float, steps: Binding | None) -> None:
        """Run a binding cycle, or the rest of one: `steps` are known after PreBind."""
        info = placed.pod.info
        if steps is None:
            self._context.times.begin()
            try:
                steps = self._engine.binding(placed)
            except PluginFailed as error:
                self.report_not_bound(placed, NotBound(str(error)), began)
                return
            finally:
                self._context.times.end()
            if steps.expected:  # may take minutes, as creating a volume does: no other call waits for it
                await self.action_writer.write_status(info.key, info.uid, StatusChange(nominate=placed.node))
                assert self._group is not None
                self._group.create_task(run_within_term(self._prepare(placed, began, steps)))
                return
        failed = await self._perform_for_point("Bind", info, steps.bind)
        if failed is not None:
            self.report_not_bound(placed, failed, began)
            return
        self._engine.binding_succeeded(placed)
        self._context.notifier.report_scheduled(placed, began)
        for action in steps.after:
            problem = await self._perform_for_point("PostBind", info, (action,))
            if problem is not None:
                self._log.warning("PostBind action failed", pod=str(info), error=problem.why)

    async def _perform_for_point(self, point: str, info: PodInfo, actions: tuple[Action, ...]) -> NotBound | None:
        """Perform the actions that the plugins of an extension point returned."""
        began = self._context.clock()
        failed = await self.action_writer.perform_all(actions)
        status = (Code.SUCCESS if failed is None else Code.ERROR).title
        profile = info.pod.spec.scheduler_name
        self._context.notifier.metrics.record_extension_point(point, status, profile, self._context.clock() - began)
        return failed

    def report_not_bound(self, placed: Placed, problem: NotBound, began: float) -> None:
        """Report that the pod is certainly not on the node."""
        now = self._context.clock()
        info = placed.pod.info
        self._engine.binding_failed(placed, now)
        if not problem.gone:
            self._fail(info, f"binding rejected: {problem.why}", now - began)
        self._requeue_pod(info)
        self._context.stir()

    async def _perform_requested(self, action: Action) -> None:
        """Perform an action that a plugin requested apart from any placement."""
        problem = await self.action_writer.perform_action(action)
        if problem is not None:
            self._log.warning("action requested by a plugin failed", error=problem.why)

    async def evict(self, eviction: Evict, preemptor: PodInfo, node: str) -> None:
        """Evict a victim to free capacity for the preemptor."""
        victim = self._context.pods.store.get(eviction.pod[1], eviction.pod[0])
        if victim is not None and await self.action_writer.perform_action(eviction) is None:
            self._context.notifier.report_preempted(victim, preemptor, node)

    async def _prepare(self, placed: Placed, began: float, steps: Binding) -> None:
        failed = await self._perform_for_point("PreBind", placed.pod.info, steps.before)
        if failed is not None:
            self.report_not_bound(placed, failed, began)
        else:
            self._submit(_BindCall(self, placed, began, steps))


@dataclass(frozen=True, slots=True, eq=False)
class _BindCall:
    """A binding cycle."""

    applier: LiveApplier
    placed: Placed
    began: float
    steps: Binding | None = None

    @property
    def uid(self) -> str:
        return self.placed.pod.info.uid

    @property
    def relevance(self) -> Relevance:
        return Relevance.BINDING

    async def send(self) -> None:
        await self.applier.bind(self.placed, self.began, self.steps)
        self.applier.unsent.discard(self.uid)

    def report_drop(self) -> None:
        self.applier.unsent.discard(self.uid)
        self.applier.report_not_bound(self.placed, NotBound("the pod is about to be evicted", gone=True), self.began)

    def merge_with(self, earlier: _BindCall) -> _BindCall:
        raise BrokenInvariant(f"pod {self.placed.pod.info} is already being bound to node {earlier.placed.node}")


@dataclass(frozen=True, slots=True, eq=False)
class _StatusCall:
    """A change of a pod's status."""

    applier: LiveApplier
    pod: PodKey
    uid: str
    change: StatusChange
    relevance: Relevance = Relevance.STATUS

    async def send(self) -> None:
        await self.applier.action_writer.write_status(self.pod, self.uid, self.change)

    def report_drop(self) -> None:
        """Do nothing: the call that replaces it writes more."""

    def merge_with(self, earlier: _StatusCall) -> _StatusCall:
        return replace(self, change=self.change.combine_with(earlier.change))


@dataclass(frozen=True, slots=True, eq=False)
class _EvictionCall:
    """The eviction of a victim."""

    applier: LiveApplier
    eviction: Evict
    preemptor: PodInfo
    node: str
    on_end: Callable[[str], None]
    relevance: Relevance = Relevance.EVICTION

    @property
    def uid(self) -> str:
        return self.eviction.uid

    async def send(self) -> None:
        await self.applier.evict(self.eviction, self.preemptor, self.node)
        self.on_end(self.uid)

    def report_drop(self) -> None:
        self.on_end(self.uid)

    def merge_with(self, earlier: _EvictionCall) -> _EvictionCall:
        earlier.report_drop()
        return self

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
from situate.scheduler.controller.action_writer import Acting, Means
from situate.scheduler.controller.api_dispatcher import Dispatcher, Relevance, until_the_term_ends
from situate.scheduler.controller.bind import NotBound
from situate.scheduler.controller.pod_conditions import (
    POD_SCHEDULED,
    SCHEDULER_ERROR,
    UNSCHEDULABLE,
    Claim,
    StatusChange,
)

_AHEAD: Final = 2
"""Decisions may be ahead of sent calls by this factor of the calls in flight."""


class Performer(Protocol):
    """Applies decisions. One for each term."""

    @property
    def room(self) -> int:
        """Number of placements it accepts now; it stirs the loop when it accepts more."""
        ...

    def perform(self, decision: Decision | PlacedRun, began: float, seconds: float) -> None:
        """Accept a decision, without waiting. `began` is the start of its cycle; `seconds` is the cycle's duration."""
        ...

    def ask_for(self, actions: Iterable[Action]) -> None:
        """Perform actions that plugins request apart from any placement."""
        ...

    async def run(self) -> None:
        """Perform the accepted decisions until cancelled."""
        ...


class LivePerformer:
    """Binds, preempts, and writes the outcome on the pods."""

    def __init__(self, means: Means) -> None:
        self._means = means
        self._engine = means.engine
        self.acting = Acting(means)
        self._dispatcher = Dispatcher(means.in_flight, self._sent)
        self._group: asyncio.TaskGroup | None = None
        self.unsent: set[str] = set()
        """Uids of pods whose binding waits for its turn or its answer; bindings with slow preparation do not count."""
        self._held: dict[str, float] = {}
        """By uid: since when a plugin's Permit has held a pod."""
        self._log = structlog.get_logger()

    @property
    def room(self) -> int:
        busy = len(self.unsent)
        if not self._means.actuator.allowed():
            return 0  # another process may lead by now, so decisions made here could not be written
        return _AHEAD * self._means.in_flight - busy if busy <= self._means.in_flight else 0

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            self._group = group
            await self._dispatcher.run()

    def perform(self, decision: Decision | PlacedRun, began: float, seconds: float) -> None:
        match decision:
            case PlacedRun():
                for placed in decision:
                    self._submit(_Bind(self, placed, began))
            case Placed():
                self._submit(_Bind(self, decision, began))
            case Refused():
                self._refuse(decision, seconds)
            case Failed():
                self._fail(decision.pod.info, decision.error, seconds, decision.cause)
            case Waiting():
                # the engine returns it again when its permits are granted or have timed out
                info = decision.pod.info
                self._held[info.uid] = self._means.clock()
                self._dispatcher.submit(_Status(self, info.key, info.uid, StatusChange(nominate=decision.node)))
            case _:
                assert_never(decision)
        if self._held and not isinstance(decision, PlacedRun | Waiting):
            self._released(decision)

    def _released(self, decision: Placed | Refused | Failed) -> None:
        info = decision.pod.info
        since = self._held.pop(info.uid, None)
        if since is not None:
            result = "Success" if isinstance(decision, Placed) else "Unschedulable"
            self._means.reporter.metrics.permit_ended(result, self._means.clock() - since)
            if not isinstance(decision, Placed):
                self._waits_again(info)

    def _waits_again(self, info: PodInfo) -> None:
        """Feed the current state of a pod that lost its node to the engine, and drop the nomination in its status."""
        self._means.intake.again(info.namespace, info.name, info.uid)
        self._engine.nominations.remove(info.uid)

    def ask_for(self, actions: Iterable[Action]) -> None:
        for action in actions:
            if isinstance(action, Nominate):
                change = StatusChange(nominate=action.node)
                self._dispatcher.submit(_Status(self, action.pod, action.uid, change))
            else:
                assert self._group is not None
                self._group.create_task(until_the_term_ends(self._wish(action)))

    def _submit(self, bind: _Bind) -> None:
        self.unsent.add(bind.uid)
        self._dispatcher.submit(bind)

    def _sent(self) -> None:
        if len(self.unsent) <= self._means.in_flight:
            self._means.stir()

    def _refuse(self, refused: Refused, seconds: float) -> None:
        message = self._means.reporter.refused(refused, seconds)
        info = refused.pod.info
        claim = Claim(POD_SCHEDULED, "False", UNSCHEDULABLE, message)
        self._dispatcher.submit(_Status(self, info.key, info.uid, StatusChange(claim, refused.nominate)))
        evictions = [action for action in refused.actions if isinstance(action, Evict)]
        if evictions:
            self._means.reporter.metrics.preempted(len(evictions))
            self._preempt(refused, evictions, refused.nominate or "")
        self.ask_for(action for action in refused.actions if not isinstance(action, Evict))

    def _preempt(self, refused: Refused, evictions: list[Evict], node: str) -> None:
        left = {each.uid for each in evictions}

        def ended(uid: str) -> None:
            left.discard(uid)
            if not left:
                self._engine.evictions_sent(refused, self._means.clock())
                self._means.stir()

        for eviction in evictions:
            held = self._engine.reject(eviction.uid, "DefaultPreemption", "preempted", self._means.clock())
            if held is not None:  # it was not bound yet, so no pod has to be deleted
                self.perform(held, self._means.clock(), 0.0)
                ended(eviction.uid)
            else:
                self._dispatcher.submit(_Eviction(self, eviction, refused.pod.info, node, ended))

    def _fail(self, info: PodInfo, error: str, seconds: float, cause: Exception | None = None) -> None:
        self._means.reporter.failed(info, error, seconds, cause)
        claim = Claim(POD_SCHEDULED, "False", SCHEDULER_ERROR, error)
        self._dispatcher.submit(_Status(self, info.key, info.uid, StatusChange(claim, nominate="")))

    # The work of calls

    async def bind(self, placed: Placed, began: float, steps: Binding | None) -> None:
        """Run a binding cycle, or the rest of one: `steps` are known after PreBind."""
        info = placed.pod.info
        if steps is None:
            self._means.times.begin()
            try:
                steps = self._engine.binding(placed)
            except PluginFailed as error:
                self.not_bound(placed, NotBound(str(error)), began)
                return
            finally:
                self._means.times.end()
            if steps.expected:  # may take minutes, as creating a volume does: no other call waits for it
                await self.acting.write_status(info.key, info.uid, StatusChange(nominate=placed.node))
                assert self._group is not None
                self._group.create_task(until_the_term_ends(self._prepare(placed, began, steps)))
                return
        failed = await self._do("Bind", info, steps.bind)
        if failed is not None:
            self.not_bound(placed, failed, began)
            return
        self._engine.bound(placed)
        self._means.reporter.scheduled(placed, began)
        for action in steps.after:
            problem = await self._do("PostBind", info, (action,))
            if problem is not None:
                self._log.warning("PostBind action failed", pod=str(info), error=problem.why)

    async def _do(self, point: str, info: PodInfo, actions: tuple[Action, ...]) -> NotBound | None:
        """Perform the actions that the plugins of an extension point returned."""
        began = self._means.clock()
        failed = await self.acting.do_all(actions)
        status = (Code.SUCCESS if failed is None else Code.ERROR).title
        profile = info.pod.spec.scheduler_name
        self._means.reporter.metrics.extension_point(point, status, profile, self._means.clock() - began)
        return failed

    def not_bound(self, placed: Placed, problem: NotBound, began: float) -> None:
        """Report that the pod is certainly not on the node."""
        now = self._means.clock()
        info = placed.pod.info
        self._engine.binding_failed(placed, now)
        if not problem.gone:
            self._fail(info, f"binding rejected: {problem.why}", now - began)
        self._waits_again(info)
        self._means.stir()

    async def _wish(self, action: Action) -> None:
        """Perform an action that a plugin requested apart from any placement."""
        problem = await self.acting.do(action)
        if problem is not None:
            self._log.warning("action requested by a plugin failed", error=problem.why)

    async def end(self, eviction: Evict, preemptor: PodInfo, node: str) -> None:
        """Evict a victim to free capacity for the preemptor."""
        victim = self._means.pods.store.get(eviction.pod[1], eviction.pod[0])
        if victim is not None and await self.acting.do(eviction) is None:
            self._means.reporter.preempted(victim, preemptor, node)

    async def _prepare(self, placed: Placed, began: float, steps: Binding) -> None:
        failed = await self._do("PreBind", placed.pod.info, steps.before)
        if failed is not None:
            self.not_bound(placed, failed, began)
        else:
            self._submit(_Bind(self, placed, began, steps))


@dataclass(frozen=True, slots=True, eq=False)
class _Bind:
    """A binding cycle."""

    performer: LivePerformer
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
        await self.performer.bind(self.placed, self.began, self.steps)
        self.performer.unsent.discard(self.uid)

    def dropped(self) -> None:
        self.performer.unsent.discard(self.uid)
        self.performer.not_bound(self.placed, NotBound("the pod is about to be evicted", gone=True), self.began)

    def merged(self, earlier: _Bind) -> _Bind:
        raise BrokenInvariant(f"pod {self.placed.pod.info} is already being bound to node {earlier.placed.node}")


@dataclass(frozen=True, slots=True, eq=False)
class _Status:
    """A change of a pod's status."""

    performer: LivePerformer
    pod: PodKey
    uid: str
    change: StatusChange
    relevance: Relevance = Relevance.STATUS

    async def send(self) -> None:
        await self.performer.acting.write_status(self.pod, self.uid, self.change)

    def dropped(self) -> None:
        """Do nothing: the call that replaces it writes more."""

    def merged(self, earlier: _Status) -> _Status:
        return replace(self, change=self.change.after(earlier.change))


@dataclass(frozen=True, slots=True, eq=False)
class _Eviction:
    """The eviction of a victim."""

    performer: LivePerformer
    eviction: Evict
    preemptor: PodInfo
    node: str
    ended: Callable[[str], None]
    relevance: Relevance = Relevance.EVICTION

    @property
    def uid(self) -> str:
        return self.eviction.uid

    async def send(self) -> None:
        await self.performer.end(self.eviction, self.preemptor, self.node)
        self.ended(self.uid)

    def dropped(self) -> None:
        self.ended(self.uid)

    def merged(self, earlier: _Eviction) -> _Eviction:
        earlier.dropped()
        return self

"""One attempt at one action: read the pod live, write once, and determine the outcome.

A write is sent only while this process leads. The pod is read by name and must have the uid that was decided on. A move
that only policy requires must still be allowed by the current state of its workload. A refusal or a missing pod ends
the attempt. If no answer comes, the pod is read again to determine the outcome. Rule: P17.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, assert_never

from situate.kube.client import Client
from situate.kube.errors import Conflict, KubeError, NotFound, TooManyRequests, Unreachable, UnreadableAnswer
from situate.kube.patches import JsonPatch, MergePatch
from situate.objects.kinds.pods import Pod
from situate.objects.resources import PODS
from situate.runtime.leadership.actuator import Actuator
from situate.runtime.reconcile.outcomes import Retriable
from situate.spot.controller.act.live_recheck import LiveRecheck
from situate.spot.model.actions import (
    POLICY_REASONS,
    Action,
    Delete,
    Evict,
    Move,
    Reason,
    Release,
    SetCost,
    ShortenTolerations,
)
from situate.spot.model.pods_nodes_workloads import PodFacts
from situate.spot.rebalance.decide import ClusterView, Decision
from situate.spot.rebalance.preconditions import move_refusal, obsolete_reason, toleration_patch
from situate.spot.rebalance.rollout_wait import is_wait_overdue
from situate.spot.workloads.cluster_objects import NO_MEMORY, Cluster
from situate.spot.workloads.owners import pod_facts

_MOST_READS: Final = 3
"""Reads of a pod if no answer came, or if the pod changed between read and write."""
_READ_AGAIN_S: Final = 1.0


class AttemptOutcome(StrEnum):
    """Outcome of an attempt; a label value of metrics."""

    DONE = "done"
    VOID = "void"
    """The action is no longer needed."""
    BARRED = "barred"
    """The current state of the workload does not allow it."""
    REFUSED = "refused"
    """By a disruption budget, or because the object has changed."""
    FAILED = "failed"
    """The action was not executed; an operator may have to act."""
    UNKNOWN = "unknown"
    """No answer came and the pod is unchanged: the action may still be executed."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """An action and its outcome."""

    action: Action
    outcome: AttemptOutcome
    why: str = ""


@dataclass(frozen=True, slots=True)
class DepartureCallbacks:
    """Callbacks that report leaving pods to admission."""

    on_leaving: Callable[[PodFacts, str], None]
    """The pod is about to leave the workload with this uid, so it no longer counts."""
    on_staying: Callable[[PodFacts, str], None]
    """The pod stays in the workload after all."""


class ActionExecutor:
    """Attempts of one term; many calls of `attempt` may run at once."""

    def __init__(
        self,
        client: Client,
        actuator: Actuator,
        again: LiveRecheck,
        departures: DepartureCallbacks,
        cluster: Cluster,
        *,
        wall: Callable[[], float],
    ) -> None:
        """`client`: its writes raise a `Retriable` if this process does not lead.

        `cluster`: the live one, updated by the watches; `wall`: seconds since the epoch.
        """
        self._client = client
        self._actuator = actuator
        self._recheck = again
        self._departures = departures
        self._cluster = cluster
        self._wall = wall

    async def attempt(self, action: Action, decision: Decision, situation: ClusterView) -> Attempt:
        """Try the action. If a pod that must have no node changed between read and write, read it again."""
        attempt = await self._attempt_once(action, decision, situation)
        for _ in range(_MOST_READS - 1):
            if not (attempt.outcome is AttemptOutcome.REFUSED and _requires_no_node(action)):
                break
            attempt = await self._attempt_once(action, decision, situation)
        return attempt

    async def _attempt_once(self, action: Action, decision: Decision, situation: ClusterView) -> Attempt:
        try:
            pod = await self._recheck.read_pod(*action.pod)
            if pod is None:
                return Attempt(action, AttemptOutcome.VOID, "the pod is gone")
            facts = pod_facts(pod)
            why = obsolete_reason(action, facts, self._cluster.nodes)
            if why:
                return Attempt(action, AttemptOutcome.VOID, why)
            if isinstance(action, Move):
                why = await self._move_refusal(action, decision, situation)
                if why:
                    return Attempt(action, AttemptOutcome.BARRED, why)
                return await self._execute_move(action, pod, facts)
            return await self._execute_mark(action, pod)
        except (KubeError, Retriable) as problem:
            return Attempt(action, AttemptOutcome.FAILED, str(problem))

    async def _move_refusal(self, action: Move, decision: Decision, situation: ClusterView) -> str:
        if action.reason not in POLICY_REASONS and action.reason is not Reason.MAKE_ROOM:
            return ""
        owner = situation.cluster.owners[action.owner]
        memory = decision.state.memories.get(action.owner, NO_MEMORY)
        seen = await self._recheck.read_workload(owner, situation.rules, memory)
        if seen is None:
            return "the workload is gone"
        if not seen.participates:
            return "spot no longer manages the workload"
        now = self._wall()  # the current time, because the API server may have been slow
        return move_refusal(
            action,
            seen.workload,
            seen.nodes,
            now,
            situation.limits,
            wave=decision.wave,
            overdue=is_wait_overdue(seen.workload.owner, memory, now),
            disruptions_allowed=situation.constraints.disruptions_allowed(seen.workload.live_pods),
            leaders=situation.constraints.leaders,
        )

    async def _execute_move(self, action: Move, pod: Pod, facts: PodFacts) -> Attempt:
        """Report the pod as leaving before the request, because admission of its replacement may come before the
        answer."""
        self._departures.on_leaving(facts, action.owner)
        attempt = await self._send(action, self._build_request(action, pod))
        if attempt.outcome in (AttemptOutcome.REFUSED, AttemptOutcome.FAILED):
            self._departures.on_staying(facts, action.owner)
        return attempt

    async def _execute_mark(self, action: SetCost | ShortenTolerations, pod: Pod) -> Attempt:
        return await self._send(action, self._build_request(action, pod))

    def _build_request(self, action: Action, pod: Pod) -> Coroutine[Any, Any, object]:
        namespace, name = action.pod
        match action:
            case Evict():
                return self._client.evict(pod)
            case Delete():
                # a waiting pod may get a node at this moment, and then must not be deleted
                version = pod.metadata.resource_version if _requires_no_node(action) else ""
                return self._client.delete(PODS, name, namespace, uid=action.uid, resource_version=version)
            case Release() | SetCost():
                return self._client.patch(PODS, name, MergePatch(action.patch), namespace)
            case ShortenTolerations():
                return self._client.patch(PODS, name, JsonPatch(toleration_patch(pod, action)), namespace)
            case _:
                assert_never(action)

    async def _send(self, action: Action, request: Coroutine[Any, Any, object]) -> Attempt:
        try:
            await self._actuator.write(request)
        except NotFound:
            return Attempt(action, AttemptOutcome.VOID, "the pod is gone")
        except (Conflict, TooManyRequests) as problem:
            return Attempt(action, AttemptOutcome.REFUSED, str(problem))
        except Retriable as problem:
            return Attempt(action, AttemptOutcome.FAILED, str(problem))
        except UnreadableAnswer:
            return Attempt(action, AttemptOutcome.DONE)  # the server answered with success
        except KubeError as problem:
            if not problem.retriable or (isinstance(problem, Unreachable) and not problem.outcome_unknown):
                return Attempt(action, AttemptOutcome.FAILED, str(problem))
            return await self._determine_outcome(action, problem)
        return Attempt(action, AttemptOutcome.DONE)

    async def _determine_outcome(self, action: Action, problem: KubeError) -> Attempt:
        """Determine from the pod's state whether a write without a usable answer was executed."""
        for number in range(_MOST_READS):
            try:
                pod = await self._recheck.read_pod(*action.pod)
            except KubeError as again:
                problem = again
                if number + 1 < _MOST_READS:
                    await asyncio.sleep(_READ_AGAIN_S)
                continue
            outcome = AttemptOutcome.DONE if pod is None or _is_done(action, pod) else AttemptOutcome.UNKNOWN
            return Attempt(action, outcome, str(problem))
        return Attempt(action, AttemptOutcome.UNKNOWN, str(problem))


def _is_done(action: Action, pod: Pod) -> bool:
    """Return whether the pod has the state that the action produces."""
    facts = pod_facts(pod)
    if facts.uid != action.uid or facts.terminating:
        return True
    match action:
        case Release():
            return facts.released
        case SetCost():
            return facts.cost == action.cost
        case ShortenTolerations():
            return len(toleration_patch(pod, action)) == 1
        case _:
            return False


def _requires_no_node(action: Action) -> bool:
    """Return whether the pod may be deleted only while it has no node."""
    return isinstance(action, Delete) and action.reason in (Reason.SURGE, Reason.DEGRADE)

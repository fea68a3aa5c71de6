"""Performs the actions of decisions one after the other, so that the outcome of each is certain.

Writes that are safe to repeat are retried; `situate.scheduler.controller.bind` handles bindings.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Protocol, assert_never

import structlog

from situate.framework.engine.engine import Engine
from situate.framework.plugin_api.actions import Action, AwaitVolumes, Bind, BindByExtender, Evict, Nominate, Patch
from situate.framework.pod.pods import PodKey
from situate.framework.preemption.extenders import ExtenderQuestion, ExtenderReply
from situate.kube.client import Client
from situate.kube.errors import Conflict, Invalid, KubeError, NotFound
from situate.kube.patches import MergePatch, StrategicMergePatch
from situate.kube.retry.backoff import Backoff
from situate.kube.watch.reflector import Reflector
from situate.objects.kinds.pods import Pod
from situate.objects.resources import PODS
from situate.plugins.volume_binding_progress import TIMED_OUT, Wait, progress
from situate.runtime.leadership.actuator import Actuator
from situate.scheduler.controller.bind import Binder, NotBound
from situate.scheduler.controller.engine_feed import EngineFeed
from situate.scheduler.controller.notify import Notifier
from situate.scheduler.controller.pod_conditions import DISRUPTION_TARGET, ConditionChange, StatusChange, status_patch
from situate.scheduler.extenders.client import BindingFailed
from situate.scheduler.metrics.plugin_timing import PluginTimes

_ATTEMPTS: Final = 5
"""Attempts of a write that may fail for a moment."""
_RETRY: Final = Backoff(initial_s=0.2, cap_s=5.0)
_POLL_INTERVAL_S: Final = 0.5
"""Time between two checks whether volumes have been created."""


class ExtenderClient(Protocol):
    """Calls extenders."""

    async def ask(self, questions: Sequence[ExtenderQuestion]) -> Sequence[ExtenderReply]:
        """Return one reply for each question, in order."""
        ...

    async def bind(self, action: BindByExtender) -> None:
        """Let the extender bind a pod; `BindingFailed` unless it reports success."""
        ...


@dataclass(frozen=True, slots=True)
class TermContext:
    """The parts that a performer needs, in one term."""

    engine: Engine
    engine_feed: EngineFeed
    notifier: Notifier
    client: Client
    actuator: Actuator
    pods: Reflector[Pod]
    patchable: Mapping[str, Reflector[Any]]
    """By plural: the resources that plugins may patch, which are those watched."""
    extender_client: ExtenderClient
    times: PluginTimes
    in_flight: int
    stir: Callable[[], None]
    clock: Callable[[], float]
    wall: Callable[[], datetime]
    rng: random.Random


class ActionWriter:
    """Performs actions in one term. Raises only if this process no longer leads."""

    def __init__(self, means: TermContext) -> None:
        self._context = means
        self._engine = means.engine
        self._binder = Binder(means.client, means.actuator, means.pods, wall=means.wall, rng=means.rng)
        self._log = structlog.get_logger()

    async def perform_all(self, actions: Iterable[Action]) -> NotBound | None:
        """Perform actions until one fails; return the failure, None if all are done."""
        for action in actions:
            problem = await self.perform_action(action)
            if problem is not None:
                return problem
        return None

    async def perform_action(self, action: Action) -> NotBound | None:
        """Perform one action; return None if it is done."""
        match action:
            case Bind():
                return await self._binder.bind(action)
            case Evict():
                done = await self._evict(action)
            case Nominate(pod, uid, node):
                done = await self.write_status(pod, uid, StatusChange(nominate=node))
            case BindByExtender():
                return await self._bind_by_extender(action)
            case Patch():
                return await self._patch(action)
            case AwaitVolumes():
                return await self._await_volumes(action)
            case _:
                assert_never(action)
        return None if done else NotBound(f"{type(action).__name__} failed")

    async def _evict(self, eviction: Evict) -> bool:
        """Write the reason on the victim and delete it; return whether both succeeded."""
        namespace, name = eviction.pod
        claim = ConditionChange(DISRUPTION_TARGET, "True", eviction.reason, eviction.message)
        if not await self.write_status(eviction.pod, eviction.uid, StatusChange(claim)):
            return False
        delete = self._context.client.delete
        return await self._write_with_retries(
            lambda: delete(PODS, name, namespace, uid=eviction.uid), f"{namespace}/{name}"
        )

    async def write_status(self, pod: PodKey, uid: str, change: StatusChange) -> bool:
        """Write a change of a pod's status; return whether the pod has it now."""
        namespace, name = pod
        known = self._context.pods.store.get(name, namespace)
        if known is None or known.metadata.uid != uid or (known.spec.node_name and not _applies_to_victim(change)):
            return False
        patch = status_patch(known, change, self._context.wall())
        if patch is None:
            return True
        body = StrategicMergePatch(patch)

        async def write() -> None:
            # learned at once: the next write about the pod depends on its current state
            self._context.pods.learn(await self._context.client.patch_status(PODS, name, body, namespace))

        return await self._write_with_retries(write, f"{namespace}/{name}")

    async def _patch(self, patch: Patch) -> NotBound | None:
        resource = self._context.patchable.get(patch.resource)
        if resource is None:
            known = ", ".join(sorted(self._context.patchable))
            return NotBound(f"a plugin cannot patch {patch.resource}, allowed: {known}")
        namespace, name = patch.name
        write = self._context.client.patch
        body, subresource = MergePatch(patch.body), patch.subresource or None
        try:
            seen = await self._context.actuator.write(
                write(resource.scope.resource, name, body, namespace or None, subresource)
            )
        except KubeError as problem:
            return NotBound(str(problem))
        resource.learn(seen)
        return None

    async def _await_volumes(self, awaited: AwaitVolumes) -> NotBound | None:
        """Poll, as upstream does, until storage is ready or cannot become ready."""
        end = self._context.clock() + awaited.timeout_s
        while True:
            self._context.engine_feed.hand_over_catalog()
            found = progress(awaited, self._engine.snapshot)
            if found is Wait.READY:
                return None
            if found is not Wait.NOT_YET:
                return NotBound(found)
            if self._context.clock() >= end:
                return NotBound(TIMED_OUT)
            await asyncio.sleep(_POLL_INTERVAL_S)

    async def _bind_by_extender(self, action: BindByExtender) -> NotBound | None:
        try:
            await self._context.actuator.write(self._context.extender_client.bind(action))
        except BindingFailed as failed:
            problem: NotBound | None = NotBound(str(failed))
            if failed.outcome_unknown:
                problem = await self._binder.settle(Bind(action.pod, action.uid, action.node), str(failed))
            if problem is None or problem.gone or not action.otherwise:
                return problem
            return await self.perform_all(action.otherwise)
        return None

    async def _write_with_retries(self, write: Callable[[], Coroutine[Any, Any, object]], what: str) -> bool:
        """Try a write that is safe to repeat a few times; return whether it was accepted."""
        for failures in range(1, _ATTEMPTS + 1):
            try:
                await self._context.actuator.write(write())
                return True
            except (Conflict, Invalid, NotFound):
                return False  # the name belongs to another pod, or to none
            except KubeError as problem:
                if not problem.retriable or failures == _ATTEMPTS:
                    self._log.warning("write to a pod failed, no retry follows", pod=what, error=str(problem))
                    return False
                await asyncio.sleep(max(_RETRY.delay_s(failures, self._context.rng), problem.after_s or 0.0))
        return False


def _applies_to_victim(change: StatusChange) -> bool:
    """Whether the change may apply to a pod that has a node."""
    return change.condition is not None and change.condition.type == DISRUPTION_TARGET

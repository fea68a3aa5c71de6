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
from situate.framework.preemption.extenders import Question, Reply
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
from situate.scheduler.controller.engine_feed import Intake
from situate.scheduler.controller.notify import Reporter
from situate.scheduler.controller.pod_conditions import DISRUPTION_TARGET, Claim, StatusChange, status_patch
from situate.scheduler.extenders.client import BindingFailed
from situate.scheduler.metrics.plugin_timing import PluginTimes

_ATTEMPTS: Final = 5
"""Attempts of a write that may fail for a moment."""
_RETRY: Final = Backoff(initial_s=0.2, cap_s=5.0)
_LOOK_AGAIN_S: Final = 0.5
"""Time between two checks whether volumes have been created."""


class Extending(Protocol):
    """Calls extenders."""

    async def ask(self, questions: Sequence[Question]) -> Sequence[Reply]:
        """Return one reply for each question, in order."""
        ...

    async def bind(self, action: BindByExtender) -> None:
        """Let the extender bind a pod; `BindingFailed` unless it reports success."""
        ...


@dataclass(frozen=True, slots=True)
class Means:
    """The parts that a performer needs, in one term."""

    engine: Engine
    intake: Intake
    reporter: Reporter
    client: Client
    actuator: Actuator
    pods: Reflector[Pod]
    patchable: Mapping[str, Reflector[Any]]
    """By plural: the resources that plugins may patch, which are those watched."""
    extending: Extending
    times: PluginTimes
    in_flight: int
    stir: Callable[[], None]
    clock: Callable[[], float]
    wall: Callable[[], datetime]
    rng: random.Random


class Acting:
    """Performs actions in one term. Raises only if this process no longer leads."""

    def __init__(self, means: Means) -> None:
        self._means = means
        self._engine = means.engine
        self._binder = Binder(means.client, means.actuator, means.pods, wall=means.wall, rng=means.rng)
        self._log = structlog.get_logger()

    async def do_all(self, actions: Iterable[Action]) -> NotBound | None:
        """Perform actions until one fails; return the failure, None if all are done."""
        for action in actions:
            problem = await self.do(action)
            if problem is not None:
                return problem
        return None

    async def do(self, action: Action) -> NotBound | None:
        """Perform one action; return None if it is done."""
        match action:
            case Bind():
                return await self._binder.bind(action)
            case Evict():
                done = await self._end(action)
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

    async def _end(self, eviction: Evict) -> bool:
        """Write the reason on the victim and delete it; return whether both succeeded."""
        namespace, name = eviction.pod
        claim = Claim(DISRUPTION_TARGET, "True", eviction.reason, eviction.message)
        if not await self.write_status(eviction.pod, eviction.uid, StatusChange(claim)):
            return False
        delete = self._means.client.delete
        return await self._persistently(lambda: delete(PODS, name, namespace, uid=eviction.uid), f"{namespace}/{name}")

    async def write_status(self, pod: PodKey, uid: str, change: StatusChange) -> bool:
        """Write a change of a pod's status; return whether the pod has it now."""
        namespace, name = pod
        known = self._means.pods.store.get(name, namespace)
        if known is None or known.metadata.uid != uid or (known.spec.node_name and not _about_victim(change)):
            return False
        patch = status_patch(known, change, self._means.wall())
        if patch is None:
            return True
        body = StrategicMergePatch(patch)

        async def write() -> None:
            # learned at once: the next write about the pod depends on its current state
            self._means.pods.learn(await self._means.client.patch_status(PODS, name, body, namespace))

        return await self._persistently(write, f"{namespace}/{name}")

    async def _patch(self, patch: Patch) -> NotBound | None:
        resource = self._means.patchable.get(patch.resource)
        if resource is None:
            known = ", ".join(sorted(self._means.patchable))
            return NotBound(f"a plugin cannot patch {patch.resource}, allowed: {known}")
        namespace, name = patch.name
        write = self._means.client.patch
        body, subresource = MergePatch(patch.body), patch.subresource or None
        try:
            seen = await self._means.actuator.write(
                write(resource.scope.resource, name, body, namespace or None, subresource)
            )
        except KubeError as problem:
            return NotBound(str(problem))
        resource.learn(seen)
        return None

    async def _await_volumes(self, awaited: AwaitVolumes) -> NotBound | None:
        """Poll, as upstream does, until storage is ready or cannot become ready."""
        end = self._means.clock() + awaited.timeout_s
        while True:
            self._means.intake.hand_over_catalog()
            found = progress(awaited, self._engine.snapshot)
            if found is Wait.READY:
                return None
            if found is not Wait.NOT_YET:
                return NotBound(found)
            if self._means.clock() >= end:
                return NotBound(TIMED_OUT)
            await asyncio.sleep(_LOOK_AGAIN_S)

    async def _bind_by_extender(self, action: BindByExtender) -> NotBound | None:
        try:
            await self._means.actuator.write(self._means.extending.bind(action))
        except BindingFailed as failed:
            problem: NotBound | None = NotBound(str(failed))
            if failed.outcome_unknown:
                problem = await self._binder.settle(Bind(action.pod, action.uid, action.node), str(failed))
            if problem is None or problem.gone or not action.otherwise:
                return problem
            return await self.do_all(action.otherwise)
        return None

    async def _persistently(self, write: Callable[[], Coroutine[Any, Any, object]], what: str) -> bool:
        """Try a write that is safe to repeat a few times; return whether it was accepted."""
        for failures in range(1, _ATTEMPTS + 1):
            try:
                await self._means.actuator.write(write())
                return True
            except (Conflict, Invalid, NotFound):
                return False  # the name belongs to another pod, or to none
            except KubeError as problem:
                if not problem.retriable or failures == _ATTEMPTS:
                    self._log.warning("write to a pod failed, no retry follows", pod=what, error=str(problem))
                    return False
                await asyncio.sleep(max(_RETRY.delay_s(failures, self._means.rng), problem.after_s or 0.0))
        return False


def _about_victim(change: StatusChange) -> bool:
    """Whether the change may apply to a pod that has a node."""
    return change.claim is not None and change.claim.type == DISRUPTION_TARGET

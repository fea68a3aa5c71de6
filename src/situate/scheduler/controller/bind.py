"""Binds pods so that the outcome becomes certain, even if requests or answers are lost.

A binding names the uid and the resourceVersion of the pod in the decision. If its answer is lost, the pod is read. If
the pod is still unbound, a write to its status changes its resourceVersion. From then on the API server refuses the
lost request, however late it arrives. Only then is the pod's capacity given to other pods.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import structlog

from situate.framework.plugin_api.actions import Bind
from situate.kube.client import Client
from situate.kube.errors import (
    ApiError,
    Conflict,
    InternalError,
    KubeError,
    NotFound,
    ServerTimeout,
    ServiceUnavailable,
    Unreachable,
)
from situate.kube.patches import StrategicMergePatch
from situate.kube.retry.backoff import Backoff
from situate.kube.watch.reflector import Reflector
from situate.objects.kinds.pods import Pod
from situate.objects.resources import PODS
from situate.runtime.leadership.actuator import Actuator
from situate.scheduler.controller.pod_conditions import (
    POD_SCHEDULED,
    SCHEDULER_ERROR,
    ConditionChange,
    StatusChange,
    status_patch,
)

_ATTEMPTS: Final = 5
"""Attempts for one decision when the pod keeps changing, before a new decision."""
_READ_RETRY: Final = Backoff(initial_s=0.2, cap_s=5.0)
_UNCERTAIN_ERRORS: Final = (InternalError, ServerTimeout, ServiceUnavailable)
"""Refusals after which the request may have been carried out, or may still be."""


@dataclass(frozen=True, slots=True)
class NotBound:
    """The pod is not on the node, and no request of this attempt will bind it there."""

    why: str
    gone: bool = False
    """Whether the pod no longer exists or can no longer be bound."""


class Binder:
    """Binds pods in one term."""

    def __init__(
        self,
        client: Client,
        actuator: Actuator,
        pods: Reflector[Pod],
        *,
        wall: Callable[[], datetime],
        rng: random.Random,
    ) -> None:
        self._client = client
        self._actuator = actuator
        self._pods = pods
        self._wall = wall
        self._rng = rng
        self._log = structlog.get_logger()

    async def bind(self, bind: Bind) -> NotBound | None:
        """Bind the pod; return None once it is on the node. Raises only if this process no longer leads."""
        namespace, name = bind.pod
        pod = self._pods.store.get(name, namespace)
        for _ in range(_ATTEMPTS):
            if pod is None or pod.metadata.uid != bind.uid:
                return NotBound("the pod no longer exists", gone=True)
            if pod.spec.node_name:
                return _other_node_problem(pod, bind.node)
            try:
                await self._actuator.write(self._client.bind(pod, bind.node, unchanged=True))
            except Conflict as refused:
                seen = await self._read(bind)
                if seen is None or _is_unbindable(seen):
                    return NotBound(str(refused), gone=seen is None)
                pod = seen
                continue
            except NotFound as refused:
                return NotBound(str(refused), gone=True)
            except KubeError as problem:
                if not _may_have_succeeded(problem):
                    return NotBound(str(problem))
                return await self.settle(bind, str(problem))
            return None
        return NotBound(f"the pod changed during each of {_ATTEMPTS} attempts to bind it")

    async def settle(self, bind: Bind, problem: str) -> NotBound | None:
        """Find out the outcome of a binding whose answer was lost; retry until it is certain."""
        self._log.warning("answer to a binding lost", pod="/".join(bind.pod), error=problem)
        while True:
            seen = await self._read(bind)
            if seen is None:
                return NotBound("the pod no longer exists", gone=True)
            if seen.spec.node_name:
                return _other_node_problem(seen, bind.node)
            if await self._fence(seen, problem):
                return NotBound(problem)

    async def _read(self, bind: Bind) -> Pod | None:
        """Read the pod from the server; None if it is gone."""
        namespace, name = bind.pod
        failures = 0
        while True:
            try:
                pod = await self._client.get(PODS, name, namespace)
            except NotFound:
                return None
            except KubeError:
                failures += 1
                self._actuator.check()
                await asyncio.sleep(_READ_RETRY.delay_s(failures, self._rng))
                continue
            self._pods.learn(pod)
            return pod if pod.metadata.uid == bind.uid else None

    async def _fence(self, pod: Pod, problem: str) -> bool:
        """Change the pod's resourceVersion while it is unbound; return whether that succeeded."""
        change = StatusChange(ConditionChange(POD_SCHEDULED, "False", SCHEDULER_ERROR, f"binding rejected: {problem}"))
        patch = status_patch(pod, change, self._wall(), fence=True)
        assert patch is not None
        meta = pod.metadata
        try:
            seen = await self._actuator.write(
                self._client.patch_status(PODS, meta.name, StrategicMergePatch(patch), meta.namespace)
            )
        except KubeError:
            await asyncio.sleep(_READ_RETRY.delay_s(1, self._rng))
            return False
        self._pods.learn(seen)
        return seen.metadata.resource_version != meta.resource_version


def _other_node_problem(pod: Pod, node: str) -> NotBound | None:
    if pod.spec.node_name == node:
        return None
    return NotBound(f"the pod is already on node {pod.spec.node_name}", gone=True)


def _is_unbindable(pod: Pod) -> bool:
    """Whether a retry would be refused again: the pod is terminating or gated."""
    return pod.metadata.deletion_timestamp is not None or bool(pod.spec.scheduling_gates)


def _may_have_succeeded(problem: KubeError) -> bool:
    if isinstance(problem, Unreachable):
        return problem.outcome_unknown
    return isinstance(problem, _UNCERTAIN_ERRORS) or not isinstance(problem, ApiError)

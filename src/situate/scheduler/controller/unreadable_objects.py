"""Reports unreadable pods and nodes on the objects, with the reason why they are not used.

For objects that decode but cannot be used, the reporter records an Event and a metric, and this module writes the
condition of pods. Objects that do not decode are found and reported only here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

import msgspec
import structlog

from situate.kube.errors import KubeError
from situate.kube.patches import StrategicMergePatch
from situate.kube.watch.reflector import Reflector
from situate.objects.decoding.codec import Malformed, decode
from situate.objects.kinds.pods import Pod
from situate.objects.kinds.unstructured import Unstructured
from situate.objects.resources import PODS, ResourceType, unstructured
from situate.scheduler.controller.action_writer import ActionWriter, TermContext
from situate.scheduler.controller.api_dispatcher import run_within_term
from situate.scheduler.controller.pod_conditions import (
    POD_SCHEDULED,
    SCHEDULER_ERROR,
    ConditionChange,
    StatusChange,
    status_patch,
)

_CHECK_INTERVAL_S: Final = 1.0
"""Time between two checks."""
_READ_OF_SPEC: Final = ("nodeName", "schedulerName")
"""Fields that show whether this scheduler is responsible for a pod."""
_READ_OF_STATUS: Final = ("conditions", "phase")


class UnreadableObjects:
    """Reports unreadable objects in one term. Each problem of an object is reported once."""

    def __init__(self, means: TermContext, acting: ActionWriter, reflectors: tuple[Reflector[Any], ...]) -> None:
        """`reflectors`: those whose undecodable objects are reported."""
        self._context = means
        self._action_writer = acting
        self._reflectors = reflectors
        self._reported: set[tuple[str, str]] = set()
        """Object and problem."""
        self._log = structlog.get_logger()

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            await run_within_term(self._report_problems())
            await asyncio.sleep(_CHECK_INTERVAL_S)

    async def _report_problems(self) -> None:
        unplaceable = dict(self._context.notifier.unplaceable)
        malformed = [
            (reflector.scope.resource, key, str(problem))
            for reflector in self._reflectors
            for key, problem in reflector.malformed.items()
        ]
        self._reported &= {(uid, problem) for uid, (_, problem) in unplaceable.items()} | {
            (f"{resource.plural} {key}", problem) for resource, key, problem in malformed
        }
        for uid, (pod, problem) in unplaceable.items():
            if (uid, problem) not in self._reported:
                await self._action_writer.write_status(pod, uid, StatusChange(_error_condition(problem)))
                self._reported.add((uid, problem))
        for resource, key, problem in malformed:
            story = f"{resource.plural} {key}", problem
            if story not in self._reported and await self._report_object(resource, key, problem):
                self._reported.add(story)

    async def _report_object(self, known: ResourceType[Any], key: str, problem: str) -> bool:
        """Report one object; return whether it is settled: the object was reported, or is gone."""
        resource = unstructured(known.group, known.version, known.kind, known.plural, namespaced=known.namespaced)
        namespace, _, name = key.rpartition("/")
        try:
            found = await self._context.client.get(resource, name, namespace or None)
        except KubeError as failed:
            return not failed.retriable
        try:
            if known is PODS:
                await self._write_condition(resource, found, problem)
        except KubeError as failed:
            if failed.retriable:
                return False
            # the server cannot read it either, so only the Event is written
            self._log.warning("write of a pod's condition failed", pod=key, error=str(failed))
        self._context.notifier.report_unreadable(resource, found, problem)
        return True

    async def _write_condition(self, resource: ResourceType[Unstructured], found: Unstructured, problem: str) -> None:
        """Write the condition of a pod that waits for this scheduler."""
        pod = readable_part(found.content)
        if pod is None or pod.spec.node_name or pod.spec.scheduler_name not in self._context.engine.profiles:
            return
        patch = status_patch(pod, StatusChange(_error_condition(problem)), self._context.wall())
        if patch is not None:
            meta, body = found.metadata, StrategicMergePatch(patch)
            write = self._context.client.patch_status
            await self._context.actuator.write(write(resource, meta.name, body, meta.namespace))


def _error_condition(problem: str) -> ConditionChange:
    return ConditionChange(POD_SCHEDULED, "False", SCHEDULER_ERROR, problem)


def readable_part(content: Mapping[str, Any]) -> Pod | None:
    """Decode name, node, scheduler and phase of a Pod that does not decode as a whole; None if these do not, either."""
    part = {
        "metadata": content.get("metadata"),
        "spec": _pick_fields(content.get("spec"), _READ_OF_SPEC),
        "status": _pick_fields(content.get("status"), _READ_OF_STATUS),
    }
    try:
        return decode(PODS, msgspec.json.encode(part))
    except Malformed:
        return None


def _pick_fields(fields: object, keys: tuple[str, ...]) -> dict[str, Any]:
    return {key: fields[key] for key in keys if fields.get(key) is not None} if isinstance(fields, Mapping) else {}

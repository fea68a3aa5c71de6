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
from situate.scheduler.controller.action_writer import Acting, Means
from situate.scheduler.controller.api_dispatcher import until_the_term_ends
from situate.scheduler.controller.pod_conditions import (
    POD_SCHEDULED,
    SCHEDULER_ERROR,
    Claim,
    StatusChange,
    status_patch,
)

_LOOK_S: Final = 1.0
"""Time between two checks."""
_READ_OF_SPEC: Final = ("nodeName", "schedulerName")
"""Fields that show whether this scheduler is responsible for a pod."""
_READ_OF_STATUS: Final = ("conditions", "phase")


class Unreadable:
    """Reports unreadable objects in one term. Each problem of an object is reported once."""

    def __init__(self, means: Means, acting: Acting, reflectors: tuple[Reflector[Any], ...]) -> None:
        """`reflectors`: those whose undecodable objects are reported."""
        self._means = means
        self._acting = acting
        self._reflectors = reflectors
        self._told: set[tuple[str, str]] = set()
        """Object and problem."""
        self._log = structlog.get_logger()

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            await until_the_term_ends(self._look())
            await asyncio.sleep(_LOOK_S)

    async def _look(self) -> None:
        unplaceable = dict(self._means.reporter.unplaceable)
        malformed = [
            (reflector.scope.resource, key, str(problem))
            for reflector in self._reflectors
            for key, problem in reflector.malformed.items()
        ]
        self._told &= {(uid, problem) for uid, (_, problem) in unplaceable.items()} | {
            (f"{resource.plural} {key}", problem) for resource, key, problem in malformed
        }
        for uid, (pod, problem) in unplaceable.items():
            if (uid, problem) not in self._told:
                await self._acting.write_status(pod, uid, StatusChange(_claim(problem)))
                self._told.add((uid, problem))
        for resource, key, problem in malformed:
            story = f"{resource.plural} {key}", problem
            if story not in self._told and await self._tell(resource, key, problem):
                self._told.add(story)

    async def _tell(self, known: ResourceType[Any], key: str, problem: str) -> bool:
        """Report one object; return whether it is settled: the object was reported, or is gone."""
        resource = unstructured(known.group, known.version, known.kind, known.plural, namespaced=known.namespaced)
        namespace, _, name = key.rpartition("/")
        try:
            found = await self._means.client.get(resource, name, namespace or None)
        except KubeError as failed:
            return not failed.retriable
        try:
            if known is PODS:
                await self._say(resource, found, problem)
        except KubeError as failed:
            if failed.retriable:
                return False
            # the server cannot read it either, so only the Event is written
            self._log.warning("write of a pod's condition failed", pod=key, error=str(failed))
        self._means.reporter.unreadable(resource, found, problem)
        return True

    async def _say(self, resource: ResourceType[Unstructured], found: Unstructured, problem: str) -> None:
        """Write the condition of a pod that waits for this scheduler."""
        pod = readable_part(found.content)
        if pod is None or pod.spec.node_name or pod.spec.scheduler_name not in self._means.engine.profiles:
            return
        patch = status_patch(pod, StatusChange(_claim(problem)), self._means.wall())
        if patch is not None:
            meta, body = found.metadata, StrategicMergePatch(patch)
            write = self._means.client.patch_status
            await self._means.actuator.write(write(resource, meta.name, body, meta.namespace))


def _claim(problem: str) -> Claim:
    return Claim(POD_SCHEDULED, "False", SCHEDULER_ERROR, problem)


def readable_part(content: Mapping[str, Any]) -> Pod | None:
    """Decode name, node, scheduler and phase of a Pod that does not decode as a whole; None if these do not, either."""
    part = {
        "metadata": content.get("metadata"),
        "spec": _picked(content.get("spec"), _READ_OF_SPEC),
        "status": _picked(content.get("status"), _READ_OF_STATUS),
    }
    try:
        return decode(PODS, msgspec.json.encode(part))
    except Malformed:
        return None


def _picked(fields: object, keys: tuple[str, ...]) -> dict[str, Any]:
    return {key: fields[key] for key in keys if fields.get(key) is not None} if isinstance(fields, Mapping) else {}

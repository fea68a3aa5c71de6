"""Says on pods that cannot be read why nobody places them, and on nodes that nobody uses them.

Of what decodes but says nothing that can be acted on the reporter tells in an Event and a metric, and its pods get
their condition here; what does not even decode is found, and told of, here alone.
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
"""How often is looked for them."""
_READ_OF_SPEC: Final = ("nodeName", "schedulerName")
"""What tells whether a pod is ours to speak of."""
_READ_OF_STATUS: Final = ("conditions", "phase")


class Unreadable:
    """Of one term. Each problem of an object is told once."""

    def __init__(self, means: Means, acting: Acting, reflectors: tuple[Reflector[Any], ...]) -> None:
        """`reflectors`: whose objects are told that they do not decode."""
        self._means = means
        self._acting = acting
        self._reflectors = reflectors
        self._told: set[tuple[str, str]] = set()
        """Object and problem."""
        self._log = structlog.get_logger()

    async def run(self) -> None:
        """Until cancelled."""
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
        """Whether that is settled: the object has been told, or is gone."""
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
            # the server cannot read it either, so that the Event has to do
            self._log.warning("a pod's condition cannot be written", pod=key, error=str(failed))
        self._means.reporter.unreadable(resource, found, problem)
        return True

    async def _say(self, resource: ResourceType[Unstructured], found: Unstructured, problem: str) -> None:
        """The condition of a pod that waits for this scheduler."""
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
    """Name, node, scheduler and phase of a Pod that does not decode as a whole; None if these do not decode either."""
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

"""Write the decisions for a vpod: its status, its workers, and the removal of a placement by an eviction.

This module records the vpods with a status write in progress, and those with an unknown result of the last write.
`apply` decides, and chooses the time of a write.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from situate.kube.client import Client
from situate.kube.errors import AlreadyExists, Conflict, Invalid, KubeError, NotFound
from situate.kube.patches import JsonPatch, MergePatch, Patch
from situate.objects.kinds.unstructured import Unstructured
from situate.runtime.leadership.actuator import Actuator
from situate.vpod.controller.informers import BY_OWNER, CONSUMERS, Informers
from situate.vpod.controller.sources import SourceObject
from situate.vpod.model.vpod import Key, Placements
from situate.vpod.placement.decide import Decision
from situate.vpod.scaling.drain import Eviction
from situate.vpod.sources.evictor import eviction_patch, may_evict
from situate.vpod.sources.status_patch import ScheduledCondition, condition_status, status_patch
from situate.vpod.sources.workers import CreateWorker, DeleteWorker, ResizeWorker, worker_changes, worker_of

MESSAGE_UPDATE_S = 5.0
"""Seconds between two changes of the numbers in a shortage message. With many short vpods, every Pod event would
otherwise rewrite all of them.
"""
FIELD_MANAGER = "situate-vpod"


class StatusWriter:
    """The writes of one StatefulSet's scheduler. Methods that await raise the client's errors."""

    def __init__(self, watched: Informers, client: Client, actuator: Actuator, wall: Callable[[], datetime]) -> None:
        self._informers = watched
        self._client = client
        self._actuator = actuator
        self._wall = wall
        self._in_progress: set[Key] = set()
        self._unknown_results: set[Key] = set()  # a write failed, so the server's object may differ from the known one
        self._message_times: dict[Key, float] = {}
        self._known_statuses: dict[
            Key, tuple[Unstructured, Placements, ScheduledCondition]
        ] = {}  # the object already says this
        self.message_update_pending = False
        """Whether the numbers of a shortage message still have to be updated; the caller that retries clears it."""

    def is_write_in_progress(self, key: Key) -> bool:
        return key in self._in_progress

    def is_result_unknown(self, key: Key) -> bool:
        return key in self._unknown_results

    def reset(self) -> None:
        """Forget the doubtful writes and the known statuses, because no more decisions follow."""
        self._unknown_results.clear()
        self._known_statuses.clear()

    def forget(self, key: Key) -> None:
        """Forget a vpod that no longer exists."""
        self._message_times.pop(key, None)
        self._known_statuses.pop(key, None)

    async def read_after_failure(self, key: Key, found: SourceObject | None) -> None:
        """Read a vpod whose last write failed, before the next decision for it.

        The write may have succeeded without an answer, or the object may differ from the known one. A decision on the
        old object would free places that the status still holds (S1). Raises the client's errors; then the caller
        retries later and the reservation stays.
        """
        if found is not None:
            meta = found.object.metadata
            try:
                seen = await self._client.get(found.source.resource, meta.name, meta.namespace)
            except NotFound:
                pass  # the watch reports the deletion, and then the reservation goes
            else:
                found.source.reflector.learn(seen)
        self._unknown_results.discard(key)

    async def write_status(self, found: SourceObject, decision: Decision, why_short: str, now: float) -> bool:
        """Write placements and condition unless they are up to date, and return whether anything was written.

        `why_short` is empty if `left` is 0.
        """
        settings = found.source.settings
        verdict = ScheduledCondition(
            settings.condition,
            scheduled=decision.left == 0,
            reason="Schedule" if decision.left else "",
            message=why_short,
        )
        said = (found.object, decision.placements, verdict)
        if self._known_statuses.get(decision.key) == said:
            return False
        path = settings.placements_path or ""
        patch = status_patch(found.object.content, path, decision.placements, verdict, self._wall())
        if patch is None:
            self._known_statuses[decision.key] = said
            return False
        if _changes_only_message(patch, found, settings.condition) and not self._may_update_message(decision.key, now):
            return False
        self._in_progress.add(decision.key)
        try:
            await self._patch_status(found, MergePatch(patch))
        except NotFound:
            return False  # deleted meanwhile: the watch reports it, and then the reservation goes
        except KubeError:
            self._unknown_results.add(decision.key)
            raise
        finally:
            self._in_progress.discard(decision.key)
        return True

    async def write_condition(self, found: SourceObject, verdict: ScheduledCondition) -> None:
        """Write only the condition, to an object that is no vpod of this StatefulSet and lacks this condition."""
        patch = status_patch(found.object.content, "", None, verdict, self._wall())
        assert patch is not None
        await self._patch_status(found, MergePatch(patch))

    async def evict(self, found: SourceObject, eviction: Eviction) -> bool:
        """Remove a placement from the status, and return whether it is gone now. This is the consumer side's evictor.

        A vpod whose schedule is in progress is not touched. A vpod that no longer exists counts as evicted.
        """
        content, settings = found.object.content, found.source.settings
        if eviction.key in self._in_progress or not may_evict(content, settings.condition):
            return False
        patch = eviction_patch(content, eviction.placement.pod_name, settings.placements_path or "")
        if not patch:
            return True
        self._in_progress.add(eviction.key)
        try:
            await self._patch_status(found, JsonPatch(patch))
        except NotFound:
            return True
        except (Conflict, Invalid):
            return False  # the status has changed: the next round decides again
        except KubeError:
            self._unknown_results.add(eviction.key)
            raise
        finally:
            self._in_progress.discard(eviction.key)
        return True

    async def write_workers(self, found: SourceObject, decision: Decision) -> None:
        """Write one worker for each placement, with its vreplicas."""
        workers = self._informers.workers
        assert workers is not None
        meta = found.object.metadata
        existing = [worker_of(each.content) for each in workers.store.by_index(BY_OWNER, (meta.namespace, meta.name))]
        pods = self._informers.pods.scope.namespace or ""
        for change in worker_changes(found.object.content, decision.placements, existing, pods):
            match change:
                case CreateWorker(_, content):
                    try:
                        created = await self._actuator.write(
                            self._client.create(CONSUMERS, content, meta.namespace, field_manager=FIELD_MANAGER)
                        )
                    except AlreadyExists:
                        continue  # created earlier but not seen yet: its watch event queues the vpod again
                    workers.learn(created)
                case ResizeWorker(name, vreplicas):
                    patch = MergePatch({"spec": {"vReplicas": vreplicas}})
                    resized = self._client.patch(CONSUMERS, name, patch, meta.namespace, field_manager=FIELD_MANAGER)
                    workers.learn(await self._actuator.write(resized))
                case DeleteWorker(name):
                    try:
                        await self._actuator.write(self._client.delete(CONSUMERS, name, meta.namespace))
                    except NotFound:
                        continue

    async def _patch_status(self, found: SourceObject, patch: Patch) -> None:
        meta, resource = found.object.metadata, found.source.resource
        written = await self._actuator.write(
            self._client.patch_status(resource, meta.name, patch, meta.namespace, field_manager=FIELD_MANAGER)
        )
        found.source.reflector.learn(written)

    def _may_update_message(self, key: Key, now: float) -> bool:
        if now < self._message_times.get(key, float("-inf")) + MESSAGE_UPDATE_S:
            self.message_update_pending = True  # a retry by then writes the numbers of that time
            return False
        self._message_times[key] = now
        return True


def _changes_only_message(patch: Mapping[str, Any], found: SourceObject, condition: str) -> bool:
    """Return whether a patch changes only the message of a shortage that the object already shows."""
    only_conditions = patch.keys() <= {"metadata", "status"} and patch.get("status", {}).keys() == {"conditions"}
    if not only_conditions or condition_status(found.object.content, condition) != "False":
        return False
    written = {"status": {"conditions": patch["status"]["conditions"]}}
    return condition_status(written, condition) == "False"

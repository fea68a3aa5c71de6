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
from situate.vpod.controller.informers import BY_OWNER, CONSUMERS, Watched
from situate.vpod.controller.sources import Found
from situate.vpod.model.vpod import Key, Placements
from situate.vpod.placement.decide import Decision
from situate.vpod.scaling.drain import Eviction
from situate.vpod.sources.evictor import eviction_patch, may_evict
from situate.vpod.sources.status_patch import Verdict, condition_status, status_patch
from situate.vpod.sources.workers import CreateWorker, DeleteWorker, ResizeWorker, worker_changes, worker_of

REWORD_S = 5.0
"""Seconds between two changes of the numbers in a shortage message. With many short vpods, every Pod event would
otherwise rewrite all of them.
"""
FIELD_MANAGER = "situate-vpod"


class Writing:
    """The writes of one StatefulSet's scheduler. Methods that await raise the client's errors."""

    def __init__(self, watched: Watched, client: Client, actuator: Actuator, wall: Callable[[], datetime]) -> None:
        self._watched = watched
        self._client = client
        self._actuator = actuator
        self._wall = wall
        self._under_way: set[Key] = set()
        self._doubtful: set[Key] = set()  # a write failed, so the server's object may differ from the known one
        self._reworded: dict[Key, float] = {}
        self._said: dict[Key, tuple[Unstructured, Placements, Verdict]] = {}  # the object already says this
        self.held_back = False
        """Whether the numbers of a shortage message still have to be updated; the caller that retries clears it."""

    def is_under_way(self, key: Key) -> bool:
        return key in self._under_way

    def is_doubtful(self, key: Key) -> bool:
        return key in self._doubtful

    def trust(self) -> None:
        """Forget the doubtful writes and the known statuses, because no more decisions follow."""
        self._doubtful.clear()
        self._said.clear()

    def forget(self, key: Key) -> None:
        """Forget a vpod that no longer exists."""
        self._reworded.pop(key, None)
        self._said.pop(key, None)

    async def look(self, key: Key, found: Found | None) -> None:
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
        self._doubtful.discard(key)

    async def status(self, found: Found, decision: Decision, why_short: str, now: float) -> bool:
        """Write placements and condition unless they are up to date, and return whether anything was written.

        `why_short` is empty if `left` is 0.
        """
        settings = found.source.settings
        verdict = Verdict(
            settings.condition,
            scheduled=decision.left == 0,
            reason="Schedule" if decision.left else "",
            message=why_short,
        )
        said = (found.object, decision.placements, verdict)
        if self._said.get(decision.key) == said:
            return False
        path = settings.placements_path or ""
        patch = status_patch(found.object.content, path, decision.placements, verdict, self._wall())
        if patch is None:
            self._said[decision.key] = said
            return False
        if _rewords(patch, found, settings.condition) and not self._may_reword(decision.key, now):
            return False
        self._under_way.add(decision.key)
        try:
            await self._patch_status(found, MergePatch(patch))
        except NotFound:
            return False  # deleted meanwhile: the watch reports it, and then the reservation goes
        except KubeError:
            self._doubtful.add(decision.key)
            raise
        finally:
            self._under_way.discard(decision.key)
        return True

    async def condition(self, found: Found, verdict: Verdict) -> None:
        """Write only the condition, to an object that is no vpod of this StatefulSet and lacks this condition."""
        patch = status_patch(found.object.content, "", None, verdict, self._wall())
        assert patch is not None
        await self._patch_status(found, MergePatch(patch))

    async def evict(self, found: Found, eviction: Eviction) -> bool:
        """Remove a placement from the status, and return whether it is gone now. This is the consumer side's evictor.

        A vpod whose schedule is in progress is not touched. A vpod that no longer exists counts as evicted.
        """
        content, settings = found.object.content, found.source.settings
        if eviction.key in self._under_way or not may_evict(content, settings.condition):
            return False
        patch = eviction_patch(content, eviction.placement.pod_name, settings.placements_path or "")
        if not patch:
            return True
        self._under_way.add(eviction.key)
        try:
            await self._patch_status(found, JsonPatch(patch))
        except NotFound:
            return True
        except (Conflict, Invalid):
            return False  # the status has changed: the next round decides again
        except KubeError:
            self._doubtful.add(eviction.key)
            raise
        finally:
            self._under_way.discard(eviction.key)
        return True

    async def workers(self, found: Found, decision: Decision) -> None:
        """Write one worker for each placement, with its vreplicas."""
        workers = self._watched.workers
        assert workers is not None
        meta = found.object.metadata
        existing = [worker_of(each.content) for each in workers.store.by_index(BY_OWNER, (meta.namespace, meta.name))]
        pods = self._watched.pods.scope.namespace or ""
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

    async def _patch_status(self, found: Found, patch: Patch) -> None:
        meta, resource = found.object.metadata, found.source.resource
        written = await self._actuator.write(
            self._client.patch_status(resource, meta.name, patch, meta.namespace, field_manager=FIELD_MANAGER)
        )
        found.source.reflector.learn(written)

    def _may_reword(self, key: Key, now: float) -> bool:
        if now < self._reworded.get(key, float("-inf")) + REWORD_S:
            self.held_back = True  # a retry by then writes the numbers of that time
            return False
        self._reworded[key] = now
        return True


def _rewords(patch: Mapping[str, Any], found: Found, condition: str) -> bool:
    """Return whether a patch changes only the message of a shortage that the object already shows."""
    only_conditions = patch.keys() <= {"metadata", "status"} and patch.get("status", {}).keys() == {"conditions"}
    if not only_conditions or condition_status(found.object.content, condition) != "False":
        return False
    written = {"status": {"conditions": patch["status"]["conditions"]}}
    return condition_status(written, condition) == "False"

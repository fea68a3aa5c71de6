"""Report objects of a kind that no scheduler serves, so that they do not wait without a message."""

from __future__ import annotations

from collections.abc import Container

from situate.kube.errors import NotFound
from situate.runtime.reconcile.outcomes import DONE, Result
from situate.vpod.controller.notify import Notifier
from situate.vpod.controller.sources import SourceObject, Sources
from situate.vpod.controller.writer import StatusWriter
from situate.vpod.model.vpod import Key
from situate.vpod.sources.adapters import unserved_message
from situate.vpod.sources.status_patch import ScheduledCondition, condition_status

UNCLAIMED_S = 10.0
"""Seconds that an object of an unknown kind may wait for its own scheduler before vpod reports that there is none."""


class UnclaimedObjects:
    """The objects without a scheduler, and since when.

    `served` holds the kinds that any scheduler serves. A ConsumerGroup of any other kind gets a condition that says so.
    If `served` is None, no such condition is written.
    """

    def __init__(
        self, sources: Sources, writing: StatusWriter, reporter: Notifier, served: Container[str] | None
    ) -> None:
        self._sources = sources
        self._writer = writing
        self._notifier = reporter
        self._served = served
        self._since: dict[Key, float] = {}  # when the object was first seen without a scheduler

    def unclaimed_reason(self, found: SourceObject) -> str:
        """Return why no scheduler serves an object; empty if one does, or if vpod cannot know."""
        if self._served is None or found.object.metadata.deletion_timestamp is not None:
            return ""
        return unserved_message(found.source.settings, found.object, self._served)

    async def report(self, key: Key, now: float) -> Result:
        """Report an object that is no vpod of this StatefulSet. An object that is gone is forgotten.

        vpod writes the condition only if no other client has written it within `UNCLAIMED_S` seconds. An installation
        unknown to vpod that serves the kind therefore has precedence.
        """
        for found in self._sources.objects_with_key(key):
            why, condition = self.unclaimed_reason(found), found.source.settings.condition
            if not why or condition_status(found.object.content, condition) != "Unknown":
                continue
            due = self._since.setdefault(key, now) + UNCLAIMED_S
            if now < due:
                return Result(requeue_after=due - now)
            try:
                await self._writer.write_condition(
                    found, ScheduledCondition(condition, scheduled=False, reason="Schedule", message=why)
                )
            except NotFound:
                continue
            self._notifier.notify_unserved(found.reference, key, why)
        self.forget(key)
        return DONE

    def forget(self, key: Key) -> None:
        self._since.pop(key, None)

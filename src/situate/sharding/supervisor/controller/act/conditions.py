"""Write conditions and Events about objects, with a lower priority than the work itself.

A condition is written only after a short pause, because most states of an object have ended by then.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import datetime
from typing import Final

from situate.kube.events import WARNING, RecordEvent
from situate.kube.retry.backoff import Backoff
from situate.objects.kinds.events import ObjectReference
from situate.runtime.reconcile.outcomes import DONE, Result
from situate.runtime.reconcile.workqueue import WorkQueue
from situate.sharding.assignment.conditions import archive_failed_write, verdict_write
from situate.sharding.executor.controller.objects import Request
from situate.sharding.model.actions import Write
from situate.sharding.model.decision_inputs import Verdict
from situate.sharding.model.names import Reason
from situate.sharding.model.object_view import ObjectView
from situate.sharding.supervisor.controller.act.writer import NoStatusSubresource, Sender
from situate.sharding.supervisor.controller.observe.object_index import ObjectIndex
from situate.sharding.supervisor.scope import Scope

PAUSE_S: Final = 1.0
"""Seconds before a condition is written: a shorter state is not worth a write."""
RETRY: Final = Backoff(initial_s=1.0, cap_s=300.0)


class ConditionWriter:
    """The conditions and Events of one term. A later condition of an object replaces a pending one."""

    def __init__(
        self,
        sender: Sender,
        scope: Scope,
        listing: ObjectIndex,
        record: RecordEvent,
        rng: random.Random,
        wall: Callable[[], datetime],
    ) -> None:
        self.queue: WorkQueue[Request] = WorkQueue(rng=rng, backoff=RETRY)
        """Queue of `reconcile`."""
        self._sender = sender
        self._scope = scope
        self._index = listing
        self._record = record
        self._wall = wall
        self._verdicts: dict[Request, Verdict] = {}
        """Verdicts to be written."""
        self._written_reasons: dict[Request, Reason] = {}
        """Reasons that were written, or that the objects already had."""
        self._failures: dict[Request, str | None] = {}
        """Archive failures to be written; None: no failure any more."""

    def set_verdict(self, request: Request, view: ObjectView, verdict: Verdict | None) -> None:
        """Set the verdict for `Assigned`. Only a new reason is written, because messages contain changing counts."""
        if verdict is None or verdict.brief or self._written_reasons.get(request) is verdict.reason:
            self._verdicts.pop(request, None)
        elif verdict_write(view, verdict, self._wall()) is None:
            self._verdicts.pop(request, None)
            self._written_reasons[request] = verdict.reason
        else:
            self._verdicts[request] = verdict
            self.queue.add_after(request, PAUSE_S)

    def set_archive_failure(self, request: Request, message: str | None) -> None:
        """Set the message for `ArchiveFailed`; None: no failure, or no longer."""
        view = self._index.views.get(request)
        if view is None or archive_failed_write(view, message, self._wall()) is None:
            self._failures.pop(request, None)
        else:
            self._failures[request] = message
            self.queue.add(request)

    def record_event(self, view: ObjectView, type_: str, reason: str, message: str) -> None:
        """Record an Event about an object."""
        resource = self._scope.resource
        about = ObjectReference(
            resource.api_version, resource.kind, view.namespace, view.name, view.uid, view.resource_version
        )
        self._record(about, type_, reason, message)

    def forget(self, request: Request) -> None:
        """Forget an object that is gone."""
        for told in (self._verdicts, self._written_reasons, self._failures):
            told.pop(request, None)

    async def reconcile(self, request: Request) -> Result:
        """Write the pending conditions of one object."""
        verdict, view = self._verdicts.get(request), self._index.views.get(request)
        if verdict is not None and view is not None and not view.completed and not self._index.is_assumed(request):
            write = verdict_write(view, verdict, self._wall())
            if write is not None:
                await self._write_condition(request, view, write)
            if self._verdicts.get(request) is verdict:
                del self._verdicts[request]
                self._written_reasons[request] = verdict.reason
        view = self._index.views.get(request)
        if view is not None and request in self._failures:
            write = archive_failed_write(view, self._failures[request], self._wall())
            if write is not None:
                await self._write_condition(request, view, write)
            self._failures.pop(request, None)
        return DONE

    async def _write_condition(self, request: Request, view: ObjectView, write: Write) -> None:
        try:
            await self._sender.patch(request, write)
        except NoStatusSubresource as problem:
            self.record_event(view, WARNING, "ConditionNotWritten", str(problem))
            raise

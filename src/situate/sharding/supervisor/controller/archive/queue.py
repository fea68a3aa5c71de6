"""Archive objects, each by the steps of `situate.sharding.assignment.archive_steps`, with workers of its own.

A slow or unavailable archive delays only archiving. The progress is lost at the end of the term: the next leader starts
again, which is harmless.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, assert_never

import structlog

from situate.archive.protocol import Archiver
from situate.kube.events import NORMAL, WARNING
from situate.kube.retry.backoff import Backoff
from situate.runtime.reconcile.outcomes import DONE, Result
from situate.runtime.reconcile.workqueue import WorkQueue
from situate.sharding.assignment.archive_steps import (
    RETRY_CAP_S,
    ArchiveProgress,
    ArchiveStep,
    Deleted,
    Finished,
    Gone,
    OutcomeContext,
    Released,
    Retry,
    StepOutcome,
    Superseded,
    Unavailable,
    next_progress,
)
from situate.sharding.executor.controller.objects import Request
from situate.sharding.model.supervisor_config import SupervisorConfig
from situate.sharding.supervisor.controller.act.conditions import ConditionWriter
from situate.sharding.supervisor.controller.act.metrics import Counts
from situate.sharding.supervisor.controller.act.writer import Sender
from situate.sharding.supervisor.controller.archive.owner_order import OwnerOrder
from situate.sharding.supervisor.controller.archive.steps import ArchiveSteps
from situate.sharding.supervisor.scope import Scope

FIRST_RETRY_S: Final = 1.0
MOST_CONFLICTS: Final = 3
"""Consecutive conflicts after which the next attempt waits: a client may write all the time, or the archive may hold a
later version."""
NEXT_DECISION_S: Final = 1.0
"""Seconds before the next decision on an object whose archiving ended without its deletion."""


@dataclass(frozen=True, slots=True)
class _Job:
    request: Request
    progress: ArchiveProgress
    since: float
    """Start of the archiving, on the monotonic clock."""
    conflicts: int = 0


@dataclass(frozen=True, slots=True)
class Clocks:
    """The monotonic clock `now` and the wall clock."""

    now: Callable[[], float]
    wall: Callable[[], datetime]


class ArchiveQueue:
    """The archive queue of one term."""

    def __init__(
        self,
        archiver: Archiver,
        sender: Sender,
        scope: Scope,
        config: SupervisorConfig,
        family: OwnerOrder,
        saying: ConditionWriter,
        clocks: Clocks,
        rng: random.Random,
        look_again: Callable[[Request, float], None],
        counts: Counts,
    ) -> None:
        """`look_again` schedules a new decision on an object, after a number of seconds."""
        self.queue: WorkQueue[Request] = WorkQueue(rng=rng)
        """Queue of `reconcile`."""
        self._steps = ArchiveSteps(archiver, sender, scope, config, clocks.wall)
        self._config = config
        self._owner_order = family
        self._index = family.index
        self._condition_writer = saying
        self._clocks = clocks
        self._rng = rng
        self._decide_again = look_again
        self._counts = counts
        self._jobs: dict[Request, _Job] = {}
        self._log = structlog.get_logger()

    def __len__(self) -> int:
        return len(self._jobs)

    def lag_s(self) -> float:
        """Return how long the oldest archiving has been in progress; 0: none is."""
        return max((self._clocks.now() - job.since for job in self._jobs.values()), default=0.0)

    def begin(self, request: Request, uid: str, *, delete: bool) -> None:
        """Start to archive the object with this UID, if not in progress; a user's delete ends a back-off."""
        job = self._jobs.get(request)
        if job is None or job.progress.uid != uid:
            self._jobs[request] = _Job(request, ArchiveProgress(uid, delete), self._clocks.now())
            self.queue.add(request)
        elif job.progress.delete and not delete:
            self.queue.add(request)

    async def reconcile(self, request: Request) -> Result:
        """Perform the steps of one object until it must wait, or is done."""
        while (job := self._jobs.get(request)) is not None:
            if request not in self._index.views:
                del self._jobs[request]  # gone, or moved to another partition
                break
            outcome = await self._steps.perform(request, job.progress)
            if self._jobs.get(request) is not job:
                continue  # another object has this name now, with its own job
            after = next_progress(job.progress, outcome, self._outcome_context(job.progress))
            match after:
                case ArchiveProgress():
                    self._record_progress(job, after, outcome)
                    if isinstance(outcome, Superseded):
                        job = replace(job, progress=after, conflicts=job.conflicts + 1)
                        self._jobs[request] = job
                        if job.conflicts % MOST_CONFLICTS == 0:
                            return self._back_off(request, job.conflicts // MOST_CONFLICTS, RETRY_CAP_S)
                        continue
                    self._jobs[request] = replace(job, progress=after)
                case Retry():
                    self._jobs[request] = _Job(request, after.progress, job.since)
                    self._record_failure(request, job, after)
                    return self._back_off(request, after.progress.failures, after.cap_s)
                case Finished():
                    del self._jobs[request]
                    self._record_end(request, outcome, after)
                case _ as never:
                    assert_never(never)
        return DONE

    def _back_off(self, request: Request, failures: int, cap_s: float) -> Result:
        delay_s = Backoff(FIRST_RETRY_S, cap_s).delay_s(failures, self._rng)
        return Result(max(delay_s, self._steps.not_before_s.pop(request, 0.0)))

    def _record_progress(self, job: _Job, after: ArchiveProgress, outcome: StepOutcome) -> None:
        """Record that an object was archived, or that it is released without a record in the archive."""
        if after.step is not ArchiveStep.RELEASE:
            return
        if after.digest:
            self._counts.archived += 1
            self._log.info("object archived", key=str(job.request))
        elif job.progress.view is not None:
            said = outcome.message if isinstance(outcome, Unavailable) else ""
            self._log.warning("object released without a copy in the archive", key=str(job.request), error=said)
            self._condition_writer.record_event(
                job.progress.view,
                WARNING,
                "ReleasedWithoutArchive",
                f"the archive was unavailable for more than {self._config.release_after:g} s, so the deletion "
                f"continues without a copy: {said}",
            )

    def _record_failure(self, request: Request, job: _Job, retry: Retry) -> None:
        level = self._log.error if retry.alert else self._log.warning
        level("archiving failed", key=str(request), error=retry.message, alert=retry.alert)
        if not retry.condition:
            return
        self._counts.archive_failures += 1
        self._condition_writer.set_archive_failure(request, retry.message)
        if job.progress.view is not None:
            reason = "ArchiveCorrupt" if retry.alert else "ArchiveFailed"
            self._condition_writer.record_event(job.progress.view, WARNING, reason, retry.message)

    def _record_end(self, request: Request, outcome: StepOutcome, finished: Finished) -> None:
        self._log.debug("archiving ended", key=str(request), why=finished.why)
        if isinstance(outcome, Gone | Deleted):
            return
        view = self._index.views.get(request)
        self._condition_writer.set_archive_failure(request, None)
        if isinstance(outcome, Released) and view is not None:
            self._condition_writer.record_event(view, NORMAL, "Archived", "the object is in the archive")
        self._decide_again(request, NEXT_DECISION_S)

    def _outcome_context(self, progress: ArchiveProgress) -> OutcomeContext:
        view = self._index.views.get(self._index.requests.get(progress.uid, Request("", "")))
        now, wall = self._clocks.now(), self._clocks.wall()
        if view is None:
            return OutcomeContext(now, wall, self._config)
        return OutcomeContext(now, wall, self._config, self._index.rank(view), self._owner_order.owners_due_s(view))

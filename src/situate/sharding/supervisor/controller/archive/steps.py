"""Perform the steps of archiving one object: each calls the API server or the archive, and returns an outcome."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import TypeVar

import structlog

from situate.archive.protocol import (
    ArchiveConflict,
    ArchiveCorrupt,
    Archiver,
    ArchiveRefused,
    ArchiveUnavailable,
    NotArchived,
)
from situate.archive.records.record import BadRecord, ByUid, GroupKind, Record, record_of
from situate.kube.errors import Conflict, KubeError, NotFound
from situate.runtime.leadership.leader import NotLeading
from situate.sharding.assignment.archive_steps import (
    ArchiveProgress,
    ArchiveStep,
    Deleted,
    Gone,
    Read,
    ReadBack,
    RecordCorrupt,
    RecordMissing,
    Refused,
    Released,
    StepOutcome,
    Stored,
    Superseded,
    Unavailable,
    finalizer_removal_write,
)
from situate.sharding.executor.controller.objects import Request
from situate.sharding.model.object_view import ObjectView
from situate.sharding.model.supervisor_config import SupervisorConfig
from situate.sharding.supervisor.controller.act.writer import Sender
from situate.sharding.supervisor.scope import Scope

_T = TypeVar("_T")


class ArchiveSteps:
    """The archive steps of one term."""

    def __init__(
        self,
        archiver: Archiver,
        sender: Sender,
        scope: Scope,
        config: SupervisorConfig,
        wall: Callable[[], datetime],
    ) -> None:
        self.not_before_s: dict[Request, float] = {}
        """Delays from the API server's Retry-After; the caller removes an entry when it applies the delay."""
        self._archiver = archiver
        self._sender = sender
        self._scope = scope
        self._config = config
        self._wall = wall
        self._log = structlog.get_logger()

    async def perform(self, request: Request, progress: ArchiveProgress) -> StepOutcome:
        """Perform the next step."""
        match progress.step:
            case ArchiveStep.READ:
                return await self._call_api(request, self._read(request))
            case ArchiveStep.PUT:
                return await self._put(_archived_view(progress))
            case ArchiveStep.VERIFY:
                return await self._verify_record(_archived_view(progress))
            case ArchiveStep.RELEASE:
                return await self._call_api(
                    request, self._remove_finalizer(request, _archived_view(progress), archived=bool(progress.digest))
                )
            case ArchiveStep.DELETE:
                return await self._call_api(request, self._delete_object(request, _archived_view(progress)))

    async def _read(self, request: Request) -> StepOutcome:
        view = await self._sender.read(request)
        return Gone() if view is None else Read(view)

    async def _remove_finalizer(self, request: Request, view: ObjectView, *, archived: bool) -> StepOutcome:
        write = finalizer_removal_write(view, self._config, self._sender.term_for(view), archived=archived)
        return Released(await self._sender.patch(request, write))

    async def _delete_object(self, request: Request, view: ObjectView) -> StepOutcome:
        await self._sender.delete(request, view.uid, view.resource_version)
        return Deleted()

    async def _call_api(self, request: Request, step: Awaitable[StepOutcome]) -> StepOutcome:
        """Await a call of the API server, and map its errors to outcomes."""
        try:
            return await step
        except NotFound:
            return Gone()
        except Conflict:
            return Superseded()
        except NotLeading as problem:
            return Unavailable(str(problem), archive=False)
        except KubeError as problem:
            if problem.after_s is not None:
                self.not_before_s[request] = problem.after_s
            if problem.retriable:
                return Unavailable(str(problem), archive=False)
            return Refused(str(problem))

    async def _put(self, view: ObjectView) -> StepOutcome:
        if not self._sender.may_write():
            return Unavailable("another supervisor may lead now, so nothing is archived", archive=False)
        try:
            record = record_of(
                view.content,
                resource=self._scope.resource.plural,
                completed_at=view.completed_at,
                successful=view.successful,
                reason=view.reason,
                archived_at=self._wall(),
                term=self._sender.term,
            )
            await self._call_within(self._archiver.put(record))
        except ArchiveConflict:
            return Superseded()
        except ArchiveUnavailable as problem:
            return Unavailable(str(problem), archive=True)
        except (ArchiveRefused, BadRecord) as problem:
            return Refused(str(problem))
        except Exception as defect:  # a user's archiver may raise any exception
            return self._map_defect(defect)
        return Stored(record.digest)

    async def _verify_record(self, view: ObjectView) -> StepOutcome:
        resource = self._scope.resource
        key = ByUid(GroupKind(resource.group, resource.kind), view.uid, (view.namespace, view.name))
        try:
            record = await self._call_within(self._archiver.get(key))
        except NotArchived:
            return RecordMissing()
        except ArchiveCorrupt as problem:
            return RecordCorrupt(str(problem))
        except ArchiveUnavailable as problem:
            return Unavailable(str(problem), archive=True)
        except ArchiveRefused as problem:
            return Refused(str(problem))
        except Exception as defect:
            return self._map_defect(defect)
        found: object = record
        if not isinstance(found, Record):
            return RecordCorrupt(f"the archive returned a {type(found).__name__} instead of a record")
        return ReadBack(record.digest, record.subject.resource_version)

    def _map_defect(self, defect: Exception) -> Refused:
        """Map an unexpected exception of the archiver. Its text may hold a password, so it goes only to the log."""
        self._log.error("unexpected error of the archiver", exc_info=defect)
        return Refused(f"the archiver raised {type(defect).__name__}; see the log of the supervisor")

    async def _call_within(self, call: Awaitable[_T]) -> _T:
        limit_s = self._scope.archive_timeout
        try:
            async with asyncio.timeout(limit_s):
                return await call
        except TimeoutError as error:
            raise ArchiveUnavailable(f"the archive did not answer within {limit_s:g} s") from error


def _archived_view(progress: ArchiveProgress) -> ObjectView:
    assert progress.view is not None, "a step after the reading has a version"
    return progress.view

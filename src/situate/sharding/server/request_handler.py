"""Answer requests: authenticate the user, parse the request, check the access, and read. Independent of sockets.

The client gets every failure as a Status, never as an empty list. An object that is not archived is 404, an archive
that does not answer is 503, and an unreadable record is 500. A 4xx error of the API server is passed on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import structlog

from situate.archive.operations.object_reader import ObjectPage, ReadThrough
from situate.archive.protocol import (
    ArchiveCorrupt,
    ArchiveError,
    Archiver,
    ArchiveUnavailable,
    NotArchived,
)
from situate.archive.records.query import BadQuery
from situate.archive.records.record import GroupKind
from situate.kube.client import Client
from situate.kube.errors import ApiError, Forbidden, KubeError, Unauthorized
from situate.objects.messages import Request, Response
from situate.runtime.serving.access import Access
from situate.runtime.serving.status_answers import (
    JSON,
    Declined,
    bad_request,
    internal_error,
    no_such_path,
    service_unavailable,
    success_response,
)
from situate.sharding.server.discovery import ServedResource, discovery_document
from situate.sharding.server.live_objects import ClientObjects
from situate.sharding.server.request import Document, Form, Get, List, ParsedRequest, Shape, parse_request
from situate.sharding.server.tables import table

HEALTH: Final = ("/healthz", "/livez", "/readyz")
_MOST_READS: Final = 16
"""Maximum number of parallel reads: each may hold a whole list in memory."""
_ARCHIVE_S: Final = 30.0
"""Seconds after which a read ends, and the archive counts as unavailable."""

_SKIPPED_RECORDS_TEXT: Final = "unreadable records of the archive, left out"


class RequestHandler:
    """A handler of requests for the served resources."""

    def __init__(
        self,
        client: Client,
        archiver: Archiver | None,
        served: Sequence[ServedResource],
        access: Access,
        clock: Callable[[], datetime],
    ) -> None:
        """`archiver` None: no object counts as archived, as for a supervisor. `clock`: the current wall-clock time."""
        self._client = client
        self._served = tuple(served)
        self._access = access
        self._clock = clock
        self._readers = {
            each.place: ReadThrough(
                GroupKind(each.type.group, each.type.kind), ClientObjects(client, each.type), archiver, clock
            )
            for each in served
        }
        self._lane = asyncio.Semaphore(_MOST_READS)
        self._log = structlog.get_logger()

    async def answer(self, request: Request) -> Response:
        """Answer a request; raises only when cancelled. The answer to a HEAD has the body of a GET; it is not sent."""
        try:
            return await self._authorize_and_read(request)
        except Declined as declined:
            return declined.response()
        except Exception as defect:
            self._log.error("request failed", path=request.path, exc_info=defect)
            return internal_error("the server failed to answer this request; see its log").response()

    async def _authorize_and_read(self, request: Request) -> Response:
        if request.path in HEALTH and request.method in ("GET", "HEAD"):
            return Response(200, b"ok", {"content-type": "text/plain; charset=utf-8"})
        try:
            user = await self._access.authenticate(request.headers.get("authorization", ""))
            if any(name.startswith("impersonate-") for name in request.headers):
                raise Declined(403, "Forbidden", "impersonation is not supported; use the token of that account")
            wanted = parse_request(request, self._served)
            await self._access.check(user, wanted.action)
        except KubeError as problem:
            self._log.warning("review of a user failed", error=str(problem))
            raise service_unavailable("the API server did not review your identity and access; try again") from None
        async with self._lane:
            return await self._read(wanted)

    async def _read(self, wanted: ParsedRequest) -> Response:
        try:
            async with asyncio.timeout(_ARCHIVE_S):
                match wanted:
                    case Document():
                        return await self._document(wanted.path)
                    case Get():
                        return await self._get_response(wanted)
                    case List():
                        return await self._list_response(wanted)
        except BadQuery as problem:
            raise bad_request(str(problem)) from None
        except KubeError as problem:
            raise self._map_cluster_error(problem) from None
        except (ArchiveError, TimeoutError) as problem:
            raise self._map_archive_error(problem) from None

    async def _document(self, path: str) -> Response:
        if path == "/version":
            answer = await self._client.raw(Request("GET", path, (), {"accept": JSON}))
            return Response(200, answer.body, {"content-type": JSON})
        found = discovery_document(path, self._served)
        if found is None:
            raise no_such_path()
        return success_response(found)

    async def _get_response(self, wanted: Get) -> Response:
        kind = wanted.served.type
        try:
            found = await self._readers[wanted.served.place].get(wanted.namespace, wanted.name, wanted.uid)
        except NotArchived:
            raise Declined(
                404,
                "NotFound",
                f'{kind.group_resource} "{wanted.name}" not found',
                {"name": wanted.name, "group": kind.group, "kind": kind.plural},
            ) from None
        if wanted.shape.form is Form.WHOLE:
            return success_response(found.content)
        return success_response(table((found,), {}, wanted.shape.include, self._clock()))

    async def _list_response(self, wanted: List) -> Response:
        page = await self._readers[wanted.served.place].list(wanted.selection, wanted.limit, wanted.continue_)
        for bad in page.corrupt:
            self._log.error("unreadable record of the archive", error=str(bad))
        # the owner of an unreadable record is unknown, so its name is not shown to any user
        warnings = [f"{_SKIPPED_RECORDS_TEXT}: {len(page.corrupt)}"] if page.corrupt else []
        metadata = {"resourceVersion": page.resource_version} | ({"continue": page.continue_} if page.continue_ else {})
        return success_response(self._list_content(page, metadata, wanted.served, wanted.shape), warnings)

    def _list_content(
        self, page: ObjectPage, metadata: Mapping[str, Any], served: ServedResource, shape: Shape
    ) -> dict[str, Any]:
        if shape.form is Form.TABLE:
            return table(page.items, metadata, shape.include, self._clock())
        return {
            "kind": f"{served.type.kind}List",
            "apiVersion": served.type.api_version,
            "metadata": metadata,
            "items": [found.content for found in page.items],
        }

    def _map_cluster_error(self, problem: KubeError) -> Declined:
        """Map an error of the API server. A refused read by this server is a 500; any other 4xx goes to the user."""
        if isinstance(problem, Forbidden | Unauthorized):
            self._log.error("read forbidden by the API server", error=str(problem))
            return internal_error("the API server forbids this server to read; see the log of this server")
        if isinstance(problem, ApiError) and 400 <= problem.status < 500:
            return Declined(problem.status, problem.reason, problem.message, retry_after_s=int(problem.after_s or 0))
        self._log.warning("read from the API server failed", error=str(problem))
        return service_unavailable("the API server did not answer; try again")

    def _map_archive_error(self, problem: Exception) -> Declined:
        if isinstance(problem, ArchiveUnavailable | TimeoutError):
            self._log.warning("archive unavailable", error=str(problem) or f"no answer within {_ARCHIVE_S:g} s")
            return service_unavailable("the archive did not answer, so archived objects are unknown; try again")
        self._log.error("read from the archive failed", error=str(problem))
        if isinstance(problem, ArchiveCorrupt):
            return internal_error(str(problem))
        return internal_error("the archive refuses to be read; see the log of this server")

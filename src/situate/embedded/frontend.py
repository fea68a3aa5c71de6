"""HTTP in front of the in-memory API server: requests in, answers and watch streams out.

It knows who is asking, carries webhook calls, obeys the faults on order, and streams watches in batches: everything
that happened in one turn of the loop leaves in one write.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import parse_qsl, unquote

import msgspec
import structlog
from aiohttp import web

from situate.cluster.api import Answer as ApiAnswer
from situate.cluster.api import ApiServer, Handling, refused_response
from situate.cluster.effects import Effect, Identity
from situate.cluster.faults import Faults, Kind, Rule
from situate.cluster.field_errors import Refused
from situate.cluster.refusals import internal_error
from situate.cluster.store import Event
from situate.cluster.watch import Watch
from situate.embedded.fault_routes import FaultRoutes
from situate.embedded.identities import Identities, Unauthorized
from situate.embedded.journal import Unusable
from situate.embedded.webhook_calls import WebhookCaller
from situate.objects.messages import Request, Response

_log = structlog.get_logger(__name__)

MOST_BODY: Final = 3 << 20
"""Bytes of a request's body (kube-apiserver: 3 MiB)."""

_READERS: Final = ("curl/", "Wget/", "Mozilla/")
"""Agents to whom JSON is shown indented, as kube-apiserver does."""

_FUTURE_S: Final = 3.0
"""How long a read waits for a revision that is still to come (apiserver storage/cacher, blockTimeout)."""

_BATCH_S: Final = 0.002
"""A busy watch is written to at most so often, so that many events share a packet."""


class Frontend:
    """Answers HTTP requests from one API server."""

    def __init__(
        self,
        api: ApiServer,
        clock: Callable[[], float],
        identities: Identities,
        webhooks: WebhookCaller,
        faults: Faults,
        routes: FaultRoutes,
    ) -> None:
        self._api = api
        self._clock = clock
        self._identities = identities
        self._webhooks = webhooks
        self._faults = faults
        self._routes = routes
        self._watches: set[Watch] = set()

    def cut_watches(self) -> int:
        """Ends every open watch as an API server that goes away does; says how many there were."""
        for watch in tuple(self._watches):
            watch.close()
        return len(self._watches)

    async def handle(self, http: web.BaseRequest) -> web.StreamResponse:
        """Answers one request."""
        request = await _request(http)
        if request is None:
            return _plain(refused_response(Refused(413, "RequestEntityTooLarge", "the body is larger than 3 MiB")))
        try:
            identity = self._identities.of(request.headers)
        except Unauthorized as problem:
            return _plain(refused_response(problem.refused))
        if request.path.startswith("/situate/"):
            return _plain(self._routes.answer(request))
        rule = None
        if self._faults.ordered or self._faults.paused:
            await self._routes.resumed()
            rule = self._faults.of(request, identity)
            if rule is not None and (early := await _before(rule, http)) is not None:
                return early
        try:
            answer = await self._answered(request, identity)
        except Unusable as problem:
            return _plain(refused_response(internal_error(str(problem))))
        except Exception as error:
            # A defect of ours ends its request, not the server; the client is told in the API's own form.
            _log.exception("request failed", method=request.method, path=request.path)
            return _plain(refused_response(internal_error(f"{type(error).__name__}: see the server's log")))
        if rule is not None and rule.fault is Kind.DROP_ANSWER:
            return _cut(http)
        if isinstance(answer, Watch):
            return await self._stream(http, answer)
        return _plain(_indented(request, answer))

    async def _answered(self, request: Request, identity: Identity) -> ApiAnswer:
        asked = _revision_needed(request)
        if asked > self._api.store.revision:
            await self._reached(asked)
        handling = self._api.handle(request, self._clock(), identity)
        try:
            effect = next(handling)
        except StopIteration as done:
            answer: ApiAnswer = done.value
            return answer
        return await self.drive(handling, effect)

    async def _reached(self, revision: int) -> None:
        """Waits until the store is there, but not for long: what is asked of it then is refused."""
        there = asyncio.Event()

        def look(event: Event) -> None:
            if event.revision >= revision:
                there.set()

        forget = self._api.store.subscribe(look)
        try:
            async with asyncio.timeout(_FUTURE_S):
                await there.wait()
        except TimeoutError:
            pass  # the answer says so
        finally:
            forget()

    async def drive(self, handling: Handling, effect: Effect) -> ApiAnswer:
        """Makes the webhook calls that a request waits for, until it is answered."""
        while True:
            reply = await self._webhooks.carried_out(effect)
            try:
                effect = handling.send(reply)
            except StopIteration as done:
                answer: ApiAnswer = done.value
                return answer

    async def _stream(self, http: web.BaseRequest, watch: Watch) -> web.StreamResponse:
        response = web.StreamResponse(status=watch.status, headers=dict(watch.headers))
        response.enable_chunked_encoding()
        self._watches.add(watch)
        timer: asyncio.TimerHandle | None = None
        loop = asyncio.get_running_loop()
        woken = asyncio.Event()
        watch.wake = woken.set
        written = -_BATCH_S
        try:
            await response.prepare(http)
            while True:
                while data := watch.take():
                    await response.write(data)
                    written = loop.time()
                if watch.closed and not watch.pending:
                    break
                if timer is None or timer.when() <= loop.time():
                    now = self._clock()
                    due = watch.tick(now)
                    timer = loop.call_at(loop.time() + max(due - now, 0.001), woken.set)
                    if watch.pending:
                        continue
                await woken.wait()
                woken.clear()
                wait = written + _BATCH_S - loop.time()
                if wait > 0:
                    await asyncio.sleep(wait)
            await response.write_eof()
        except ConnectionError:
            pass  # the client has gone, as watchers do
        finally:
            watch.close()
            self._watches.discard(watch)
            if timer is not None:
                timer.cancel()
        return response


def _revision_needed(request: Request) -> int:
    """What a read must not be older than; 0 if it does not matter. A plain watch waits on its own."""
    text = request.parameter("resourceVersion") if request.method == "GET" and request.query else ""
    if not (text.isascii() and text.isdecimal()):
        return 0
    watching = request.parameter("watch") in ("1", "true")
    return 0 if watching and request.parameter("sendInitialEvents") not in ("1", "true") else int(text)


async def _request(http: web.BaseRequest) -> Request | None:
    """The request as a value; None if its body is too large."""
    path, _, query = http.raw_path.partition("?")
    body = b""
    if http.body_exists:
        try:
            body = await http.read()
        except web.HTTPRequestEntityTooLarge:
            return None
    return Request(
        "GET" if http.method == "HEAD" else http.method,
        unquote(path) if "%" in path else path,
        tuple(parse_qsl(query, keep_blank_values=True)) if query else (),
        _headers(http),
        body,
    )


def _headers(http: web.BaseRequest) -> Mapping[str, str]:
    headers: dict[str, str] = {}
    for name, value in http.headers.items():
        lower = name.lower()
        headers[lower] = f"{headers[lower]},{value}" if lower in headers else value
    return headers


def _plain(answer: Response) -> web.Response:
    return web.Response(status=answer.status, body=answer.body, headers=answer.headers)


def _indented(request: Request, answer: Response) -> Response:
    wanted = request.parameter("pretty")
    if wanted in ("false", "0") or not answer.headers.get("content-type", "").startswith("application/json"):
        return answer
    if wanted or request.headers.get("user-agent", "").startswith(_READERS):
        return Response(answer.status, msgspec.json.format(answer.body, indent=2), answer.headers)
    return answer


async def _before(rule: Rule, http: web.BaseRequest) -> web.StreamResponse | None:
    """Obeys a fault that comes before the answer; None if the request is to be carried out."""
    if rule.delay_s:
        await asyncio.sleep(rule.delay_s)
    if rule.fault is Kind.REFUSE:
        headers = {} if rule.retry_after_s is None else {"retry-after": str(rule.retry_after_s)}
        refused = refused_response(Refused(rule.status, _REASONS.get(rule.status, "InternalError"), rule.message))
        return _plain(Response(refused.status, refused.body, {**refused.headers, **headers}))
    return _cut(http) if rule.fault is Kind.DROP_REQUEST else None


_REASONS: Final[Mapping[int, str]] = {
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Expired",
    429: "TooManyRequests",
    503: "ServiceUnavailable",
    504: "Timeout",
}


def _cut(http: web.BaseRequest) -> web.StreamResponse:
    """Ends the connection without an answer."""
    if http.transport is not None:
        http.transport.abort()
    return web.Response(status=500)

"""HTTP in front of the in-memory API server: answer each request, at once or later.

The frontend authenticates the client, makes webhook calls, and applies the ordered faults. `connection` handles bytes
and connections, and `watch_stream` handles open watches.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final
from weakref import WeakSet

import msgspec
import structlog

from situate.cluster.apiserver.api import Answer as ApiAnswer
from situate.cluster.apiserver.api import ApiServer, Handling, refusal_response
from situate.cluster.apiserver.faults import FaultKind, FaultRule, Faults
from situate.cluster.errors.field_errors import Refused
from situate.cluster.errors.refusals import internal_error
from situate.cluster.storage.effects import Effect, Identity
from situate.cluster.storage.store import Event
from situate.cluster.storage.watch import Watch
from situate.embedded.http.connection import Outcome
from situate.embedded.http.fault_routes import FaultRoutes
from situate.embedded.http.http1 import BadRequest
from situate.embedded.http.identities import Authenticator, Unauthorized
from situate.embedded.journal import UnusableDirectory
from situate.embedded.webhooks.calls import WebhookCaller
from situate.objects.messages import Request, Response

_log = structlog.get_logger(__name__)

_READERS: Final = ("curl/", "Wget/", "Mozilla/")
"""User agents that get indented JSON, as from kube-apiserver."""

_FUTURE_S: Final = 3.0
"""Seconds that a read waits for a future revision (apiserver storage/cacher, blockTimeout)."""

DeferredOutcome = Coroutine[Any, Any, Outcome]


class Frontend:
    """Handler of HTTP requests for one API server."""

    def __init__(
        self,
        api: ApiServer,
        clock: Callable[[], float],
        identities: Authenticator,
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
        self._watches: WeakSet[Watch] = WeakSet()
        """Open watches; an entry disappears with its stream."""

    def cut_watches(self) -> int:
        """End every open watch, as an API server does on shutdown. Return their number."""
        watches = [watch for watch in self._watches if not watch.closed]
        for watch in watches:
            watch.close()
        return len(watches)

    def answer(self, request: Request) -> Outcome | DeferredOutcome:
        """Answer one request: at once, unless it must wait for a webhook, a fault or a future revision."""
        try:
            identity = self._identities.authenticate(request.headers)
            if request.path.startswith("/situate/"):
                return self._routes.answer(request)
            if self._faults.active or self._faults.paused:
                return self._answer_with_fault(request, identity)
            return self._answer_at_revision(request, identity)
        except Unauthorized as problem:
            return refusal_response(problem.refused)
        except Exception as error:
            return _internal_error_response(request, error)

    def too_large_response(self) -> Response:
        """Return the answer to a body that is too large to read."""
        return refusal_response(Refused(413, "RequestEntityTooLarge", "the body is larger than 3 MiB"))

    def malformed_response(self, problem: BadRequest) -> Response:
        """Return the answer to bytes that are not HTTP/1.1."""
        return refusal_response(Refused(problem.status, _REASONS.get(problem.status, "BadRequest"), problem.message))

    async def drive(self, handling: Handling, effect: Effect) -> ApiAnswer:
        """Make the webhook calls of a request until it is answered."""
        while True:
            reply = await self._webhooks.execute(effect)
            try:
                effect = handling.send(reply)
            except StopIteration as done:
                answer: ApiAnswer = done.value
                return answer

    def _answer_at_revision(self, request: Request, identity: Identity) -> Outcome | DeferredOutcome:
        asked = _revision_needed(request)
        if asked > self._api.store.revision:
            return self._answer_after_wait(asked, request, identity)
        return self._execute(request, identity)

    async def _answer_after_wait(self, asked: int, request: Request, identity: Identity) -> Outcome:
        await self._wait_for_revision(asked)
        try:
            outcome = self._execute(request, identity)
        except Exception as error:
            return _internal_error_response(request, error)
        return await outcome if isinstance(outcome, Coroutine) else outcome

    def _execute(self, request: Request, identity: Identity) -> Outcome | DeferredOutcome:
        handling = self._api.handle(request, self._clock(), identity)
        try:
            effect = next(handling)
        except StopIteration as done:
            return self._to_outcome(request, done.value)
        return self._drive_to_outcome(request, handling, effect)

    async def _drive_to_outcome(self, request: Request, handling: Handling, effect: Effect) -> Outcome:
        try:
            return self._to_outcome(request, await self.drive(handling, effect))
        except Exception as error:
            return _internal_error_response(request, error)

    async def _answer_with_fault(self, request: Request, identity: Identity) -> Outcome:
        """Apply the fault for the request, if one is ordered."""
        await self._routes.wait_while_paused()
        rule = self._faults.take_rule(request, identity)
        if rule is not None:
            if rule.delay_s:
                await asyncio.sleep(rule.delay_s)
            if rule.fault is FaultKind.REFUSE:
                return _fault_response(rule)
            if rule.fault is FaultKind.DROP_REQUEST:
                return None
        try:
            outcome = self._answer_at_revision(request, identity)
        except Exception as error:
            outcome = _internal_error_response(request, error)
        answer = await outcome if isinstance(outcome, Coroutine) else outcome
        if rule is None or rule.fault is not FaultKind.DROP_ANSWER:
            return answer
        if isinstance(answer, Watch):
            answer.close()
        return None

    async def _wait_for_revision(self, revision: int) -> None:
        """Wait for the store to reach the revision, up to a limit. After the limit the request is refused."""
        there = asyncio.Event()

        def look(event: Event) -> None:
            if event.revision >= revision:
                there.set()

        forget = self._api.store.subscribe(look)
        try:
            async with asyncio.timeout(_FUTURE_S):
                await there.wait()
        except TimeoutError:
            pass  # the answer contains the refusal
        finally:
            forget()

    def _to_outcome(self, request: Request, answer: ApiAnswer) -> Outcome:
        if isinstance(answer, Watch):
            self._watches.add(answer)
            return answer
        return _indent_for_reader(request, answer)


def _internal_error_response(request: Request, error: Exception) -> Response:
    """Answer a request that hit a defect of the server with an API error, so that only this request ends."""
    if isinstance(error, UnusableDirectory):
        return refusal_response(internal_error(str(error)))
    _log.error("request failed", method=request.method, path=request.path, exc_info=error)
    return refusal_response(internal_error(f"{type(error).__name__}: see the server's log"))


def _revision_needed(request: Request) -> int:
    """Return the oldest revision that a read accepts; 0 if any. A plain watch waits by itself."""
    text = request.parameter("resourceVersion") if request.method == "GET" and request.query else ""
    if not (text.isascii() and text.isdecimal() and len(text) <= 20):  # numbers beyond 64 bits are refused later
        return 0
    watching = request.parameter("watch") in ("1", "true")
    return 0 if watching and request.parameter("sendInitialEvents") not in ("1", "true") else int(text)


def _indent_for_reader(request: Request, answer: Response) -> Response:
    wanted = request.parameter("pretty")
    if wanted in ("false", "0") or not answer.headers.get("content-type", "").startswith("application/json"):
        return answer
    if wanted or request.headers.get("user-agent", "").startswith(_READERS):
        return Response(answer.status, msgspec.json.format(answer.body, indent=2), answer.headers)
    return answer


def _fault_response(rule: FaultRule) -> Response:
    refused = refusal_response(Refused(rule.status, _REASONS.get(rule.status, "InternalError"), rule.message))
    if rule.retry_after_s is None:
        return refused
    return Response(refused.status, refused.body, {**refused.headers, "retry-after": str(rule.retry_after_s)})


_REASONS: Final[Mapping[int, str]] = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Expired",
    429: "TooManyRequests",
    503: "ServiceUnavailable",
    504: "Timeout",
}

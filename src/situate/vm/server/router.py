"""Router of requests: path, caller, permission, then the answer. It knows no sockets.

Every error is plain text with a status of C14, or 401 and 403 for callers without permission, or 503 if not leading.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final
from urllib.parse import unquote

import structlog

from situate.kube.errors import KubeError
from situate.objects.kinds.pods import Pod
from situate.objects.messages import Request, Response
from situate.runtime.serving.status_answers import Declined
from situate.vm.api.parse_errors import ParseError
from situate.vm.api.quantities import json_text
from situate.vm.explain.nodes import explain_node
from situate.vm.explain.pods import explain_pod
from situate.vm.explain.what_if import Changes, read_changes, what_if_by_steps
from situate.vm.placement.target_filter import planner_with_filter
from situate.vm.planning.targets import Fits
from situate.vm.protocol import permit_request, resize_request
from situate.vm.protocol.permit_request import MAX_BODY, HttpAnswer
from situate.vm.server.authorization import CallerAuthorizer
from situate.vm.server.metrics import PermitMetrics
from situate.vm.server.permit_handler import NOT_LEADING, PermitHandler
from situate.vm.server.refusal_log import RefusalLog
from situate.vm.server.request_context import RequestContext
from situate.vm.server.resize_handler import ResizeHandler

RESIZE: Final = "/resize"
WHAT_IF: Final = "/whatif"
EXPLAIN: Final = "/explain"
PERMIT: Final = "permit"
MAX_CHANGES_BODY: Final = 256 * 1024
"""Bytes of `/whatif`."""
_JSON: Final = {"content-type": "application/json"}


def max_body(path: str) -> int:
    """Return the number of bytes to read."""
    return 0 if _is_explain(path) else MAX_CHANGES_BODY if path == WHAT_IF else MAX_BODY


class RequestRouter:
    """Router of one process."""

    def __init__(
        self,
        desk: RequestContext,
        callers: CallerAuthorizer,
        permits: PermitHandler,
        resizing: ResizeHandler,
        metrics: PermitMetrics,
        stopwatch: Callable[[], float],
        wait_s: float,
    ) -> None:
        """`wait_s`: how long the API server may take to identify the caller."""
        self._context = desk
        self._callers = callers
        self._permits = permits
        self._resize_handler = resizing
        self._metrics = metrics
        self._stopwatch = stopwatch
        self._wait_s = wait_s
        self._reading = asyncio.Semaphore(1)  # one explanation at a time; decisions run between two
        self._log = structlog.get_logger()
        self._refusals = RefusalLog(stopwatch)

    async def answer(self, request: Request, peer: str) -> Response:
        """Answer a request. Raises only when cancelled."""
        path = _path_kind(request.path)
        began = self._stopwatch()
        try:
            return await self._routes[path](self, request, peer)
        except Declined as declined:
            more = {"www-authenticate": 'Bearer realm="situate"'} if declined.code == 401 else {}
            self._refusals.log_refusal(path, peer, declined)
            return self._error_response(path, HttpAnswer(declined.code, text=str(declined)), more)
        except KubeError as problem:
            self._log.warning("review of a caller failed", error=str(problem))
            said = "the API server could not check your identity and permissions; try again"
            return self._error_response(path, HttpAnswer(503, text=said), {"retry-after": "1"})
        except Exception as defect:
            self._log.error("request failed", path=path, exc_info=defect)
            return self._error_response(path, HttpAnswer(500, text="the server failed on this request; see its log"))
        finally:
            self._metrics.observe_answer(path, self._stopwatch() - began)

    async def _permit(self, request: Request, peer: str) -> Response:
        """Answer a permit request. The checks for leader and caller precede the order of C15."""
        if not self._context.is_leading():
            return self._permit_response(NOT_LEADING)
        began = asyncio.get_running_loop().time()
        read = permit_request.read_request(request.method, request.body)
        pod = None if isinstance(read, HttpAnswer) else self._pods().get(read.pod.name, read.pod.namespace)
        await self._check_caller(self._callers.check_agent(request.headers, peer, pod))
        answer = read if isinstance(read, HttpAnswer) else await self._permits.answer(read, began)
        return self._permit_response(answer, "" if pod is None else pod.spec.node_name)

    def _permit_response(self, answer: HttpAnswer, node: str = "") -> Response:
        self._metrics.count_permit(answer.status, node, "" if answer.decision is None else answer.decision.reason.value)
        return self._response(answer)

    async def _resize(self, request: Request, _: str) -> Response:
        self._require(request, "POST")
        read = resize_request.read_request(request.body)
        if isinstance(read, HttpAnswer):
            await self._check_caller(self._callers.account(request.headers))
            return self._response(read)
        await self._check_caller(
            self._callers.check_permission(request.headers, "patch", "resize", (read.pod.namespace,))
        )
        return self._response(await self._resize_handler.answer(read))

    async def _what_if(self, request: Request, _: str) -> Response:
        self._require(request, "POST")
        read = read_changes(request.body, self._context.ledger.rules)
        if isinstance(read, ParseError):
            await self._check_caller(self._callers.account(request.headers))
            return self._response(HttpAnswer(400, text=str(read)))
        await self._check_caller(self._callers.check_permission(request.headers, "list", "", _namespaces(read)))
        async with self._reading:
            ledger = self._context.ledger
            state, fits = ledger.state, _with_new_nodes(ledger.planner.fits, set(ledger.state.nodes))
            found: dict[str, Any] | ParseError | None = None
            for each in what_if_by_steps(state, read, ledger.clock(), ledger.rules, planner_with_filter(fits), fits):
                found = each
                await asyncio.sleep(0)  # permits run between two steps
        assert found is not None, "the last value is the answer"
        if isinstance(found, ParseError):
            return self._response(HttpAnswer(400, text=str(found)))
        return _json_response(found)

    async def _explain(self, request: Request, peer: str) -> Response:
        self._require(request, "GET")
        match [unquote(step) for step in request.path.split("/") if step][1:]:
            case ["pod", namespace, name]:
                pod = self._pods().get(name, namespace)
                await self._check_caller(self._callers.check(request.headers, peer, () if pod is None else (pod,)))
                return await self._explanation_response(
                    lambda: explain_pod(
                        self._context.ledger.state,
                        namespace,
                        name,
                        self._context.ledger.clock(),
                        self._context.ledger.rules,
                        self._context.ledger.planner.fits,
                    ),
                    f"no pod {namespace}/{name} is on a known node, and no VirtualMachine of that name has a pod there",
                )
            case ["node", name]:
                await self._check_caller(self._callers.check(request.headers, peer, self._pods_on_node(name)))
                ledger = self._context.ledger
                return await self._explanation_response(
                    lambda: explain_node(ledger.state, name, ledger.clock(), ledger.rules, ledger.planner),
                    f"node {name} is not known",
                )
        await self._check_caller(self._callers.check(request.headers, peer, ()))
        said = f"no such path, allowed: {EXPLAIN}/pod/NAMESPACE/NAME or {EXPLAIN}/node/NAME"
        return self._response(HttpAnswer(404, text=said))

    async def _explanation_response(self, explain: Callable[[], dict[str, Any] | None], absent: str) -> Response:
        async with self._reading:
            await asyncio.sleep(0)
            found = explain()
        return self._response(HttpAnswer(404, text=absent)) if found is None else _json_response(found)

    async def _check_caller(self, asking: Awaitable[object]) -> None:
        """Run a check of the caller. Raises its errors, and `Declined` if the API server takes too long (C39).

        A review continues in the background, so a later request finds its result.
        """
        try:
            async with asyncio.timeout(self._wait_s):
                await asking
        except TimeoutError:
            said = f"the API server did not check your identity and permissions within {self._wait_s:g} s; try again"
            raise Declined(503, "ServiceUnavailable", said) from None

    def _require(self, request: Request, method: str) -> None:
        """Check method and leadership. Raises `Declined`."""
        if request.method != method:
            raise Declined(
                405, "MethodNotAllowed", f"method {request.method[:20]!r} is not supported, allowed: {method}"
            )
        if not self._context.is_leading():
            raise Declined(503, "ServiceUnavailable", NOT_LEADING.text)

    def _pods(self) -> Any:
        return self._context.informers.all.pods.store

    def _pods_on_node(self, node: str) -> Iterable[Pod]:
        entry = self._context.ledger.state.nodes.get(node)
        refs = () if entry is None else (pod.ref for pod in entry.pods.values())
        return [pod for ref in refs if (pod := self._pods().get(ref.name, ref.namespace)) is not None]

    def _error_response(self, path: str, answer: HttpAnswer, more: dict[str, str] | None = None) -> Response:
        if path == PERMIT:
            self._metrics.count_permit(answer.status, "", "")
        return self._response(answer, more)

    def _response(self, answer: HttpAnswer, more: dict[str, str] | None = None) -> Response:
        headers = {"content-type": answer.content_type} | (more or {})
        return Response(answer.status, answer.body(self._context.ledger.rules), headers)

    _routes: Final[dict[str, Callable[[RequestRouter, Request, str], Awaitable[Response]]]] = {
        PERMIT: _permit,
        RESIZE: _resize,
        WHAT_IF: _what_if,
        EXPLAIN: _explain,
    }


def _path_kind(path: str) -> str:
    if _is_explain(path):
        return EXPLAIN
    return path if path in (RESIZE, WHAT_IF) else PERMIT


def _is_explain(path: str) -> bool:
    return path == EXPLAIN or path.startswith(EXPLAIN + "/")


def _namespaces(changes: Changes) -> Iterable[str]:
    """Return the namespaces whose Pods the answer shows; a node has Pods of all namespaces, which is the empty one."""
    return ("",) if changes.nodes or not changes.pods else sorted({each.namespace for each in changes.pods})


def _with_new_nodes(fits: Fits, known: set[str]) -> Fits:
    """Extend the filter to nodes that do not exist: they accept every Pod that they have capacity for."""
    return lambda uid, node: node not in known or fits(uid, node)


def _json_response(value: dict[str, Any]) -> Response:
    return Response(200, json_text(value).encode(), _JSON)

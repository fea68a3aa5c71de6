"""HTTP routes with which a test or the demo controls the server: faults, cuts, a pause, silent kubelets.

GET    /situate/faults                   the active rules
POST   /situate/faults                   add a rule (`situate.cluster.apiserver.faults.Rule` as JSON)
DELETE /situate/faults                   remove all faults and end a pause
POST   /situate/faults/compact           answer earlier watch revisions with 410; `?pages=true`: continue tokens too
POST   /situate/faults/cut-watches       end every open watch
POST   /situate/faults/pause, /resume    answer no requests except these in between
PUT    /situate/kubelets/<node>          `{"running": false}` or `{"running": true, "slowBySeconds": 1.5}`
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, Protocol

import msgspec

from situate.cluster.apiserver.api import refusal_response
from situate.cluster.apiserver.faults import FaultRule, Faults
from situate.cluster.errors.field_errors import bad_request
from situate.cluster.errors.refusals import method_not_allowed, no_such_path
from situate.cluster.storage.store import Store
from situate.objects.messages import Request, Response

_encode: Final = msgspec.json.Encoder().encode


class Kubelets(Protocol):
    """The simulated kubelets of the machinery."""

    def stop_kubelet(self, node: str) -> None: ...

    def start_kubelet(self, node: str) -> None: ...

    def slow_kubelet(self, node: str, seconds: float) -> None: ...


class _KubeletOrder(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    running: bool = True
    slow_by_seconds: float | None = None
    """None: no change."""


class FaultRoutes:
    """Handler of requests below `/situate/`."""

    def __init__(self, faults: Faults, store: Store, cut_watches: Callable[[], int], kubelets: Kubelets | None) -> None:
        self._faults = faults
        self._store = store
        self._cut_watches = cut_watches
        self.kubelets = kubelets
        """None without machinery; requests for kubelets then get 404."""
        self._running = asyncio.Event()
        self._running.set()

    async def wait_while_paused(self) -> None:
        """Wait while the server is paused."""
        await self._running.wait()

    def answer(self, request: Request) -> Response:
        """Execute one order."""
        match request.path.removeprefix("/situate/").strip("/").split("/"):
            case ["faults"]:
                return self._handle_rules(request)
            case ["faults", order] if request.method == "POST":
                return self._execute_order(order, request)
            case ["kubelets", node] if request.method == "PUT":
                return self._set_kubelet(node, request.body)
            case _:
                return refusal_response(no_such_path("use the path /situate/faults"))

    def _handle_rules(self, request: Request) -> Response:
        match request.method:
            case "GET":
                pass
            case "POST":
                try:
                    self._faults.add(msgspec.json.decode(request.body, type=FaultRule))
                except ValueError as error:
                    return refusal_response(bad_request(f"the body is not a fault: {error}"))
            case "DELETE":
                self._faults.clear()
                self._running.set()
            case _:
                return refusal_response(method_not_allowed())
        return _json_response(self._faults.report())

    def _execute_order(self, order: str, request: Request) -> Response:
        match order:
            case "compact":
                self._store.compact(pages=request.parameter("pages") in ("1", "true"))
                return _json_response({"compacted": self._store.revision})
            case "cut-watches":
                return _json_response({"cut": self._cut_watches()})
            case "pause":
                self._faults.paused = True
                self._running.clear()
            case "resume":
                self._faults.paused = False
                self._running.set()
            case _:
                return refusal_response(no_such_path("use compact, cut-watches, pause or resume"))
        return _json_response(self._faults.report())

    def _set_kubelet(self, node: str, body: bytes) -> Response:
        if self.kubelets is None:
            return refusal_response(no_such_path("this server runs without kubelets"))
        try:
            wanted = msgspec.json.decode(body, type=_KubeletOrder)
        except ValueError as error:
            return refusal_response(bad_request(f"the body is not an order to a kubelet: {error}"))
        if wanted.running:
            self.kubelets.start_kubelet(node)
        else:
            self.kubelets.stop_kubelet(node)
        if wanted.slow_by_seconds is not None:
            self.kubelets.slow_kubelet(node, wanted.slow_by_seconds)
        return _json_response({"node": node, "running": wanted.running})


def _json_response(value: Any) -> Response:
    return Response(200, _encode(value), {"content-type": "application/json"})

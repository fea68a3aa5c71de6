"""Capacity for plain Pods: write the resize request to the Pod, which informs the ledger, and answer from it (B34)."""

from __future__ import annotations

import asyncio

from situate.objects.kinds.pods import Pod
from situate.objects.resources import PODS
from situate.runtime.leadership.leader import NotLeading
from situate.vm.api.patches import annotate
from situate.vm.api.well_known import RESIZE_REQUESTED
from situate.vm.ledger.grants.pod_resize import RETRIED_REFUSALS
from situate.vm.model.events import ResourcesRequested
from situate.vm.model.resource_amounts import Amounts
from situate.vm.protocol.permit import PermitReason, decide_permit, is_settled
from situate.vm.protocol.permit_request import HttpAnswer
from situate.vm.protocol.resize_request import ResizeRequest, annotation_text, resize_refusal
from situate.vm.server.change_notifier import ChangeNotifier
from situate.vm.server.permit_handler import NOT_LEADING
from situate.vm.server.request_context import NotWritten, RequestContext


class ResizeHandler:
    """Resize requests of one process."""

    def __init__(self, desk: RequestContext, rounds: ChangeNotifier, wait_s: float) -> None:
        self._desk = desk
        self._rounds = rounds
        self._wait_s = wait_s

    async def answer(self, request: ResizeRequest) -> HttpAnswer:
        """Answer a request. Errors of the cluster become answers."""
        if not self._desk.is_leading():
            return NOT_LEADING
        if self._desk.ledger.rules.compat:
            return HttpAnswer(400, text="/resize is not supported with compat: true; set compat: false to resize Pods")
        pods, ref = self._desk.informers.all.pods, request.pod
        pod = pods.store.get(ref.name, ref.namespace)
        node = None if pod is None else self._desk.ledger.state.nodes.get(pod.spec.node_name)
        refusal = resize_refusal(request, pod, node)
        if refusal is not None or pod is None:
            return refusal or HttpAnswer(404)
        before = self._desk.ledger.state.pod(pod.metadata.uid)
        said = {RESIZE_REQUESTED: annotation_text(request.container_request)}
        try:
            if pod.metadata.annotations.get(RESIZE_REQUESTED) != said[RESIZE_REQUESTED]:
                async with asyncio.timeout(self._wait_s), self._desk.lane:
                    await self._desk.patch(pods, PODS, pod, annotate(pod.metadata, said))
        except NotLeading:
            return NOT_LEADING
        except TimeoutError:
            text = (
                f"the request was not written to pod {ref} within {self._wait_s:g} s, the API server is slow; ask again"
            )
            return HttpAnswer(500, text=text)
        except NotWritten as problem:
            return HttpAnswer(500, text=f"failed to write the request to pod {ref}: {problem}")
        return await self._wait_for_answer(request, pod, None if before is None else before.reserved)

    async def _wait_for_answer(self, request: ResizeRequest, pod: Pod, before: Amounts | None) -> HttpAnswer:
        uid, ledger = pod.metadata.uid, self._desk.ledger

        def look(elapsed_s: float) -> HttpAnswer | None:
            state, over = ledger.state, elapsed_s >= self._wait_s
            known = state.pod(uid)
            if known is None:
                return HttpAnswer(404, text=f"pod {request.pod} is not known or was deleted")
            wish = known.resize
            if wish is None or wish.text != annotation_text(request.container_request):
                text = f"pod {request.pod} does not show the request yet; ask again"
                return HttpAnswer(500, text=text) if over else None
            if wish.refusal is not None:
                status = 500 if wish.refusal.reason in RETRIED_REFUSALS else 400
                return HttpAnswer(status, text=f"{wish.refusal.reason}: {wish.refusal.message}")
            told = decide_permit(state, ResourcesRequested(uid, known.factor, known.requested, before), ledger.rules)
            assert told is not None, "the Pod is on a known node"
            done = told.reason is PermitReason.GRANTED or known.reserved != before
            if not over and not (done and is_settled(state, uid)):
                return None
            return HttpAnswer(200, wish.container_amount(told.permit), decision=told)

        def seen() -> tuple[object, ...]:
            return ledger.state.pod(uid), ledger.state.writes.get(uid)

        found = await self._rounds.wait(look, seen, self._wait_s)
        assert found is not None, "the wait ends with an answer"
        return found

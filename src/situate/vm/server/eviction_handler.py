"""Answers to API servers about evictions, while this process leads: VMs that may be migrated are migrated (B48).

An answer does not wait for writes. The client retries its eviction and finds the mark.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Final

import structlog

from situate.objects.kinds.pods import Pod
from situate.objects.reviews.admission import NoReview
from situate.runtime.leadership.leader import NotLeading
from situate.runtime.serving.webhook_server import Reply
from situate.vm.api.eviction_request import evacuation_text
from situate.vm.api.patches import annotate
from situate.vm.api.well_known import EVACUATE
from situate.vm.ledger.migrations.eviction import EvictionRefusal, EvictionRefusalReason
from situate.vm.ledger.migrations.eviction import eviction_refusal as judged
from situate.vm.model.actions import Notify
from situate.vm.model.pods_and_nodes import Evacuation, Ref
from situate.vm.protocol.eviction_review import EvictionReview, allow_response, read_eviction_review, refuse_response
from situate.vm.server.permit_handler import NOT_LEADING
from situate.vm.server.request_context import NotWritten, RequestContext

_MAX_REPORTED: Final = 4096
_NUMBER: Final = re.compile(r"\d+")


class EvictionHandler:
    """Answers of one process."""

    def __init__(self, desk: RequestContext, tell: Callable[[Notify], None]) -> None:
        self._desk = desk
        self._notify = tell
        self._reported: dict[str, str] = {}
        """By UID of the Pod: the last report, without its numbers."""
        self._marking: dict[str, asyncio.Task[None]] = {}
        """By UID of the VM."""
        self._log = structlog.get_logger()

    async def answer(self, body: bytes) -> Reply:
        """Answer a review. Never raises. A 503 lets the API server continue as without a webhook."""
        if not self._desk.is_leading():
            return Reply(503, NOT_LEADING.text.encode())
        question = read_eviction_review(body)
        if isinstance(question, NoReview):
            return Reply(400, question.why.encode())
        try:
            found = self._decide_refusal(question)
        except Exception as defect:
            # an internal error blocks no eviction: the budget still protects the Pod
            self._log.error("review of an eviction failed, eviction allowed", pod=question.name, exc_info=defect)
            return Reply(200, allow_response(question))
        return Reply(200, allow_response(question) if found is None else refuse_response(question, found.message))

    def _decide_refusal(self, question: EvictionReview) -> EvictionRefusal | None:
        pod = self._desk.informers.all.pods.store.get(question.name, question.namespace) if question.name else None
        if pod is None or not _is_running(pod):
            return None
        ledger = self._desk.ledger
        found = judged(ledger.state, pod.metadata.uid, ledger.clock(), ledger.rules, ledger.planner)
        if found is None or question.dry_run:
            return found
        entry = ledger.state.pod(pod.metadata.uid)
        assert entry is not None
        assert entry.machine is not None
        self._report_refusal(pod.metadata.uid, entry.machine.ref, found)
        if found.evacuation is not None:
            self._request_evacuation(entry.machine.ref, found.evacuation)
        return found

    def _report_refusal(self, uid: str, machine: Ref, found: EvictionRefusal) -> None:
        """Report a refusal, once while it stays the same: a draining client retries every few seconds."""
        said = f"{found.reason.value} {_NUMBER.sub('', found.message)}"
        if self._reported.get(uid) == said:
            return
        while len(self._reported) >= _MAX_REPORTED:
            del self._reported[next(iter(self._reported))]
        self._reported[uid] = said
        waits = found.reason is EvictionRefusalReason.WAITS
        self._notify(Notify(machine, found.reason.value, f"An eviction was refused: {found.message}", warning=waits))

    def _request_evacuation(self, machine: Ref, wish: Evacuation) -> None:
        """Write the request to leave the node to the VM, where this ledger and every later leader read it."""
        if machine.uid not in self._marking:
            task = asyncio.ensure_future(self._write_evacuation(machine, wish))
            self._marking[machine.uid] = task
            task.add_done_callback(lambda _: self._marking.pop(machine.uid, None))

    async def _write_evacuation(self, machine: Ref, wish: Evacuation) -> None:
        reflector = self._desk.informers.machines
        found = reflector.store.get(machine.name, machine.namespace)
        if found is None or found.metadata.uid != machine.uid:
            return
        patch = annotate(found.metadata, {EVACUATE: evacuation_text(wish)})
        try:
            await self._desk.patch(reflector, reflector.scope.resource, found, patch)
        except NotLeading:
            return
        except NotWritten as problem:
            self._log.warning("VM not marked for evacuation", machine=str(machine), error=str(problem))


def _is_running(pod: Pod) -> bool:
    """Return whether an eviction would stop work. For other Pods, API servers do not check budgets either."""
    return pod.status.phase == "Running" and pod.metadata.deletion_timestamp is None

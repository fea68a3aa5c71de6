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
from situate.runtime.serving.webhook_server import Reply
from situate.vm.api.eviction_request import evacuation_text
from situate.vm.api.patches import annotate
from situate.vm.api.well_known import EVACUATE
from situate.vm.ledger.migrations.eviction import Because, Refused
from situate.vm.ledger.migrations.eviction import refused as judged
from situate.vm.model.actions import Tell
from situate.vm.model.pods_and_nodes import Evacuation, Ref
from situate.vm.protocol.eviction_review import Question, allowed, read_question, refused
from situate.vm.server.permit_handler import NOT_LEADING
from situate.vm.server.request_context import Desk, NotLeading, NotWritten

_MOST_TOLD: Final = 4096
_NUMBER: Final = re.compile(r"\d+")


class Evictions:
    """Answers of one process."""

    def __init__(self, desk: Desk, tell: Callable[[Tell], None]) -> None:
        self._desk = desk
        self._tell = tell
        self._told: dict[str, str] = {}
        """By UID of the Pod: the last report, without its numbers."""
        self._marking: dict[str, asyncio.Task[None]] = {}
        """By UID of the VM."""
        self._log = structlog.get_logger()

    async def answer(self, body: bytes) -> Reply:
        """Answer a review. Never raises. A 503 lets the API server continue as without a webhook."""
        if not self._desk.leads():
            return Reply(503, NOT_LEADING.text.encode())
        question = read_question(body)
        if isinstance(question, NoReview):
            return Reply(400, question.why.encode())
        try:
            found = self._judged(question)
        except Exception as defect:
            # an internal error blocks no eviction: the budget still protects the Pod
            self._log.error("review of an eviction failed, eviction allowed", pod=question.name, exc_info=defect)
            return Reply(200, allowed(question))
        return Reply(200, allowed(question) if found is None else refused(question, found.message))

    def _judged(self, question: Question) -> Refused | None:
        pod = self._desk.watched.all.pods.store.get(question.name, question.namespace) if question.name else None
        if pod is None or not _runs(pod):
            return None
        ledger = self._desk.ledger
        found = judged(ledger.state, pod.metadata.uid, ledger.clock(), ledger.rules, ledger.planner)
        if found is None or question.dry_run:
            return found
        entry = ledger.state.pod(pod.metadata.uid)
        assert entry is not None
        assert entry.machine is not None
        self._say(pod.metadata.uid, entry.machine.ref, found)
        if found.wish is not None:
            self._mark(entry.machine.ref, found.wish)
        return found

    def _say(self, uid: str, machine: Ref, found: Refused) -> None:
        """Report a refusal, once while it stays the same: a draining client retries every few seconds."""
        said = f"{found.because.value} {_NUMBER.sub('', found.message)}"
        if self._told.get(uid) == said:
            return
        while len(self._told) >= _MOST_TOLD:
            del self._told[next(iter(self._told))]
        self._told[uid] = said
        waits = found.because is Because.WAITS
        self._tell(Tell(machine, found.because.value, f"An eviction was refused: {found.message}", warning=waits))

    def _mark(self, machine: Ref, wish: Evacuation) -> None:
        """Write the request to leave the node to the VM, where this ledger and every later leader read it."""
        if machine.uid not in self._marking:
            task = asyncio.ensure_future(self._marked(machine, wish))
            self._marking[machine.uid] = task
            task.add_done_callback(lambda _: self._marking.pop(machine.uid, None))

    async def _marked(self, machine: Ref, wish: Evacuation) -> None:
        reflector = self._desk.watched.machines
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


def _runs(pod: Pod) -> bool:
    """Return whether an eviction would stop work. For other Pods, API servers do not check budgets either."""
    return pod.status.phase == "Running" and pod.metadata.deletion_timestamp is None

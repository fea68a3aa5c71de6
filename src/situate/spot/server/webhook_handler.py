"""Handler of admission reviews: read one, decide, record the reservation, encode the answer.

It knows neither HTTP nor caches. After each step that may take time, and right before the answer leaves, it checks
again that this process may answer: two processes never answer at once (I11, P1).
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import Final

import structlog

from situate.objects.reviews.admission import NoReview
from situate.runtime.serving.webhook_server import Reply
from situate.spot.admission.admission_review import IgnoredReview, PodReview, encode_reply, read_review
from situate.spot.admission.admit import (
    UNREADABLE,
    AdmissionAnswer,
    AdmissionView,
    LiveRead,
    NeedsRead,
    PodRequest,
    admit,
)
from situate.spot.admission.ledger import Ledger
from situate.spot.server.metrics import AdmissionMetrics

NOT_LEADING: Final = "this replica does not lead now, so failurePolicy decides about the pod"

_ROUNDING_S: Final = 0.001
"""A sleep may end this much too early."""
_WATCH_PAUSES_S: Final = (0.01, 0.04)
"""Pauses between checks of the watch, which usually shows a pod within milliseconds."""


class AdmissionHandler:
    """The only component that changes the ledger while pods are admitted."""

    def __init__(
        self,
        view: Callable[[LiveRead | None], AdmissionView],
        read: Callable[[NeedsRead], Awaitable[LiveRead]],
        *,
        may_answer: Callable[[], bool],
        clock: Callable[[], float],
        token: Callable[[], str],
        ledger: Ledger,
        metrics: AdmissionMetrics,
    ) -> None:
        """`clock`: seconds of a monotonic clock; `token`: returns a new token at each call."""
        self.ledger = ledger
        self._view = view
        self._read = read
        self._may_answer = may_answer
        self._clock = clock
        self._token = token
        self._metrics = metrics
        self._log = structlog.get_logger()

    async def answer(self, body: bytes) -> Reply:
        """Answer one review; never raises, whatever the bytes are."""
        begun = self._metrics.stopwatch()
        reply_, outcome = await self._answer_review(body)
        self._metrics.seconds.labels(outcome).observe(self._metrics.stopwatch() - begun)
        return reply_

    async def _answer_review(self, body: bytes) -> tuple[Reply, str]:
        if not self._may_answer():
            return _not_leading_reply(), "not-leading"
        asked = read_review(body)
        match asked:
            case NoReview(why):
                return Reply(400, why.encode()), "passed"
            case IgnoredReview():
                return Reply(200, encode_reply(asked)), "passed"
            case PodReview():
                return await self._answer_pod(asked)

    async def _answer_pod(self, question: PodReview) -> tuple[Reply, str]:
        try:
            answer = await self._decide(question.request)
        except RecursionError:
            return Reply(
                200, encode_reply(question)
            ), "passed"  # an object nested too deeply; the API server refuses it
        except Exception as defect:
            # a defect costs this pod its class, and never stops its creation
            self._log.error(
                "classification of a pod failed, pod admitted unchanged",
                namespace=question.request.namespace,
                pod=question.request.name,
                exc_info=defect,
            )
            return Reply(200, encode_reply(question)), "failed"
        if not self._may_answer():
            return _not_leading_reply(), "not-leading"
        if answer.warnings:
            self._log.warning("pod conflicts with its policy", namespace=question.request.namespace, reason=answer.why)
        outcome = "gated" if answer.gated else str(answer.pod_class) if answer.pod_class is not None else "passed"
        return Reply(200, encode_reply(question, answer.operations, answer.warnings)), outcome

    async def _decide(self, request: PodRequest) -> AdmissionAnswer:
        """Decide after waiting for the watch, for a live read and, if needed, for the time of a conclusive read.

        It never waits longer.
        """
        token, asked_at = self._token(), self._clock()

        def decide(live: LiveRead | None) -> tuple[AdmissionAnswer, Ledger] | NeedsRead:
            # with the current ledger: other pods are answered meanwhile
            return admit(request, self._view(live), self.ledger, self._clock(), token, asked_at)

        found = decide(None)
        for pause_s in _WATCH_PAUSES_S:
            if not isinstance(found, NeedsRead) or found.not_before <= self._clock():
                break
            await asyncio.sleep(pause_s)
            found = decide(None)
        if isinstance(found, NeedsRead):
            found = decide(await self._read_live(found))
        if isinstance(found, NeedsRead) and found.not_before > -math.inf:
            await asyncio.sleep(max(0.0, found.not_before - self._clock()) + _ROUNDING_S)
            found = decide(await self._read_live(found))
        if isinstance(found, NeedsRead):
            return AdmissionAnswer(f"{found.controller.kind} {found.controller.name} cannot be read")
        answer, self.ledger = found
        return answer

    async def _read_live(self, needed: NeedsRead) -> LiveRead:
        live = await self._read(needed)
        self._metrics.live_reads.labels("unreadable" if live is UNREADABLE else "read").inc()
        return live


def _not_leading_reply() -> Reply:
    """Return 503 without Retry-After: with this header API servers repeat the request until the timeout."""
    return Reply(503, NOT_LEADING.encode())

"""The API server's side of admission webhooks on virtual time: the choice of the process, and faults of messages.

Like API servers, it holds connections open until the other side closes them. New connections go to a pod that the
Service selects. A certificate counts only if the published bundle contains its CA at this moment. The server handles
calls without an answer itself (failurePolicy).
"""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import Any, TypeAlias

import msgspec

from situate.cluster.apiserver.api import Handling
from situate.cluster.storage.effects import CallWebhook, Effect, Reply, WebhookReply
from situate.runtime.serving.certificates.renewal_schedule import BACKDATED_S
from situate.sim.timeline import Timeline
from situate.testing.spot.world.memory_endpoint import MemoryEndpoint

API_SERVERS = 2
"""Number of API servers. Each holds its own connections."""

ThirdPartyWebhook: TypeAlias = Callable[[Mapping[str, Any]], tuple[float, bytes]]
"""A webhook of another tool: from the review to its duration in seconds and the `response` of its answer, as JSON."""
SettleCallback: TypeAlias = Callable[[int, Any], None]
"""Takes a ticket and the API's answer to the write."""


@dataclass(frozen=True, slots=True)
class ReviewFaults:
    """The faults of reviews on their way. Chances are between 0 and 1."""

    latency_s: tuple[float, float] = (0.0005, 0.005)
    """Latency of one direction. A wide range reorders simultaneous reviews."""
    lose_question: float = 0.0
    lose_answer: float = 0.0
    """Chance that the process answers and the answer is lost."""
    repeat: float = 0.0
    """Chance that the process is asked twice, as after a broken connection. The first answer holds."""


NO_REVIEW_FAULTS = ReviewFaults()


class WebhookCalls:
    """Passes the writes of controllers through the configured webhooks."""

    def __init__(
        self,
        timeline: Timeline,
        rng: Random,
        happened: Counter[str],
        *,
        doors: Callable[[], Iterable[MemoryEndpoint]],
        wall: Callable[[], float],
        settle: SettleCallback,
    ) -> None:
        """`doors` returns those of the pods that the Service selects.

        `wall` is the API server's clock in Unix seconds.
        """
        self.faults = NO_REVIEW_FAULTS
        self.third_parties: dict[str, ThirdPartyWebhook] = {}
        """Webhooks of other tools, by URL."""
        self.review_listeners: list[Callable[[bytes, WebhookReply], None]] = []
        """Listeners called with every review of ours and its answer, even if the answer is then lost."""
        self._timeline = timeline
        self._rng = rng
        self._happened = happened
        self._endpoints = doors
        self._wall = wall
        self._settle = settle
        self._connections: list[MemoryEndpoint | None] = [None] * API_SERVERS

    def defer_call(self, handling: Handling, effect: Effect, ticket: int) -> None:
        """Handle `defer_call` of `situate.cluster.apiserver.assembly.Cluster`."""
        self._call_webhooks(effect, partial(self._continue_handling, handling, ticket))

    def _continue_handling(self, handling: Handling, ticket: int, reply: Reply) -> None:
        try:
            effect = handling.send(reply)
        except StopIteration as done:
            self._settle(ticket, done.value)
        else:
            self.defer_call(handling, effect, ticket)

    def _call_webhooks(self, effect: Effect, done: Callable[[Reply], None]) -> None:
        if isinstance(effect, CallWebhook):
            self._call_webhook(effect, done)
            return
        replies: dict[int, WebhookReply] = {}

        def one(number: int, reply: WebhookReply) -> None:
            replies[number] = reply
            if len(replies) == len(effect.calls):
                done(tuple(replies[each] for each in range(len(effect.calls))))

        for number, call in enumerate(effect.calls):
            self._call_webhook(call, partial(one, number))

    def _call_webhook(self, call: CallWebhook, done: Callable[[WebhookReply], None]) -> None:
        begun, over = self._timeline.now, False

        def finish(reply: WebhookReply) -> None:
            nonlocal over
            if not over:
                over = True
                done(replace(reply, elapsed_s=self._timeline.now - begun))

        def time_out() -> None:
            if not over:
                self._happened["review timed out"] += 1
                finish(WebhookReply(error="context deadline exceeded"))

        self._timeline.call_after(call.timeout_s, time_out)
        url = call.client_config.get("url")
        if url:
            self._ask_third_party(self.third_parties[url], call.body, finish)
        else:
            self._timeline.call_after(self._draw_latency(), partial(self._ask_ours, call, finish))

    def _ask_third_party(self, third: ThirdPartyWebhook, body: bytes, finish: Callable[[WebhookReply], None]) -> None:
        review = msgspec.json.decode(body)
        seconds, response = third(review)
        answer = {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "response": {"uid": review["request"]["uid"], **msgspec.json.decode(response)},
        }
        self._timeline.call_after(seconds, partial(finish, WebhookReply(200, msgspec.json.encode(answer))))

    def _ask_ours(self, call: CallWebhook, finish: Callable[[WebhookReply], None]) -> None:
        if self._draw_fault("review lost", self.faults.lose_question):
            return
        server = self._rng.randrange(API_SERVERS)
        door = self._endpoint_for(server)
        if door is None:
            self._happened["review refused"] += 1
            finish(WebhookReply(error="connect: connection refused"))
            return
        if not self._is_trusted(door, call.client_config.get("caBundle") or ""):
            self._connections[server] = None
            self._happened["certificate not trusted"] += 1
            finish(WebhookReply(error="tls: failed to verify certificate"))
            return

        def back(reply: WebhookReply) -> None:
            for listener in self.review_listeners:
                listener(call.body, reply)
            if door.draining or not reply.status:
                self._connections[server] = None
            if not self._draw_fault("review's answer lost", self.faults.lose_answer):
                self._timeline.call_after(self._draw_latency(), partial(finish, reply))

        if self._draw_fault("review repeated", self.faults.repeat):
            self._timeline.call_after(self._draw_latency(), partial(door.ask, call.body, lambda _: None))
        door.ask(call.body, back)

    def _endpoint_for(self, server: int) -> MemoryEndpoint | None:
        """Return the open connection, else a new one to a pod that the Service selects."""
        kept = self._connections[server]
        if kept is None or not kept.reachable:
            selected = list(self._endpoints())
            kept = self._rng.choice(selected) if selected else None
        self._connections[server] = kept if kept is not None and kept.reachable else None
        return self._connections[server]

    def _is_trusted(self, door: MemoryEndpoint, bundle: str) -> bool:
        served = door.generation
        if served is None or served.authority.strip() not in base64.b64decode(bundle):
            return False
        return served.made - BACKDATED_S <= self._wall() < served.ends

    def _draw_latency(self) -> float:
        return self._rng.uniform(*self.faults.latency_s)

    def _draw_fault(self, name: str, share: float) -> bool:
        if share <= 0.0 or self._rng.random() >= share:
            return False
        self._happened[name] += 1
        return True

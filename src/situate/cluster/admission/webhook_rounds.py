"""Call several webhooks at once, in rounds: one step of every conversation per round."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TypeAlias, TypeVar

from situate.cluster.admission.attributes import Steps
from situate.cluster.storage.effects import CallWebhook, CallWebhooks, WebhookReply

T = TypeVar("T")

Conversation: TypeAlias = Generator[CallWebhook, WebhookReply, T]
"""A conversation with one webhook: it yields calls and receives replies."""


def run_in_rounds(askers: Sequence[Conversation[T]]) -> Steps[list[T]]:
    """Return the result of each conversation, in their order. A round ends when all its replies have arrived."""
    results: dict[int, T] = {}
    replies: dict[int, WebhookReply | None] = dict.fromkeys(range(len(askers)))
    while replies:
        calls: dict[int, CallWebhook] = {}
        for number, reply in replies.items():
            try:
                calls[number] = next(askers[number]) if reply is None else askers[number].send(reply)
            except StopIteration as done:
                results[number] = done.value
        if not calls:
            break
        if len(calls) == 1:
            [(number, call)] = calls.items()
            answer = yield call
            assert isinstance(answer, WebhookReply)
            replies = {number: answer}
        else:
            answers = yield CallWebhooks(tuple(calls.values()))
            assert isinstance(answers, tuple)
            replies = dict(zip(calls, answers, strict=True))
    return [results[number] for number in range(len(askers))]

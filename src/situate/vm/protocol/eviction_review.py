"""Evictions, as API servers ask about them, and the answers (B48).

What is not an eviction, or cannot be read, is allowed: nothing but a machine's pod is our business.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import msgspec

from situate.objects.reviews.admission import UNREADABLE, NoReview, Unread, encode_response, read_admission_review


@dataclass(frozen=True, slots=True)
class Question:
    """About one pod; an empty name: it is about something else."""

    uid: str
    version: str
    namespace: str = ""
    name: str = ""
    dry_run: bool = False
    """Nothing may come of it."""


def read_question(body: bytes) -> Question | NoReview:
    """Raises nothing, whatever the bytes are."""
    review = read_admission_review(body)
    match review:
        case NoReview():
            return review
        case Unread():
            return Question(review.uid, review.version)
    request = review.request
    resource = (request.resource.group, request.resource.resource, request.sub_resource)
    if resource != ("", "pods", "eviction") or request.operation != "CREATE":
        return Question(request.uid, review.version)
    dry_run = bool(request.dry_run) or _only_tried(request.object)
    return Question(request.uid, review.version, request.namespace, request.name, dry_run)


def allowed(question: Question) -> bytes:
    return encode_response(question.version, {"uid": question.uid, "allowed": True})


def refused(question: Question, message: str) -> bytes:
    """429, as for a disruption budget: whoever evicts tries again."""
    status = {"code": 429, "reason": "TooManyRequests", "message": message}
    return encode_response(question.version, {"uid": question.uid, "allowed": False, "status": status})


class _Options(msgspec.Struct, gc=False, rename="camel"):
    dry_run: list[str] | None = None


class _Eviction(msgspec.Struct, gc=False, rename="camel"):
    delete_options: _Options | None = None


_EVICTION: Final = msgspec.json.Decoder(_Eviction)


def _only_tried(eviction: bytes) -> bool:
    """Whether the eviction's own options say so, as kubectl's do: then the request itself does not."""
    try:
        options = _EVICTION.decode(eviction).delete_options
    except UNREADABLE:
        return True  # nothing comes of what nobody can read
    return options is not None and bool(options.dry_run)

"""Questions of API servers about evictions, and the answers that they take (admission/v1; B48).

What is not an eviction, or cannot be read, is allowed: nothing but a machine's pod is our business.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import msgspec

VERSION: Final = "admission.k8s.io/v1"
_UNREADABLE: Final = (msgspec.MsgspecError, ValueError, RecursionError)


@dataclass(frozen=True, slots=True)
class Question:
    """About one pod; an empty name: it is about something else."""

    uid: str
    namespace: str = ""
    name: str = ""
    dry_run: bool = False
    """Nothing may come of it."""


class _Request(msgspec.Struct, gc=False, rename="camel"):
    uid: str
    sub_resource: str = ""
    namespace: str = ""
    name: str = ""
    operation: str = ""
    dry_run: bool | None = None
    object: msgspec.Raw = msgspec.Raw(b"null")


class _Review(msgspec.Struct, gc=False, rename="camel"):
    request: _Request
    api_version: str = ""


class _Options(msgspec.Struct, gc=False, rename="camel"):
    dry_run: list[str] | None = None


class _Eviction(msgspec.Struct, gc=False, rename="camel"):
    delete_options: _Options | None = None


_REVIEW: Final = msgspec.json.Decoder(_Review)
_EVICTION: Final = msgspec.json.Decoder(_Eviction)


def read_question(body: bytes) -> Question | None:
    """None: there is nothing that an answer could name. Raises nothing, whatever the bytes are."""
    try:
        review = _REVIEW.decode(body)
    except _UNREADABLE:
        return None
    request = review.request
    if review.api_version != VERSION or request.sub_resource != "eviction" or request.operation != "CREATE":
        return Question(request.uid)
    return Question(request.uid, request.namespace, request.name, bool(request.dry_run) or _only_tried(request.object))


def _only_tried(eviction: bytes) -> bool:
    """Whether the eviction's own options say so, as kubectl's do: then the request itself does not."""
    try:
        options = _EVICTION.decode(eviction).delete_options
    except _UNREADABLE:
        return True  # nothing comes of what nobody can read
    return options is not None and bool(options.dry_run)


def allowed(question: Question) -> bytes:
    return _reply({"uid": question.uid, "allowed": True})


def refused(question: Question, message: str) -> bytes:
    """429, as for a disruption budget: whoever evicts tries again."""
    status = {"code": 429, "reason": "TooManyRequests", "message": message}
    return _reply({"uid": question.uid, "allowed": False, "status": status})


def _reply(response: dict[str, Any]) -> bytes:
    return msgspec.json.encode({"apiVersion": VERSION, "kind": "AdmissionReview", "response": response})

"""Reviews of evictions, as API servers send them, and the answers (B48).

Requests that are no evictions, or that cannot be read, are allowed: vm decides only about Pods of VMs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import msgspec

from situate.objects.reviews.admission import (
    UNREADABLE,
    NoReview,
    UnreadableReview,
    encode_response,
    read_admission_review,
)


@dataclass(frozen=True, slots=True)
class EvictionReview:
    """Question about one Pod. The name is empty if the request is about another object."""

    uid: str
    version: str
    namespace: str = ""
    name: str = ""
    dry_run: bool = False
    """The answer must have no effect."""


def read_eviction_review(body: bytes) -> EvictionReview | NoReview:
    """Read an AdmissionReview. Never raises, for any bytes."""
    review = read_admission_review(body)
    match review:
        case NoReview():
            return review
        case UnreadableReview():
            return EvictionReview(review.uid, review.version)
    request = review.request
    resource = (request.resource.group, request.resource.resource, request.sub_resource)
    if resource != ("", "pods", "eviction") or request.operation != "CREATE":
        return EvictionReview(request.uid, review.version)
    dry_run = bool(request.dry_run) or _is_dry_run(request.object)
    return EvictionReview(request.uid, review.version, request.namespace, request.name, dry_run)


def allow_response(question: EvictionReview) -> bytes:
    return encode_response(question.version, {"uid": question.uid, "allowed": True})


def refuse_response(question: EvictionReview, message: str) -> bytes:
    """Refuse the eviction with status 429, as a PodDisruptionBudget does: the client retries."""
    status = {"code": 429, "reason": "TooManyRequests", "message": message}
    return encode_response(question.version, {"uid": question.uid, "allowed": False, "status": status})


class _Options(msgspec.Struct, gc=False, rename="camel"):
    dry_run: list[str] | None = None


class _Eviction(msgspec.Struct, gc=False, rename="camel"):
    delete_options: _Options | None = None


_EVICTION: Final = msgspec.json.Decoder(_Eviction)


def _is_dry_run(eviction: bytes) -> bool:
    """Return whether the eviction's own options ask for a dry run.

    kubectl sets them there; the request itself then does not say it.
    """
    try:
        options = _EVICTION.decode(eviction).delete_options
    except UNREADABLE:
        return True  # an unreadable eviction has no effect
    return options is not None and bool(options.dry_run)

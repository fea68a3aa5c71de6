"""AdmissionReviews from API servers to webhooks, and the responses (admission/v1 types.go).

Every answer carries the uid of its request. A body without a uid is not treated as a review.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import msgspec

from situate.objects.settings.section import format_value

VERSION: Final = "admission.k8s.io/v1"
UNREADABLE: Final = (msgspec.MsgspecError, ValueError, RecursionError)
"""The exceptions that decoding of untrusted bytes raises."""
_KIND: Final = "AdmissionReview"
_GROUP: Final = "admission.k8s.io/"
_LONGEST_VERSION: Final = 64


class Resource(msgspec.Struct, frozen=True, gc=False):
    group: str = ""
    version: str = ""
    resource: str = ""


class AdmissionRequest(msgspec.Struct, gc=False, rename="camel"):
    """The fields that situate reads."""

    uid: str
    resource: Resource = Resource()
    sub_resource: str = ""
    namespace: str = ""
    name: str = ""
    operation: str = ""
    dry_run: bool | None = None
    object: msgspec.Raw = msgspec.Raw(b"null")


@dataclass(frozen=True, slots=True)
class Review:
    """A readable review."""

    version: str
    """The API version of the answer: API servers accept no other."""
    request: AdmissionRequest


@dataclass(frozen=True, slots=True)
class UnreadableReview:
    """A review of which only the version and uid of the answer are known."""

    version: str
    uid: str
    why: str


@dataclass(frozen=True, slots=True)
class NoReview:
    """A body without a uid that an answer could name."""

    why: str


ReviewResult: TypeAlias = Review | UnreadableReview | NoReview


def read_admission_review(body: bytes) -> ReviewResult:
    """Read a request body. Never raises, for any bytes."""
    try:
        review = _REVIEW.decode(body)
    except UNREADABLE:
        return _explain_invalid_review(body)
    version, uid = _answer_version(review.api_version), review.request.uid
    if review.api_version != VERSION:
        why = f"apiVersion of the review: found {format_value(review.api_version)}, allowed: {VERSION}"
        return UnreadableReview(version, uid, why)
    if review.kind != _KIND:
        return UnreadableReview(
            version, uid, f"kind of the review: found {format_value(review.kind)}, allowed: {_KIND}"
        )
    return Review(version, review.request)


def encode_response(version: str, response: Mapping[str, Any]) -> bytes:
    """Encode `response`, an AdmissionResponse with the uid of the request."""
    return msgspec.json.encode({"apiVersion": version, "kind": _KIND, "response": response})


class _Review(msgspec.Struct, gc=False, rename="camel"):
    request: AdmissionRequest
    api_version: str = ""
    kind: str = ""


_REVIEW: Final = msgspec.json.Decoder(_Review)


def _explain_invalid_review(body: bytes) -> UnreadableReview | NoReview:
    """Explain a body that is no valid review: a field has a wrong type, or the body is something else."""
    try:
        found = msgspec.json.decode(body)
    except UNREADABLE as problem:
        return NoReview(f"the body is not an AdmissionReview: {problem}")
    request = found.get("request") if isinstance(found, Mapping) else None
    uid = request.get("uid") if isinstance(request, Mapping) else None
    if not isinstance(uid, str):
        return NoReview("the body has no request.uid; send an AdmissionReview")
    return UnreadableReview(
        _answer_version(found.get("apiVersion")), uid, "a field of the AdmissionReview has a wrong type"
    )


def _answer_version(said: object) -> str:
    known = isinstance(said, str) and said.startswith(_GROUP) and len(said) <= _LONGEST_VERSION
    return str(said) if known else VERSION

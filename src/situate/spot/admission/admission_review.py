"""AdmissionReview of a pod creation: read the request, encode the answer.

Every answer has `allowed: true` (P27). A review that is not the creation of a pod, or that cannot be read, is passed:
the pod is admitted as it is, without a patch.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

import msgspec

from situate.objects.reviews.admission import (
    UNREADABLE,
    AdmissionRequest,
    NoReview,
    UnreadableReview,
    encode_response,
    read_admission_review,
)
from situate.objects.settings.section import format_value
from situate.spot.admission.admit import PodRequest
from situate.spot.admission.patch import Operation


@dataclass(frozen=True, slots=True)
class PodReview:
    """The creation of a pod."""

    uid: str
    version: str
    request: PodRequest


@dataclass(frozen=True, slots=True)
class IgnoredReview:
    """A review that gets no patch."""

    uid: str
    version: str
    why: str


ParsedReview: TypeAlias = PodReview | IgnoredReview | NoReview


def read_review(body: bytes) -> ParsedReview:
    """Read the review. Raises nothing, whatever the bytes are."""
    review = read_admission_review(body)
    match review:
        case NoReview():
            return review
        case UnreadableReview():
            return IgnoredReview(review.uid, review.version, review.why)
    request = review.request
    why = _reason_to_ignore(request)
    if why:
        return IgnoredReview(request.uid, review.version, why)
    try:
        pod = msgspec.json.decode(request.object)
    except UNREADABLE as problem:
        return IgnoredReview(request.uid, review.version, f"the object cannot be read: {problem}")
    if not isinstance(pod, dict):
        return IgnoredReview(request.uid, review.version, "the request has no object")
    if (pod.get("apiVersion", "v1"), pod.get("kind", "Pod")) != ("v1", "Pod"):
        return IgnoredReview(request.uid, review.version, f"the object is of kind {format_value(pod.get('kind'))}")
    return PodReview(request.uid, review.version, PodRequest(request.namespace, pod, request.dry_run is True))


def encode_reply(
    asked: PodReview | IgnoredReview, operations: Iterable[Operation] = (), warnings: Iterable[str] = ()
) -> bytes:
    """Encode the answer; without operations the object is admitted as it is."""
    response: dict[str, Any] = {"uid": asked.uid, "allowed": True}
    patch = list(operations)
    if patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(msgspec.json.encode(patch)).decode()
    told = list(warnings)
    if told:
        response["warnings"] = told
    return encode_response(asked.version, response)


def _reason_to_ignore(request: AdmissionRequest) -> str:
    """Return why the review concerns no creation of a pod; empty if it does."""
    resource = request.resource
    if (resource.group, resource.version, resource.resource) != ("", "v1", "pods") or request.sub_resource:
        return f"the resource is {format_value('/'.join(filter(None, (resource.resource, request.sub_resource))))}"
    if request.operation != "CREATE":
        return f"the operation is {format_value(request.operation)}"
    return ""

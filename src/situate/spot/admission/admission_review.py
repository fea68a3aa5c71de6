"""The creation of pods, as API servers ask about it, and the answer (P27).

Whatever is asked is answered with `allowed: true`. What is not the creation of a pod, or cannot be read as one, is
passed: admitted as it is, without a patch.
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
    Unread,
    encode_response,
    read_admission_review,
)
from situate.objects.settings.section import shown
from situate.spot.admission.admit import PodRequest
from situate.spot.admission.patch import Operation


@dataclass(frozen=True, slots=True)
class Question:
    """The creation of a pod."""

    uid: str
    version: str
    request: PodRequest


@dataclass(frozen=True, slots=True)
class Passed:
    """A review of something else."""

    uid: str
    version: str
    why: str


Reading: TypeAlias = Question | Passed | NoReview


def read_review(body: bytes) -> Reading:
    """What is asked. Raises nothing, whatever the bytes are."""
    review = read_admission_review(body)
    match review:
        case NoReview():
            return review
        case Unread():
            return Passed(review.uid, review.version, review.why)
    request = review.request
    why = _passed(request)
    if why:
        return Passed(request.uid, review.version, why)
    try:
        pod = msgspec.json.decode(request.object)
    except UNREADABLE as problem:
        return Passed(request.uid, review.version, f"the object cannot be read: {problem}")
    if not isinstance(pod, dict):
        return Passed(request.uid, review.version, "there is no object")
    if (pod.get("apiVersion", "v1"), pod.get("kind", "Pod")) != ("v1", "Pod"):
        return Passed(request.uid, review.version, f"the object is of kind {shown(pod.get('kind'))}")
    return Question(request.uid, review.version, PodRequest(request.namespace, pod, request.dry_run is True))


def reply(asked: Question | Passed, operations: Iterable[Operation] = (), warnings: Iterable[str] = ()) -> bytes:
    """The answer to send; without operations the object is admitted as it is."""
    response: dict[str, Any] = {"uid": asked.uid, "allowed": True}
    patch = list(operations)
    if patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(msgspec.json.encode(patch)).decode()
    told = list(warnings)
    if told:
        response["warnings"] = told
    return encode_response(asked.version, response)


def _passed(request: AdmissionRequest) -> str:
    """Why it is none of ours; empty if it may be."""
    resource = request.resource
    if (resource.group, resource.version, resource.resource) != ("", "v1", "pods") or request.sub_resource:
        return f"it is about {shown('/'.join(filter(None, (resource.resource, request.sub_resource))))}"
    if request.operation != "CREATE":
        return f"the operation is {shown(request.operation)}"
    return ""

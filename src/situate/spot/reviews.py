"""The AdmissionReview as API servers send it, and the answer that they take (P27; admission/v1 types.go).

Whatever is asked is answered with the question's own uid and `allowed: true`. What is not the creation of a pod, or
cannot be read as one, is passed: admitted as it is, without a patch. Only what carries no uid is no review at all.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import msgspec

from situate.objects.settings import shown
from situate.spot.admission import PodRequest
from situate.spot.patch import Operation

VERSION: Final = "admission.k8s.io/v1"
_GROUP: Final = "admission.k8s.io/"
_LONGEST_VERSION: Final = 64


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


@dataclass(frozen=True, slots=True)
class NoReview:
    """There is nothing that an answer could name."""

    why: str


Reading: TypeAlias = Question | Passed | NoReview


def read_review(body: bytes) -> Reading:
    """What is asked. Raises nothing, whatever the bytes are."""
    try:
        review = _REVIEW.decode(body)
    except _UNREADABLE:
        return _unexpected(body)
    request = review.request
    version = _version(review.api_version)
    why = _passed(review, request)
    if why:
        return Passed(request.uid, version, why)
    try:
        pod = msgspec.json.decode(request.object)
    except _UNREADABLE as problem:
        return Passed(request.uid, version, f"the object cannot be read: {problem}")
    if not isinstance(pod, dict):
        return Passed(request.uid, version, "there is no object")
    if (pod.get("apiVersion", "v1"), pod.get("kind", "Pod")) != ("v1", "Pod"):
        return Passed(request.uid, version, f"the object is of kind {shown(pod.get('kind'))}")
    return Question(request.uid, version, PodRequest(request.namespace, pod, request.dry_run is True))


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
    return msgspec.json.encode({"apiVersion": asked.version, "kind": "AdmissionReview", "response": response})


class _Resource(msgspec.Struct, frozen=True, gc=False):
    group: str = ""
    version: str = ""
    resource: str = ""


class _Request(msgspec.Struct, gc=False, rename="camel"):
    uid: str
    resource: _Resource = _Resource()
    sub_resource: str = ""
    namespace: str = ""
    operation: str = ""
    dry_run: bool | None = None
    object: msgspec.Raw = msgspec.Raw(b"null")


class _Review(msgspec.Struct, gc=False, rename="camel"):
    request: _Request
    api_version: str = ""
    kind: str = ""


_REVIEW: Final = msgspec.json.Decoder(_Review)
_UNREADABLE: Final = (msgspec.MsgspecError, ValueError, RecursionError)


def _passed(review: _Review, request: _Request) -> str:
    """Why it is none of ours; empty if it may be."""
    if review.api_version != VERSION:
        return f"the review is of version {shown(review.api_version)}, and {VERSION} is what is read here"
    if review.kind != "AdmissionReview":
        return f"a review is expected, this is of kind {shown(review.kind)}"
    resource = request.resource
    if (resource.group, resource.version, resource.resource) != ("", "v1", "pods") or request.sub_resource:
        return f"it is about {shown('/'.join(filter(None, (resource.resource, request.sub_resource))))}"
    if request.operation != "CREATE":
        return f"the operation is {shown(request.operation)}"
    return ""


def _unexpected(body: bytes) -> Passed | NoReview:
    """A review with a field of a wrong type, or something else altogether."""
    try:
        found = msgspec.json.decode(body)
    except _UNREADABLE as problem:
        return NoReview(f"no AdmissionReview can be read: {problem}")
    request = found.get("request") if isinstance(found, Mapping) else None
    uid = request.get("uid") if isinstance(request, Mapping) else None
    if not isinstance(uid, str):
        return NoReview("an AdmissionReview with request.uid is expected")
    return Passed(uid, _version(found.get("apiVersion")), "a field of the review has a type that it cannot have")


def _version(said: object) -> str:
    """API servers take only an answer of the version in which they asked."""
    known = isinstance(said, str) and said.startswith(_GROUP) and len(said) <= _LONGEST_VERSION
    return str(said) if known else VERSION

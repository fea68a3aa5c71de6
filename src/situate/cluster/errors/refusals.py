"""The refusals of the API that are not about fields, worded as upstream words them (apimachinery api/errors).

`Declined` carries one up through the steps of a request to `ApiServer`, which alone catches it: dozens of places in a
dozen steps can say no, and every one of them ends the request in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from situate.cluster.errors.field_errors import FieldError, Refused, aggregate, bad_request
from situate.cluster.errors.go_text import quote
from situate.cluster.storage.resources import Resource

MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


class Declined(Exception):
    """Ends a request with a refusal."""

    def __init__(self, refused: Refused, metadata: Mapping[str, Any] | None = None) -> None:
        super().__init__(refused.message)
        self.refused = refused
        self.metadata = metadata or {}
        """Of the Status: the token with which an expired list may go on."""
        self.warnings: Sequence[str] = ()
        """Shown to the client beside the refusal."""


def accepted(value: Any) -> Any:
    """The value, unless it is a refusal: that ends the request."""
    if isinstance(value, Refused):
        raise Declined(value)
    return value


def _details(resource: Resource, name: str, **more: Any) -> dict[str, Any]:
    details: dict[str, Any] = {}
    if name:
        details["name"] = name
    if resource.group:
        details["group"] = resource.group
    details["kind"] = resource.plural
    details.update(more)
    return details


def not_found(resource: Resource, name: str) -> Refused:
    return Refused(404, "NotFound", f"{resource.id} {quote(name)} not found", _details(resource, name))


def no_such_path(why: str = "") -> Refused:
    """What a resource that is not served is answered with; `why` says that it was left out on purpose."""
    text = "the server could not find the requested resource"
    return Refused(404, "NotFound", f"{text}: {why}" if why else text)


def already_exists(resource: Resource, name: str) -> Refused:
    return Refused(409, "AlreadyExists", f"{resource.id} {quote(name)} already exists", _details(resource, name))


def conflict(resource: Resource, name: str, why: str, kind: str = "") -> Refused:
    """`kind` replaces the resource's id where upstream says something else."""
    shown = kind or resource.id
    details = _details(resource, name)
    if kind:
        details["kind"] = kind
    return Refused(409, "Conflict", f"Operation cannot be fulfilled on {shown} {quote(name)}: {why}", details)


def forbidden(resource: Resource, name: str, why: str) -> Refused:
    shown = f"{resource.id} {quote(name)} is forbidden" if name else f"{resource.id} is forbidden"
    return Refused(403, "Forbidden", f"{shown}: {why}", _details(resource, name))


def method_not_allowed() -> Refused:
    return Refused(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")


def unsupported_media_type(given: str, supported: Sequence[str]) -> Refused:
    """The body is in a format that is not understood."""
    text = f"the body of the request was in an unknown format - accepted media types include: {', '.join(supported)}"
    if given in ("application/vnd.kubernetes.protobuf", "application/cbor"):
        text = f"{text}; situate's embedded API server does not read {given}"
    return Refused(415, "UnsupportedMediaType", text)


def unsupported_patch() -> Refused:
    """The patch is in a format that the resource does not take."""
    return Refused(415, "UnsupportedMediaType", "415: Unsupported Media Type")


def not_acceptable() -> Refused:
    """The client takes none of the formats that can be written."""
    return Refused(
        406,
        "NotAcceptable",
        "only the following media types are accepted: application/json, application/json;stream=watch; "
        "situate's embedded API server does not write protobuf, CBOR or YAML",
    )


def internal_error(message: str) -> Refused:
    return Refused(500, "InternalError", f"Internal error occurred: {message}", {"causes": [{"message": message}]})


def expired(message: str) -> Refused:
    return Refused(410, "Expired", message)


def too_large_revision(asked: int, current: int) -> Refused:
    """A read at a revision that is not there yet."""
    return Refused(
        504,
        "Timeout",
        f"Timeout: Too large resource version: {asked}, current: {current}",
        {
            "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
            "retryAfterSeconds": 1,
        },
    )


def invalid_options(kind: str, errors: Sequence[FieldError]) -> Refused:
    """The parameters of a request (`ListOptions`, `DeleteOptions`, ...) contradict each other."""
    details: Mapping[str, Any] = {
        "group": "meta.k8s.io",
        "kind": kind,
        "causes": [error.cause() for error in errors],
    }
    return Refused(422, "Invalid", f'{kind}.meta.k8s.io "" is invalid: {aggregate(errors)}', details)


def invalid_resource(resource: Resource, name: str, errors: Sequence[FieldError]) -> Refused:
    """A 422 that, unlike those of validation, names the resource and not the kind (registry store's Update)."""
    details = {**_details(resource, name), "causes": [error.cause() for error in errors]}
    return Refused(422, "Invalid", f"{resource.id} {quote(name)} is invalid: {aggregate(errors)}", details)


def refuse_feature(feature: str) -> Refused:
    """Something of Kubernetes that this server does not do and says so."""
    return bad_request(f"situate's embedded API server does not support {feature}")

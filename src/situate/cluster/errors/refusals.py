"""Refusals of the API that are not about a field, with upstream's texts (apimachinery api/errors).

`RequestRefused` carries a refusal through the steps of a request to `ApiServer`, which alone catches it. Dozens of
places in a dozen steps can refuse a request, and each of them ends the request in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from situate.cluster.errors.field_errors import FieldError, Refused, join_errors
from situate.cluster.errors.go_text import quote
from situate.cluster.storage.resources import Resource

MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


class RequestRefused(Exception):
    """Exception that ends a request with a refusal."""

    def __init__(self, refused: Refused, metadata: Mapping[str, Any] | None = None) -> None:
        super().__init__(refused.message)
        self.refused = refused
        self.metadata = metadata or {}
        """Metadata of the Status: the token with which the client can continue an expired list."""
        self.warnings: Sequence[str] = ()
        """Warnings that the client receives together with the refusal."""


def raise_if_refused(value: Any) -> Any:
    """Return the value. Raises `RequestRefused` if the value is a refusal."""
    if isinstance(value, Refused):
        raise RequestRefused(value)
    return value


def status_details(resource: Resource, name: str, **more: Any) -> dict[str, Any]:
    """Return the details of a Status about an object."""
    details = {"name": name, "group": resource.group, "kind": resource.plural}
    return {**{key: text for key, text in details.items() if text}, **more}


def not_found(resource: Resource, name: str) -> Refused:
    return Refused(404, "NotFound", f"{resource.id} {quote(name)} not found", status_details(resource, name))


def no_such_path(why: str = "") -> Refused:
    """Build the 404 for a resource that is not served. `why` says that the resource was left out on purpose."""
    text = "the server could not find the requested resource"
    return Refused(404, "NotFound", f"{text}: {why}" if why else text)


def already_exists(resource: Resource, name: str) -> Refused:
    return Refused(409, "AlreadyExists", f"{resource.id} {quote(name)} already exists", status_details(resource, name))


def conflict(resource: Resource, name: str, why: str, kind: str = "") -> Refused:
    """Build the 409. `kind` replaces the resource's id where upstream uses another word."""
    shown = kind or resource.id
    details = status_details(resource, name)
    if kind:
        details["kind"] = kind
    return Refused(409, "Conflict", f"Operation cannot be fulfilled on {shown} {quote(name)}: {why}", details)


def storage_conflict(resource: Resource, namespace: str, name: str, field: str, asked: str, found: str) -> Refused:
    """Build the 409 for a UID or ResourceVersion that the store finds to be another one."""
    place = f"{namespace}/" if namespace else ""
    why = (
        f"StorageError: invalid object, Code: 4, Key: /registry/{resource.plural}/{place}{name}, ResourceVersion: 0, "
        f"AdditionalErrorMsg: Precondition failed: {field} in precondition: {asked}, {field} in object meta: {found}"
    )
    return conflict(resource, name, why)


def forbidden(resource: Resource, name: str, why: str) -> Refused:
    shown = f"{resource.id} {quote(name)} is forbidden" if name else f"{resource.id} is forbidden"
    return Refused(403, "Forbidden", f"{shown}: {why}", status_details(resource, name))


def method_not_allowed() -> Refused:
    return Refused(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")


def unsupported_media_type(given: str, supported: Sequence[str]) -> Refused:
    """Build the 415 for a body in a format that the server cannot read."""
    text = f"the body of the request was in an unknown format - accepted media types include: {', '.join(supported)}"
    if given in ("application/vnd.kubernetes.protobuf", "application/cbor"):
        text = f"{text}; situate's embedded API server does not read {given}"
    return Refused(415, "UnsupportedMediaType", text)


def unsupported_patch() -> Refused:
    """Build the 415 for a patch in a format that the resource does not support."""
    return Refused(415, "UnsupportedMediaType", "415: Unsupported Media Type")


def not_acceptable() -> Refused:
    """Build the 406 for a client that accepts none of the formats that the server can write."""
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
    """Build the 504 for a read at a revision that does not exist yet."""
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
    """Build the 422 for parameters of a request (`ListOptions`, `DeleteOptions`, ...) that contradict each other."""
    details: Mapping[str, Any] = {
        "group": "meta.k8s.io",
        "kind": kind,
        "causes": [error.cause() for error in errors],
    }
    return Refused(422, "Invalid", f'{kind}.meta.k8s.io "" is invalid: {join_errors(errors)}', details)


def invalid_resource(resource: Resource, name: str, errors: Sequence[FieldError]) -> Refused:
    """Build the 422 that names the resource; that of validation names the kind (registry store's Update)."""
    details = {**status_details(resource, name), "causes": [error.cause() for error in errors]}
    return Refused(422, "Invalid", f"{resource.id} {quote(name)} is invalid: {join_errors(errors)}", details)

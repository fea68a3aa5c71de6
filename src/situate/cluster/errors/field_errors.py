"""Field errors of the API server, and the Status that reports them.

Texts and reasons are those of `k8s.io/apimachinery/pkg/util/validation/field` and `pkg/api/errors`. The packages
`validation` and `structural` find the errors in an object. This module only words them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

import msgspec

from situate.cluster.errors.go_text import quote


class ErrorKind(Enum):
    """Closed set of reasons to refuse a field. The value is the reason of the Status cause."""

    NOT_FOUND = "FieldValueNotFound"
    REQUIRED = "FieldValueRequired"
    DUPLICATE = "FieldValueDuplicate"
    INVALID = "FieldValueInvalid"
    NOT_SUPPORTED = "FieldValueNotSupported"
    FORBIDDEN = "FieldValueForbidden"
    TOO_LONG = "FieldValueTooLong"
    TOO_MANY = "FieldValueTooMany"
    INTERNAL = "InternalError"
    TYPE_INVALID = "FieldValueTypeInvalid"


_TITLES: Final = {
    ErrorKind.NOT_FOUND: "Not found",
    ErrorKind.REQUIRED: "Required value",
    ErrorKind.DUPLICATE: "Duplicate value",
    ErrorKind.INVALID: "Invalid value",
    ErrorKind.NOT_SUPPORTED: "Unsupported value",
    ErrorKind.FORBIDDEN: "Forbidden",
    ErrorKind.TOO_LONG: "Too long",
    ErrorKind.TOO_MANY: "Too many",
    ErrorKind.INTERNAL: "Internal error",
    ErrorKind.TYPE_INVALID: "Invalid value",
}


_HTML_ESCAPES: Final = {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}


class Omitted(Enum):
    """Marker for a value that the message leaves out."""

    VALUE = "omitted"


NO_PATH: Final = "<nil>"
"""Path of an error that upstream reports without a field."""


@dataclass(frozen=True, slots=True)
class FieldError:
    """One violation at one field."""

    kind: ErrorKind
    field: str
    """Path such as `spec.containers[0].image`, without a leading dot."""
    body: str
    """Whole text after `field: `."""

    def __str__(self) -> str:
        return f"{self.field}: {self.body}"

    def cause(self) -> dict[str, str]:
        """Return the entry for `details.causes` of a Status."""
        return {"reason": self.kind.value, "message": self.body, "field": self.field}


def _build_error(kind: ErrorKind, path: str, detail: str, value: Any = Omitted.VALUE) -> FieldError:
    body = _TITLES[kind]
    if value is not Omitted.VALUE:
        body = f"{body}: {_format_value(value)}"
    return FieldError(kind, path, f"{body}: {detail}" if detail else body)


def _format_value(value: Any) -> str:
    """Return a rejected value as Go prints it.

    A string is quoted. Any other value is compact JSON, with the characters that are special in HTML escaped.
    """
    if isinstance(value, str):
        return quote(value)
    return msgspec.json.encode(value).decode().translate(_HTML_ESCAPES)


def required(path: str, detail: str = "") -> FieldError:
    """Build the error for a field that is absent or empty."""
    return _build_error(ErrorKind.REQUIRED, path, detail)


def invalid(path: str, value: Any, detail: str) -> FieldError:
    """Build the error for a value that is malformed or out of bounds."""
    return _build_error(ErrorKind.INVALID, path, detail, value)


def type_invalid(path: str, value: Any, detail: str) -> FieldError:
    """Build the error for a value of the wrong JSON type."""
    return _build_error(ErrorKind.TYPE_INVALID, path, detail, value)


def not_supported(path: str, value: Any, valid: Iterable[str]) -> FieldError:
    """Build the error for a value outside a closed set. `valid` is shown in the order given."""
    shown = ", ".join(quote(choice) for choice in valid)
    return _build_error(ErrorKind.NOT_SUPPORTED, path, f"supported values: {shown}" if shown else "", value)


def duplicate(path: str, value: Any) -> FieldError:
    """Build the error for a value that must be unique and is not."""
    return _build_error(ErrorKind.DUPLICATE, path, "", value)


def not_found(path: str, value: Any) -> FieldError:
    """Build the error for a value that names an object that does not exist."""
    return _build_error(ErrorKind.NOT_FOUND, path, "", value)


def forbidden(path: str, detail: str) -> FieldError:
    """Build the error for a field that may not be set or changed here."""
    return _build_error(ErrorKind.FORBIDDEN, path, detail)


def too_long(path: str, maximum: int, unit: str = "byte") -> FieldError:
    """Build the error for a text longer than `maximum` of `unit` (byte or character)."""
    return _build_error(ErrorKind.TOO_LONG, path, f"may not be more than {maximum} {unit}{'' if maximum == 1 else 's'}")


def too_many(path: str, actual: int, maximum: int) -> FieldError:
    """Build the error for a list with `actual` items where at most `maximum` are allowed."""
    items = "item" if maximum == 1 else "items"
    return _build_error(ErrorKind.TOO_MANY, path, f"must have at most {maximum} {items}", actual)


def internal(path: str, detail: str) -> FieldError:
    """Build the error for a field that the server could not check."""
    return _build_error(ErrorKind.INTERNAL, path, detail)


def join_errors(errors: Sequence[FieldError]) -> str:
    """Join all errors in one text.

    A single error is shown as it is, several as `[a, b]`. Equal texts appear once, in the order found.
    """
    texts = list(dict.fromkeys(map(str, errors)))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


@dataclass(frozen=True, slots=True)
class Refused:
    """A request that failed. Functions return it; it is never raised across modules."""

    code: int
    reason: str
    """A metav1.StatusReason; empty if upstream leaves it out."""
    message: str
    details: Mapping[str, Any] = field(default_factory=dict)

    def status(self) -> dict[str, Any]:
        """Return the body of `kind: Status`."""
        body: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            body["reason"] = self.reason
        if self.details:
            body["details"] = dict(self.details)
        body["code"] = self.code
        return body


def invalid_object(group: str, kind: str, name: str, errors: Sequence[FieldError]) -> Refused:
    """Build the 422 for an object that breaks rules.

    `errors` is not empty. For a patch, kind and name are empty.
    """
    shown = f"{kind}.{group}" if group else kind
    details: dict[str, Any] = {}
    if name:
        details["name"] = name
    if group:
        details["group"] = group
    if kind:
        details["kind"] = kind
    details["causes"] = [error.cause() for error in errors]
    return Refused(422, "Invalid", f"{shown} {quote(name)} is invalid: {join_errors(errors)}", details)


def bad_request(message: str) -> Refused:
    """Build the 400 for a body or a parameter that cannot be parsed."""
    return Refused(400, "BadRequest", message)

"""Answers in the format of Kubernetes: a Status for every refusal (apimachinery api/errors), JSON for other answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from situate.objects.messages import Response

JSON: Final = "application/json"
_encode: Final = msgspec.json.Encoder(order="deterministic").encode


class Declined(Exception):
    """Refuses the current request; may be raised anywhere in its handling."""

    def __init__(
        self, code: int, reason: str, message: str, details: Mapping[str, Any] | None = None, retry_after_s: int = 0
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.details = details or {}
        self.retry_after_s = retry_after_s
        """0: no Retry-After header."""

    def response(self) -> Response:
        status: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": str(self),
            "reason": self.reason,
            "code": self.code,
        }
        details = dict(self.details)
        headers = {"content-type": JSON}
        if self.retry_after_s:
            details["retryAfterSeconds"] = self.retry_after_s
            headers["retry-after"] = str(self.retry_after_s)
        if details:
            status["details"] = details
        if self.code == 401:
            headers["www-authenticate"] = 'Bearer realm="situate"'
        return Response(self.code, _encode(status), headers)


def success_response(value: Any, warnings: Sequence[str] = ()) -> Response:
    """Build an answer of status 200; kubectl shows each warning."""
    headers = {"content-type": JSON, "cache-control": "no-cache, private"}
    if warnings:
        headers["warning"] = ", ".join(f'299 - "{_header_text(warning)}"' for warning in warnings)
    return Response(200, _encode(value), headers)


def bad_request(message: str) -> Declined:
    return Declined(400, "BadRequest", message)


def unauthorized(message: str = "Unauthorized") -> Declined:
    return Declined(401, "Unauthorized", message)


def no_such_path() -> Declined:
    return Declined(404, "NotFound", "the server could not find the requested resource")


def method_not_allowed(message: str) -> Declined:
    return Declined(405, "MethodNotAllowed", message)


def service_unavailable(message: str) -> Declined:
    return Declined(503, "ServiceUnavailable", message, retry_after_s=_RETRY_AFTER_S)


def internal_error(message: str) -> Declined:
    return Declined(500, "InternalError", message)


_RETRY_AFTER_S: Final = 5


def _header_text(text: str) -> str:
    """Make a text safe for a header: one line of plain characters."""
    plain = text.encode("ascii", "backslashreplace").decode()
    return "".join(each if each.isprintable() else " " for each in plain).replace("\\", "\\\\").replace('"', '\\"')

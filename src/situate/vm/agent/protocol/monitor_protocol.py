"""Messages of the monitor in the guest: JSON over a websocket, one to one (C35).

The agent first sends the versions that it supports. The monitor answers with one, or with an error. Then each message
has a type, a content and an id. Ids of the agent are even, ids of the monitor odd, and a reply repeats the id of its
message. The monitor is not trusted: an invalid message becomes a value, and `invalid_message` answers it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import msgspec

from situate.vm.api.parse_errors import ParseFailure, Part, Place
from situate.vm.model.resource_amounts import Amounts

PORT: Final = 10301
PATH: Final = "/monitor"
VERSION: Final = 1
FIRST_ID: Final = 2
"""First id of the agent. The next one is two higher."""
MAX_MESSAGE: Final = 64 * 1024
"""Bytes."""
_ABOUT: Final = "the monitor's message"


@dataclass(frozen=True, slots=True)
class UpscaleRequest:
    """The guest needs more memory."""


@dataclass(frozen=True, slots=True)
class UpscaleConfirmation:
    """The guest uses the granted amount."""


@dataclass(frozen=True, slots=True)
class DownscaleResult:
    ok: bool
    """Whether the guest can use less, and has adapted already."""
    status: str


@dataclass(frozen=True, slots=True)
class HealthCheck:
    """Health check of the monitor, or its reply to the agent's."""


@dataclass(frozen=True, slots=True)
class Complaint:
    """An error of the monitor, or a message that it did not understand."""

    error: str
    understood: bool
    """False: InvalidMessage."""


Content: TypeAlias = UpscaleRequest | UpscaleConfirmation | DownscaleResult | HealthCheck | Complaint


@dataclass(frozen=True, slots=True)
class MonitorMessage:
    id: int
    content: Content


@dataclass(frozen=True, slots=True)
class InvalidMessage:
    """An invalid message."""

    why: str
    id: int | None
    """None: the id is unreadable too."""


def handshake_message() -> str:
    """Return the first message of a connection."""
    return _encode({"min": VERSION, "max": VERSION})


def handshake_error(text: str | bytes) -> str:
    """Return why the monitor's answer is no agreement on a version; empty if it is."""
    try:
        part = Part.parse_json(_decode(text), Place(_ABOUT, ""))
        part.mapping()
        if part["error"].is_present:
            return f"the monitor refused the connection: {part['error'].text()[:200]}"
        version = part["version"].integer()
    except ParseFailure as problem:
        return str(problem.error)
    return (
        "" if version == VERSION else f"the monitor uses protocol version {version}, the agent supports only {VERSION}"
    )


def upscale_notification(id_: int, granted: Amounts) -> str:
    return _message(id_, "UpscaleNotification", {"granted": _allocation(granted)})


def downscale_request(id_: int, target: Amounts) -> str:
    return _message(id_, "DownscaleRequest", {"target": _allocation(target)})


def health_check(id_: int) -> str:
    return _message(id_, "HealthCheck", {})


def invalid_message(id_: int, error: str) -> str:
    return _message(id_, "InvalidMessage", {"error": error})


def parse_message(text: str | bytes) -> MonitorMessage | InvalidMessage:
    """Parse a message of the monitor."""
    id_: int | None = None
    try:
        part = Part.parse_json(_decode(text), Place(_ABOUT, ""))
        part.mapping()
        id_ = part["id"].integer()
        return MonitorMessage(id_, _content(part))
    except ParseFailure as problem:
        return InvalidMessage(str(problem.error), id_)


def _content(part: Part) -> Content:
    """Parse type and content of a message. Raises `ParseFailure`."""
    kinds = [
        "UpscaleRequest",
        "UpscaleConfirmation",
        "DownscaleResult",
        "HealthCheck",
        "InternalError",
        "InvalidMessage",
    ]
    kind, content = part["type"].choice(*kinds), part["content"]
    content.mapping()
    match kind:
        case "UpscaleRequest":
            return UpscaleRequest()
        case "UpscaleConfirmation":
            return UpscaleConfirmation()
        case "DownscaleResult":
            ok = _field_in_either_spelling(content, "Ok", "ok")
            if not isinstance(ok.value, bool):
                raise ok.failure("true or false")
            return DownscaleResult(
                ok.value, _field_in_either_spelling(content, "Status", "status").text(default="")[:500]
            )
        case "HealthCheck":
            return HealthCheck()
        case _:
            return Complaint(content["error"].text(default="")[:500], understood=kind == "InternalError")


def _field_in_either_spelling(content: Part, *names: str) -> Part:
    """Return a field in either spelling: monitors use capitals or not, and upstream reads both."""
    return next((content[name] for name in names if content[name].is_present), content[names[0]])


def _allocation(amounts: Amounts) -> dict[str, Any]:
    return {"cpu": amounts.cpu / 1000, "mem": amounts.memory}


def _message(id_: int, kind: str, content: dict[str, Any]) -> str:
    return _encode({"content": content, "type": kind, "id": id_})


def _encode(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _decode(text: str | bytes) -> str:
    return text if isinstance(text, str) else text.decode("utf-8", "replace")

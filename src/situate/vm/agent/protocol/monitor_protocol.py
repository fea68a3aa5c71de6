"""Messages of the monitor in the guest: JSON over a websocket, one to one (C35).

The agent first sends the versions that it supports. The monitor answers with one, or with an error. Then each message
has a type, a content and an id. Ids of the agent are even, ids of the monitor odd, and a reply repeats the id of its
message. The monitor is not trusted: an invalid message becomes a value, and `invalid_message` answers it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import msgspec

from situate.vm.api.parse_errors import Misread, Part, Place
from situate.vm.model.resource_amounts import Amounts

PORT: Final = 10301
PATH: Final = "/monitor"
VERSION: Final = 1
FIRST_ID: Final = 2
"""First id of the agent. The next one is two higher."""
MOST_MESSAGE: Final = 64 * 1024
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
class Heard:
    id: int
    content: Content


@dataclass(frozen=True, slots=True)
class NotUnderstood:
    """An invalid message."""

    why: str
    id: int | None
    """None: the id is unreadable too."""


def opening() -> str:
    """Return the first message of a connection."""
    return _text({"min": VERSION, "max": VERSION})


def opened(text: str | bytes) -> str:
    """Return why the monitor's answer is no agreement on a version; empty if it is."""
    try:
        part = Part.of_text(_decoded(text), Place(_ABOUT, ""))
        part.mapping()
        if part["error"].there:
            return f"the monitor refused the connection: {part['error'].text()[:200]}"
        version = part["version"].integer()
    except Misread as problem:
        return str(problem.unreadable)
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


def heard(text: str | bytes) -> Heard | NotUnderstood:
    """Parse a message of the monitor."""
    id_: int | None = None
    try:
        part = Part.of_text(_decoded(text), Place(_ABOUT, ""))
        part.mapping()
        id_ = part["id"].integer()
        return Heard(id_, _content(part))
    except Misread as problem:
        return NotUnderstood(str(problem.unreadable), id_)


def _content(part: Part) -> Content:
    """Parse type and content of a message. Raises `Misread`."""
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
            ok = _either(content, "Ok", "ok")
            if not isinstance(ok.value, bool):
                raise ok.misread("true or false")
            return DownscaleResult(ok.value, _either(content, "Status", "status").text(default="")[:500])
        case "HealthCheck":
            return HealthCheck()
        case _:
            return Complaint(content["error"].text(default="")[:500], understood=kind == "InternalError")


def _either(content: Part, *names: str) -> Part:
    """Return a field in either spelling: monitors use capitals or not, and upstream reads both."""
    return next((content[name] for name in names if content[name].there), content[names[0]])


def _allocation(amounts: Amounts) -> dict[str, Any]:
    return {"cpu": amounts.cpu / 1000, "mem": amounts.memory}


def _message(id_: int, kind: str, content: dict[str, Any]) -> str:
    return _text({"content": content, "type": kind, "id": id_})


def _text(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _decoded(text: str | bytes) -> str:
    return text if isinstance(text, str) else text.decode("utf-8", "replace")

"""The words of the monitor (C35)."""

from __future__ import annotations

import json

import pytest

from situate.vm.agent.protocol.monitor_protocol import (
    Complaint,
    Content,
    DownscaleResult,
    HealthCheck,
    InvalidMessage,
    MonitorMessage,
    UpscaleConfirmation,
    UpscaleRequest,
    downscale_request,
    handshake_error,
    handshake_message,
    health_check,
    invalid_message,
    parse_message,
    upscale_notification,
)
from situate.vm.model.resource_amounts import Amounts

pytestmark = pytest.mark.rule("vm:C35")


def test_the_agent_opens_with_the_versions_that_it_knows() -> None:
    assert handshake_message() == '{"min":1,"max":1}'
    assert handshake_error('{"version":1}') == ""


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ('{"error":"no"}', "refused the connection: no"),
        ('{"version":2}', "uses protocol version 2"),
        ("{}", "version: missing"),
        ('"yes"', "a mapping"),
        ("{", "JSON"),
        (b"\xff", "JSON"),
    ],
)
def test_another_answer_is_no_agreement(answer: str | bytes, why: str) -> None:
    assert why in handshake_error(answer)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        (
            upscale_notification(2, Amounts.from_values(250, 2**30)),
            ("UpscaleNotification", {"granted": {"cpu": 0.25, "mem": 2**30}}),
        ),
        (downscale_request(2, Amounts.from_values(1000, 7)), ("DownscaleRequest", {"target": {"cpu": 1.0, "mem": 7}})),
        (health_check(2), ("HealthCheck", {})),
        (invalid_message(2, "what?"), ("InvalidMessage", {"error": "what?"})),
    ],
)
def test_what_is_sent(text: str, want: tuple[str, object]) -> None:
    assert json.loads(text) == {"type": want[0], "content": want[1], "id": 2}


@pytest.mark.parametrize(
    ("kind", "content", "want"),
    [
        ("UpscaleRequest", {}, UpscaleRequest()),
        ("UpscaleConfirmation", {}, UpscaleConfirmation()),
        ("DownscaleResult", {"Ok": True, "Status": "fine"}, DownscaleResult(True, "fine")),
        ("DownscaleResult", {"ok": False, "status": "full"}, DownscaleResult(False, "full")),
        ("HealthCheck", {}, HealthCheck()),
        ("InternalError", {"error": "oops"}, Complaint("oops", understood=True)),
        ("InvalidMessage", {"error": "what?"}, Complaint("what?", understood=False)),
    ],
)
def test_what_is_heard(kind: str, content: object, want: Content) -> None:
    assert parse_message(json.dumps({"type": kind, "content": content, "id": 3})) == MonitorMessage(3, want)


@pytest.mark.parametrize(
    ("text", "id_"),
    [
        ("", None),
        ("[1]", None),
        ('{"type":"HealthCheck","content":{}}', None),
        ('{"type":"HealthCheck","content":{},"id":-1}', None),
        ('{"type":"Nonsense","content":{},"id":3}', 3),
        ('{"type":"DownscaleResult","content":{"Ok":"yes"},"id":2}', 2),
        ('{"type":"DownscaleResult","content":[],"id":2}', 2),
        ("[" * 100_000, None),
    ],
)
def test_what_makes_no_sense_is_a_value(text: str, id_: int | None) -> None:
    found = parse_message(text)
    assert isinstance(found, InvalidMessage)
    assert found.id == id_

"""The agent's half of the permit protocol (C12, C14, C18, B28)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from situate.vm.agent.decide.core import PluginAction
from situate.vm.agent.model.revisions import RevisionAt
from situate.vm.agent.protocol.permits import (
    MAX_ANSWER,
    BadAnswer,
    PermitResponse,
    objection,
    parse_answer,
    request_body,
)
from situate.vm.model.pods_and_nodes import Ref
from situate.vm.model.resource_amounts import Amounts
from tests.vm.agent.builders import UNIT, units


def body(**fields: Any) -> bytes:
    return json.dumps({"permit": {"vCPUs": "500m", "mem": "2Gi"}, **fields}).encode()


@pytest.mark.rule("vm:C12", "vm:D24")
def test_a_request_has_the_fields_of_version_five() -> None:
    action = PluginAction(units(1), units(2), 0.5, RevisionAt())
    assert json.loads(request_body(Ref("default", "vm-a-x"), UNIT, action, lowers_at_once=True)) == {
        "protoVersion": 7,
        "pod": {"namespace": "default", "name": "vm-a-x"},
        "computeUnit": {"vCPUs": "250m", "mem": "1Gi"},
        "resources": {"vCPUs": "500m", "mem": "2Gi"},
        "lastPermit": {"vCPUs": "250m", "mem": "1Gi"},
        "metrics": {"loadAvg1M": 0.5},
        "lowersAtOnce": True,
    }


@pytest.mark.rule("vm:C12")
def test_the_longest_request_fits_into_what_is_read() -> None:
    action = PluginAction(
        Amounts.from_values(123_457, 2**50 + 1),
        Amounts.from_values(511_999, 2**50 + 1),
        12345.678901234567,
        RevisionAt(),
    )
    pod = Ref("n" * 63, "p" * 253)
    assert len(request_body(pod, UNIT, action, lowers_at_once=True, sequence=2**53, run="f" * 16)) <= 1024


@pytest.mark.rule("vm:C12")
def test_the_first_contact_has_neither_permit_nor_load() -> None:
    told = json.loads(
        request_body(Ref("a", "b"), UNIT, PluginAction(None, units(1), None, RevisionAt()), lowers_at_once=False)
    )
    assert (told["lastPermit"], told["metrics"], "lowersAtOnce" in told) == (None, None, False)


@pytest.mark.rule("vm:C12", "vm:B28")
@pytest.mark.parametrize(
    ("fields", "want"),
    [
        pytest.param({}, PermitResponse(units(2)), id="version five"),
        pytest.param({"migrate": {}}, PermitResponse(units(2), migrates=True), id="about to be moved"),
        pytest.param(
            {"migrate": None, "computeUnit": 5}, PermitResponse(units(2)), id="null and unknown fields are nothing"
        ),
        pytest.param(
            {"reason": "noRoom", "retryAfterMs": 250, "plan": "p1", "expires": "soon"},
            PermitResponse(units(2), reason="noRoom", retry_after_ms=250, plan="p1"),
            id="a newer scheduler",
        ),
        pytest.param(
            {"retryAfterMs": 1e300, "reason": 7}, PermitResponse(units(2), retry_after_ms=60_000), id="bounded"
        ),
        pytest.param({"retryAfterMs": -1, "plan": []}, PermitResponse(units(2)), id="what makes no sense is nothing"),
        pytest.param({"retryAfterMs": True}, PermitResponse(units(2)), id="true is no number"),
    ],
)
def test_what_an_answer_says(fields: dict[str, Any], want: PermitResponse) -> None:
    assert parse_answer(200, body(**fields)) == want


@pytest.mark.rule("vm:C14", "vm:F5")
@pytest.mark.parametrize(
    ("status", "received", "why"),
    [
        (503, b"not the leader", "answered with status 503: not the leader"),
        (204, b"", "answered with status 204"),
        (200, b"", "JSON"),
        (200, b"[]", "a mapping"),
        (200, b"{}", "permit: missing"),
        (200, b'{"permit":{"vCPUs":1}}', "permit.mem: missing"),
        (200, b'{"permit":{"vCPUs":-1,"mem":"1Gi"}}', "permit.vCPUs: found -1"),
        (200, b'{"permit":{"vCPUs":"1","mem":"a lot"}}', "permit.mem"),
        (200, b'{"permit":{"vCPUs":1e99,"mem":1}}', "permit.vCPUs"),
        (200, b" " * (MAX_ANSWER + 1), "longer than"),
    ],
)
def test_what_is_no_permit_is_a_failure(status: int, received: bytes, why: str) -> None:
    found = parse_answer(status, received)
    assert isinstance(found, BadAnswer)
    assert why in found.why


@pytest.mark.rule("vm:C18")
@pytest.mark.parametrize(
    ("permit", "why"),
    [
        (units(2), ""),
        (units(3), ""),
        (Amounts.zero(), "zero"),
        (Amounts.from_values(750, 4 * 2**30), "greater than request"),
        (Amounts.from_values(250, 3 * 2**30), "less than VM"),
    ],
)
def test_a_permit_lies_between_what_is_used_and_what_was_asked_for(permit: Amounts, why: str) -> None:
    found = objection(permit, requested=units(3), used=units(2))
    assert why in found
    assert bool(found) == bool(why)

"""What agents are answered."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from situate.objects.kinds.meta import ObjectMeta
from situate.vm.api.quantities import amounts_text
from situate.vm.api.well_known import APPROVED, REQUESTED, SCALING_UNIT
from situate.vm.model.pods_and_nodes import Ref
from situate.vm.model.policy import Rules
from situate.vm.model.resource_amounts import Amounts
from situate.vm.protocol.permit import PermitDecision as Told
from situate.vm.protocol.permit import PermitReason
from situate.vm.protocol.permit_request import (
    MAX_BODY,
    HttpAnswer,
    ObservedPod,
    PermitRequest,
    patch_failure_answer,
    permit_refusal,
    read_request,
    request_annotations,
    request_patch,
)

GIB = 2**30
OURS, COMPAT = Rules(), Rules(compat=True)
POD = Ref("default", "a-xyz")
UNIT = Amounts.from_values(250, GIB)
VM = Ref("default", "a")
Json = Any


def units(count: int) -> Amounts:
    return Amounts.from_values(250 * count, GIB * count)


def ask(count: int, last: int | None, **more: Any) -> PermitRequest:
    return PermitRequest(POD, UNIT, units(count), None if last is None else units(last), **more)


def shown(wants: int | None, has: int | None, **more: Any) -> ObservedPod:
    said = {SCALING_UNIT: UNIT, REQUESTED: None if wants is None else units(wants)}
    said[APPROVED] = None if has is None else units(has)
    texts = {key: amounts_text(each) for key, each in said.items() if each is not None}
    return ObservedPod(more.pop("node", "n1"), more.pop("machine", VM), texts, **more)


def body(**more: Json) -> bytes:
    document = {
        "protoVersion": 7,
        "pod": {"namespace": "default", "name": "a-xyz"},
        "computeUnit": {"vCPUs": "250m", "mem": "1Gi"},
        "resources": {"vCPUs": 1, "mem": "4Gi"},
        "lastPermit": None,
        "metrics": None,
        **more,
    }
    return json.dumps({key: value for key, value in document.items() if value is not ...}).encode()


@pytest.mark.rule("vm:C12", "vm:D24")
def test_a_request() -> None:
    last = {"vCPUs": "0.5", "mem": "2048Mi"}
    more = {
        "lastPermit": last,
        "metrics": {"loadAvg1M": 0.5},
        "lowersAtOnce": True,
        "run": "r",
        "sequence": 7,
        "extra": [],
    }
    assert read_request("POST", body(**more)) == ask(4, 2, load1=0.5, lowers_at_once=True, sequence=7, run="r")
    alone = read_request("POST", body(sequence=7))
    assert isinstance(alone, PermitRequest)
    assert alone.sequence is None, "a number is nothing without its run"
    assert read_request("POST", body()) == ask(4, None)


@pytest.mark.rule("vm:C14")
@pytest.mark.parametrize(
    ("method", "sent", "said"),
    [
        ("GET", body(), "must be POST: method 'GET' is not supported"),
        ("POST", b"", "bad JSON: the body is not JSON"),
        ("POST", b"{", "the body is not JSON"),
        ("POST", b"\xff\xfe", "the body is not JSON"),
        ("POST", b"[" * 1024, "the body is not JSON"),
        ("POST", b'{"protoVersion":NaN}', "NaN is not JSON"),
        ("POST", b"[]", "bad JSON: request: found [], allowed: a mapping"),
        ("POST", b"1" * 1024, "allowed: a mapping"),
        (
            "POST",
            body(protoVersion=0),
            "invalid protocol version: protocol version 0 is not supported, send protoVersion 7 (v5.0)",
        ),
        ("POST", body(protoVersion=6), "protocol version mismatch: protocol v4.0 is not supported"),
        ("POST", body(protoVersion=8), "version 8 is not supported"),
        ("POST", body(protoVersion=...), "version 0 is not supported"),
        ("POST", body(protoVersion="7"), 'protoVersion: found "7", allowed: an integer'),
        ("POST", body(protoVersion=1, resources=..., computeUnit=...), "protocol v1.0 is not supported"),
        ("POST", body(protoVersion=10**30), "protoVersion: found 1000"),
        (
            "POST",
            body(computeUnit={"vCPUs": 0, "mem": "1Gi"}),
            "computeUnit fields must be non-zero quantities: request: comp",
        ),
        ("POST", body(computeUnit={"vCPUs": "1e-999999999", "mem": "1Gi"}), "computeUnit.vCPUs"),
        ("POST", body(resources={"vCPUs": "1E999999999", "mem": 1}), "is not a quantity"),
        ("POST", body(resources={"vCPUs": 1, "mem": "9" * 190 + "Ei"}), "resources.mem"),
        ("POST", body(resources={"vCPUs": 1, "mem": 10**400}), "resources.mem"),
        ("POST", body(resources=[]).replace(b"[]", b'{"vCPUs":1E999999999}'), "resources.vCPUs"),
        ("POST", body(lastPermit={"vCPUs": "1e200", "mem": 1}), "lastPermit.vCPUs"),
        ("POST", body(computeUnit={"vCPUs": 1, "mem": 0}), "computeUnit.mem: found 0"),
        ("POST", body(protoVersion=6, computeUnit={"vCPUs": 0, "mem": 0}), "v4.0 is not supported"),
        ("POST", body(resources={"vCPUs": -1, "mem": 0}), "resources.vCPUs: found -1"),
        ("POST", body(pod={"name": 7}), "pod.name: found 7, allowed: text"),
        ("POST", body(sequence="x"), 'sequence: found "x", allowed: an integer'),
        ("POST", body(run=7), "run: found 7, allowed: text"),
        ("POST", body(metrics={"loadAvg1M": -1}), "metrics.loadAvg1M: found -1"),
        ("POST", body(metrics={"loadAvg1M": 10**400}), "metrics.loadAvg1M"),
        ("POST", body(padding="x" * MAX_BODY), "the body is not JSON of at most 1024 bytes"),
    ],
)
def test_a_wrong_request_is_named(method: str, sent: bytes, said: str) -> None:
    answer = read_request(method, sent)
    assert isinstance(answer, HttpAnswer)
    assert (answer.status, answer.content_type) == (400, "text/plain; charset=utf-8")
    assert said in answer.body(OURS).decode()


@pytest.mark.rule("vm:C12")
def test_what_follows_the_first_kibibyte_or_the_first_value_does_not_matter() -> None:
    padding = MAX_BODY - len(body(padding=""))
    full = body(padding="x" * padding)
    assert len(full) == MAX_BODY
    assert read_request("POST", full) == read_request("POST", full + b"}}") == ask(4, None)
    assert read_request("POST", b" \n" + body() + b"{") == ask(4, None)


VALID = body()
DAMAGED = st.builds(
    lambda at, instead: VALID[:at] + instead + VALID[at + 1 :], st.integers(0, len(VALID)), st.binary(max_size=2)
)


@given(st.binary(max_size=60) | DAMAGED)
def test_no_body_gives_a_traceback(sent: bytes) -> None:
    assert isinstance(read_request("POST", sent), HttpAnswer | PermitRequest)


@pytest.mark.rule("vm:C14", "vm:C15")
@pytest.mark.parametrize(
    ("pod", "status", "said"),
    [
        (None, 404, "pod not found"),
        (shown(1, 1, node=""), 404, "pod's node is unknown"),
        (shown(1, 1, node="", machine=None), 404, "pod's node is unknown"),
        (shown(1, 1, machine=None), 400, "pod is not associated with a VM"),
    ],
)
def test_a_pod_that_is_unknown_unbound_or_no_runner_is_refused(pod: ObservedPod | None, status: int, said: str) -> None:
    answer = permit_refusal(ask(2, 1), pod)
    assert answer is not None
    assert answer.status == status
    assert answer.text.startswith(f"{said}: default/a-xyz ")
    assert permit_refusal(ask(2, 1), shown(1, 1)) is None


@pytest.mark.rule("vm:C15")
def test_the_machine_is_written_to_only_if_some_text_differs() -> None:
    assert request_annotations(ask(2, 1), shown(2, 1), COMPAT) is None
    assert request_annotations(ask(2, 1), shown(2, 3), COMPAT) == {
        SCALING_UNIT: '{"vCPUs":"250m","mem":"1Gi"}',
        REQUESTED: '{"vCPUs":"500m","mem":"2Gi"}',
        APPROVED: '{"vCPUs":"250m","mem":"1Gi"}',
    }
    said = request_annotations(ask(2, None), shown(1, 1), COMPAT)
    assert said is not None
    assert list(said) == [SCALING_UNIT, REQUESTED]


@pytest.mark.rule("vm:C4", "vm:C15")
def test_equal_amounts_in_other_words_are_another_text() -> None:
    pod = ObservedPod("n1", VM, {SCALING_UNIT: amounts_text(UNIT), REQUESTED: '{"vCPUs":0.5,"mem":"2Gi"}'})
    assert request_annotations(ask(2, 2), pod, OURS) is not None


@pytest.mark.rule("vm:D8")
def test_what_is_approved_is_the_ledger_s_to_say() -> None:
    """A last permit that nobody ever gave must not become what is approved."""
    said = request_annotations(ask(2, 99), shown(1, 1), OURS)
    assert said is not None
    assert APPROVED not in said


@pytest.mark.rule("vm:D20")
def test_annotations_are_set_whether_or_not_they_are_there() -> None:
    meta = ObjectMeta(name="a", namespace="default", uid="u", resource_version="5", annotations={"x": "y"})
    ours = request_patch({REQUESTED: "{}"}, meta, OURS)
    pointer = "/metadata/annotations/internal.autoscaling.neon.tech~1resources-requested"
    assert {"op": "add", "path": pointer, "value": "{}"} in ours.body
    assert list(request_patch({REQUESTED: "{}"}, meta, COMPAT).body) == [
        {"op": "replace", "path": pointer, "value": "{}"}
    ]
    bare = request_patch({REQUESTED: "{}"}, ObjectMeta(uid="u", resource_version="5"), OURS)
    assert {"op": "add", "path": "/metadata/annotations", "value": {REQUESTED: "{}"}} in bare.body


@pytest.mark.rule("vm:B28")
def test_what_an_answer_says_besides_its_permit() -> None:
    told = Told(units(1), PermitReason.FROZEN, 5.0, "p1", 1_767_225_600.0, migrate=True)
    answer = HttpAnswer(200, units(1), decision=told)
    assert answer.content_type == "application/json"
    assert json.loads(answer.body(OURS)) == {
        "permit": {"vCPUs": "250m", "mem": "1Gi"},
        "migrate": {},
        "reason": "frozen",
        "retryAfterMs": 5000,
        "plan": "p1",
        "expires": "2026-01-01T00:00:00Z",
    }
    assert HttpAnswer(200, units(1)).body(COMPAT) == b'{"permit":{"vCPUs":"250m","mem":"1Gi"}}'
    assert json.loads(HttpAnswer(200, units(1), decision=Told(units(1), PermitReason.GRANTED)).body(OURS)) == {
        "permit": {"vCPUs": "250m", "mem": "1Gi"},
        "reason": "granted",
    }


def test_a_patch_that_failed_is_an_error_of_the_server() -> None:
    answer = patch_failure_answer(ask(2, 1), "it says why")
    assert (answer.status, answer.text) == (500, "failed to patch VM object of pod default/a-xyz: it says why")

"""Whether the server fences is found out by a write that changes nothing; what cannot be found out is said so."""

from __future__ import annotations

import msgspec
import pytest

from situate.kube.client import Client
from situate.objects.messages import Response
from situate.sharding.fencing.admit import Refusal
from situate.sharding.model.names import EPOCH
from situate.sharding.supervisor.controller.fence_check import FenceState, WriteAccess, check_fence, check_write_access
from situate.testing.sharding.world.reports import PATHS, REPORTS
from tests.kube.test_client import FakeTransport

ONE = {"metadata": {"name": "r", "namespace": "team", "uid": "u", "annotations": {EPOCH: "41"}}}


def answer(status: int, message: str) -> Response:
    return Response(status, msgspec.json.encode({"reason": "Forbidden", "message": message, "code": status}))


@pytest.mark.parametrize(
    ("answers", "want"),
    [
        pytest.param([{"items": [ONE]}, ONE], FenceState.MISSING, id="accepted"),
        pytest.param(
            [{"items": [ONE]}, answer(403, f"denied: {Refusal.STEP}")], FenceState.ENFORCED, id="of a supervisor"
        ),
        pytest.param(
            [{"items": [ONE]}, answer(403, f"no: {Refusal.NOT_SUPERVISOR}")], FenceState.ENFORCED, id="of a user"
        ),
        pytest.param(
            [{"items": [ONE]}, answer(403, "you may not patch")], FenceState.UNKNOWN, id="for want of a right"
        ),
        pytest.param([{"items": []}], FenceState.UNKNOWN, id="nothing to try it on"),
        pytest.param([answer(403, "you may not list")], FenceState.UNKNOWN, id="nothing may be read"),
    ],
)
async def test_what_is_found(answers: list[object], want: FenceState) -> None:
    transport = FakeTransport(*answers)  # type: ignore[arg-type]  # each is an answer
    found = await check_fence(Client(transport), REPORTS, "team")
    assert found.fence is want
    assert found.message


async def test_nothing_is_written() -> None:
    transport = FakeTransport({"items": [ONE]}, ONE)
    await check_fence(Client(transport), REPORTS)
    method, path, query, body = transport.last
    assert (method, path, query["dryRun"]) == ("PATCH", REPORTS.path("team", "r"), "All")
    assert int(body["metadata"]["annotations"][EPOCH]) > 42, "a step of one would be an assignment"


TERM = "situate-fencing.reports-term"


def denied(refusal: Refusal) -> Response:
    return answer(403, f"ValidatingAdmissionPolicy '{TERM}' with binding '{TERM}' denied request: {refusal}")


DONE = {"metadata": {"name": "done", "uid": "v"}, "status": {"completedAt": "2026-01-01T00:00:00Z", "successful": True}}


@pytest.mark.finding("N33")
@pytest.mark.parametrize(
    ("answers", "want", "said"),
    [
        pytest.param([{"items": [DONE, ONE]}, ONE], WriteAccess.ALLOWED, "team/r: a dry run", id="accepted"),
        pytest.param(
            [{"items": [ONE]}, denied(Refusal.STALE_LEADER)], WriteAccess.REFUSED, TERM, id="by the policy of another"
        ),
        pytest.param(
            [{"items": [ONE]}, answer(403, "admission webhook denied it")],
            WriteAccess.REFUSED,
            "webhook",
            id="by a rule",
        ),
        pytest.param(
            [{"items": [ONE]}, answer(403, 'User "me" cannot impersonate')], WriteAccess.UNKNOWN, "User", id="no right"
        ),
        pytest.param([{"items": [DONE]}], WriteAccess.UNKNOWN, "no open reports", id="nothing to try it on"),
        pytest.param([answer(403, "you may not list")], WriteAccess.UNKNOWN, "may not list", id="nothing may be read"),
    ],
)
async def test_whether_the_fence_lets_a_supervisor_write(answers: list[object], want: WriteAccess, said: str) -> None:
    transport = FakeTransport(*answers)  # type: ignore[arg-type]  # each is an answer
    found = await check_write_access(Client(transport), REPORTS, PATHS, 4, lambda _: True, "team")
    assert found.access is want
    assert said in found.message


@pytest.mark.finding("N33")
async def test_the_write_that_is_tried_is_an_assignment_in_the_leaders_term() -> None:
    transport = FakeTransport({"items": [ONE]}, ONE)
    await check_write_access(Client(transport), REPORTS, PATHS, 4, lambda _: True)
    method, path, query, body = transport.last
    assert (method, path, query["dryRun"]) == ("PATCH", REPORTS.path("team", "r"), "All")
    written = {each["path"]: each.get("value") for each in body if each["op"] != "test"}
    text = str(written)
    assert "'42'" in text, "the next epoch"
    assert "'4'" in text, "the term"

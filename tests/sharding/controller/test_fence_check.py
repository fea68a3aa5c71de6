"""Whether the server fences is found out by a write that changes nothing; what cannot be found out is said so."""

from __future__ import annotations

import msgspec
import pytest

from situate.kube.client import Client
from situate.objects.messages import Response
from situate.sharding.admitting import Refusal
from situate.sharding.controller.fence_check import Fence, check_fence
from situate.sharding.names import EPOCH
from situate.testing.sharding.shipped.reports import REPORTS
from tests.kube.test_client import FakeTransport

ONE = {"metadata": {"name": "r", "namespace": "team", "uid": "u", "annotations": {EPOCH: "41"}}}


def answer(status: int, message: str) -> Response:
    return Response(status, msgspec.json.encode({"reason": "Forbidden", "message": message, "code": status}))


@pytest.mark.parametrize(
    ("answers", "want"),
    [
        pytest.param([{"items": [ONE]}, ONE], Fence.MISSING, id="accepted"),
        pytest.param([{"items": [ONE]}, answer(403, f"denied: {Refusal.STEP}")], Fence.ENFORCED, id="of a supervisor"),
        pytest.param([{"items": [ONE]}, answer(403, f"no: {Refusal.NOT_SUPERVISOR}")], Fence.ENFORCED, id="of a user"),
        pytest.param([{"items": [ONE]}, answer(403, "you may not patch")], Fence.UNKNOWN, id="for want of a right"),
        pytest.param([{"items": []}], Fence.UNKNOWN, id="nothing to try it on"),
        pytest.param([answer(403, "you may not list")], Fence.UNKNOWN, id="nothing may be read"),
    ],
)
async def test_what_is_found(answers: list[object], want: Fence) -> None:
    transport = FakeTransport(*answers)  # type: ignore[arg-type]  # each is an answer
    found = await check_fence(Client(transport), REPORTS, "team")
    assert found.fence is want
    assert found.said


async def test_nothing_is_written() -> None:
    transport = FakeTransport({"items": [ONE]}, ONE)
    await check_fence(Client(transport), REPORTS)
    method, path, query, body = transport.last
    assert (method, path, query["dryRun"]) == ("PATCH", REPORTS.path("team", "r"), "All")
    assert int(body["metadata"]["annotations"][EPOCH]) > 42, "a step of one would be an assignment"

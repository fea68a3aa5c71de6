"""A process that runs waits for a server that is away, says so once, and gives up only where waiting cures nothing."""

from __future__ import annotations

import asyncio
import random

import pytest
import structlog

from situate.cli.run.reach_cluster import ConnectionCheck
from situate.kube.client import Client
from situate.kube.errors import KubeError, NotKubernetes, Unauthorized, Unreachable
from situate.objects.messages import Response
from tests.kube.test_client import Answer, FakeTransport

AWAY = Unreachable("cannot GET /version: connection refused", outcome_unknown=False)
VERSION = {"gitVersion": "v1.36.3"}


async def outcome(*answers: Answer) -> tuple[list[str], KubeError | None]:
    """What was logged until the server answered or the service failed, and the failure."""
    with structlog.testing.capture_logs() as logs:
        reaching = ConnectionCheck(Client(FakeTransport(*answers)), random.Random(1))
        running = asyncio.ensure_future(reaching.run())
        reached = asyncio.ensure_future(reaching.wait_reached())
        await asyncio.wait((running, reached), timeout=3600, return_when=asyncio.FIRST_COMPLETED)
        failure = running.exception() if running.done() else None
        assert reached.done() == (reaching.not_ready() is None) == (failure is None)
        running.cancel()
        reached.cancel()
    assert failure is None or isinstance(failure, KubeError)
    return [line["event"] for line in logs], failure


@pytest.mark.looptime
async def test_a_server_that_answers_is_no_news() -> None:
    assert await outcome(VERSION) == ([], None)


@pytest.mark.looptime
async def test_a_server_that_is_away_is_waited_for_and_told_once() -> None:
    told = ["API server is not reachable, retrying", "API server is reachable"]
    assert await outcome(*[AWAY] * 50, VERSION) == (told, None)


@pytest.mark.looptime
async def test_a_server_that_keeps_its_version_to_itself_has_answered() -> None:
    assert await outcome(Response(403, b'{"kind": "Status", "code": 403, "reason": "Forbidden"}')) == ([], None)


@pytest.mark.looptime
@pytest.mark.parametrize("body", [b"<html>", b"7", b"[]", b"{}", b'{"gitVersion": "\x80"}', b"[" * 100_000])
async def test_what_is_no_api_server_ends_it(body: bytes) -> None:
    _, failure = await outcome(Response(200, body))
    assert isinstance(failure, NotKubernetes)
    assert "the answer does not come from a Kubernetes API server" in str(failure)


@pytest.mark.looptime
async def test_a_refused_credential_ends_it() -> None:
    _, failure = await outcome(Response(401, b'{"kind": "Status", "code": 401, "reason": "Unauthorized"}'))
    assert isinstance(failure, Unauthorized)


@pytest.mark.looptime
async def test_a_certificate_that_nobody_trusts_ends_it() -> None:
    refused = Unreachable("the certificate is not trusted", outcome_unknown=False, retriable=False)
    assert await outcome(refused) == ([], refused)

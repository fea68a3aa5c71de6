"""What a server serves, from its own lists; garbage in their place is no empty list."""

from __future__ import annotations

import json
from typing import Any

import pytest

from situate.kube.client import Client
from situate.kube.errors import UnreadableAnswer
from situate.kube.queries.discovery import discover, discover_kind, served_resources
from situate.objects.messages import Request, Response

LIST = [
    {"name": "reports", "kind": "Report", "namespaced": True, "verbs": ["get"]},
    {"name": "reports/status", "kind": "Report", "namespaced": True},
    {"name": "pools", "kind": "Pool", "namespaced": False},
]


class Answers:
    """A transport that knows one path."""

    def __init__(self, path: str, body: Any) -> None:
        self.path = path
        self.body = body if isinstance(body, bytes) else json.dumps(body).encode()

    async def send(self, request: Request, *, timeout_s: float = 30.0) -> Response:
        return Response(200, self.body) if request.path == self.path else Response(404, b"404 page not found")

    def stream(self, request: Request, *, timeout_s: float = 30.0) -> Any:
        raise AssertionError("nothing is watched")

    async def close(self) -> None:
        pass


async def test_a_resource_is_found_by_its_name_or_its_kind() -> None:
    client = Client(Answers("/apis/x.io/v1", {"resources": LIST}))
    report, pool = await discover(client, "x.io", "v1", "reports"), await discover_kind(client, "x.io/v1", "Pool")
    assert report is not None
    assert pool is not None
    assert (report.resource.path("ns", "a"), report.has_status) == ("/apis/x.io/v1/namespaces/ns/reports/a", True)
    assert (pool.resource.path("ns", "a"), pool.has_status) == ("/apis/x.io/v1/pools/a", False)
    assert await discover(client, "x.io", "v2", "reports") is None
    assert await discover(client, "x.io", "v1", "others") is None
    assert await discover_kind(client, "x.io/v1", "Other") is None
    core = Client(Answers("/api/v1", {"resources": [{"name": "pods", "kind": "Pod", "namespaced": True}]}))
    assert (await discover_kind(core, "v1", "Pod")) is not None
    assert await served_resources(core, "x.io/v1") == {}


@pytest.mark.parametrize("body", [b"<html>", {}, {"resources": [1]}, {"resources": [{"kind": "A"}]}, b"[" * 100_000])
async def test_what_is_no_list_is_said(body: Any) -> None:
    with pytest.raises(UnreadableAnswer, match=r"/apis/x\.io/v1"):
        await served_resources(Client(Answers("/apis/x.io/v1", body)), "x.io/v1")

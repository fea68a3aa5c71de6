from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import msgspec
import pytest

from situate.kube.client import Client
from situate.kube.errors import (
    Conflict,
    Expired,
    Forbidden,
    NotFound,
    TooManyRequests,
    Unreachable,
    UnreadableAnswer,
)
from situate.kube.patches import ApplyPatch, JsonPatch, MergePatch, Patch, StrategicMergePatch
from situate.kube.retry.rate_limiter import RateLimiter
from situate.kube.retry.retries import Retries
from situate.objects.kinds.meta import ObjectMeta
from situate.objects.kinds.pods import Pod
from situate.objects.messages import Request, Response
from situate.objects.resources import CONFIGMAPS, NODES, PODS, STATEFULSETS, unstructured
from situate.objects.reviews.authorization import ResourceAttributes

WEB_0 = Pod(metadata=ObjectMeta(name="web-0", namespace="d", uid="u0"))
WIDGETS = unstructured("example.com", "v1", "Widget", "widgets")

Answer = Response | Unreachable | Mapping[str, Any]
Call = Callable[[Client], Any]


class FakeStream:
    def __init__(self, status: int, chunks: list[bytes]) -> None:
        self.status = status
        self.headers: Mapping[str, str] = {}
        self._chunks = chunks

    async def batches(self) -> AsyncIterator[Sequence[bytes]]:
        for chunk in self._chunks:
            yield (chunk,)


class FakeTransport:
    """Remembers requests and gives prepared answers, the last one again and again."""

    def __init__(self, *answers: Answer, stream: FakeStream | None = None) -> None:
        self._answers = list(answers)
        self._stream = stream
        self.requests: list[Request] = []
        self.at_s: list[float] = []

    async def send(self, request: Request, *, timeout_s: float = 30.0) -> Response:
        self.requests.append(request)
        self.at_s.append(asyncio.get_running_loop().time())
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Unreachable):
            raise answer
        return answer if isinstance(answer, Response) else Response(200, msgspec.json.encode(answer))

    @asynccontextmanager
    async def stream(self, request: Request, *, timeout_s: float = 30.0) -> AsyncIterator[FakeStream]:
        self.requests.append(request)
        assert self._stream is not None
        yield self._stream

    async def close(self) -> None:
        return

    @property
    def last(self) -> tuple[str, str, dict[str, str], Any]:
        """Method, path, query and body of the last request."""
        request = self.requests[-1]
        body = msgspec.json.decode(request.body) if request.body else None
        return request.method, request.path, dict(request.query), body


def refusal(status: int, reason: str, **details: Any) -> Response:
    return Response(status, msgspec.json.encode({"reason": reason, "message": "no", "details": details}))


OBJECT = {"metadata": {"name": "x", "resourceVersion": "7"}}


async def test_get() -> None:
    transport = FakeTransport(OBJECT)
    got = await Client(transport).get(CONFIGMAPS, "x", "d")
    assert got.metadata.resource_version == "7"
    assert transport.last == ("GET", "/api/v1/namespaces/d/configmaps/x", {}, None)


async def test_list_asks_for_what_it_is_told_to() -> None:
    transport = FakeTransport(
        {"metadata": {"resourceVersion": "9", "continue": "t", "remainingItemCount": 3}, "items": [OBJECT]}
    )
    page = await Client(transport).list(
        PODS,
        "d",
        label_selector="a=b",
        field_selector="spec.nodeName=n",
        limit=1,
        resource_version="5",
        resource_version_match="NotOlderThan",
    )
    assert (len(page.items), page.resource_version, page.continue_, page.remaining) == (1, "9", "t", 3)
    assert transport.last[2] == {
        "labelSelector": "a=b",
        "fieldSelector": "spec.nodeName=n",
        "limit": "1",
        "resourceVersion": "5",
        "resourceVersionMatch": "NotOlderThan",
    }


def page_of(*names: str, continue_: str = "") -> dict[str, Any]:
    return {
        "metadata": {"resourceVersion": "9", "continue": continue_},
        "items": [{"metadata": {"name": name}} for name in names],
    }


async def test_list_all_goes_through_the_pages() -> None:
    transport = FakeTransport(page_of("a", "b", continue_="t1"), page_of("c"))
    page = await Client(transport).list_all(PODS, page_size=2)
    assert [pod.metadata.name for pod in page.items] == ["a", "b", "c"]
    assert [dict(request.query) for request in transport.requests] == [{"limit": "2"}, {"limit": "2", "continue": "t1"}]


async def test_list_all_starts_again_in_one_piece_when_the_token_expires() -> None:
    transport = FakeTransport(page_of("old", continue_="t1"), refusal(410, "Expired"), page_of("a", "b"))
    page = await Client(transport).list_all(PODS, label_selector="x")
    assert [pod.metadata.name for pod in page.items] == ["a", "b"]
    assert dict(transport.requests[-1].query) == {"labelSelector": "x"}
    with pytest.raises(Expired):
        await Client(FakeTransport(refusal(410, "Expired"))).list_all(PODS)


async def test_list_all_keeps_what_can_be_read() -> None:
    first = page_of("a", continue_="t1")
    first["items"].append({"metadata": {"name": 5}})
    page = await Client(FakeTransport(first, page_of("b"))).list_all(PODS)
    assert [pod.metadata.name for pod in page.items] == ["a", "b"]
    assert [error.object for error in page.malformed] == ["pods 5"]


async def test_create_fills_in_the_kind() -> None:
    transport = FakeTransport(OBJECT)
    await Client(transport).create(WIDGETS, {"metadata": {"name": "x"}}, "d", field_manager="situate", dry_run=True)
    assert transport.last == (
        "POST",
        "/apis/example.com/v1/namespaces/d/widgets",
        {"fieldManager": "situate", "dryRun": "All"},
        {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "x"}},
    )


async def test_replace() -> None:
    transport = FakeTransport(OBJECT)
    await Client(transport).replace(WIDGETS, "x", OBJECT, "d", subresource="status")
    assert transport.last[:2] == ("PUT", "/apis/example.com/v1/namespaces/d/widgets/x/status")


async def test_delete_with_preconditions() -> None:
    transport = FakeTransport(OBJECT)
    client = Client(transport)
    await client.delete(PODS, "w", "d")
    assert transport.last[3] == {"apiVersion": "v1", "kind": "DeleteOptions"}
    await client.delete(PODS, "w", "d", uid="u", resource_version="7", propagation="Foreground", grace_period_s=0)
    assert transport.last[3] == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": "u", "resourceVersion": "7"},
        "propagationPolicy": "Foreground",
        "gracePeriodSeconds": 0,
    }


@pytest.mark.parametrize(
    ("patch", "content_type"),
    [
        (MergePatch({"data": {"a": None}}), "application/merge-patch+json"),
        (JsonPatch([{"op": "test", "path": "/x", "value": 1}]), "application/json-patch+json"),
        (StrategicMergePatch({"spec": {}}), "application/strategic-merge-patch+json"),
        (ApplyPatch({"apiVersion": "v1"}), "application/apply-patch+yaml"),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_patches(patch: Patch, content_type: str) -> None:
    transport = FakeTransport(OBJECT)
    await Client(transport).patch(CONFIGMAPS, "x", patch, "d", field_manager="situate", force=True)
    assert transport.requests[-1].headers["content-type"] == content_type
    assert transport.last == (
        "PATCH", "/api/v1/namespaces/d/configmaps/x", {"fieldManager": "situate", "force": "true"}, patch.body,
    )  # fmt: skip


async def test_status_and_scale() -> None:
    transport = FakeTransport(
        {"metadata": {"resourceVersion": "8"}, "spec": {"replicas": 3}, "status": {"replicas": 2}}
    )
    client = Client(transport)
    await client.patch_status(STATEFULSETS, "web", MergePatch({}), "d")
    assert transport.last[1] == "/apis/apps/v1/namespaces/d/statefulsets/web/status"
    scale = await client.get_scale(STATEFULSETS, "web", "d")
    assert (scale.spec.replicas, scale.status.replicas) == (3, 2)
    await client.update_scale(STATEFULSETS, "web", 5, "d", resource_version=scale.metadata.resource_version)
    assert transport.last == (
        "PUT",
        "/apis/apps/v1/namespaces/d/statefulsets/web/scale",
        {},
        {
            "apiVersion": "autoscaling/v1",
            "kind": "Scale",
            "metadata": {"name": "web", "namespace": "d", "resourceVersion": "8"},
            "spec": {"replicas": 5},
        },
    )


async def test_pod_subresources() -> None:
    transport = FakeTransport(OBJECT)
    client = Client(transport)
    await client.bind(WEB_0, "n1")
    assert transport.last[1] == "/api/v1/namespaces/d/pods/web-0/binding"
    assert transport.last[3]["target"] == {"apiVersion": "v1", "kind": "Node", "name": "n1"}
    assert transport.last[3]["metadata"]["uid"] == "u0"
    await client.evict(WEB_0, grace_period_s=5, dry_run=True)
    assert transport.last[1] == "/api/v1/namespaces/d/pods/web-0/eviction"
    assert transport.last[3]["deleteOptions"] == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": "u0"},
        "gracePeriodSeconds": 5,
        "dryRun": ["All"],
    }
    await client.resize(WEB_0, [{"name": "c", "resources": {"requests": {"cpu": "1"}}}])
    assert transport.last[1] == "/api/v1/namespaces/d/pods/web-0/resize"


async def test_review_access() -> None:
    transport = FakeTransport({"status": {"allowed": True, "reason": "RBAC"}})
    review = await Client(transport).review_access(ResourceAttributes(verb="patch", resource="pods", namespace="d"))
    assert review.allowed
    assert transport.last[3]["spec"] == {"resourceAttributes": {"verb": "patch", "resource": "pods", "namespace": "d"}}


@pytest.mark.parametrize(
    ("answer", "class_"),
    [
        (refusal(404, "NotFound"), NotFound),
        (refusal(403, "Forbidden"), Forbidden),
        (refusal(409, "Conflict"), Conflict),
    ],
)
async def test_refusals_are_raised(answer: Response, class_: type[Exception]) -> None:
    with pytest.raises(class_):
        await Client(FakeTransport(answer)).get(NODES, "n")


async def test_an_object_that_cannot_be_read() -> None:
    with pytest.raises(UnreadableAnswer, match="nodes n cannot be read"):
        await Client(FakeTransport({"metadata": {"name": "n"}, "spec": {"taints": 5}})).get(NODES, "n")


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(lambda c: c.get(NODES, "n"), id="get"),
        pytest.param(lambda c: c.list_all(NODES), id="list"),
        pytest.param(lambda c: c.create(NODES, {"metadata": {"name": "n"}}), id="create"),
        pytest.param(lambda c: c.replace(NODES, "n", {}), id="replace"),
        pytest.param(lambda c: c.patch(NODES, "n", MergePatch({})), id="patch"),
        pytest.param(lambda c: c.get_scale(STATEFULSETS, "w", "d"), id="read of a scale"),
        pytest.param(lambda c: c.update_scale(STATEFULSETS, "w", 3, "d"), id="write of a scale"),
        pytest.param(lambda c: c.review_access(ResourceAttributes(verb="get", resource="pods")), id="review"),
    ],
)
async def test_a_page_of_a_proxy_in_place_of_an_answer(call: Call) -> None:
    """It comes with status 200 and is no JSON; whoever survives failures of the world must survive this one."""
    with pytest.raises(UnreadableAnswer):
        await call(Client(FakeTransport(Response(200, b"<html>Please log in</html>"))))


OVERLOAD = refusal(429, "TooManyRequests", retryAfterSeconds=2)


@pytest.mark.looptime
@pytest.mark.parametrize(
    ("call", "answer", "tries"),
    [
        pytest.param(lambda c: c.get(PODS, "w", "d"), OVERLOAD, 2, id="a read after an overload"),
        pytest.param(lambda c: c.bind(WEB_0, "n"), OVERLOAD, 2, id="a write that was shed"),
        pytest.param(
            lambda c: c.evict(WEB_0), OVERLOAD, 1, id="an eviction, which waits for pods and not for the server"
        ),
        pytest.param(
            lambda c: c.get(PODS, "w", "d"), Unreachable("", outcome_unknown=True), 2, id="a read that was lost"
        ),
        pytest.param(
            lambda c: c.bind(WEB_0, "n"), Unreachable("", outcome_unknown=True), 1, id="a write that was lost"
        ),
    ],
)
async def test_what_is_repeated(call: Call, answer: Answer, tries: int) -> None:
    transport = FakeTransport(answer, OBJECT)
    outcome = await asyncio.gather(call(Client(transport, retries=Retries(Random(1)))), return_exceptions=True)
    assert len(transport.requests) == tries
    assert isinstance(outcome[0], TooManyRequests | Unreachable) is (tries == 1)
    if tries > 1 and isinstance(answer, Response):
        assert transport.at_s[1] - transport.at_s[0] >= 2


@pytest.mark.looptime
async def test_the_limiter_holds_for_every_try() -> None:
    transport = FakeTransport(OBJECT)
    client = Client(transport, limiter=RateLimiter(qps=10, burst=1))
    await asyncio.gather(*(client.get(PODS, "w", "d") for _ in range(4)))
    assert transport.at_s == pytest.approx([0, 0.1, 0.2, 0.3], abs=0.01)


async def test_a_watch_gives_whole_lines() -> None:
    stream = FakeStream(200, [b'{"type":"ADD', b'ED"}\n{"b"', b":1}\n\n{", b"}\n", b'{"unfinished'])
    transport = FakeTransport(OBJECT, stream=stream)
    watch = Client(transport).watch(
        PODS, "d", label_selector="a", resource_version="5", send_initial_events=True, timeout_s=60
    )
    async with watch as batches:
        assert [lines async for lines in batches] == [[b'{"type":"ADDED"}'], [b'{"b":1}'], [b"{}"]]
    assert transport.last[2] == {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "labelSelector": "a",
        "resourceVersion": "5",
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "timeoutSeconds": "60",
    }


async def test_a_watch_that_is_refused() -> None:
    stream = FakeStream(403, [b'{"reason":"Forb', b'idden","message":"User x cannot"}'])
    with pytest.raises(Forbidden, match="cannot watch pods: 403 Forbidden: User x cannot; grant the permission"):
        async with Client(FakeTransport(OBJECT, stream=stream)).watch(PODS):
            pass


@pytest.mark.looptime
async def test_a_write_that_waited_for_its_turn_asks_again_whether_it_may() -> None:
    """A pause between a caller's own check and the moment when the request leaves would deceive it."""
    leads = True

    def may_write() -> None:
        if not leads:
            raise PermissionError("leads no longer")

    transport = FakeTransport({"metadata": {"name": "web-0"}})
    client = Client(transport, limiter=RateLimiter(1, 1)).with_write_check(may_write)
    await client.get(PODS, "web-0", "d")
    writing = asyncio.create_task(client.bind(WEB_0, "n1"))
    reading = asyncio.create_task(client.get(PODS, "web-0", "d"))
    await asyncio.sleep(0)
    leads = False
    with pytest.raises(PermissionError):
        await writing
    await reading
    assert [request.method for request in transport.requests] == ["GET", "GET"]


async def test_a_binding_may_presume_that_nothing_has_changed() -> None:
    pod = Pod(metadata=ObjectMeta(name="web-0", namespace="d", uid="u0", resource_version="7"))
    transport = FakeTransport({})
    await Client(transport).bind(pod, "n1", unchanged=True)
    assert msgspec.json.decode(transport.requests[0].body)["metadata"] == {
        "name": "web-0",
        "namespace": "d",
        "uid": "u0",
        "resourceVersion": "7",
    }

"""Admission webhooks that fail, each in its own way, or cannot be reached."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from aiohttp import web

from tests.contract.api import Api
from tests.contract.registering import Registered
from tests.contract.things import core, pod
from tests.contract.webhooks import Hook, allow, patch, serving
from tests.controlplane.ports import ReservedPort


async def _silent(_: dict[str, Any]) -> dict[str, Any]:
    """Never answers; ends with the webhooks."""
    answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
    return await answer


@pytest.fixture
def closed() -> Iterator[ReservedPort]:
    """A port on which nobody listens."""
    with ReservedPort() as port:
        yield port


FAILURES: dict[str, Hook] = {
    "5xx": lambda _: web.Response(status=500, text="broken"),
    "4xx": lambda _: web.Response(status=404, text="nobody"),
    "garbage": lambda _: web.Response(text="{nope"),
    "wrong uid": lambda _: {"uid": "0000", "allowed": True},
    "time-out": _silent,
}


class TestFailure:
    @pytest.mark.parametrize("failure", [*FAILURES, "refused connection"])
    async def test_ignore(
        self, api: Api, namespace: str, registered: Registered, closed: ReservedPort, failure: str
    ) -> None:
        await self.failing(registered, closed, failure, "Ignore")
        (await api.post(core(namespace, "pods"), pod("p"))).ok(201)

    @pytest.mark.parametrize("failure", [*FAILURES, "refused connection"])
    async def test_fail(
        self, api: Api, namespace: str, registered: Registered, closed: ReservedPort, failure: str
    ) -> None:
        await self.failing(registered, closed, failure, "Fail")
        answer = await api.post(core(namespace, "pods"), pod("p"))
        message = 'Internal error occurred: failed calling webhook "a.situate.dev": …'
        if failure in ("5xx", "4xx", "garbage", "time-out", "refused connection"):
            message = 'Internal error occurred: failed calling webhook "a.situate.dev": failed to call webhook: …'
        answer.refused(500, "InternalError", message, ...)
        assert len(answer.body["details"]["causes"]) == 1

    @staticmethod
    async def failing(registered: Registered, closed: ReservedPort, failure: str, policy: str) -> None:
        if failure == "refused connection":
            config = {**registered.hooks.at("/a", allow), "url": f"https://127.0.0.1:{closed.number}/x"}
        else:
            config = registered.hooks.at("/a", FAILURES[failure])
        limit_s = 1 if failure == "time-out" else 10
        await registered.mutating(registered.webhook("a", config, failurePolicy=policy, timeoutSeconds=limit_s))

    async def test_an_unknown_authority(self, api: Api, namespace: str, registered: Registered) -> None:
        config = registered.hooks.at("/a", allow)
        async with serving() as other:
            config["caBundle"] = other.at("/b", allow)["caBundle"]
        await registered.mutating(registered.webhook("a", config))
        answer = await api.post(core(namespace, "pods"), pod("p"))
        answer.refused(
            500,
            "InternalError",
            'Internal error occurred: failed calling webhook "a.situate.dev": failed to call webhook: Post …',
            ...,
        )

    @pytest.mark.parametrize("policy", ["Ignore", "Fail"])
    async def test_a_patch_that_does_not_apply(
        self, api: Api, namespace: str, registered: Registered, policy: str
    ) -> None:
        hook = patch({"op": "remove", "path": "/metadata/labels/nobody"})
        await registered.mutating(registered.webhook("a", registered.hooks.at("/a", hook), failurePolicy=policy))
        answer = await api.post(core(namespace, "pods"), pod("p"))
        answer.refused(500, "InternalError", "Internal error occurred: …", ...)

    @pytest.mark.parametrize("policy", ["Ignore", "Fail"])
    async def test_a_patch_that_makes_the_object_invalid(
        self, api: Api, namespace: str, registered: Registered, policy: str
    ) -> None:
        hook = patch({"op": "replace", "path": "/spec/restartPolicy", "value": "Perhaps"})
        await registered.mutating(registered.webhook("a", registered.hooks.at("/a", hook), failurePolicy=policy))
        answer = await api.post(core(namespace, "pods"), pod("p"))
        answer.refused(422, "Invalid", 'Pod "p" is invalid: spec.restartPolicy: Unsupported value: "Perhaps": …', ...)

    async def test_unavailable_is_asked_again(self, api: Api, namespace: str, registered: Registered) -> None:
        def hook(_: dict[str, Any]) -> Any:
            if len(registered.hooks.requests("/a")) == 1:
                return web.Response(status=503, headers={"Retry-After": "1"})
            return {"allowed": True}

        await registered.mutating(registered.webhook("a", registered.hooks.at("/a", hook)))
        (await api.post(core(namespace, "pods"), pod("p"))).ok(201)
        first, second = registered.hooks.requests("/a")
        assert first["uid"] == second["uid"]

    async def test_unavailable_for_good(self, api: Api, namespace: str, registered: Registered) -> None:
        """Asked again with the same uid until the time is over; then it has failed."""

        def hook(_: dict[str, Any]) -> Any:
            return web.Response(status=503, headers={"Retry-After": "1"})

        await registered.mutating(registered.webhook("a", registered.hooks.at("/a", hook), timeoutSeconds=8))
        answer = await api.post(core(namespace, "pods"), pod("p"))
        answer.refused(500, "InternalError", 'Internal error occurred: failed calling webhook "a.situate.dev": …', ...)
        asked = registered.hooks.requests("/a")
        assert len(asked) > 1
        assert len({request["uid"] for request in asked}) == 1


async def test_connections_outlive_a_closed_listener(api: Api, namespace: str, registered: Registered) -> None:
    """The server keeps its connection to a webhook: who stops listening is still asked."""
    await registered.mutating(registered.webhook("a", registered.hooks.at("/a", allow)))
    (await api.post(core(namespace, "pods"), pod("p"))).ok(201)
    await registered.hooks.stop_listening()
    (await api.post(core(namespace, "pods"), pod("q"))).ok(201)
    assert [request["name"] for request in registered.hooks.requests("/a")] == ["p", "q"]

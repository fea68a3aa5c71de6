"""A server that is restarted knows its objects, and of the past only that it is past."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from situate.embedded.embedded_server import Settings
from tests.contract.api import Api
from tests.contract.conftest import ADMIN, SERVERS
from tests.contract.servers import EmbeddedThread, new_namespace
from tests.contract.things import configmap, core
from tests.controlplane.plane import ControlPlane

Access = tuple[str, str, ssl.SSLContext | None]
Restart = Callable[[], Access]
"""Restarts the server, and says where it is now."""


@pytest.fixture(params=SERVERS)
async def restarted(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[tuple[Api, Restart]]:
    """A client of a server, and what restarts the server and gives a new client of it."""
    if request.param == "real":
        plane: ControlPlane = request.getfixturevalue("control_plane")

        def again() -> Access:
            plane.restart_apiserver()
            return plane.url, plane.token(), plane.tls()

        async with Api(plane.url, plane.token(), plane.tls()) as api:
            yield api, again
        return
    running = [EmbeddedThread(Settings(tokens=ADMIN, machinery=None, data=tmp_path / "data"))]

    def anew() -> Access:
        running[0].__exit__()
        running[0] = EmbeddedThread(Settings(tokens=ADMIN, machinery=None, data=tmp_path / "data"))
        running[0].__enter__()
        return running[0].url, running[0].token, None

    running[0].__enter__()
    async with Api(running[0].url, running[0].token, None) as api:
        yield api, anew
    running[0].__exit__()


async def test_earlier_versions_are_gone(restarted: tuple[Api, Restart]) -> None:
    api, restart = restarted
    namespace = await new_namespace(api)
    old = (await api.post(core(namespace, "configmaps"), configmap("a"))).ok(201)["metadata"]["resourceVersion"]
    made = (await api.post(core(namespace, "configmaps"), configmap("b"))).ok(201)
    async with Api(*await asyncio.to_thread(restart)) as again:
        listing = (await again.get(core(namespace, "configmaps"))).ok()
        assert [each["metadata"]["name"] for each in listing["items"]] == ["a", "b"]
        assert int(listing["metadata"]["resourceVersion"]) >= int(made["metadata"]["resourceVersion"])
        async with again.watch(core(namespace, "configmaps"), resourceVersion=old) as watch:
            event = await watch.next()
        assert event["type"] == "ERROR"
        assert (event["object"]["reason"], event["object"]["code"]) == ("Expired", 410)

"""A TLS server that plays admission webhooks: what it is asked is recorded, what it answers is the test's."""

from __future__ import annotations

import asyncio
import base64
import datetime
import json
import ssl
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web

from tests.controlplane.certificates import Authority

Json = dict[str, Any]
# From a review's request to its response (without uid), or to a whole HTTP answer.
Hook = Callable[[Json], "Json | web.Response | Awaitable[Json]"]


def allow(_: Json) -> Json:
    return {"allowed": True}


def patch(*operations: Json) -> Hook:
    encoded = base64.b64encode(json.dumps(operations).encode()).decode()
    return lambda _: {"allowed": True, "patchType": "JSONPatch", "patch": encoded}


def deny(message: str = "", code: int = 0) -> Hook:
    status = {**({"message": message} if message else {}), **({"code": code} if code else {})}
    return lambda _: {"allowed": False, "status": status}


class Webhooks:
    """Hooks by path; `asked` are the requests of every review in the order of arrival."""

    def __init__(self, url: str, authority: bytes, site: web.TCPSite) -> None:
        self.url = url
        self._site = site
        self.authority = authority
        self.hooks: dict[str, Hook] = {}
        self.asked: list[tuple[str, Json]] = []

    def at(self, path: str, hook: Hook) -> Json:
        """Puts a hook at a path and returns the clientConfig that leads there."""
        self.hooks[path] = hook
        return {"url": f"{self.url}{path}", "caBundle": base64.b64encode(self.authority).decode()}

    def requests(self, path: str) -> list[Json]:
        return [request for where, request in self.asked if where == path]

    async def stop_listening(self) -> None:
        """No new connection is taken; those that exist go on."""
        server = self._site._server
        assert server is not None
        server.close()

    async def answer(self, request: web.Request) -> web.Response:
        review = json.loads(await request.read())
        self.asked.append((request.path, review["request"]))
        answered = self.hooks[request.path](review["request"])
        if isinstance(answered, web.Response):
            return answered
        if not isinstance(answered, dict):
            answered = await answered
        response = {"uid": review["request"]["uid"], **answered}
        return web.json_response({"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response})


@asynccontextmanager
async def serving() -> AsyncIterator[Webhooks]:
    authority = Authority("situate test webhooks", datetime.datetime.now(datetime.UTC))
    pair = authority.server(names=("localhost",), addresses=("127.0.0.1",))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.TemporaryDirectory() as folder:
        for name, content in (("crt", pair.certificate), ("key", pair.key)):
            (Path(folder) / name).write_bytes(content)
        context.load_cert_chain(Path(folder) / "crt", Path(folder) / "key")
    application = web.Application()
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    holder: list[Webhooks] = []

    async def handle(request: web.Request) -> web.Response:
        return await holder[0].answer(request)

    application.router.add_post("/{tail:.*}", handle)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    port = runner.addresses[0][1]
    holder.append(Webhooks(f"https://127.0.0.1:{port}", authority.certificate, site))
    try:
        yield holder[0]
    finally:
        # An orderly end of TLS would outlive the test's event loop.
        for connection in list(runner.server.connections if runner.server else ()):
            if connection.transport is not None:
                connection.transport.abort()
        await asyncio.sleep(0)
        await runner.cleanup()

"""Certificates from the first start through several generations, on an API server in memory; the clock runs ahead.

The wall clock of the one who keeps them is the test's: a minute passes in a moment. It never gets more than the five
minutes ahead by which certificates are backdated, so that TLS, which knows the true time, finds all of them valid.
"""

from __future__ import annotations

import asyncio
import base64
import random
import ssl
import time
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from situate.embedded.embedded_server import EmbeddedServer, Settings
from situate.kube.client import Client
from situate.kube.connect import connect
from situate.kube.login.connection import Connection
from situate.kube.patches import MergePatch
from situate.kube.watch.reflector import Reflector
from situate.kube.watch.store import Store
from situate.objects.kinds.unstructured import Unstructured
from situate.objects.resources import NAMESPACES, SECRETS
from situate.runtime.reconcile.outcomes import Retriable
from situate.runtime.serving.certificates.issue import host_names
from situate.runtime.serving.certificates.secret_controller import MUTATING, CertificateController, published_bundle
from situate.runtime.serving.certificates.secret_controller import CertificateTarget as Names
from situate.runtime.serving.webhook_server import Reply, Webhook
from situate.spot.admission.webhook_objects import webhook_configuration
from situate.spot.model.object_names import CERTIFICATES, WEBHOOK, WEBHOOK_PATH, configuration_name

OURS = "situate"
WITHIN_S = 60.0
LIFE_S = 60.0
AHEAD_S = 280.0
STEP_S = 2.0


class Clock:
    """A wall clock that the test moves."""

    def __init__(self) -> None:
        self.now = self.began = time.time()

    def __call__(self) -> float:
        return self.now

    def advance(self) -> bool:
        """A step; False once it is as far ahead as it may be."""
        self.now += STEP_S
        return self.now < self.began + AHEAD_S


class Kept:
    """A listener whose certificates are kept up."""

    def __init__(self, client: Client, wall: Clock) -> None:
        rng = random.Random(1)
        self.secrets = Reflector(
            client, SECRETS, Store("s"), rng=rng, namespace=OURS, field_selector=f"metadata.name={CERTIFICATES}"
        )
        self.configurations = Reflector(client, MUTATING, Store("w"), rng=rng)
        self.listener = Webhook("127.0.0.1:0", self._answer, path=WEBHOOK_PATH, setting="spot.webhook.address")
        self.generations = 0
        self._upkeep = CertificateController(
            Names(MUTATING, configuration_name(OURS), WEBHOOK, CERTIFICATES, OURS),
            client,
            self.secrets,
            self.configurations,
            names=host_names("situate-spot", OURS),
            life_s=lambda: LIFE_S,
            wall=wall,
            serve=self._serve,
        )

    def _serve(self, generation: Any) -> None:
        self.generations += 1
        self.listener.serve_with(generation)

    async def _answer(self, body: bytes) -> Reply:
        return Reply(200, body)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for each in (self.secrets, self.configurations, self._upkeep, self.listener):
                group.create_task(each.run())

    def bundle(self) -> bytes | None:
        return published_bundle(self.configurations.store.get(configuration_name(OURS)), WEBHOOK)


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with EmbeddedServer(Settings(machinery=None, seed=1)) as server:
        made = connect(Connection(server=server.url, source="the test", namespace=OURS), random.Random(1))
        await made.create(NAMESPACES, {"metadata": {"name": OURS}})
        yield made
        await made.close()


async def asked(port: int, bundle: bytes) -> bytes:
    """A new connection, as an API server without one makes it."""
    tls = ssl.create_default_context(cadata=bundle.decode())
    async with (
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True)) as http,
        http.post(f"https://127.0.0.1:{port}{WEBHOOK_PATH}", data=b"{}", ssl=tls) as response,
    ):
        return await response.read()


async def published_to(client: Client, text: bytes) -> Unstructured:
    """The configuration, once the server has a bundle with this text in it."""
    while True:
        found = await client.get(MUTATING, configuration_name(OURS))
        if text in (published_bundle(found, WEBHOOK) or b""):
            return found
        await asyncio.sleep(0.01)


async def told(kept: Kept) -> None:
    """Until the watch has told of it."""
    while True:
        if kept.bundle():
            return
        await asyncio.sleep(0.01)


def touched(number: int) -> MergePatch:
    return MergePatch({"metadata": {"labels": {"touched": str(number)}}})


@pytest.mark.rule("spot:B37", "spot:P6", "spot:F15")
async def test_no_question_fails_while_certificates_come_and_go(client: Client) -> None:
    """What this API server knows of `caBundle` is always one question old."""
    wall = Clock()
    kept = Kept(client, wall)
    await client.create(MUTATING, webhook_configuration(OURS))
    running = asyncio.create_task(kept.run())
    try:
        async with asyncio.timeout(WITHIN_S):
            await kept.listener.wait_listening()
            await published_to(client, b"BEGIN CERTIFICATE")
            await told(kept)
            questions, known = 0, kept.bundle() or b""
            while wall.advance():
                # whoever keeps them sleeps by the loop's clock, which stands nearly still here: a change wakes it
                await client.patch(SECRETS, CERTIFICATES, touched(questions), OURS)
                assert await asked(kept.listener.port, known) == b"{}"
                questions += 1
                known = kept.bundle() or b""
        assert kept.generations >= 5, f"{kept.generations} generations in {questions} questions"
    finally:
        running.cancel()
        await asyncio.wait([running])


async def test_the_bundle_is_put_back_when_somebody_takes_it_away(client: Client) -> None:
    kept = Kept(client, Clock())
    running = asyncio.create_task(kept.run())
    try:
        async with asyncio.timeout(WITHIN_S):
            await kept.listener.wait_listening()
            assert kept.bundle() is None, "there is no configuration yet, and that stops nothing"
            await client.create(MUTATING, webhook_configuration(OURS))
            await published_to(client, b"BEGIN CERTIFICATE")
            await told(kept)
            await client.delete(MUTATING, configuration_name(OURS))
            content = webhook_configuration(OURS)
            content["webhooks"][0]["clientConfig"]["caBundle"] = base64.b64encode(b"nonsense").decode()
            content["webhooks"].insert(0, {**content["webhooks"][0], "name": "other.example.com"})
            await client.create(MUTATING, content)
            found = await published_to(client, b"BEGIN CERTIFICATE")
        other = found.content["webhooks"][0]["clientConfig"]["caBundle"]
        assert base64.b64decode(other) == b"nonsense", "what is somebody else's is left alone"
        assert await asked(kept.listener.port, published_bundle(found, WEBHOOK) or b"") == b"{}"
    finally:
        running.cancel()
        await asyncio.wait([running])


async def test_who_may_not_write_tries_again_later(client: Client) -> None:
    """As a leader does that has slept past its Lease and has not heard of it yet."""
    refused = asyncio.Event()
    leads = False

    def may_write() -> None:
        if not leads:
            refused.set()
            raise Retriable("another process may lead by now")

    kept = Kept(client.with_write_check(may_write), Clock())
    running = asyncio.create_task(kept.run())
    try:
        async with asyncio.timeout(WITHIN_S):
            await refused.wait()
            leads = True
            await kept.listener.wait_listening()
        assert not running.done()
    finally:
        running.cancel()
        await asyncio.wait([running])

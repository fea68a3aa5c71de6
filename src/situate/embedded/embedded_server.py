"""An embedded API server from start to stop: store, controllers, HTTP, journal.

async with EmbeddedServer(Settings(data=Path("state"))) as server:
    print(server.url)
"""

from __future__ import annotations

import asyncio
import random
import ssl
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

import msgspec
import structlog

from situate.cluster.apiserver.api import ApiServer
from situate.cluster.apiserver.faults import Faults
from situate.cluster.controllers import ControllerFactory, MachinerySettings
from situate.cluster.storage.effects import Identity
from situate.cluster.storage.names import NameGenerator
from situate.embedded.controllers_task import MachineryTask
from situate.embedded.http.fault_routes import FaultRoutes
from situate.embedded.http.frontend import Frontend
from situate.embedded.http.identities import Authenticator
from situate.embedded.http.listener import HttpServer
from situate.embedded.journal import Journal
from situate.embedded.kubeconfig import kubeconfig
from situate.embedded.webhooks.calls import WebhookCaller
from situate.embedded.webhooks.service_addresses import ServiceAddresses
from situate.objects.messages import Request

_log = structlog.get_logger(__name__)

_SYNC_S: Final = 1.0
"""Seconds between two syncs of the journal to the disk."""
_DRAIN_S: Final = 2.0
"""Seconds that an orderly stop waits for current requests."""
_LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})


class DidNotStart(Exception):
    """The server cannot run. The text gives the reason and the remedy."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of an embedded server."""

    host: str = "127.0.0.1"
    port: int = 0
    """0: any free port."""
    data: Path | None = None
    """Directory of the state; None: in memory only."""
    tls: ssl.SSLContext | None = None
    authority: bytes = b""
    """PEM of the authority that signed the server's certificate, for the kubeconfig."""
    tokens: Mapping[str, Identity] = field(default_factory=dict)
    tokens_needed: bool = False
    """Whether requests without a token are refused. Otherwise they count as the administrator's."""
    machinery: MachinerySettings | None = field(default_factory=lambda: MachinerySettings(reconciles_per_step=50))
    """None: no controllers run, and written objects stay as they are."""
    further: Sequence[ControllerFactory] = ()
    """Controllers in addition to those of every cluster."""
    seed: int | None = None
    """Seed of uids and generated names; None: different each time."""
    window: int = 10_000
    """Number of past changes of each resource that a watch can start from."""


class EmbeddedServer:
    """One server. Start and stop it in the same running loop."""

    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = settings or Settings()
        self.faults = Faults()
        self.url = ""
        """Address of the server, once started."""
        self._tasks: list[asyncio.Task[None]] = []
        self._journal: Journal | None = None
        self._server: HttpServer | None = None
        self._webhooks: WebhookCaller | None = None
        self._machinery: MachineryTask | None = None
        self._frontend: Frontend | None = None
        self.failed: asyncio.Future[None] | None = None
        """Done with an exception if the server cannot continue, for example because its disk is full."""

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Load the state and listen. Raises `DidNotStart` or `journal.Unusable`."""
        settings = self.settings
        self.failed = asyncio.get_running_loop().create_future()
        store = None
        if settings.data is not None:
            self._journal = Journal(settings.data)
            store = self._journal.load(settings.window)
            self._journal.on_failure = self._give_up
        chance = random.Random(settings.seed)
        self.api = ApiServer(NameGenerator(chance), now=time.time(), store=store, tokens=settings.tokens)
        self._webhooks = WebhookCaller(ServiceAddresses(self.api.store).resolve)
        hosts = None if settings.host in ("0.0.0.0", "::") else _LOOPBACK | {settings.host}  # noqa: S104 - compared only
        identities = Authenticator(self._identity_of_token, hosts, tokens_needed=settings.tokens_needed)
        routes = FaultRoutes(self.faults, self.api.store, self.cut_watches, None)
        self._frontend = Frontend(self.api, time.time, identities, self._webhooks, self.faults, routes)
        if settings.machinery is not None:
            self._machinery = MachineryTask(
                self.api, time.time, settings.machinery, chance, self._frontend.drive, further=settings.further
            )
            routes.kubelets = self._machinery.machinery
            self._start_task(self._machinery.run(), "machinery")
        if self._journal is not None:
            self._start_task(self._keep_journal(self._journal), "journal")
        await self._listen()

    async def stop(self) -> None:
        """End watches and controllers, wait for current requests, and close the journal."""
        if self._frontend is not None:
            self._frontend.cut_watches()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        if self._machinery is not None:
            await self._machinery.stop()
        if self._server is not None:
            await self._server.stop(_DRAIN_S)
        if self._webhooks is not None:
            await self._webhooks.close()
        if self._journal is not None:
            self._journal.close()
        if self.failed is not None and not self.failed.cancel() and not self.failed.cancelled():
            self.failed.exception()  # already reported

    def _identity_of_token(self, token: str) -> Identity | None:
        return self.api.tokens.identity_of(token, time.time())

    def create_nodes(self, nodes: Iterable[Mapping[str, Any]]) -> None:
        """Create nodes in the cluster. Nodes that exist in a loaded state stay unchanged."""
        self._create("/api/v1/nodes", nodes)

    def create_definitions(self, definitions: Iterable[Mapping[str, Any]]) -> None:
        """Create definitions of custom resources in the cluster, as `create_nodes` creates nodes."""
        self._create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definitions)

    def _create(self, path: str, objects: Iterable[Mapping[str, Any]]) -> None:
        for each in objects:
            headers = {"content-type": "application/json"}
            self.api.answer(Request("POST", path, (), headers, msgspec.json.encode(each)), time.time())

    def cut_watches(self) -> int:
        """End every open watch. Return their number."""
        return 0 if self._frontend is None else self._frontend.cut_watches()

    def kubeconfig(self) -> dict[str, Any]:
        """Return a kubeconfig for this server."""
        token = next(iter(self.settings.tokens), "")
        return kubeconfig(self.url, token=token, authority=self.settings.authority)

    async def _listen(self) -> None:
        assert self._frontend is not None
        settings = self.settings
        self._server = HttpServer(self._frontend)
        try:
            host, port = await self._server.listen(settings.host, settings.port, settings.tls)
        except OSError as error:
            await self.stop()
            raise DidNotStart(
                f"cannot listen on {settings.host} port {settings.port}: {error.strerror}; choose another --port, or "
                "--port 0 for any free port"
            ) from error
        shown = f"[{host}]" if ":" in host else host
        self.url = f"{'https' if settings.tls else 'http'}://{shown}:{port}"

    def _give_up(self, reason: Exception) -> None:
        if self.failed is not None and not self.failed.done():
            _log.error("embedded server failed", error=str(reason))
            self.failed.set_exception(reason)

    def _start_task(self, work: Any, name: str) -> None:
        task = asyncio.get_running_loop().create_task(work, name=name)
        task.add_done_callback(self._on_task_done)
        self._tasks.append(task)

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        failure = None if task.cancelled() else task.exception()
        if isinstance(failure, Exception):
            self._give_up(failure)

    async def _keep_journal(self, journal: Journal) -> None:
        while True:
            await asyncio.sleep(_SYNC_S)
            if journal.wants_compaction:
                work = asyncio.ensure_future(journal.compact(asyncio.to_thread))
                try:
                    problem = await asyncio.shield(work)
                except asyncio.CancelledError:
                    journal.abandon()
                    await work
                    raise
                if problem:
                    _log.warning("compaction of the journal failed", error=problem)
            await asyncio.to_thread(journal.sync)

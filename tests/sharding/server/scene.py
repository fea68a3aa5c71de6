"""A read-through server in one process with the in-memory API server: no sockets, no time that passes by itself."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from situate.archive.protocol import Archiver
from situate.archive.records.record import Record, record_of
from situate.archive.stores.memory import MemoryArchiver
from situate.cluster.apiserver.api import ApiServer
from situate.cluster.storage.effects import Identity
from situate.cluster.storage.names import NameGenerator
from situate.kube.client import Client
from situate.objects.messages import Request, Response
from situate.runtime.serving.access import Access
from situate.sharding.server.discovery import ServedResource, discover_resource
from situate.sharding.server.request_handler import RequestHandler
from situate.testing.sharding.world.reports import CRDS, GROUP, definition, report

NOW = 1_800_000_000.0
NOON = datetime.fromtimestamp(NOW, UTC)
ALICE = Identity("alice", ("system:authenticated",), "a1", {"example.com/team": ("red",)})
TOKEN = "a-token-of-alice"
REPORTS = f"/apis/{GROUP}/v1/namespaces/ns1/reports"
EVERYWHERE = f"/apis/{GROUP}/v1/reports"
Interceptor = Callable[[Request], Response | Exception | None]


class Api:
    """A transport to the in-memory API server; `intercept` may answer first, or fail."""

    def __init__(self) -> None:
        self.server = ApiServer(NameGenerator(random.Random(0)), now=NOW, tokens={TOKEN: ALICE})
        self.requests: list[Request] = []
        self.intercept: Interceptor = lambda request: None

    async def send(self, request: Request, *, timeout_s: float = 30.0) -> Response:
        self.requests.append(request)
        instead = self.intercept(request)
        if isinstance(instead, Exception):
            raise instead
        answer = self.server.answer(request, NOW) if instead is None else instead
        assert isinstance(answer, Response)
        return answer

    def stream(self, request: Request, *, timeout_s: float = 30.0) -> Any:
        raise AssertionError(f"nothing is watched: {request}")

    async def close(self) -> None:
        pass

    def post(self, path: str, content: Mapping[str, Any]) -> dict[str, Any]:
        headers = {"content-type": "application/json"}
        answer = self.server.answer(Request("POST", path, (), headers, json.dumps(content).encode()), NOW)
        assert isinstance(answer, Response)
        assert answer.status == 201, answer.body
        made: dict[str, Any] = json.loads(answer.body)
        return made

    def asked(self, word: str) -> int:
        """How many requests had that in their path."""
        return sum(word in request.path for request in self.requests)


class Scene:
    """Live: `live-1`, `live-2` in ns1 and `other` in ns2. Archived: whatever a test adds."""

    def __init__(self, archiver: Archiver | None) -> None:
        self.api = Api()
        self.client = Client(self.api)
        self.archiver = archiver
        self.now = 0.0
        self.served: tuple[ServedResource, ...] = ()

    async def begin(self) -> None:
        self.api.post(CRDS, definition(selectable=True))
        for namespace in ("ns1", "ns2"):
            self.api.post("/api/v1/namespaces", {"metadata": {"name": namespace}})
        self.live = {
            name: self.api.post(f"/apis/{GROUP}/v1/namespaces/{namespace}/reports", content)
            for namespace, name, content in (
                ("ns1", "live-1", labelled("live-1", team="red")),
                ("ns1", "live-2", labelled("live-2", team="blue")),
                ("ns2", "other", labelled("other", team="red")),
            )
        }
        self.served = (await discover_resource(self.client, GROUP, "v1", "reports"),)
        access = Access(self.client, lambda: self.now)
        self.answering = RequestHandler(self.client, self.archiver, self.served, access, lambda: NOON)

    async def ask(
        self, path: str, query: Mapping[str, str] | None = None, method: str = "GET", token: str = TOKEN, **headers: str
    ) -> Response:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if token:
            sent["authorization"] = f"Bearer {token}"
        return await self.answering.answer(Request(method, path, tuple((query or {}).items()), sent))

    async def told(self, path: str, query: Mapping[str, str] | None = None, **headers: str) -> Any:
        answer = await self.ask(path, query, **headers)
        assert answer.status == 200, answer.body
        return json.loads(answer.body)

    async def refused(
        self, code: int, path: str, query: Mapping[str, str] | None = None, **more: str
    ) -> dict[str, Any]:
        answer = await self.ask(path, query, **more)
        status: dict[str, Any] = json.loads(answer.body)
        assert (answer.status, status["kind"], status["code"]) == (code, "Status", code), answer.body
        return status


def labelled(name: str, **labels: str) -> dict[str, Any]:
    content = report(name, assignedTo=f"ex-{labels.get('team', '')}")
    content["metadata"]["labels"] = labels
    return content


def archived(name: str, uid: str, *, ago_s: float = 60, namespace: str = "ns1", **labels: str) -> Record:
    content = labelled(name, **labels)
    content["metadata"] |= {
        "namespace": namespace,
        "uid": uid,
        "resourceVersion": "5",
        "creationTimestamp": "2026-12-31T00:00:00Z",
    }
    return record_of(
        content,
        resource="reports",
        completed_at=NOON - timedelta(seconds=ago_s + 60),
        successful=True,
        reason="Printed",
        archived_at=NOON - timedelta(seconds=ago_s),
        term=1,
    )


async def scene_of(*records: Record) -> Scene:
    archiver = MemoryArchiver()
    for record in records:
        await archiver.put(record)
    scene = Scene(archiver)
    await scene.begin()
    return scene

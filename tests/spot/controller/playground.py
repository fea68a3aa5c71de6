"""A server with nodes of both kinds and processes of ours, for tests of the whole product in one process."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import aiohttp
import pytest
from prometheus_client import CollectorRegistry

from situate.cluster.controllers import MachinerySettings
from situate.embedded.embedded_server import EmbeddedServer, Settings
from situate.kube.connect import connect
from situate.kube.election.election import Candidacy
from situate.kube.election.lease_record import ElectionTimes
from situate.kube.login.connection import Connection
from situate.objects.kinds.events import ObjectReference
from situate.objects.settings.section import parse_section
from situate.runtime.leadership.leader import ControllerContext
from situate.spot.admission.webhook_objects import webhook_configuration
from situate.spot.config.settings import SpotSettings
from situate.spot.controller.controller import ProcessLocation, SpotController
from situate.spot.model.object_names import WEBHOOK_PATH, configuration_name
from situate.spot.model.pods_nodes_workloads import CLASS, ON_DEMAND
from situate.spot.server.metrics import AdmissionMetrics
from tests.controlplane.ports import ReservedPort

WITHIN_S = 60.0
OURS = "situate"
GROUP = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
QUICK = ElectionTimes(3, 2.0, 0.2)
PATIENT = ElectionTimes(600, 400.0, 0.2)
"""With these, waiting for the end of a Lease would be noticed."""
EMBEDDED = Settings(machinery=MachinerySettings(reconciles_per_step=50), seed=1)


class Playground:
    """A server with nodes of both kinds, and processes of ours."""

    def __init__(self, server: EmbeddedServer, http: aiohttp.ClientSession) -> None:
        self.server = server
        self.http = http
        self.events: list[tuple[str, str]] = []
        """Name of the object and reason."""
        self.registries: dict[str, CollectorRegistry] = {}
        """Metrics by the identity of the process."""
        self._tokens = itertools.count()

    async def call(self, method: str, path: str, content: Any = None, *, kind: str = "application/json") -> Any:
        async with self.http.request(method, path, json=content, headers={"content-type": kind}) as response:
            answer = await response.json()
            assert response.status < 300, answer
            return answer

    async def eventually(self, what: str, holds: Callable[[], Any]) -> Any:
        """Asks again and again; `holds` may be a coroutine function."""
        try:
            async with asyncio.timeout(WITHIN_S):
                while True:
                    found = holds()
                    if asyncio.iscoroutine(found):
                        found = await found
                    if found:
                        return found
                    await asyncio.sleep(0.02)
        except TimeoutError:
            pytest.fail(f"it is still not so that {what}")

    @asynccontextmanager
    async def controller(
        self, identity: str, port: int, times: ElectionTimes = QUICK, **settings: Any
    ) -> AsyncIterator[SpotController]:
        """`identity`: of a process that stands for a pod, the pod's name and `_x`."""
        data = {"webhook": {"address": f"127.0.0.1:{port}", **settings.pop("webhook", {})}, **settings}
        parsed, mistakes = parse_section(data, SpotSettings, "spot")
        assert parsed is not None, mistakes
        client = connect(Connection(server=self.server.url, source="the test", namespace=OURS), random.Random(1))
        made = SpotController(
            parsed,
            ControllerContext(
                client, Candidacy(OURS, identity, times), lambda: datetime.now(UTC), random.Random(identity)
            ),
            ProcessLocation(OURS, identity.partition("_")[0] if "_" in identity else ""),
            record=self.record,
            metrics=AdmissionMetrics(self.registries.setdefault(identity, CollectorRegistry())),
            token=lambda: f"{identity}-{next(self._tokens)}",
        )
        running = asyncio.create_task(made.run())
        try:
            yield made
        finally:
            made.stop()
            await running
            await client.close()

    def record(self, about: ObjectReference, _: str, reason: str, __: str) -> None:
        self.events.append((about.name, reason))

    async def lead_to(self, port: int) -> None:
        """As the manifest does, with the URL in the place of the Service."""
        content = webhook_configuration(OURS)
        content["webhooks"][0]["clientConfig"] = {"url": f"https://127.0.0.1:{port}{WEBHOOK_PATH}"}
        await self.call("POST", GROUP, content)

    async def answers(self, controller: SpotController) -> None:
        async def trusted() -> bool:
            found = await self.call("GET", f"{GROUP}/{configuration_name(OURS)}")
            return "caBundle" in found["webhooks"][0]["clientConfig"] and controller.listener.listening

        await self.eventually("the webhook answers", trusted)

    async def pods(self, name: str, namespace: str = "shop") -> list[Any]:
        items = (await self.call("GET", f"/api/v1/namespaces/{namespace}/pods"))["items"]
        return [each for each in items if each["metadata"]["labels"].get("app") == name]

    async def classes(self, name: str) -> Counter[str]:
        return Counter(each["metadata"]["labels"].get(CLASS, "") for each in await self.pods(name))

    async def classes_of(self, name: str, replicas: int) -> Counter[str]:
        """Once all pods are there."""

        async def complete() -> Counter[str] | None:
            found = await self.classes(name)
            return found if found.total() == replicas else None

        found: Counter[str] = await self.eventually(f"{name} has {replicas} pods", complete)
        return found


@pytest.fixture
async def playground() -> AsyncIterator[Playground]:
    async with EmbeddedServer(EMBEDDED) as server, aiohttp.ClientSession(server.url) as http:
        made = Playground(server, http)
        for name in (OURS, "shop"):
            await made.call("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        for capacity in ("on-demand", "spot"):
            labels = {"node.kubernetes.io/capacity": capacity}
            await made.call("POST", "/api/v1/nodes", {"metadata": {"name": capacity, "labels": labels}})
        yield made


@pytest.fixture
def port() -> int:
    reserved = ReservedPort()
    reserved.release()
    return reserved.number


def workload(name: str, replicas: int, on_demand: str = "", kind: str = "Deployment") -> dict[str, Any]:
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "annotations": {ON_DEMAND: on_demand} if on_demand else {}},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "c", "image": "example.com/c:1"}]},
            },
        },
    }


DEPLOYMENTS = "/apis/apps/v1/namespaces/shop/deployments"
SETS = "/apis/apps/v1/namespaces/shop/statefulsets"

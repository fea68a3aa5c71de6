"""The whole product in one process: an embedded API server with its controllers calls our webhook over TLS."""

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
from situate.embedded.running import EmbeddedServer, Settings
from situate.kube.connect import connect
from situate.kube.connection import Connection
from situate.kube.election import Candidacy
from situate.kube.lease_record import ElectionTimes
from situate.objects.events import ObjectReference
from situate.objects.settings import parse_section
from situate.spot.configuration import SpotSettings
from situate.spot.controller.controller import Place, SpotController
from situate.spot.model import CLASS, ON_DEMAND
from situate.spot.names import LEADS, WEBHOOK_PATH, configuration_name
from situate.spot.server.metrics import AdmissionMetrics
from situate.spot.webhook import webhook_configuration
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
            client,
            Candidacy(OURS, identity, times),
            Place(OURS, identity.partition("_")[0] if "_" in identity else ""),
            record=self.record,
            metrics=AdmissionMetrics(CollectorRegistry()),
            wall=lambda: datetime.now(UTC),
            rng=random.Random(identity),
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


@pytest.mark.rule("spot:P1", "spot:P6", "spot:B1", "spot:P17", "spot:P27")
async def test_a_burst_gets_exactly_the_floor(playground: Playground, port: int) -> None:
    async with playground.controller("first", port) as ours:
        await playground.lead_to(port)
        await playground.answers(ours)
        await playground.call("POST", DEPLOYMENTS, workload("web", 20, "7"))
        assert await playground.classes_of("web", 20) == {"on-demand": 7, "spot": 13}
        assert ours.not_ready() is None

        await playground.call("POST", SETS, workload("base", 3, kind="StatefulSet"))
        await playground.classes_of("base", 3)
        classes = {
            each["metadata"]["name"]: each["metadata"]["labels"][CLASS] for each in await playground.pods("base")
        }
        assert classes == {"base-0": "on-demand", "base-1": "on-demand", "base-2": "spot"}

        written = await playground.call("GET", f"{DEPLOYMENTS}/web")
        assert CLASS not in written["spec"]["template"]["metadata"]["labels"]


@pytest.mark.rule("spot:P2", "spot:I15")
async def test_without_a_leader_pods_start_as_they_are(playground: Playground, port: int) -> None:
    async with playground.controller("first", port) as ours:
        await playground.lead_to(port)
        await playground.answers(ours)
    await playground.call("POST", DEPLOYMENTS, workload("web", 3, "2"))
    assert await playground.classes_of("web", 3) == {"": 3}


@pytest.mark.rule("spot:P1", "spot:I11")
async def test_the_next_leader_counts_what_is_there_and_answers_alone(playground: Playground, port: int) -> None:
    async with playground.controller("first", port) as first:
        await playground.lead_to(port)
        await playground.answers(first)
        await playground.call("POST", DEPLOYMENTS, workload("web", 4, "3"))
        await playground.classes_of("web", 4)
        async with playground.controller("second", port) as second:
            await playground.eventually("the second has seen everything", lambda: second.not_ready() is None)
            assert not second.listener.listening
            first.stop()
            await playground.eventually("the second answers", lambda: second.listener.listening)
            assert not first.listener.listening
            scale = {"spec": {"replicas": 9}}
            await playground.call("PATCH", f"{DEPLOYMENTS}/web", scale, kind="application/merge-patch+json")
            assert await playground.classes_of("web", 9) == {"on-demand": 3, "spot": 6}


@pytest.mark.rule("spot:P11")
async def test_a_policy_that_cannot_be_read_is_told_and_the_last_one_holds(playground: Playground, port: int) -> None:
    async with playground.controller("first", port) as ours:
        await playground.lead_to(port)
        await playground.answers(ours)
        await playground.call("POST", DEPLOYMENTS, workload("web", 1, "2"))
        await playground.classes_of("web", 1)
        bad = {"metadata": {"annotations": {ON_DEMAND: "-4"}}, "spec": {"replicas": 5}}
        await playground.call("PATCH", f"{DEPLOYMENTS}/web", bad, kind="application/merge-patch+json")
        assert await playground.classes_of("web", 5) == {"on-demand": 2, "spot": 3}
        await playground.eventually("it is told", lambda: ("web", "InvalidPolicy") in playground.events)


@pytest.mark.rule("spot:P6", "spot:B37")
async def test_a_secret_that_somebody_broke_is_mended(playground: Playground, port: int) -> None:
    secret = f"/api/v1/namespaces/{OURS}/secrets/situate-spot-certificates"
    async with playground.controller("first", port) as ours:
        await playground.lead_to(port)
        await playground.answers(ours)
        before = (await playground.call("GET", secret))["data"]["tls.crt"]
        broken = {"data": {"tls.key": "AAAA", "unrelated": "AAAA"}}
        await playground.call("PATCH", secret, broken, kind="application/merge-patch+json")

        async def mended() -> Any:
            data = (await playground.call("GET", secret))["data"]
            return data if data["tls.crt"] != before else None

        assert (await playground.eventually("the Secret is whole again", mended))["unrelated"] == "AAAA"
        await playground.call("DELETE", secret)

        async def again() -> bool:
            async with playground.http.get(secret) as response:
                return response.status == 200

        await playground.eventually("the Secret is there again", again)
        await playground.call("POST", DEPLOYMENTS, workload("web", 3, "1"))
        await playground.classes_of("web", 3)


@pytest.mark.rule("spot:P1")
async def test_a_pod_of_a_newer_revision_asks_for_the_lease_and_gets_it(playground: Playground, port: int) -> None:
    own = f"/apis/apps/v1/namespaces/{OURS}/deployments"
    await playground.call("POST", own, workload("situate-spot", 1))

    async def ready_pods() -> list[str]:
        found = await playground.pods("situate-spot", OURS)
        alive = [each for each in found if "deletionTimestamp" not in each["metadata"]]
        ready = [each for each in alive if any(c["type"] == "Ready" for c in each["status"].get("conditions", ()))]
        return [each["metadata"]["name"] for each in ready]

    async def marked() -> list[str]:
        found = await playground.pods("situate-spot", OURS)
        return [each["metadata"]["name"] for each in found if each["metadata"]["labels"].get(LEADS) == "true"]

    (old,) = await playground.eventually("the old pod is ready", ready_pods)
    async with playground.controller(f"{old}_x", port, PATIENT) as first:
        await playground.lead_to(port)
        await playground.answers(first)

        async def old_is_marked() -> bool:
            return await marked() == [old]

        await playground.eventually("questions are led to the old pod", old_is_marked)
        # the old pod stays: as in a rollout that has begun
        image = {"containers": [{"name": "c", "image": "example.com/c:2"}]}
        strategy = {"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}
        change = {"spec": {"strategy": strategy, "minReadySeconds": 500, "template": {"spec": image}}}
        await playground.call("PATCH", f"{own}/situate-spot", change, kind="application/strategic-merge-patch+json")

        async def both() -> list[str]:
            found = await ready_pods()
            return found if len(found) == 2 else []

        (new,) = set(await playground.eventually("the new pod is ready", both)) - {old}
        async with playground.controller(f"{new}_x", port, PATIENT) as second:
            await playground.eventually("the new one answers", lambda: second.listener.listening)
            assert not first.listener.listening
            assert not first.elector.leading()

            async def new_is_marked() -> bool:
                return await marked() == [new]

            await playground.eventually("questions are led to the new pod", new_is_marked)
            await playground.call("POST", DEPLOYMENTS, workload("web", 4, "2"))
            assert await playground.classes_of("web", 4) == {"on-demand": 2, "spot": 2}
            assert first.not_ready() is None, "it stands by until it is stopped"
            assert second.elector.leading()


@pytest.mark.rule("spot:P1")
async def test_a_pod_of_the_same_revision_leaves_the_lease_where_it_is(playground: Playground, port: int) -> None:
    own = f"/apis/apps/v1/namespaces/{OURS}/deployments"
    await playground.call("POST", own, workload("situate-spot", 2))

    async def ready_pods() -> list[str]:
        found = await playground.pods("situate-spot", OURS)
        names = [each["metadata"]["name"] for each in found if each["status"].get("conditions")]
        return names if len(names) == 2 else []

    one, other = await playground.eventually("both pods are ready", ready_pods)
    async with playground.controller(f"{one}_x", port, PATIENT) as first:
        await playground.lead_to(port)
        await playground.answers(first)
        async with playground.controller(f"{other}_x", port, PATIENT) as second:
            await playground.eventually("the second has seen everything", lambda: second.not_ready() is None)
            await second._standing.ask(second._elections)
            assert first.elector.leading()
            assert not second.listener.listening
            lease = await playground.call("GET", f"/apis/coordination.k8s.io/v1/namespaces/{OURS}/leases/situate-spot")
            assert "annotations" not in lease["metadata"]


@pytest.mark.rule("spot:P35", "spot:B46")
async def test_new_settings_hold_from_the_next_pod_on(playground: Playground, port: int) -> None:
    async with playground.controller("first", port) as ours:
        await playground.lead_to(port)
        await playground.answers(ours)
        await playground.call("POST", DEPLOYMENTS, workload("web", 2))
        assert await playground.classes_of("web", 2) == {"spot": 2}
        address = {"address": f"127.0.0.1:{port}"}
        changed, mistakes = parse_section({"webhook": address, "policies": [{"policy": "3"}]}, SpotSettings, "spot")
        assert changed is not None, mistakes
        ours.reconfigure(changed)
        scale = {"spec": {"replicas": 6}}
        await playground.call("PATCH", f"{DEPLOYMENTS}/web", scale, kind="application/merge-patch+json")
        assert await playground.classes_of("web", 6) == {"spot": 3, "on-demand": 3}

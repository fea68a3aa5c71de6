"""`kubectl drain` of a node with a machine on it, beside both servers: it ends when the machine has left."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from situate.vm.api.well_known import EVACUATE, MIGRATION_TIMES
from situate.vm.protocol.eviction_webhook_objects import (
    CERTIFICATES,
    PATH,
    budget_name,
    configuration_name,
    webhook_configuration,
)
from tests.contract.api import Api, Json
from tests.contract.servers import Server
from tests.contract.test_kubectl import Kubectl
from tests.contract.test_vm_machines import machines  # noqa: F401  # a fixture
from tests.contract.test_vm_moves import Town, programs, town  # noqa: F401  # a fixture
from tests.contract.things import core, eviction, group
from tests.contract.waiting import eventually
from tests.contract.work import Work, name
from tests.controlplane.ports import ReservedPort

CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"


@pytest.fixture
async def home(work: Work) -> AsyncIterator[tuple[str, int]]:
    """The namespace of an installation whose webhook API servers ask, and its port."""
    api, own = work.api, f"{work.namespace}-own"
    with ReservedPort() as port:
        (await api.post("/api/v1/namespaces", {"metadata": {"name": own}})).ok(201)
        configuration = webhook_configuration(own, timeout_s=10)
        configuration["webhooks"][0]["clientConfig"] = {"url": f"https://127.0.0.1:{port.number}{PATH}"}
        (await api.post(CONFIGURATIONS, configuration)).ok(201)
        yield own, port.number
        assert (await api.delete(f"{CONFIGURATIONS}/{name(configuration)}")).status in (200, 404)
        (await api.delete(f"/api/v1/namespaces/{own}")).ok()


@pytest.mark.rule("vm:B48", "vm:B44")
async def test_a_drain_ends_when_the_machine_has_left_and_kills_nothing(
    town: Town,  # noqa: F811
    work: Work,
    cluster: Server,
    home: tuple[str, int],
    tmp_path: Path,
) -> None:
    own, port = home
    api, first = work.api, await town.add_node()
    evictions = {"address": f"127.0.0.1:{port}"}
    kubectl = Kubectl(cluster.kubeconfig(tmp_path), tmp_path, work.namespace)
    with programs(cluster, work, tmp_path, own, evictions=evictions):
        await town.create("a", 2, stallAtPercent=None)
        pod = (await town.runs("a"))["podName"]
        await town.fill("plain", first, 1)
        refused = await _refused_by_us(api, work, pod)
        assert refused["message"].endswith(
            f"VirtualMachine {work.namespace}/a cannot be migrated now: it stays because no schedulable node has "
            "capacity for it below the watermark"
        ), "and nothing has been evicted: it was only tried"
        assert EVACUATE not in (await town.machine("a"))["metadata"]["annotations"]
        second = await town.add_node()

        said = await kubectl(f"drain {first} --force --timeout=110s")
        assert f'evictions.vm.situate.dev" denied the request: VirtualMachine {work.namespace}/a is ' in said, said
        assert f"migrated to node {second}" in said, said
        assert "pod/plain evicted" in said
        moved = await eventually(lambda: town.machine("a"), lambda made: made["status"]["node"] == second)
        assert moved["status"].get("restartCount", 0) == 0
        kept = await eventually(
            lambda: town.machine("a"), lambda made: MIGRATION_TIMES in made["metadata"]["annotations"]
        )
        assert EVACUATE not in kept["metadata"]["annotations"]
        budget = group("policy/v1", work.namespace, "poddisruptionbudgets", budget_name("a"))
        await eventually(
            lambda: api.get(budget),
            lambda answer: answer.status == 200 and answer.body["status"].get("currentHealthy") == 1,
        )
        assert (await api.get(core(own, "secrets", CERTIFICATES))).status == 200

    runner = moved["status"]["podName"]
    told = await api.post(core(work.namespace, "pods", runner, "eviction"), eviction(runner))
    assert told.status == 429, "while nobody answers the budget says no"
    assert told.body["message"] == "Cannot evict pod as it would violate the pod's disruption budget."

    (await api.delete(f"{CONFIGURATIONS}/{configuration_name(own)}")).ok()
    await eventually(lambda: api.get(budget), lambda answer: answer.status == 404)
    told = await api.post(core(work.namespace, "pods", runner, "eviction"), eviction(runner))
    assert told.status == 201, "an installation that is gone holds up nobody"


async def _refused_by_us(api: Api, work: Work, pod: str) -> Json:
    """What an eviction is told that is only tried, as soon as API servers ask us."""

    async def tried() -> Json:
        answer = await api.post(core(work.namespace, "pods", pod, "eviction"), eviction(pod), dryRun="All")
        return {"status": answer.status, **(answer.body if isinstance(answer.body, dict) else {})}

    return await eventually(tried, lambda said: "VirtualMachine" in said.get("message", ""))

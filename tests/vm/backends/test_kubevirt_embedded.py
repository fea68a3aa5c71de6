"""vm over HTTP with KubeVirt's kinds, on the embedded server: a node is emptied by its migrations."""

from __future__ import annotations

import asyncio
import random
from datetime import UTC, datetime
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from situate.cluster.controllers import KubeletSettings, MachinerySettings
from situate.cluster.controllers.node.nodes import node
from situate.embedded.embedded_server import EmbeddedServer, Settings
from situate.kube.client import Client
from situate.kube.connect import connect
from situate.kube.election.election import Candidacy
from situate.kube.election.lease_record import ElectionTimes
from situate.kube.login.connection import Connection
from situate.kube.patches import MergePatch
from situate.objects.resources import CUSTOMRESOURCEDEFINITIONS, NODES
from situate.runtime.leadership.leader import ControllerContext
from situate.scheduler.metrics.metrics import SchedulerMetrics
from situate.vm.api.well_known import AUTO_MIGRATION_LABEL, DRAIN, MIGRATION_TIMES
from situate.vm.backends.kubevirt import KubeVirtSystem
from situate.vm.backends.kubevirt_names import INSTANCES
from situate.vm.controller.controller import VmController
from situate.vm.controller.metrics import VmMetrics
from situate.vm.controller.setup import VmSetup
from tests.contract.waiting import eventually
from tests.vm.backends.kubevirt_controller import KubeVirtController, KubeVirtPace
from tests.vm.backends.kubevirt_kinds import kubevirt_definitions

NAMESPACE = "default"


class _Nobody:
    async def ask(self, questions: object) -> list[Any]:
        raise AssertionError(questions)

    async def bind(self, action: object) -> None:
        raise AssertionError(action)


async def where(client: Client) -> tuple[str, bool]:
    """The machine's node, and whether it is noted that it was moved."""
    found = await client.get(INSTANCES, "db", NAMESPACE)
    return found.content.get("status", {}).get("nodeName", ""), MIGRATION_TIMES in found.metadata.annotations


@pytest.mark.rule("vm:B49", "vm:B46", "vm:N13")
async def test_a_node_is_emptied_of_a_machine_of_kubevirt_and_older_versions_are_not_told_the_target() -> None:
    machinery = MachinerySettings(kubelet=KubeletSettings(start_delay=0.05, stop_delay=0.05, lease_renewal=0.0))
    pace = KubeVirtPace(copy_s=0.1, leave_s=0.1)
    settings = Settings(seed=1, machinery=machinery, further=(lambda each: KubeVirtController(each, pace),))
    async with EmbeddedServer(settings) as server:
        server.create_nodes(node(name, cpu="8", memory="32Gi") for name in ("n1", "n2"))
        client = connect(Connection(server.url, "test"), random.Random(2), qps=1000)
        ours = connect(Connection(server.url, "vm"), random.Random(1), qps=1000)
        for definition in kubevirt_definitions(pinning=False):
            await client.create(CUSTOMRESOURCEDEFINITIONS, definition)
        registry = CollectorRegistry()
        controller = VmController(
            VmSetup(system=KubeVirtSystem()),
            ControllerContext(
                ours, Candidacy(NAMESPACE, "vm-1", ElectionTimes()), lambda: datetime.now(UTC), random.Random(1)
            ),
            record=lambda *_: None,
            metrics=SchedulerMetrics(registry),
            vm_metrics=VmMetrics(registry, compat=False),
            extending=_Nobody(),
        )
        task = asyncio.create_task(controller.run())
        try:
            resources = {"requests": {"cpu": "4", "memory": "4Gi"}}
            body = {
                "metadata": {"name": "db", "labels": {AUTO_MIGRATION_LABEL: "true"}},
                "spec": {"schedulerName": "situate-vm", "domain": {"resources": resources}},
            }
            await client.create(INSTANCES, body, NAMESPACE)
            here, _ = await eventually(lambda: where(client), lambda found: bool(found[0]))
            await client.patch(NODES, here, MergePatch({"metadata": {"annotations": {DRAIN: ""}}}))
            there = "n2" if here == "n1" else "n1"
            await eventually(lambda: where(client), lambda found: found == (there, True))
            controller.stop()
            await task
        finally:
            task.cancel()
            await asyncio.wait([task])
            await client.close()
            await ours.close()

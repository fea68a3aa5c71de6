"""What users of the package get for their own tests."""

from __future__ import annotations

import asyncio

from situate.kube.client import Client
from situate.kube.patches import MergePatch
from situate.objects.resources import NODES, PODS, STATEFULSETS
from situate.testing.builders.fixtures import embedded_client, embedded_server, virtual_world
from situate.testing.builders.objects import node, pod, stateful_set
from situate.testing.virtual_time.processes import ProcessState, World

__all__ = ["embedded_client", "embedded_server", "virtual_world"]  # pytest finds fixtures by their name in the module


async def test_objects_of_the_builders_are_accepted_and_scheduled(embedded_client: Client) -> None:
    await embedded_client.create(NODES, node("n1"))
    await embedded_client.create(PODS, pod("web", cpu="500m", labels={"app": "web"}), "default")
    await embedded_client.create(STATEFULSETS, stateful_set("db", replicas=1), "default")

    async with asyncio.timeout(20):
        while True:
            pods = {each.metadata.name: each for each in (await embedded_client.list_all(PODS, "default")).items}
            if len(pods) == 2 and all(each.ready for each in pods.values()):
                break
            await asyncio.sleep(0)
    assert pods["web"].spec.node_name == "n1"


async def test_a_status_is_its_own(embedded_client: Client) -> None:
    await embedded_client.create(STATEFULSETS, stateful_set("db"), "default")
    patched = await embedded_client.patch(STATEFULSETS, "db", MergePatch({"spec": {"replicas": 2}}), "default")

    assert patched.spec.replicas == 2


def test_the_virtual_world_checks_at_the_end(virtual_world: World) -> None:
    async def main() -> None:
        await asyncio.sleep(3600)

    process = virtual_world.start("sleeper", main)
    virtual_world.run_until(7200)

    assert process.state is ProcessState.ENDED

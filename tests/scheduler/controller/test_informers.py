"""What must be listed before anything is decided, where no election makes the stores be listed anew."""

from __future__ import annotations

import asyncio
import random
from typing import cast

import pytest

from situate.kube.client import Client
from situate.objects.resources import unstructured
from situate.scheduler.controller.informers import Informers

MIGRATIONS = unstructured("vm.neon.tech", "v1", "VirtualMachineMigration", "virtualmachinemigrations")


@pytest.mark.rule("vm:C30", "vm:B43")
@pytest.mark.parametrize("is_served", [True, False])
async def test_resources_of_a_product_are_waited_for_unless_the_cluster_has_none(is_served: bool) -> None:
    watched = Informers.create(cast(Client, None), random.Random(1), further=[MIGRATIONS])
    (migrations,) = watched.further
    waiting = asyncio.ensure_future(watched.wait_synced())
    for each in watched.reflectors():
        if each is not migrations:
            each.store.replace([])
    for _ in range(100):
        await asyncio.sleep(0)
    assert not waiting.done()
    if is_served:
        migrations.store.replace([])
    else:
        migrations.not_served.set()
    await asyncio.wait_for(waiting, 60.0)

"""Nodes get the capacity label where that is asked for, and nothing else is written on them (P34, B36)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from situate.kube.client import Client
from situate.kube.watch.store import Store
from situate.objects.decoding.codec import decode
from situate.objects.kinds.nodes import Node
from situate.objects.messages import Request
from situate.objects.resources import NODES
from situate.runtime.leadership.actuator import Actuator
from situate.spot.config.settings import SpotSettings
from situate.spot.controller.act.labels import NodeLabeller
from situate.spot.model.pods_nodes_workloads import CAPACITY_LABEL
from tests.kube.hostile_server import Fault, HostileServer

PATH = "/api/v1/nodes"


class Rig:
    def __init__(self, *, asked: bool = True) -> None:
        self.server = HostileServer()
        self.store: Store[Node] = Store("nodes")
        self.settings = SpotSettings(label_nodes=asked)
        self.labelling = NodeLabeller(self.store, lambda: self.settings)

    def add(self, name: str, **labels: str) -> None:
        self.server.put(
            f"{PATH}/{name}", {"metadata": {"labels": {k.replace("__", "/"): v for k, v in labels.items()}}}
        )
        self.store.put(decode(NODES, json.dumps(self.server.objects[f"{PATH}/{name}"]).encode()))

    def label(self, name: str) -> Any:
        return self.server.objects[f"{PATH}/{name}"]["metadata"]["labels"].get(CAPACITY_LABEL)

    def writes(self) -> list[Request]:
        return [each for each in self.server.requests if each.method != "GET"]

    @asynccontextmanager
    async def leading(self) -> AsyncIterator[None]:
        running = asyncio.create_task(self.labelling.run(Client(self.server), Actuator(lambda: None)))
        try:
            yield
        finally:
            running.cancel()
            await asyncio.wait([running])


@pytest.mark.rule("spot:P34")
@pytest.mark.looptime
async def test_nodes_are_labelled_in_the_words_of_the_note_as_they_come() -> None:
    rig = Rig()
    rig.add("a", **{"karpenter.sh__capacity-type": "spot"})
    async with rig.leading():
        rig.add("b", **{"eks.amazonaws.com__capacityType": "ON_DEMAND"})
        rig.add("c", unrelated="x")
        await asyncio.sleep(1)
    assert (rig.label("a"), rig.label("b"), rig.label("c")) == ("spot", "on-demand", None)
    for each in rig.writes():
        body = json.loads(each.body)
        assert set(body) == {"metadata"}
        assert set(body["metadata"]) == {"uid", "labels"}


@pytest.mark.rule("spot:P34", "spot:B36")
@pytest.mark.looptime
async def test_without_being_asked_nothing_is_written_until_the_settings_change() -> None:
    rig = Rig(asked=False)
    rig.add("a", **{"karpenter.sh__capacity-type": "spot"})
    async with rig.leading():
        await asyncio.sleep(60)
        assert not rig.writes()
        rig.settings = SpotSettings(label_nodes=True)
        rig.labelling.wake()
        await asyncio.sleep(1)
    assert rig.label("a") == "spot"


@pytest.mark.rule("spot:P34", "spot:F6")
@pytest.mark.looptime
async def test_a_node_that_is_gone_holds_up_no_other_and_an_outage_is_waited_for() -> None:
    rig = Rig()
    for name in ("a", "b", "c"):
        rig.add(name, **{"karpenter.sh__capacity-type": "spot"})
    rig.server.remove(f"{PATH}/a")
    down = True
    rig.server.judge = lambda request: Fault(503) if down and request.path.endswith("/b") else None
    async with rig.leading():
        await asyncio.sleep(1)
        down = False
        await asyncio.sleep(10)
    assert (rig.label("b"), rig.label("c")) == ("spot", "spot")

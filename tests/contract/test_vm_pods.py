"""The shipped scheduler's process beside plain pods that are resized, on both servers: what kubelets answer counts."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from situate.vm.api.well_known import CLAIM, RESIZE_REQUESTED
from tests.contract.api import Api, Json
from tests.contract.servers import Server
from tests.contract.stub_kubelet import look
from tests.contract.test_vm_machines import machines  # noqa: F401  # a fixture
from tests.contract.test_vm_moves import Town, programs, town  # noqa: F401  # a fixture
from tests.contract.things import core
from tests.contract.waiting import eventually, gone
from tests.contract.work import Work, name

OURS = {"annotations": {"noresize": "true"}}
"""Of a pod whose resizes the test's kubelet answers."""


class Resizing:
    """Pods of a node of 8 CPUs."""

    def __init__(self, work: Work, node: str) -> None:
        self.work, self.node = work, node
        self.api: Api = work.api

    def path(self, called: str, part: str = "") -> str:
        return core(self.work.namespace, "pods", called, part)

    async def size(self, cpus: int) -> None:
        room = {"cpu": str(cpus), "memory": "64Gi"}
        change = {"status": {"allocatable": room, "capacity": room}}
        (await self.api.patch(f"/api/v1/nodes/{self.node}/status", change)).ok()

    async def by_hand(self, called: str, cpus: int) -> None:
        """As soon as the API server knows how large the node is."""
        resources = {"requests": {"cpu": str(cpus)}}
        change = {"spec": {"containers": [{"name": "app", "resources": resources}]}}
        ask = partial(self.api.patch, self.path(called, "resize"), change, form="strategic")
        await eventually(ask, lambda answer: answer.status == 200)

    async def asks(self, called: str, cpus: int) -> None:
        """Until its spec says so."""

        def said(pod: Json | None) -> bool:
            assert pod is not None
            return bool(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] == str(cpus))

        await eventually(partial(self.work.pod, called), said)

    async def answered(self, called: str) -> tuple[str, str]:
        """What it has, and why not more, by what its kubelet says now."""
        await look(self.api, self.work.namespace, self.node, only=called)
        status = (await self.api.get(self.path(called))).ok()["status"]
        why = "".join(each["reason"] for each in status["conditions"] if each["type"] == "PodResizePending")
        return status["containerStatuses"][0]["allocatedResources"]["cpu"], why


@pytest.mark.rule("vm:B34", "vm:B35", "vm:N12")
async def test_what_a_kubelet_takes_puts_off_or_calls_infeasible(
    town: Town,  # noqa: F811
    work: Work,
    cluster: Server,
    tmp_path: Path,
) -> None:
    """Taken is what it wished for; what is put off is demand, for which a machine leaves; the rest is anybody's."""
    home = await town.add_node()
    here = Resizing(work, home)
    with programs(cluster, work, tmp_path):
        await town.fill("web", home, 1, meta=OURS)
        await town.fill("other", home, 1, meta=OURS)
        await town.create("b", 4)
        source = (await town.runs("b"))["podName"]
        away = await town.add_node()

        wish = {"metadata": {"annotations": {RESIZE_REQUESTED: json.dumps({"cpu": "2"})}}}
        (await work.api.patch(here.path("web"), wish)).ok()
        await here.asks("web", 2)
        assert await here.answered("web") == ("2", "")

        await here.by_hand("other", 4)
        assert await here.answered("other") == ("1", "Deferred")
        await town.let_move("b")  # not before it is known who waits: it would leave for its node's sake
        begun = await town.move()
        claim = json.loads(begun["metadata"]["annotations"][CLAIM])
        assert (claim["node"], claim["beneficiary"]["kind"], claim["beneficiary"]["name"]) == (home, "Pod", "other")
        await eventually(partial(town.runs, "b"), lambda status: status["node"] == away)
        await gone(work.api, here.path(source))
        assert await here.answered("other") == ("4", "")
        await gone(work.api, town.own("virtualmachinemigrations", name(begun)))

        await here.size(16)
        await here.by_hand("other", 9)
        await here.size(8)
        assert await here.answered("other") == ("4", "Infeasible")
        await town.fill("third", home, 2)

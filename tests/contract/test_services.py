"""Services: their addresses, and the endpoints that are kept for them."""

from __future__ import annotations

from tests.contract.servers import Server
from tests.contract.things import core, group, replicaset
from tests.contract.waiting import eventually, patience_s
from tests.contract.work import Work, name


class TestServices:
    async def test_the_endpoint_of_a_released_pod_stays(self, cluster: Server, work: Work) -> None:
        service = {"metadata": {"name": "s"}, "spec": {"selector": {"tier": "front"}, "ports": [{"port": 80}]}}
        (await work.api.post(core(work.namespace, "services"), service)).ok(201)
        body = replicaset("rs", 1)
        body["spec"]["template"]["metadata"]["labels"]["tier"] = "front"
        await work.create("replicasets", body)
        (only,) = await work.settled(1)
        await eventually(
            lambda: self.targets(work), lambda targets: targets == {name(only)}, timeout_s=patience_s(cluster)
        )
        await work.label(name(only), app="out")
        await eventually(lambda: self.targets(work), lambda targets: len(targets) == 2)
        assert name(only) in await self.targets(work)

    @staticmethod
    async def targets(work: Work) -> set[str]:
        path = group("discovery.k8s.io/v1", work.namespace, "endpointslices")
        slices = (await work.api.get(path)).ok()["items"]
        return {each["targetRef"]["name"] for found in slices for each in found["endpoints"] or []}

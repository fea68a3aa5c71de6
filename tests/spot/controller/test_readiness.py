"""A process that starts is ready once it has listed what pods are counted by: nothing else is waited for (B38).

How long that takes with 20,000 pods `make bench-spot` measures.
"""

from __future__ import annotations

from collections import Counter

import pytest

from situate.cluster.storage.effects import Identity
from situate.cluster.storage.watch import Watch
from situate.objects.messages import Request, Response
from situate.spot.model.pods_nodes_workloads import CLASS
from situate.testing.spot.world.initial_objects import WorkloadPlan
from situate.testing.spot.world.workloads import collection, workload
from situate.testing.spot.world.world import SpotWorld, machinery_settings, parse_settings
from situate.testing.virtual_time.isolation import disable_collector, suppress_logs

COUNTED_BY = ("pods", "replicasets", "deployments", "statefulsets", "nodes", "namespaces", "events")
OWN = ("leases", "secrets", "configmaps", "mutatingwebhookconfigurations")
FOR_MOVES = (
    "services", "networkpolicies", "poddisruptionbudgets", "resourcequotas",
    "persistentvolumes", "persistentvolumeclaims", "storageclasses",
)  # fmt: skip


class Withholding:
    """The API server, but what only moves need is never answered. Counts what is read, by resource."""

    def __init__(self, world: SpotWorld) -> None:
        self._world = world
        self.read: Counter[str] = Counter()

    def answer(self, request: Request, now: float, identity: Identity) -> Response | Watch | None:
        parts = request.path.split("/")
        resource = next((each for each in (*OWN, *FOR_MOVES, *COUNTED_BY) if each in parts), "")
        if resource in FOR_MOVES:
            return None
        self.read[resource] += request.method == "GET"
        return self._world.answer(request, now, identity)


def started_again(replicas: int) -> tuple[Counter[str], float, Counter[str]]:
    """With so many pods in each of three workloads: what two new processes read, the seconds from the first one's start
    until questions are answered, and the classes of pods that come then."""
    plans = [WorkloadPlan(f"web-{number}", "Deployment", replicas, "1") for number in range(3)]
    with disable_collector(), suppress_logs():
        world = SpotWorld(1, parse_settings(), machinery_settings())
        try:
            for number in range(4):
                world.add_node(f"node-{number}", ("on-demand", "spot")[number % 2])
            assert world.wait_until_led()
            for plan in plans:
                world.create_object(collection(plan), workload(plan))
            world.let_pass(30.0)
            assert len(world.pods()) == 3 * replicas
            world.network.server = server = Withholding(world)
            for member in tuple(world.members):
                world.stop(member)  # the Lease is free
            assert world.let_pass(10.0, stop=lambda: bool(world.members))
            first, began = world.members[0].controller, world.now
            assert first.not_ready() is not None
            assert world.wait_until_led()
            took = world.now - began
            assert [member.controller.not_ready() for member in world.members] == [None] * len(world.members)
            read = Counter(server.read)
            assert all(member.controller.decision_loop.decision is None for member in world.members)
            more = WorkloadPlan("more", "Deployment", 4, "3")
            world.create_object(collection(more), workload(more))
            world.let_pass(5.0)
            classes = Counter(each["metadata"]["labels"].get(CLASS, "") for each in world.pods("more"))
            return read, took, classes
        finally:
            world.close()


@pytest.mark.rule("spot:B38", "spot:P1", "spot:P22")
@pytest.mark.parametrize("replicas", [1, 40])
def test_a_process_is_ready_once_it_has_listed_what_pods_are_counted_by(replicas: int) -> None:
    read, took, classes = started_again(replicas)
    assert classes == {"on-demand": 3, "spot": 1}
    assert took < 1.0, "nothing but answers is waited for"
    assert max(read[each] for each in COUNTED_BY) <= 12, "lists and watches of two processes; nothing for each pod"

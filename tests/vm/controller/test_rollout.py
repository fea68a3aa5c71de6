"""A rollout of vm itself: the pod of a newer revision that has caught up gets the lease, and no other does (B44)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from situate.cluster.storage.effects import Identity
from situate.testing.virtual_time.network import Wire
from situate.testing.vm.world.processes import NAMESPACE, PODS, VmWorld
from situate.vm.api.well_known import SCHEDULER_LABEL, WANTS
from situate.vm.controller.setup import VmSetup

SETS = f"/apis/apps/v1/namespaces/{NAMESPACE}/replicasets"
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/vm"


class Rollout(VmWorld):
    """Processes that know their own pods."""

    def new_identity(self, product: str) -> tuple[str, Wire]:
        del product
        identity = f"{self.setup.pod}_x"
        return identity, self.network.connect(Identity(identity, ("system:authenticated",)))

    def start(self, pod: str, revision: int, *, ready: bool = True) -> None:
        """A process in a pod of that revision."""
        number, template = {"deployment.kubernetes.io/revision": str(revision)}, {"metadata": {"labels": {"app": pod}}}
        containers = [{"name": "c", "image": "example.com/c:1"}]
        spec = {"replicas": 0, "selector": {"matchLabels": {"app": pod}}}
        body = {"metadata": {"name": pod, "annotations": number}, "spec": spec}
        made = self.call(
            "POST", SETS, {**body, "spec": {**spec, "template": {**template, "spec": {"containers": containers}}}}
        )
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": pod, "uid": made["metadata"]["uid"]}
        metadata = {"name": pod, "ownerReferences": [{**owner, "controller": True}]}
        self.call("POST", PODS, {"metadata": metadata, "spec": {"nodeName": "elsewhere", "containers": containers}})
        self.get_ready(pod, ready=ready)
        self.setup = replace(self.setup, pod=pod, namespace=NAMESPACE)
        self.start_member()

    def get_ready(self, pod: str, *, ready: bool) -> None:
        conditions = [{"type": "Ready", "status": str(ready)}]
        self.call(
            "PATCH", f"{PODS}/{pod}/status", {"status": {"phase": "Running", "conditions": conditions}}, patch=True
        )

    def holder(self) -> str:
        return str(self.call("GET", LEASE)["spec"]["holderIdentity"])

    def asked(self) -> bool:
        return WANTS in self.call("GET", LEASE)["metadata"].get("annotations", {})

    def marked(self) -> list[str]:
        pods = self.list_items(PODS)
        return [each["metadata"]["name"] for each in pods if SCHEDULER_LABEL in each["metadata"].get("labels", {})]

    def wait(self, holds: object, within_s: float = 40.0) -> None:
        assert self.let_pass(within_s, stop=holds), (self.holder(), self.asked())  # type: ignore[arg-type]  # a callable


@contextmanager
def rollout() -> Iterator[Rollout]:
    world = Rollout(1, VmSetup(), nodes={"n1": "8"}, processes=0)
    try:
        yield world
    finally:
        world.close()


@pytest.mark.rule("vm:B44", "vm:D22", "vm:C17")
def test_a_newer_pod_that_is_ready_gets_the_lease_and_agents_ask_it() -> None:
    with rollout() as world:
        world.start("old", 1)
        world.wait(lambda: world.marked() == ["old"])
        world.start("new", 2, ready=False)
        world.wait(world.asked)
        world.let_pass(5.0)
        assert world.holder() == "old_x", "it is not ready yet"
        world.get_ready("new", ready=True)
        world.wait(lambda: world.marked() == ["new"], within_s=8.0)
        assert world.holder() == "new_x"
        old, new = world.members
        assert old.controller.actuator is None
        assert new.controller.actuator is not None
        world.let_pass(60.0)
        assert world.holder() == "new_x", "the old one does not ask for it back"


@pytest.mark.rule("vm:B44")
def test_a_pod_of_the_same_revision_stands_by() -> None:
    with rollout() as world:
        world.start("one", 1)
        world.wait(lambda: world.marked() == ["one"])
        world.start("two", 1)
        world.let_pass(30.0)
        assert (world.holder(), world.asked()) == ("one_x", False)

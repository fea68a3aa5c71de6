"""Two processes of the shipped stand-in on a virtual clock, beside a cluster with nodes and kubelets."""

from __future__ import annotations

from collections.abc import Coroutine
from random import Random
from typing import Any

from situate.cluster.controllers import KubeletSettings, MachinerySettings
from situate.cluster.controllers.node.nodes import nodes
from situate.kube.client import Client
from situate.kube.election.election import Candidacy
from situate.kube.election.lease_record import ElectionTimes
from situate.objects.kinds.events import ObjectReference
from situate.runtime.leadership.leader import ControllerContext
from situate.testing.virtual_time.world import ClusterWorld, Member
from situate.vm.emulator import Settings
from situate.vm.emulator.controller.controller import MachinesController
from situate.vm.emulator.crds import definitions
from tests.vm.emulator.world import MACHINES, MIGRATIONS, PODS

TIMES = ElectionTimes(8.0, 5.0, 1.0)
_IDLE = frozenset({"statefulset", "deployment", "replicaset", "disruption", "endpoint-slices"})
Machines = MachinesController


class Shipped(ClusterWorld[Machines]):
    def __init__(self, seed: int = 1, *, defined: bool = True) -> None:
        kubelet = KubeletSettings(start_delay=0.2, lease_renewal=0.0)
        super().__init__(seed, MachinerySettings(disabled=_IDLE, kubelet=kubelet, events=False))
        for node in nodes(3):
            self.call("POST", "/api/v1/nodes", node)
        self.call("POST", "/api/v1/namespaces", {"metadata": {"name": "default"}})
        self.let_pass(1.0)
        if defined:
            self.define()
        for _ in range(2):
            self.start_member()

    def define(self) -> None:
        for each in definitions():
            self.call("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", each)

    def start_member(self) -> None:
        identity, wire = self.new_identity("machines")
        rng = Random(f"{identity} {self.rng.random()}")
        made: list[Machines] = []

        async def main() -> None:
            await made[0].run()

        def begin() -> Coroutine[Any, Any, None]:
            return main()

        process = self.world.start(identity, begin)
        made.append(
            MachinesController(
                Settings(handover_s=2.0),
                ControllerContext(Client(wire), Candidacy("default", identity, TIMES), self.wall, rng),
                record=self._record,
            )
        )
        self.members.append(Member(identity, process, wire, made[0]))

    def vm(self, name: str = "db") -> dict[str, Any]:
        return self.call("GET", f"{MACHINES}/{name}")

    def move(self, name: str = "move") -> dict[str, Any]:
        return self.call("GET", f"{MIGRATIONS}/{name}")

    def pods(self) -> list[dict[str, Any]]:
        return list(self.call("GET", PODS)["items"])

    def _record(self, _: ObjectReference, __: str, reason: str, ___: str) -> None:
        self.events[reason] += 1

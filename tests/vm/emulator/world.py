"""An in-memory cluster with the stand-in in it, on a clock that the test moves."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from typing import Any

from situate.cluster.apiserver.assembly import Cluster
from situate.cluster.controllers import MachinerySettings
from situate.cluster.controllers.node.nodes import nodes
from situate.cluster.storage.effects import ADMIN
from situate.cluster.storage.names import NameGenerator
from situate.embedded.virtual_machines import VirtualMachineController
from situate.objects.messages import Request, Response
from situate.vm.emulator import Settings
from situate.vm.emulator.crds import definitions
from situate.vm.emulator.hypervisor import HYPERVISOR

Json = dict[str, Any]
START = 1_700_000_000.0
MACHINES = "/apis/vm.neon.tech/v1/namespaces/default/virtualmachines"
MIGRATIONS = "/apis/vm.neon.tech/v1/namespaces/default/virtualmachinemigrations"
PODS = "/api/v1/namespaces/default/pods"
_MERGE = {"content-type": "application/merge-patch+json"}


def machine(name: str = "db", *, cpu: Any = 1, slots: int = 2, behaviour: Json | None = None, **spec: Any) -> Json:
    """1 CPU and 2 GiB, with room to grow to 4 and 8."""
    annotations = {} if behaviour is None else {HYPERVISOR: json.dumps(behaviour)}
    guest = {
        "cpus": {"min": "250m", "use": cpu, "max": 4},
        "memorySlots": {"min": 1, "use": slots, "max": 8},
    }
    return {
        "apiVersion": "vm.neon.tech/v1",
        "kind": "VirtualMachine",
        "metadata": {"name": name, "namespace": "default", "annotations": annotations, "labels": {"tenant": "a"}},
        "spec": {"guest": guest, **spec},
    }


def migration(name: str = "move", vm: str = "db", *, annotations: Mapping[str, str] | None = None, **spec: Any) -> Json:
    return {
        "apiVersion": "vm.neon.tech/v1",
        "kind": "VirtualMachineMigration",
        "metadata": {"name": name, "namespace": "default", "annotations": dict(annotations or {})},
        "spec": {"vmName": vm, **spec},
    }


class World:
    def __init__(
        self,
        settings: Settings | None = None,
        *,
        node_count: int = 3,
        machinery: MachinerySettings = MachinerySettings(),  # noqa: B008  # frozen
    ) -> None:
        self.now = START
        chosen = settings or Settings()
        self.cluster = Cluster(
            NameGenerator(random.Random(1)),
            random.Random(1),
            machinery,
            now=self.now,
            further=(lambda cluster: VirtualMachineController(cluster, chosen),),
        )
        for each in definitions():
            self.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", each)
        for node in nodes(node_count):
            self.post("/api/v1/nodes", node)
        self.run(5.0)

    def ask(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, Json]:
        raw = b"" if body is None else json.dumps(body).encode()
        shown = {"user-agent": "test", "content-type": "application/json", **(headers or {})}
        answer = self.cluster.answer(Request(method, path, (), shown, raw), self.now, ADMIN)
        assert isinstance(answer, Response)
        return answer.status, json.loads(answer.body)

    def post(self, path: str, body: Json) -> Json:
        return self._ok(*self.ask("POST", path, body))

    def patch(self, path: str, body: Json) -> Json:
        return self._ok(*self.ask("PATCH", path, body, _MERGE))

    def delete(self, path: str, **options: Any) -> None:
        self._ok(*self.ask("DELETE", path, options or None))

    def find(self, path: str) -> Json | None:
        status, body = self.ask("GET", path)
        return body if status == 200 else None

    def get(self, path: str) -> Json:
        return self._ok(*self.ask("GET", path))

    def run(self, seconds: float) -> None:
        """Lets time pass; whatever is due happens at its time."""
        until = self.now + seconds
        while True:
            due = self.cluster.machinery.next_due()
            if due is None or due > until:
                break
            self.now = max(self.now, due)
            self.cluster.step(self.now)
        self.now = until

    def start(self, body: Json | None = None) -> Json:
        """A machine that runs."""
        made = self.post(MACHINES, machine() if body is None else body)
        self.run(2.0)
        return self.get(f"{MACHINES}/{made['metadata']['name']}")

    def vm(self, name: str = "db") -> Json:
        return self.get(f"{MACHINES}/{name}")

    def move(self, name: str = "move") -> Json:
        return self.get(f"{MIGRATIONS}/{name}")

    def pod(self, name: str) -> Json:
        return self.get(f"{PODS}/{name}")

    def pods(self) -> list[Json]:
        return list(self.get(PODS)["items"])

    def events(self, reason: str) -> list[Json]:
        return [each for each in self.events_all() if each["reason"] == reason]

    def events_all(self) -> list[Json]:
        return list(self.get("/api/v1/namespaces/default/events")["items"])

    def _ok(self, status: int, body: Json) -> Json:
        assert status < 300, (status, body)
        return body

"""Objects and an API that takes the stand-in's writes at once, with their preconditions: for looks one at a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from situate.vm import emulator
from situate.vm.emulator import Create, Delete, Key, Kind, Patch, ReconcileResult, Settings, Write
from situate.vm.emulator import object_fields as field
from situate.vm.emulator.decision import Obj
from situate.vm.emulator.runner_pods import RECEIVE

Json = Any
NAMESPACE = "default"
START = 1_700_000_000.0


class Refused(Exception):
    """The API did not take a write."""


class Town:
    """Pods come up and end only when a test says so. `writes` are those that were taken, in order."""

    def __init__(self, settings: Settings | None = None) -> None:
        self.now = START
        self.settings = settings or Settings()
        self.objects: dict[tuple[Kind, str], dict[str, Json]] = {}
        self.refused_kind: Kind | None = None
        """The API refuses status updates and creations of this kind."""
        self.writes: list[Write] = []
        self._version = 0

    def machine(self, name: str = "vm", phase: str = "", **parts: Json) -> dict[str, Json]:
        guest = {"cpus": {"min": 1, "max": 4, "use": 1}, "memorySlots": {"min": 1, "max": 4, "use": 1}}
        spec = {"guest": guest, **parts.pop("spec", {})}
        status = {"phase": phase, **parts.pop("status", {})}
        return self.put(Kind.MACHINE, name, spec=spec, status=status, **parts)

    def running(self, name: str = "vm", phase: str = "Running", **parts: Json) -> dict[str, Json]:
        """With its pod, `<name>-source`, on node-1."""
        pod = f"{name}-source"
        where = {"podName": pod, "podIP": "1.2.3.4", "node": "node-1"}
        status = {**where, "cpus": 1, "memorySize": "1Gi", **parts.pop("status", {})}
        vm = self.machine(name, phase, status=status, **parts)
        owners = [field.machine_owner(vm, controller=True)]
        metadata = {"ownerReferences": owners, "labels": {"vm.neon.tech/name": name}}
        self.put(Kind.POD, pod, metadata=metadata, spec={"nodeName": "node-1"})
        self.comes_up(pod)
        return vm

    def migration(self, name: str = "m", vm: str = "vm", **parts: Json) -> dict[str, Json]:
        """Each a second younger than the one before."""
        self.now += 1
        return self.put(Kind.MIGRATION, name, spec={"vmName": vm, **parts.pop("spec", {})}, status={}, **parts)

    def put(self, kind: Kind, name: str, **parts: Json) -> dict[str, Json]:
        self._version += 1
        metadata = {
            "name": name,
            "namespace": NAMESPACE,
            "uid": f"{name}-{self._version}",
            "resourceVersion": str(self._version),
            "creationTimestamp": field.timestamp(self.now),
            **parts.pop("metadata", {}),
        }
        made = self.objects[kind, name] = {"metadata": metadata, **parts}
        return made

    def comes_up(self, pod: str, node: str = "node-1", phase: str = "Running") -> None:
        ready = [{"type": "Ready", "status": "True" if phase == "Running" else "False"}]
        self.change(
            Kind.POD,
            pod,
            {
                "spec": {"nodeName": node},
                "status": {"phase": phase, "podIP": f"10.0.0.{len(pod)}", "conditions": ready},
            },
        )

    def change(self, kind: Kind, name: str, patch: Mapping[str, Json]) -> None:
        self._version += 1
        changed = merged(self.objects[kind, name], patch)
        changed["metadata"]["resourceVersion"] = str(self._version)
        self.objects[kind, name] = changed
        if changed["metadata"].get("deletionTimestamp") and not changed["metadata"].get("finalizers"):
            del self.objects[kind, name]

    def delete(self, kind: Kind, name: str) -> None:
        """At once, or when the last finalizer is gone."""
        if self.objects[kind, name]["metadata"].get("finalizers"):
            self.change(kind, name, {"metadata": {"deletionTimestamp": field.timestamp(self.now)}})
        else:
            del self.objects[kind, name]

    def get(self, kind: Kind, namespace: str, name: str) -> Obj | None:
        assert namespace == NAMESPACE
        return self.objects.get((kind, name))

    def migrations_of(self, namespace: str, machine: str) -> list[Obj]:
        assert namespace == NAMESPACE
        return [each for each in self.all(Kind.MIGRATION) if each["spec"]["vmName"] == machine]

    def pods_of(self, namespace: str, machine: str) -> list[Obj]:
        assert namespace == NAMESPACE
        return [each for each in self.all(Kind.POD) if field.labels_of(each).get("vm.neon.tech/name") == machine]

    def all(self, kind: Kind) -> list[dict[str, Json]]:
        return [obj for (each, _), obj in self.objects.items() if each is kind]

    def look(self, kind: Kind, name: str) -> ReconcileResult:
        return emulator.reconcile_object(self, Key(kind, NAMESPACE, name), self.now, self.settings)

    def perform(self, write: Write) -> None:
        """Raises `Refused` where a precondition does not hold."""
        is_metadata = isinstance(write, Patch) and not write.subresource
        if write.kind is self.refused_kind and not is_metadata:
            raise Refused(f"writes to {write.kind.value} are refused")
        match write:
            case Create():
                body = {key: value for key, value in write.body.items() if key not in ("apiVersion", "kind")}
                metadata = dict(body.pop("metadata"))
                if (write.kind, metadata["name"]) in self.objects:
                    raise Refused("it exists")
                body.setdefault("status", {"phase": "Pending"})
                self.put(write.kind, metadata["name"], metadata=metadata, **body)
            case Delete():
                self._check(write.kind, write.name, {"uid": write.uid})
                self.delete(write.kind, write.name)
            case Patch():
                body = dict(write.body)
                metadata = dict(body["metadata"])
                self._check(write.kind, write.name, metadata)
                metadata.pop("resourceVersion", None)
                self.change(write.kind, write.name, {**body, "metadata": metadata})
        self.writes.append(write)

    def step(self, kind: Kind, name: str) -> ReconcileResult:
        """One look and its write."""
        looked = self.look(kind, name)
        if looked.write is not None:
            self.perform(looked.write)
        return looked

    def settle(self, kind: Kind, name: str, most: int = 40) -> ReconcileResult:
        """Looks until there is nothing to write; the last one."""
        for _ in range(most):
            if (kind, name) not in self.objects:
                return ReconcileResult()
            looked = self.step(kind, name)
            if looked.write is None:
                return looked
        raise AssertionError(f"{name} is never quiet: {self.writes[-3:]}")

    def vm(self, name: str = "vm") -> dict[str, Json]:
        return self.objects[Kind.MACHINE, name]

    def move(self, name: str = "m") -> dict[str, Json]:
        return self.objects[Kind.MIGRATION, name]

    def pod(self, name: str) -> dict[str, Json]:
        return self.objects[Kind.POD, name]

    @property
    def target(self) -> dict[str, Json] | None:
        """The pod that was made to move into."""
        return next((pod for pod in self.all(Kind.POD) if receives(pod)), None)

    def _check(self, kind: Kind, name: str, expected: Mapping[str, Json]) -> None:
        there = self.objects.get((kind, name))
        if there is None:
            raise Refused("it is gone")
        for key in ("uid", "resourceVersion"):
            if key in expected and there["metadata"][key] != expected[key]:
                raise Refused(f"its {key} is another")


def receives(pod: Mapping[str, Json]) -> bool:
    container = (pod["spec"].get("containers") or [{}])[0]
    return any(each["name"] == RECEIVE for each in container.get("env") or ())


def condition(obj: Obj, kind: str) -> tuple[str, str]:
    """Status and reason; empty without it."""
    found = field.condition(obj, kind) or {}
    return found.get("status", ""), found.get("reason", "")


def merged(before: Json, patch: Json) -> Json:
    if not isinstance(patch, Mapping):
        return patch
    after = dict(before) if isinstance(before, Mapping) else {}
    for name, value in patch.items():
        if value is None:
            after.pop(name, None)
        else:
            after[name] = merged(after.get(name), value)
    return after

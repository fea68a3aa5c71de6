"""Machines and their migrations on both servers: what their definitions fill in, and what they refuse."""

from __future__ import annotations

from collections.abc import AsyncIterator
from copy import deepcopy
from typing import Any

import pytest

from situate.vm.emulator.crds import MACHINES, MIGRATIONS, definitions
from tests.contract.api import Api, Json, causes
from tests.contract.things import group
from tests.contract.waiting import eventually, gone

VERSION = "vm.neon.tech/v1"
DEFINITIONS = "apiextensions.k8s.io/v1", "", "customresourcedefinitions"
GUEST: Json = {
    "cpus": {"min": "250m", "use": 1, "max": 2},
    "memorySlots": {"min": 1, "use": 2, "max": 4},
    "ports": [{"port": 5432}],
}
SPEC: Json = {
    "guest": GUEST,
    "podResources": {"requests": {"cpu": "100m", "memory": 1024}},
    "overcommit": {"cpu": 2},
    "disks": [{"name": "cache", "mountPath": "/cache", "emptyDisk": {"size": "1Gi"}}],
}
MOVE: Json = {
    "vmName": "db",
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]
        }
    },
}
BAD_MACHINES: list[tuple[Json, str, str]] = [
    ({"guest": {"cpus": {"use": "2500m"}}}, "spec.guest.cpus", "min <= use <= max must hold"),
    ({"guest": {"cpus": {"use": "0.2"}}}, "spec.guest.cpus", "min <= use <= max must hold"),
    ({"guest": {"cpus": {"use": "one"}}}, "spec.guest.cpus.use", "should match"),
    ({"guest": {"memorySlots": {"use": 5}}}, "spec.guest.memorySlots", "min <= use <= max must hold"),
    ({"guest": {"memorySlots": {"max": 513}}}, "spec.guest.memorySlots.max", "should be less than or equal to 512"),
    ({"guest": {"memorySlots": {"min": 0}}}, "spec.guest.memorySlots.min", "should be greater than or equal to 1"),
    ({"guest": {"memorySlotSize": "12Mi"}}, "spec.guest", "memorySlotSize must be a multiple of 8Mi"),
    ({"guest": {"memorySlotSize": 0}}, "spec.guest", "memorySlotSize must be a multiple of 8Mi"),
    ({"overcommit": {"memory": 0}}, "spec", "overcommit.memory must be more than 0"),
    ({"restartPolicy": "Sometimes"}, "spec.restartPolicy", "Unsupported value"),
    ({"cpuScalingMode": "Magic"}, "spec.cpuScalingMode", "Unsupported value"),
    ({"guest": None}, "spec.guest", "Required value"),
]
BAD_CHANGES: list[tuple[Json, str, str]] = [
    ({"guest": {"cpus": {"min": "500m"}}}, "spec.guest.cpus", "min is immutable"),
    ({"guest": {"cpus": {"max": 3}}}, "spec.guest.cpus", "max is immutable"),
    ({"guest": {"memorySlots": {"min": 2}}}, "spec.guest.memorySlots", "min is immutable"),
    ({"guest": {"memorySlots": {"max": 5}}}, "spec.guest.memorySlots", "max is immutable"),
    ({"podResources": {"requests": {"cpu": "200m"}}}, "spec", "podResources is immutable"),
    ({"podResources": None}, "spec", "podResources is immutable"),
    ({"cpuScalingMode": "QmpScaling"}, "spec", "cpuScalingMode is immutable after it is set"),
    ({"cpuScalingMode": None}, "spec", "cpuScalingMode is immutable after it is set"),
    ({"targetArchitecture": "arm64"}, "spec", "targetArchitecture is immutable after it is set"),
    ({"guest": {"cpus": {"use": 3}}}, "spec.guest.cpus", "min <= use <= max must hold"),
]
GOOD_CHANGES: list[Json] = [
    {"guest": {"cpus": {"use": "1500m"}, "memorySlots": {"use": 4}}},
    {"guest": {"cpus": {"max": "2000m", "min": "0.25"}}},
    {"targetRevision": {"revision": {"value": 1, "flags": 0}, "updatedAt": "2024-01-01T00:00:00Z"}},
    {"overcommit": {"cpu": "1500m"}, "schedulerName": "situate-vm", "tolerations": [{"operator": "Exists"}]},
]


@pytest.fixture
async def defined(api: Api) -> AsyncIterator[None]:
    """The group is Neon's, so there is one of each definition at a time."""
    for each in definitions():
        (await api.post(group(*DEFINITIONS), each)).ok(201)
    for plural in (MACHINES, MIGRATIONS):
        path = group(VERSION, "default", plural)
        await eventually(lambda path=path: api.get(path), lambda answer: answer.status == 200)  # type: ignore[misc]  # a lambda's default
    yield
    for each in definitions():
        path = group(*DEFINITIONS, each["metadata"]["name"])
        (await api.delete(path)).ok()
        await gone(api, path)


def merged(before: Json, change: Json) -> Json:
    after = deepcopy(before)
    for key, value in change.items():
        after[key] = merged(after.get(key, {}), value) if isinstance(value, dict) else value
        if value is None:
            del after[key]
    return after


def body(kind: str, name: str, spec: Json) -> Json:
    return {"apiVersion": VERSION, "kind": kind, "metadata": {"name": name}, "spec": spec}


def told(answer: Any, field: str, message: str) -> bool:
    assert answer.status == 422, f"{answer.status}: {answer.body}"
    return any(field == where and message in said for _, where, said in causes(answer))


@pytest.mark.usefixtures("defined")
async def test_machines(api: Api, namespace: str) -> None:
    path = group(VERSION, namespace, MACHINES)
    for change, field, message in BAD_MACHINES:
        answer = await api.post(path, body("VirtualMachine", "bad", merged(SPEC, change)), dryRun="All")
        assert told(answer, field, message), (change, answer.body)

    made = (await api.post(path, body("VirtualMachine", "db", SPEC))).ok(201)
    spec = made["spec"]
    assert (spec["restartPolicy"], spec["guest"]["memorySlotSize"]) == ("Always", "1Gi")
    assert spec["disks"] == SPEC["disks"], "what NeonVM has and nobody here reads is kept"
    assert "cpuScalingMode" not in spec
    assert (spec["qmp"], spec["qmpManual"], spec["runnerPort"]) == (20183, 20184, 25183)
    assert (spec["enableSSH"], spec["enableAcceleration"]) == (True, True), "NeonVM's controller relies on them"
    assert spec["guest"]["ports"] == [{"port": 5432, "protocol": "TCP"}]

    own = f"{path}/db"
    (await api.patch(own, {"spec": {"cpuScalingMode": "SysfsScaling", "targetArchitecture": "amd64"}})).ok()
    for change, field, message in BAD_CHANGES:
        answer = await api.patch(own, {"spec": change}, dryRun="All")
        assert told(answer, field, message), (change, answer.body)
    for change in GOOD_CHANGES:
        (await api.patch(own, {"spec": change}, dryRun="All")).ok()
    status = {"phase": "Running", "cpus": 1, "memorySize": "2Gi", "podName": "db-x", "restartCount": 0}
    after = (await api.patch(f"{own}/status", {"status": status, "spec": {"overcommit": None}})).ok()
    assert (after["status"], after["spec"]["overcommit"]) == (status, {"cpu": 2})
    table = (await api.get(own, accept="application/json;as=Table;v=v1;g=meta.k8s.io")).ok()
    shown = dict(zip((each["name"] for each in table["columnDefinitions"]), table["rows"][0]["cells"], strict=True))
    assert {key: shown[key] for key in ("Name", "Cpus", "Memory", "Pod", "Status", "Restarts")} == {
        "Name": "db",
        "Cpus": "1",
        "Memory": "2Gi",
        "Pod": "db-x",
        "Status": "Running",
        "Restarts": "0",
    }


@pytest.mark.usefixtures("defined")
async def test_migrations(api: Api, namespace: str) -> None:
    path = group(VERSION, namespace, MIGRATIONS)
    for spec, field in (({"vmName": ""}, "spec.vmName"), ({}, "spec.vmName"), ({**MOVE, "maxBandwidth": 0}, "spec")):
        assert told(await api.post(path, body("VirtualMachineMigration", "bad", spec)), field, ""), spec
    made = (await api.post(path, body("VirtualMachineMigration", "move", MOVE))).ok(201)
    assert made["spec"] == {
        **MOVE,
        "preventMigrationToSameHost": True,
        "completionTimeout": 3600,
        "incremental": True,
        "allowPostCopy": False,
        "autoConverge": True,
        "maxBandwidth": "1Gi",
    }
    own = f"{path}/move"
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    changes: list[Json] = [
        {"vmName": "other"},
        {"completionTimeout": 60},
        {"nodeSelector": {"a": "b"}},
        {"nodeAffinity": {required: {"nodeSelectorTerms": []}}},
    ]
    for change in changes:
        answer = await api.patch(own, {"spec": change})
        assert told(answer, "spec", "the spec of a migration is immutable"), (change, answer.body)
    (await api.patch(own, {"metadata": {"annotations": {"vm.situate.dev/handover": "{}"}}})).ok()
    info = {"status": "active", "totalTimeMs": 5, "ram": {"transferred": 2**40, "remaining": 1, "total": 2**41}}
    conditions = [{"type": "Available", "status": "True", "lastTransitionTime": "2024-01-01T00:00:00.123456Z"}]
    said = {"phase": "Running", "sourcePodName": "a", "targetNode": "n", "info": info, "conditions": conditions}
    assert (await api.patch(f"{own}/status", {"status": said})).ok()["status"] == said

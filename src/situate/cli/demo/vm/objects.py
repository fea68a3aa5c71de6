"""What the chapters on virtual machines put into the cluster: nodes of 8 CPUs, machines, pods, and settings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from situate.cli.demo.vpod.objects import CONFIGURATION, TENANT
from situate.vm.api.well_known import AUTO_MIGRATION_LABEL, ENABLED_LABEL, LOAD
from situate.vm.backends.neonvm import MACHINES
from situate.vm.emulator.hypervisor import HYPERVISOR

SCHEDULER: Final = "situate-demo-vm"
NODES: Final = ("demo-vm-1", "demo-vm-2")
CPUS: Final = 8
"""Of a node, with 4 GiB for each; machines have as much memory for each of theirs."""
GROWS, LEAVES, ASKS = "shop", "mail", "docs"
"""Machines: the one that grows, the neighbour that makes room for it, and the third party."""
PLAIN, WAITS = "backup", "batch"
"""Plain pods: one on the first node, and one that would like to go there."""
BEGIN: Final = {GROWS: 2, LEAVES: 4, ASKS: 1}
"""CPUs; with `PLAIN` the first node is full."""
STALL_PERCENT: Final = 40
"""So far a move copies until the story lets it go on."""
_GIB_PER_CPU: Final = 4
_LOAD_PER_CPU: Final = 0.9
"""The agent's `loadAverageFractionTarget`."""
_OURS: Final = {"situate-demo-vm": "true"}
"""Label of the nodes: nothing else of the demo goes there."""


def configuration(port: int) -> dict[str, Any]:
    """Of the scheduler, as a user would write it, but for times that suit the story, and nodes that are used up."""
    calm = {"coolDown": "0s", "longestCoolDown": "0s", "afterFailure": "0s", "longestAfterFailure": "0s"}
    vm = {
        "schedulerName": SCHEDULER,
        "watermark": 1,
        "demandAfter": "500ms",
        "retry": "1s",
        "calm": calm,
        "permits": {
            "address": f"127.0.0.1:{port}",
            "certificate": "tls.crt",
            "key": "tls.key",
            "agentNode": "any",  # one agent for all nodes
        },
    }
    return {key: CONFIGURATION[key] for key in ("apiVersion", "kind", "leaderElection")} | {"vm": vm}


def agent_configuration(port: int, folder: Path) -> dict[str, Any]:
    """Of one agent for all nodes, where there are no guests; what it has to show is in files of this folder."""
    return {
        "monitor": {"kind": "standIn"},
        "metrics": {"source": "annotation", "system": {"secondsBetweenRequests": 0.2}},
        "scheduler": {
            "schedulerName": SCHEDULER,
            "url": f"https://localhost:{port}/",
            "caFile": str(folder / "ca.crt"),
            "tokenFile": str(folder / "token"),
        },
    }


def node(name: str) -> dict[str, Any]:
    room = {"cpu": str(CPUS), "memory": memory(CPUS), "pods": "110"}
    labels = {"kubernetes.io/hostname": name, **_OURS}
    status = {"capacity": room, "allocatable": room}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "status": status}


def machine(name: str) -> dict[str, Any]:
    """It may grow to the size of a node. Only the neighbour may be moved, so far."""
    cpus = BEGIN[name]
    slots = {"min": _GIB_PER_CPU, "use": _GIB_PER_CPU * cpus, "max": _GIB_PER_CPU * CPUS}
    labels = {ENABLED_LABEL: "true", AUTO_MIGRATION_LABEL: str(name == LEAVES).lower()}
    return {
        "apiVersion": MACHINES.api_version,
        "kind": MACHINES.kind,
        "metadata": {"name": name, "labels": labels, "annotations": {LOAD: load(cpus), HYPERVISOR: behaviour()}},
        "spec": {
            "schedulerName": SCHEDULER,
            "nodeSelector": dict(_OURS),
            "guest": {"cpus": {"min": 1, "use": cpus, "max": CPUS}, "memorySlots": slots},
        },
    }


def load(cpus: int) -> str:
    """The load that so many CPUs are right for."""
    return json.dumps({"load1": round(_LOAD_PER_CPU * cpus, 2)})


def behaviour(*, stalls: bool = True) -> str:
    """Of a machine's hypervisor."""
    held = {"stallAtPercent": STALL_PERCENT} if stalls else {}
    return json.dumps({"usedMemory": "64Mi", **held})


def pod(name: str) -> dict[str, Any]:
    """A plain one of 1 CPU, for the first node."""
    requests = {"cpu": "1", "memory": memory(1)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": TENANT, "labels": _OURS},
        "spec": {
            "schedulerName": SCHEDULER,
            "nodeSelector": {"kubernetes.io/hostname": NODES[0]},
            "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "main", "image": "example.com/batch:1", "resources": {"requests": requests}}],
        },
    }


def memory(cpus: int) -> str:
    return f"{_GIB_PER_CPU * cpus}Gi"

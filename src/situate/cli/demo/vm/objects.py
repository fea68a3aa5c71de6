"""Objects of the chapters on VMs: nodes of 8 CPUs, VMs, Pods, and settings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from situate.cli.demo.kube_objects import build_node, build_pod, build_pod_spec
from situate.cli.demo.vpod.objects import CONFIGURATION
from situate.vm.api.well_known import AUTO_MIGRATION_LABEL, ENABLED_LABEL, LOAD
from situate.vm.backends.neonvm import MACHINES
from situate.vm.emulator.hypervisor import HYPERVISOR

SCHEDULER: Final = "situate-demo-vm"
NODES: Final = ("demo-vm-1", "demo-vm-2")
CPUS: Final = 8
"""CPUs of a node, with 4 GiB for each. VMs have the same ratio."""
GROWS, LEAVES, ASKS = "shop", "mail", "docs"
"""VMs: one grows, its neighbour moves away for it, and a third one requests CPUs as well."""
PLAIN, WAITS = "backup", "batch"
"""Plain Pods: one on the first node, and one that waits for space there."""
PLAIN_MILLI: Final = 1000
"""Thousandths of a CPU that a plain Pod requests."""
INITIAL_CPUS: Final = {GROWS: 2, LEAVES: 4, ASKS: 1}
"""CPUs at the start. With `PLAIN` the first node is full."""
STALL_PERCENT: Final = 40
"""Share at which a migration stalls until the story lets it continue."""
_GIB_PER_CPU: Final = 4
_LOAD_PER_CPU: Final = 0.9
"""The agent's `loadAverageFractionTarget`."""
_DEMO_LABELS: Final = {"situate-demo-vm": "true"}
"""Label of these nodes. No other Pods of the demo run there."""


def configuration(port: int) -> dict[str, Any]:
    """Return the scheduler's configuration as a user would write it.

    Its times suit the story, and its watermark lets nodes be filled completely.
    """
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
    """Return the configuration of one agent for all nodes, without guests. Its credentials are files in `folder`."""
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
    return build_node(name, _DEMO_LABELS, status={"capacity": room, "allocatable": room})


def machine(name: str) -> dict[str, Any]:
    """Return a VM that may grow to the size of a node. At first only the neighbour may be live-migrated."""
    cpus = INITIAL_CPUS[name]
    slots = {"min": _GIB_PER_CPU, "use": _GIB_PER_CPU * cpus, "max": _GIB_PER_CPU * CPUS}
    labels = {ENABLED_LABEL: "true", AUTO_MIGRATION_LABEL: str(name == LEAVES).lower()}
    return {
        "apiVersion": MACHINES.api_version,
        "kind": MACHINES.kind,
        "metadata": {"name": name, "labels": labels, "annotations": {LOAD: load(cpus), HYPERVISOR: behaviour()}},
        "spec": {
            "schedulerName": SCHEDULER,
            "nodeSelector": dict(_DEMO_LABELS),
            "guest": {"cpus": {"min": 1, "use": cpus, "max": CPUS}, "memorySlots": slots},
        },
    }


def load(cpus: int) -> str:
    """Return the load for which `cpus` CPUs are right."""
    return json.dumps({"load1": round(_LOAD_PER_CPU * cpus, 2)})


def behaviour(*, stalls: bool = True) -> str:
    """Return the behaviour of a VM's hypervisor."""
    held = {"stallAtPercent": STALL_PERCENT} if stalls else {}
    return json.dumps({"usedMemory": "64Mi", **held})


def pod(name: str) -> dict[str, Any]:
    """Return a plain Pod of 1 CPU for the first node."""
    selector, requests = {"kubernetes.io/hostname": NODES[0]}, {"cpu": "1", "memory": memory(1)}
    spec = build_pod_spec(selector, "main", "example.com/batch:1", requests, schedulerName=SCHEDULER)
    return build_pod(name, _DEMO_LABELS, spec)


def memory(cpus: int) -> str:
    return f"{_GIB_PER_CPU * cpus}Gi"

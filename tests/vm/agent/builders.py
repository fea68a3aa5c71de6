"""Machines and agents of the tests: a unit is 250m and 1Gi, sizes are in units."""

from __future__ import annotations

from typing import Any

from situate.vm.agent.decide.goal import SystemMetrics
from situate.vm.agent.model.state import AgentState, Config, Guest
from situate.vm.model.resource_amounts import Amounts

GIB = 2**30
UNIT = Amounts.from_values(250, GIB)


def units(number: int) -> Amounts:
    return Amounts.from_values(250 * number, GIB * number)


def guest(use: int = 1, least: int = 1, most: int = 4, **more: Any) -> Guest:
    return Guest(units(least), units(use), units(most), GIB, **more)


def agent_state(use: int = 1, *, compat: bool = False, least: int = 1, most: int = 4, **more: Any) -> AgentState:
    return AgentState(Config(UNIT, compat=compat), guest(use, least, most), **more)


def needs(number: float) -> SystemMetrics:
    """A load for which so many units are right."""
    return SystemMetrics(load1=number * 0.25 * 0.9, load5=number * 0.25 * 0.9, memory_used=0.0)


def vm_content(use: int = 2, **changed: Any) -> dict[str, Any]:
    """A VirtualMachine that runs, with slots of a GiB; `changed` by the last part of a path."""
    status: dict[str, Any] = {
        "phase": "Running",
        "podName": "vm-a-x",
        "podIP": "10.0.0.7",
        "node": "n1",
        "cpus": f"{250 * use}m",
        "memorySize": f"{use}Gi",
        "currentRevision": {"revision": {"value": 4, "flags": 1}, "updatedAt": "2026-01-01T00:00:00Z"},
    }
    guest: dict[str, Any] = {
        "cpus": {"min": "250m", "use": f"{250 * use}m", "max": 1},
        "memorySlots": {"min": 1, "use": use, "max": 4},
        "memorySlotSize": "1Gi",
    }
    metadata: dict[str, Any] = {
        "name": "a",
        "namespace": "default",
        "uid": "u1",
        "generation": 3,
        "labels": {"autoscaling.neon.tech/enabled": "true"},
    }
    spec: dict[str, Any] = {"schedulerName": "situate-vm", "guest": guest}
    for part in (spec, metadata):
        part.update({key: value for key, value in changed.items() if key in part})
    for key in ("phase", "podIP", "node", "currentRevision"):
        status[key] = changed.get(key, status[key])
    for key in ("cpus", "memorySlots"):
        guest[key] = changed.get(key, guest[key])
    for key in ("annotations", "deletionTimestamp"):
        if key in changed:
            metadata[key] = changed[key]
    return {
        "apiVersion": "vm.neon.tech/v1",
        "kind": "VirtualMachine",
        "metadata": metadata,
        "spec": spec,
        "status": status,
    }

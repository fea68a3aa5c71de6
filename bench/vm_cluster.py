"""Embedded API servers for `bench.vm`, as processes of their own.

    python -m bench.vm_cluster --pairs N [--crowded]
    python -m bench.vm_cluster --machines N --nodes N

With `--pairs`, nodes that are full with one machine that may move and one that wants more, and large empty nodes that
take nobody yet; machines and migrations are looked after by the stand-in. With `--crowded` the nodes have room for a
plain pod besides, and no copy comes to its end. With `--machines`, so many that run, and no
controllers: what is written stays as it is. The first line ends with the URL.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from typing import Any, Final

import msgspec

from situate.cluster.controllers import KubeletSettings, MachinerySettings
from situate.cluster.controllers.node.nodes import node as node_object
from situate.embedded.embedded_server import EmbeddedServer
from situate.embedded.embedded_server import Settings as ServerSettings
from situate.embedded.virtual_machines import VirtualMachineController
from situate.objects.messages import Request, Response
from situate.runtime.process.logs import configure_logging
from situate.runtime.process.startup import run_process
from situate.vm.api.quantities import GIB, amounts_text
from situate.vm.api.well_known import APPROVED, AUTO_MIGRATION_LABEL, ENABLED_LABEL, REQUESTED, SCALING_UNIT
from situate.vm.emulator import Settings as Pace
from situate.vm.emulator.crds import definitions
from situate.vm.emulator.hypervisor import HYPERVISOR
from situate.vm.emulator.runner_pods import runner_pod
from situate.vm.model.resource_amounts import Amounts

NAMESPACE: Final = "default"
SCHEDULER: Final = "situate-vm"
ROOM: Final = 64
"""CPUs of a large node, with 4 GiB for each."""
ASKS: Final = 3
"""CPUs of the machine that wants more; so many more."""
MOVES: Final = 5
"""Of the one that moves for it."""
PAIR: Final = ASKS + MOVES
"""Of their node."""
UNIT: Final = amounts_text(Amounts.from_values(250, GIB))
_MACHINES: Final = f"/apis/vm.neon.tech/v1/namespaces/{NAMESPACE}/virtualmachines"


def node(name: str, cpus: int, *, schedulable: bool = True) -> dict[str, Any]:
    made: dict[str, Any] = dict(node_object(name, cpu=str(cpus), memory=f"{4 * cpus}Gi", pods=200))
    return made if schedulable else {**made, "spec": {**made.get("spec", {}), "unschedulable": True}}


def machine(name: str, cpus: int, *, migratable: bool, **behaviour: Any) -> dict[str, Any]:
    """`behaviour`: of its hypervisor."""
    return {
        "apiVersion": "vm.neon.tech/v1",
        "kind": "VirtualMachine",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "labels": {ENABLED_LABEL: "true", AUTO_MIGRATION_LABEL: str(migratable).lower()},
            "annotations": {HYPERVISOR: json.dumps({"usedMemory": "64Mi", **behaviour})},
        },
        "spec": {
            "schedulerName": SCHEDULER,
            "guest": {
                "cpus": {"min": 1, "use": cpus, "max": 16},
                "memorySlots": {"min": 1, "use": 4 * cpus, "max": 64},
                "memorySlotSize": "1Gi",
            },
        },
    }


async def serve_pairs(pairs: int, beside: int) -> None:
    """`beside`: CPUs of each node for others."""
    settings = ServerSettings(
        machinery=MachinerySettings(kubelet=KubeletSettings(start_delay=0.1, stop_delay=0.1, lease_renewal=0.0)),
        further=(lambda cluster: VirtualMachineController(cluster, Pace(poll_s=0.5, wait_s=0.5)),),
    )
    async with EmbeddedServer(settings) as server:
        server.create_definitions(definitions())
        server.create_nodes(node(f"n{number}", PAIR + beside) for number in range(pairs))
        spare = -(-pairs * MOVES // ROOM) + 1
        server.create_nodes(node(f"spare-{number}", ROOM, schedulable=False) for number in range(spare))
        await _answer(server.url)


async def serve_machines(machines: int, nodes: int) -> None:
    async with EmbeddedServer(ServerSettings(machinery=None)) as server:
        server.create_definitions(definitions())
        server.create_nodes(node(f"n{number}", ROOM) for number in range(nodes))
        for number in range(machines):
            _create_running(server, f"m{number}", f"n{number % nodes}")
        await _answer(server.url)


async def _answer(url: str) -> None:
    sys.stdout.write(f"the API server answers at {url}\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


def _create_running(server: EmbeddedServer, name: str, node_name: str) -> None:
    """Of one CPU, as its controllers would have left it."""
    body = machine(name, 1, migratable=True)
    held = amounts_text(Amounts.from_values(1000, 4 * GIB))
    body["metadata"]["annotations"] |= {SCALING_UNIT: UNIT, REQUESTED: held, APPROVED: held}
    made = _write(server, "POST", _MACHINES, body)
    runner = runner_pod(made, f"{name}-runner", Pace())
    status = {"phase": "Running", "podName": runner["metadata"]["name"], "node": node_name, "cpus": 1}
    _write(server, "PATCH", f"{_MACHINES}/{name}/status", {"status": {**status, "memorySize": "4Gi"}})
    pods = f"/api/v1/namespaces/{NAMESPACE}/pods"
    _write(server, "POST", pods, {**runner, "spec": {**runner["spec"], "nodeName": node_name}})
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    _write(server, "PATCH", f"{pods}/{runner['metadata']['name']}/status", {"status": ready})


def _write(server: EmbeddedServer, method: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
    patch = "application/merge-patch+json" if method == "PATCH" else "application/json"
    request = Request(method, path, (), {"content-type": patch}, msgspec.json.encode(body))
    answer = server.api.answer(request, time.time())
    assert isinstance(answer, Response), "a write is answered at once"
    found: dict[str, Any] = msgspec.json.decode(answer.body)
    if answer.status >= 300:
        raise SystemExit(f"{method} {path}: {answer.status} {found}")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.vm_cluster")
    parser.add_argument("--pairs", type=int, default=0)
    parser.add_argument("--crowded", action="store_true")
    parser.add_argument("--machines", type=int, default=2000)
    parser.add_argument("--nodes", type=int, default=100)
    chosen = parser.parse_args()
    configure_logging("warning")
    run_process(
        serve_pairs(chosen.pairs, ASKS if chosen.crowded else 0)
        if chosen.pairs
        else serve_machines(chosen.machines, chosen.nodes),
    )


if __name__ == "__main__":
    main()

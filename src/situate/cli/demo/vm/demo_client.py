"""Actions of the chapters on VMs: load, Pods and nodes, through the API alone.

Scheduler, agent and VM emulator are separate processes, as a user would start them. The agent authenticates with its
account's token, and the scheduler with a certificate created for it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from situate.cli.demo.demo_objects import DemoObjects
from situate.cli.demo.plain_pods import DemoPlainPod
from situate.cli.demo.products import Products
from situate.cli.demo.spot.demo_client import node_state
from situate.cli.demo.vm import objects as vm_objects
from situate.cli.demo.vm.scene import DemoMachine, DemoMigration, VmScene
from situate.cli.demo.vpod import objects
from situate.cli.input.products import Product
from situate.objects.resources import CUSTOMRESOURCEDEFINITIONS, NODES, PODS
from situate.objects.values.quantity import Quantity, decode_quantity
from situate.runtime.serving.certificates.issue import create_generation
from situate.vm.api.well_known import APPROVED, AUTO_MIGRATION_LABEL, CLAIM, LOAD, REQUESTED, TARGET_NODE
from situate.vm.backends.neonvm import MACHINES, MIGRATIONS
from situate.vm.emulator.crds import definitions
from situate.vm.emulator.hypervisor import HYPERVISOR

_DAY_S: Final = 86_400.0


class VmDemoClient:
    """Client for these actions, all in the tenant's namespace."""

    def __init__(self, cluster: DemoObjects, products: Products, port: int, show: Callable[[VmScene], None]) -> None:
        """`port` is for permits."""
        self._objects = cluster
        self._client = cluster.client
        self._products = products
        self._port = port
        self._show = show

    async def install(self) -> None:
        """Create the definitions and the first node, and start the processes."""
        for definition in definitions():
            await self._objects.create(CUSTOMRESOURCEDEFINITIONS, definition)
        await self.add_node(vm_objects.NODES[0])
        products = self._products
        folder = products.processes.folder
        pair = create_generation(("localhost", "127.0.0.1"), datetime.now(UTC), _DAY_S)
        for name, content in (("ca.crt", pair.authority), ("tls.crt", pair.certificate), ("tls.key", pair.key)):
            (folder / name).write_bytes(content)
        await products.start("vm", vm_objects.configuration(self._port), namespace=objects.MACHINES_NAMESPACE)
        (account,) = await products.install(Product.VM_MACHINES, None)
        leases = ("--installation-namespace", account.namespace, "--namespace", objects.TENANT)
        as_account = ("--kubeconfig", str(account.kubeconfig))
        await products.processes.start("vm-machines", "vm", "machines", *leases, *as_account)
        file = products.write("agent", vm_objects.agent_configuration(self._port, folder))
        (account,) = await products.install(Product.VM_AGENT, file, objects.MACHINES_NAMESPACE)
        (folder / "token").write_text(account.token)
        asked = ("-f", str(file), "--health-address", "", "--kubeconfig", str(account.kubeconfig))
        await products.processes.start("vm-agent", "vm", "agent", "--all-nodes", *asked)

    async def is_served(self) -> bool:
        """Return whether the API server serves VMs and migrations."""
        return await self._objects.are_served(objects.TENANT, MACHINES, MIGRATIONS)

    async def are_nodes_usable(self) -> bool:
        """Return whether Pods can be bound to every node of these chapters."""
        found = {each.metadata.name: each for each in (await self._client.list_all(NODES)).items}
        ours = [found[name] for name in vm_objects.NODES if name in found]
        return all(node_state(each) == "runs" for each in ours)

    async def add_node(self, name: str) -> None:
        await self._objects.create(NODES, vm_objects.node(name))

    async def add_machine(self, name: str) -> None:
        await self._objects.create(MACHINES, vm_objects.machine(name), objects.TENANT)

    async def add_pod(self, name: str) -> None:
        await self._objects.create(PODS, vm_objects.pod(name), objects.TENANT)

    async def delete_pod(self, name: str) -> None:
        await self._client.delete(PODS, name, objects.TENANT)

    async def set_load(self, name: str, cpus: int) -> None:
        """Set a VM's load to one for which `cpus` CPUs are right."""
        await self._annotate(name, LOAD, vm_objects.load(cpus))

    async def finish_migration(self, name: str) -> None:
        """Let the VM's migration copy to its end."""
        await self._annotate(name, HYPERVISOR, vm_objects.behaviour(stalls=False))

    async def allow_migration(self, name: str) -> None:
        labels = {AUTO_MIGRATION_LABEL: "true"}
        await self._objects.merge(MACHINES, name, {"metadata": {"labels": labels}}, objects.TENANT)

    async def read_scene(self) -> VmScene:
        """Read the cluster, show the scene and return it."""
        nodes, machines, moves, pods = await asyncio.gather(
            self._client.list_all(NODES),
            self._client.list_all(MACHINES, objects.TENANT),
            self._client.list_all(MIGRATIONS, objects.TENANT),
            self._client.list_all(PODS, objects.TENANT, label_selector="situate-demo-vm=true"),
        )
        there = {each.metadata.name for each in nodes.items}
        seen = tuple(
            sorted(
                (_parse_machine(each.content) for each in machines.items), key=lambda each: _story_position(each.name)
            )
        )
        names = {each.pod: each.name for each in seen}
        scene = VmScene(
            tuple(name for name in vm_objects.NODES if name in there),
            seen,
            tuple(_parse_migration(each.content, names) for each in moves.items),
            tuple(sorted((DemoPlainPod.from_pod(each) for each in pods.items), key=lambda each: each.name)),
        )
        self._show(scene)
        return scene

    async def delete_leftovers(self) -> None:
        """Delete objects outside the demo's namespaces, and objects whose finalizers block a namespace's deletion."""
        await self._objects.delete_without_finalizers(objects.TENANT, MIGRATIONS, MACHINES)
        for name in vm_objects.NODES:
            await self._objects.delete(NODES, name)

    async def _annotate(self, name: str, key: str, value: str) -> None:
        await self._objects.merge(MACHINES, name, {"metadata": {"annotations": {key: value}}}, objects.TENANT)


def _parse_machine(content: Mapping[str, Any]) -> DemoMachine:
    status, annotations = content.get("status") or {}, content["metadata"].get("annotations") or {}
    uses = _to_milli(status.get("cpus") or content["spec"]["guest"]["cpus"]["use"])
    return DemoMachine(
        content["metadata"]["name"],
        status.get("node") or "",
        status.get("podName") or "",
        status.get("phase") or "",
        uses,
        _parse_cpus(annotations.get(REQUESTED), uses),
        _parse_cpus(annotations.get(APPROVED), uses),
    )


def _parse_migration(content: Mapping[str, Any], machines: Mapping[str, str]) -> DemoMigration:
    """`machines` maps the names of Pods to those of their VMs."""
    metadata, status = content["metadata"], content.get("status") or {}
    annotations = metadata.get("annotations") or {}
    claim = json.loads(annotations.get(CLAIM) or "null") or {}
    ram = (status.get("info") or {}).get("ram") or {}
    total = _to_bytes(ram.get("total"))
    phase = status.get("phase") or ""
    return DemoMigration(
        content["spec"]["vmName"],
        status.get("sourceNode") or claim.get("node") or "",
        annotations.get(TARGET_NODE) or "",
        phase,
        1 - _to_bytes(ram.get("remaining")) / total if total else None,
        machines.get(claim["beneficiary"]["name"], "") if claim else "",
        _to_milli(claim["amount"]["cpu"]) if claim else 0,
        "deletionTimestamp" in metadata or phase in ("Succeeded", "Failed"),
    )


def _parse_cpus(text: str | None, otherwise: int) -> int:
    """Return the CPUs in an annotation."""
    return _to_milli(json.loads(text)["vCPUs"]) if text else otherwise


def _to_milli(value: Any) -> int:
    return decode_quantity(Quantity, value).milli_value


def _to_bytes(value: Any) -> int:
    return decode_quantity(Quantity, value or 0).value


def _story_position(name: str) -> int:
    """Return the position in the story's order of names."""
    return tuple(vm_objects.INITIAL_CPUS).index(name)

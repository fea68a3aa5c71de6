"""Kubernetes objects of vm's tests, as plain data and decoded: they say only what matters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from situate.objects.decoding.codec import decode
from situate.objects.kinds import nodes, pods
from situate.objects.kinds.unstructured import Unstructured, unstructured_from
from situate.objects.resources import NODES, PODS
from situate.vm.api.well_known import API_VERSION, MACHINE_KIND, MIGRATION_KIND

Json = Any
GUEST = '{"cpus":{"min":"500m","use":1,"max":"1500m"},"memorySlots":{"min":1,"use":2,"max":3},"memorySlotSize":"1Gi"}'
"""1 CPU and 2 GiB in use."""
VM_OWNER = {"apiVersion": API_VERSION, "kind": MACHINE_KIND, "name": "a", "uid": "uid-vm-a", "controller": True}


def migration_owner(*, controller: bool) -> Json:
    return {"apiVersion": API_VERSION, "kind": MIGRATION_KIND, "name": "m", "uid": "uid-m", "controller": controller}


def pod(
    name: str = "web",
    *containers: Json,
    annotations: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    owners: tuple[Json, ...] = (),
    status: Json = None,
    metadata: Json = None,
    **spec: Json,
) -> pods.Pod:
    """A container asks for 1 CPU and 1 GiB unless said."""
    wire = {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-{name}",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "annotations": annotations or {},
            "labels": labels or {},
            "ownerReferences": list(owners),
            **(metadata or {}),
        },
        "spec": {"schedulerName": "situate-vm", "containers": list(containers or (container(),)), **spec},
        "status": status or {},
    }
    return decode(PODS, msgspec.json.encode(wire))


def runner(name: str = "a-xyz", annotations: Mapping[str, str] | None = None, **more: Json) -> pods.Pod:
    """Of the machine `a`, with the annotation of its resources."""
    more.setdefault("owners", (VM_OWNER,))
    return pod(name, annotations={"vm.neon.tech/resources": GUEST, **(annotations or {})}, **more)


def container(name: str = "main", cpu: str = "1", memory: str = "1Gi", **more: Json) -> Json:
    return {"name": name, "resources": {"requests": {"cpu": cpu, "memory": memory, **more}}}


def node(name: str = "n1", cpu: str = "10", memory: str = "40Gi", **more: Json) -> nodes.Node:
    metadata, spec, status = more.get("metadata", {}), more.get("spec", {}), more.get("status", {})
    wire = {
        "metadata": {"name": name, **metadata},
        "spec": spec,
        "status": {"allocatable": {"cpu": cpu, "memory": memory, **more.get("further", {})}, **status},
    }
    return decode(NODES, msgspec.json.encode(wire))


def vm(spec: Json = None, status: Json = None, **metadata: Json) -> Unstructured:
    """The machine `a`: 1 CPU and 2 GiB in use."""
    guest = {
        "cpus": {"min": "500m", "use": 1, "max": "1500m"},
        "memorySlots": {"min": 1, "use": 2, "max": 3},
        "memorySlotSize": "1Gi",
    }
    return unstructured_from(
        {
            "apiVersion": API_VERSION,
            "kind": MACHINE_KIND,
            "metadata": {"name": "a", "namespace": "default", "uid": "uid-vm-a", **metadata},
            "spec": {"schedulerName": "situate-vm", "guest": guest, **(spec or {})},
            "status": status or {},
        }
    )


def migration(status: Json = None, name: str = "schedplugin-a-xyz", **metadata: Json) -> Unstructured:
    """Of the machine `a`."""
    return unstructured_from(
        {
            "apiVersion": API_VERSION,
            "kind": MIGRATION_KIND,
            "metadata": {"name": name, "namespace": "default", "uid": "uid-m", **metadata},
            "spec": {"vmName": "a"},
            "status": status or {},
        }
    )

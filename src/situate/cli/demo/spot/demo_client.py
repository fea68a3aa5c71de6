"""Actions of the chapters on spot: nodes, a Deployment, and a process with the webhook, through the API alone."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from situate.cli.demo.demo_objects import DemoObjects
from situate.cli.demo.products import Products
from situate.cli.demo.spot import objects as spot_objects
from situate.cli.demo.spot.scene import Replica, SpotNode, SpotScene
from situate.cli.demo.vpod import objects
from situate.cli.input.products import Product
from situate.objects.kinds.nodes import Node
from situate.objects.kinds.pods import Pod
from situate.objects.resources import CONFIGMAPS, LEASES, NODES, PODS, REPLICASETS, SECRETS, ResourceType, unstructured
from situate.spot.model.object_names import configuration_name
from situate.spot.model.pods_nodes_workloads import CLASS, RELEASED_PREFIX, TEMPLATE_HASH

_DEPLOYMENTS = unstructured("apps", "v1", "Deployment", "deployments")
_CLUSTER_SCOPED: Mapping[str, ResourceType[Any]] = {
    kind: unstructured("admissionregistration.k8s.io", "v1", kind, plural, namespaced=False)
    for kind, plural in (
        ("MutatingWebhookConfiguration", "mutatingwebhookconfigurations"),
        ("ValidatingAdmissionPolicy", "validatingadmissionpolicies"),
        ("ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings"),
    )
}
"""Cluster-scoped kinds of the installation. Each object has the name of the configuration."""
_KINDS: Mapping[str, ResourceType[Any]] = {
    "Secret": SECRETS,
    "ConfigMap": CONFIGMAPS,
    "Lease": LEASES,
    **_CLUSTER_SCOPED,
}


class SpotDemoClient:
    """Client for these actions. It records past scenes, so that readiness can be drawn over time."""

    def __init__(
        self,
        cluster: DemoObjects,
        server: str,
        port: int,
        products: Products,
        show: Callable[[SpotScene], None],
    ) -> None:
        """`server` is the address of the API server; `port` is for the webhook."""
        self._objects = cluster
        self._client = cluster.client
        self._server = server
        self._port = port
        self._products = products
        self._show = show
        self._scene: SpotScene | None = None
        self._started_at = 0.0
        self._spot_nodes: tuple[str, ...] = ()
        """The chapter's spot nodes."""

    @property
    def reachable(self) -> bool:
        """Whether the API server can call a webhook on this machine."""
        return urlsplit(self._server).hostname in ("127.0.0.1", "localhost", "::1")

    async def install(self) -> None:
        """Start a process that leads and answers admission, and create the on-demand nodes."""
        for each in spot_objects.installation_objects(self._port):
            await self._create_or_patch(_KINDS[each["kind"]], each, each["metadata"].get("namespace"))
        await self._create_or_patch(
            _DEPLOYMENTS, spot_objects.deployment(spot_objects.PROBE_DEPLOYMENT, 0), objects.TENANT
        )
        for name in spot_objects.ON_DEMAND_NODES:
            await self._create_or_patch(NODES, spot_objects.node(name))
        await self._products.start("spot", spot_objects.configuration(self._port), Product.SPOT)

    async def is_admission_ready(self) -> bool:
        """Return whether a dry-run Pod gets its class, so that API servers call the webhook and get an answer."""
        found = await self._client.list_all(
            REPLICASETS, objects.TENANT, label_selector=f"app={spot_objects.PROBE_DEPLOYMENT}"
        )
        if not found.items:
            return False
        pod = spot_objects.probe_pod(found.items[0].metadata)
        return CLASS in (await self._client.create(PODS, pod, objects.TENANT, dry_run=True)).metadata.labels

    async def add_spot_nodes(self, *names: str) -> None:
        """Create the chapter's spot nodes."""
        for name in names:
            await self._create_or_patch(NODES, spot_objects.node(name))
        self._spot_nodes = names

    async def create_scouts(self, name: str) -> None:
        """Create a Pod for each node. When it runs, the scheduler and the kubelet know that the node is usable."""
        for node in self._node_names:
            await self._create_or_patch(PODS, spot_objects.scout(name, node), objects.TENANT)

    async def delete_running_scouts(self, name: str) -> bool:
        """Return whether all scouts run, and delete them if so."""
        found = await self._client.list_all(PODS, objects.TENANT, label_selector=f"app={name}-scout")
        if not all(pod.ready for pod in found.items):
            return False
        for pod in found.items:
            await self._client.delete(PODS, pod.metadata.name, objects.TENANT)
        return True

    async def deploy(self, name: str) -> None:
        """Create a Deployment of ten replicas, two of them on demand. Later scenes show this Deployment."""
        await self._create_or_patch(_DEPLOYMENTS, spot_objects.deployment(name), objects.TENANT)
        self._scene = None

    async def remove_deployment(self, name: str) -> None:
        await self._client.delete(_DEPLOYMENTS, name, objects.TENANT)

    async def taint_spot_nodes(self, taint: Mapping[str, str], what: str) -> None:
        """Taint all spot nodes at once."""
        changes = {"spec": {"taints": [dict(taint)]}}
        await asyncio.gather(*(self._objects.merge(NODES, name, changes) for name in self._spot_nodes))
        self._add_mark(what)

    async def delete_spot_nodes(self, what: str) -> None:
        """Delete the spot nodes for good."""
        for name in self._spot_nodes:
            await self._objects.delete(NODES, name)
        self._add_mark(what)

    async def read_scene(self, name: str) -> SpotScene:
        """Read the workload's state, show the scene and return it."""
        pods, nodes = await asyncio.gather(
            self._client.list_all(PODS, objects.TENANT, label_selector=f"app={name}"), self._client.list_all(NODES)
        )
        there = {node.metadata.name: node for node in nodes.items if node.metadata.name in self._node_names}
        now = asyncio.get_running_loop().time()
        if self._scene is None or self._scene.workload != name:
            self._started_at = now
        scene = SpotScene(
            name,
            tuple(sorted((_to_replica(pod, there) for pod in pods.items), key=lambda each: each.name)),
            tuple(_to_spot_node(each, there) for each in self._node_names),
            now - self._started_at,
        )
        self._scene = scene.with_history_of(self._scene)
        self._show(self._scene)
        return self._scene

    async def delete_cluster_objects(self) -> None:
        """Delete the objects that are not in the demo's namespaces."""
        names = (*spot_objects.ON_DEMAND_NODES, *spot_objects.SPOT_NODES, *spot_objects.NEW_SPOT_NODES)
        own = ((resource, (configuration_name(objects.SYSTEM),)) for resource in _CLUSTER_SCOPED.values())
        for resource, listed in ((NODES, names), *own):
            for name in listed:
                await self._objects.delete(resource, name)

    @property
    def _node_names(self) -> tuple[str, ...]:
        return (*spot_objects.ON_DEMAND_NODES, *self._spot_nodes)

    def _add_mark(self, what: str) -> None:
        if self._scene is not None:
            self._scene = self._scene.with_mark(what)

    async def _create_or_patch(
        self, resource: ResourceType[Any], content: Mapping[str, Any], namespace: str | None = None
    ) -> None:
        """Create an object, or overwrite the one that an earlier demo has left."""
        if not await self._objects.create(resource, content, namespace):
            changes = {key: value for key, value in content.items() if key in ("spec", "webhooks")}
            await self._objects.merge(resource, content["metadata"]["name"], changes, namespace)


@contextmanager
def reserve_port() -> Iterator[int]:
    """Reserve a port of this machine. The kernel gives it to no other process, and a server can still bind it."""
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        port: int = holder.getsockname()[1]
        yield port


def _to_replica(pod: Pod, nodes: Mapping[str, Node]) -> Replica:
    node = nodes.get(pod.spec.node_name)
    runs = node is not None and node_state(node) != "off"
    return Replica(
        pod.metadata.name,
        pod.spec.node_name,
        pod.metadata.labels.get(CLASS, ""),
        pod.ready and pod.metadata.deletion_timestamp is None and runs,
        pod.metadata.labels.get(TEMPLATE_HASH, "").startswith(RELEASED_PREFIX),
    )


def _to_spot_node(name: str, there: Mapping[str, Node]) -> SpotNode:
    return SpotNode(name, spot_objects.capacity(name), node_state(there[name]) if name in there else "gone")


def node_state(node: Node) -> str:
    """Return the node's state: off, ends, starts or runs. A node runs when Pods can be bound to it."""
    keys = {taint.key for taint in node.spec.taints}
    if spot_objects.SHUTDOWN_TAINT["key"] in keys:
        return "off"
    if spot_objects.NOTICE_TAINT["key"] in keys:
        return "ends"
    return "runs" if node.ready and not keys else "starts"

"""Actions of the chapters on spot: nodes, a Deployment, and a process with the webhook, through the API alone."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

from situate.cli.demo.products import Products
from situate.cli.demo.spot import objects as spot_objects
from situate.cli.demo.spot.scene import Replica, SpotNode, SpotScene
from situate.cli.demo.vpod import objects
from situate.cli.input.products import Product
from situate.kube.client import Client
from situate.kube.errors import AlreadyExists, NotFound
from situate.kube.patches import MergePatch
from situate.objects.kinds.nodes import Node
from situate.objects.kinds.pods import Pod
from situate.objects.resources import CONFIGMAPS, LEASES, NODES, PODS, REPLICASETS, SECRETS, ResourceType, unstructured
from situate.spot.model.object_names import configuration_name
from situate.spot.model.pods_nodes_workloads import CLASS, RELEASED, TEMPLATE_HASH

_DEPLOYMENTS = unstructured("apps", "v1", "Deployment", "deployments")
_OF_CLUSTER: Mapping[str, ResourceType[Any]] = {
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
    **_OF_CLUSTER,
}
_MANAGER = "situate-demo"


class SpotCast:
    """Client for these actions. It records past scenes, so that readiness can be drawn over time."""

    def __init__(
        self,
        client: Client,
        server: str,
        port: int,
        products: Products,
        show: Callable[[SpotScene], None],
    ) -> None:
        """`server` is the address of the API server; `port` is for the webhook."""
        self._client = client
        self._server = server
        self._port = port
        self._products = products
        self._show = show
        self._scene: SpotScene | None = None
        self._began = 0.0
        self._spot: tuple[str, ...] = ()
        """The chapter's spot nodes."""

    @property
    def reachable(self) -> bool:
        """Whether the API server can call a webhook on this machine."""
        return urlsplit(self._server).hostname in ("127.0.0.1", "localhost", "::1")

    async def install(self) -> None:
        """Start a process that leads and answers admission, and create the on-demand nodes."""
        for each in spot_objects.installation(self._port):
            await self._make(_KINDS[each["kind"]], each, each["metadata"].get("namespace"))
        await self._make(_DEPLOYMENTS, spot_objects.deployment(spot_objects.TRIED, 0), objects.TENANT)
        for name in spot_objects.ON_DEMAND_NODES:
            await self._make(NODES, spot_objects.node(name), None)
        await self._products.start("spot", spot_objects.configuration(self._port), Product.SPOT)

    async def answers(self) -> bool:
        """Return whether a dry-run Pod gets its class, so that API servers call the webhook and get an answer."""
        found = await self._client.list_all(REPLICASETS, objects.TENANT, label_selector=f"app={spot_objects.TRIED}")
        if not found.items:
            return False
        pod = spot_objects.tried(found.items[0].metadata)
        return CLASS in (await self._client.create(PODS, pod, objects.TENANT, dry_run=True)).metadata.labels

    async def add_spot(self, *names: str) -> None:
        """Create the chapter's spot nodes."""
        for name in names:
            await self._make(NODES, spot_objects.node(name), None)
        self._spot = names

    async def send_scouts(self, name: str) -> None:
        """Create a Pod for each node. When it runs, the scheduler and the kubelet know that the node is usable."""
        for node in self._nodes:
            await self._make(PODS, spot_objects.scout(name, node), objects.TENANT)

    async def recall_scouts(self, name: str) -> bool:
        """Return whether all scouts run, and delete them if so."""
        found = await self._client.list_all(PODS, objects.TENANT, label_selector=f"app={name}-scout")
        if not all(pod.ready for pod in found.items):
            return False
        for pod in found.items:
            await self._client.delete(PODS, pod.metadata.name, objects.TENANT)
        return True

    async def deploy(self, name: str) -> None:
        """Create a Deployment of ten replicas, two of them on demand. Later scenes show this Deployment."""
        await self._make(_DEPLOYMENTS, spot_objects.deployment(name), objects.TENANT)
        self._scene = None

    async def remove(self, name: str) -> None:
        await self._client.delete(_DEPLOYMENTS, name, objects.TENANT)

    async def taint_spot(self, taint: Mapping[str, str], what: str) -> None:
        """Taint all spot nodes at once."""
        patch = MergePatch({"spec": {"taints": [dict(taint)]}})
        await asyncio.gather(*(self._client.patch(NODES, name, patch, field_manager=_MANAGER) for name in self._spot))
        self._mark(what)

    async def end_spot(self, what: str) -> None:
        """Delete the spot nodes for good."""
        for name in self._spot:
            with suppress(NotFound):
                await self._client.delete(NODES, name)
        self._mark(what)

    async def look(self, name: str) -> SpotScene:
        """Read the workload's state, show the scene and return it."""
        pods, nodes = await asyncio.gather(
            self._client.list_all(PODS, objects.TENANT, label_selector=f"app={name}"), self._client.list_all(NODES)
        )
        there = {node.metadata.name: node for node in nodes.items if node.metadata.name in self._nodes}
        now = asyncio.get_running_loop().time()
        if self._scene is None or self._scene.workload != name:
            self._began = now
        scene = SpotScene(
            name,
            tuple(sorted((_replica(pod, there) for pod in pods.items), key=lambda each: each.name)),
            tuple(_node(each, there) for each in self._nodes),
            now - self._began,
        )
        self._scene = scene.after(self._scene)
        self._show(self._scene)
        return self._scene

    async def clear(self) -> None:
        """Delete the objects that are not in the demo's namespaces."""
        names = (*spot_objects.ON_DEMAND_NODES, *spot_objects.SPOT_NODES, *spot_objects.NEW_SPOT_NODES)
        own = ((resource, (configuration_name(objects.SYSTEM),)) for resource in _OF_CLUSTER.values())
        for resource, listed in ((NODES, names), *own):
            for name in listed:
                with suppress(NotFound):
                    await self._client.delete(resource, name)

    @property
    def _nodes(self) -> tuple[str, ...]:
        return (*spot_objects.ON_DEMAND_NODES, *self._spot)

    def _mark(self, what: str) -> None:
        if self._scene is not None:
            self._scene = self._scene.marked(what)

    async def _make(self, resource: ResourceType[Any], content: Mapping[str, Any], namespace: str | None) -> None:
        """Create an object, or overwrite the one that an earlier demo has left."""
        name = content["metadata"]["name"]
        try:
            await self._client.create(resource, content, namespace, field_manager=_MANAGER)
        except AlreadyExists:
            patch = MergePatch({key: value for key, value in content.items() if key in ("spec", "webhooks")})
            await self._client.patch(resource, name, patch, namespace, field_manager=_MANAGER)


@contextmanager
def reserved_port() -> Iterator[int]:
    """Reserve a port of this machine. The kernel gives it to no other process, and a server can still bind it."""
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        port: int = holder.getsockname()[1]
        yield port


def _replica(pod: Pod, nodes: Mapping[str, Node]) -> Replica:
    node = nodes.get(pod.spec.node_name)
    runs = node is not None and state_of(node) != "off"
    return Replica(
        pod.metadata.name,
        pod.spec.node_name,
        pod.metadata.labels.get(CLASS, ""),
        pod.ready and pod.metadata.deletion_timestamp is None and runs,
        pod.metadata.labels.get(TEMPLATE_HASH, "").startswith(RELEASED),
    )


def _node(name: str, there: Mapping[str, Node]) -> SpotNode:
    return SpotNode(name, spot_objects.capacity(name), state_of(there[name]) if name in there else "gone")


def state_of(node: Node) -> str:
    """Return the node's state: off, ends, starts or runs. A node runs when Pods can be bound to it."""
    keys = {taint.key for taint in node.spec.taints}
    if spot_objects.GONE["key"] in keys:
        return "off"
    if spot_objects.ENDS["key"] in keys:
        return "ends"
    return "runs" if node.ready and not keys else "starts"

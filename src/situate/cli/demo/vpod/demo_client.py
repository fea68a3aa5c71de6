"""Actions of the story: read and change a cluster through its API, as any client does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from situate.cli.demo.demo_objects import DemoObjects
from situate.cli.demo.demo_processes import DemoProcesses
from situate.cli.demo.plain_pods import DemoPlainPod
from situate.cli.demo.sharding.demo_client import ShardDemoClient
from situate.cli.demo.sharding.kind import RENDERS
from situate.cli.demo.spot.demo_client import SpotDemoClient
from situate.cli.demo.vm.demo_client import VmDemoClient
from situate.cli.demo.vpod import objects
from situate.cli.demo.vpod.scene import DemoPod, DemoSource, VpodScene
from situate.cli.demo.wait import SETUP_LIMIT_S, holds_in_time, wait_until_usable
from situate.cli.terminal.failures import WrongInput
from situate.kube.errors import NotFound
from situate.objects.kinds.nodes import Node
from situate.objects.kinds.pods import Pod
from situate.objects.resources import (
    CUSTOMRESOURCEDEFINITIONS,
    LEASES,
    NAMESPACES,
    NODES,
    PODS,
    STATEFULSETS,
    ResourceType,
    unstructured,
)
from situate.vpod.sources.crds import INTERNAL_GROUP, definitions

CONSUMER_GROUPS = unstructured(INTERNAL_GROUP, "v1alpha1", "ConsumerGroup", "consumergroups")


class DemoClient:
    """Client for the story's actions."""

    def __init__(
        self,
        cluster: DemoObjects,
        lease: str,
        processes: DemoProcesses,
        show: Callable[[VpodScene], None],
        spot: SpotDemoClient,
        shard: ShardDemoClient,
        vm: VmDemoClient,
    ) -> None:
        """`show` receives every scene. `spot`, `shard` and `vm` act in the chapters on these products."""
        self._objects = cluster
        self._client = cluster.client
        self._lease = lease
        self._processes = processes
        self._show = show
        self.spot = spot
        self.shard = shard
        self.vm = vm

    async def create_objects(self) -> None:
        """Create the objects that the story needs, and wait until they are usable. Existing objects are reused."""
        for definition in definitions():
            await self._create_or_label(CUSTOMRESOURCEDEFINITIONS, definition)
        for name in (objects.SYSTEM, objects.MACHINES_NAMESPACE, objects.TENANT):
            await self._create_namespace(name)
        for name, zone in zip(objects.NODES, objects.ZONES, strict=True):
            await self._create_or_label(NODES, objects.node(name, zone))
        await self._create_or_label(STATEFULSETS, objects.dispatcher(), objects.SYSTEM)
        await wait_until_usable(
            partial(self._objects.are_served, objects.TENANT, CONSUMER_GROUPS),
            "the API server still does not serve ConsumerGroups",
        )
        for name in objects.NODES:
            await self._wait_for_node(name)

    async def delete_objects(self) -> None:
        """Delete the objects of `create_objects` and of the story, except the definitions, which others may use."""
        await self.spot.delete_cluster_objects()
        await self._objects.delete_without_finalizers(objects.TENANT, RENDERS)
        await self.vm.delete_leftovers()
        for resource, names in (
            (NAMESPACES, (objects.TENANT, objects.MACHINES_NAMESPACE, objects.SYSTEM)),
            (NODES, objects.NODES),
        ):
            for name in names:
                await self._objects.delete(resource, name)

    async def set_source(self, name: str, wanted: int) -> None:
        """Set the number of vreplicas that a source wants."""
        await self._objects.apply(CONSUMER_GROUPS, objects.consumer_group(name, wanted), objects.TENANT)

    async def lose_node(self, name: str) -> None:
        """Delete a node for good, as after a spot interruption."""
        await self._client.delete(NODES, name)

    async def restore_node(self, name: str) -> None:
        zone = objects.ZONES[objects.NODES.index(name)]
        await self._create_or_label(NODES, objects.node(name, zone))

    async def reserve_for_team(self, node: str) -> None:
        """Give the node the only SSD, and a taint that reserves it for a team."""
        changes = {"metadata": {"labels": {"disk": "ssd"}}, "spec": {"taints": [objects.TAINT]}}
        await self._objects.merge(NODES, node, changes)

    async def remove_taint(self, node: str) -> None:
        """Remove the taint."""
        await self._objects.merge(NODES, node, {"spec": {"taints": None}})

    async def add_report(self) -> None:
        """Create a Pod that needs an SSD."""
        await self._create_or_label(PODS, objects.task(objects.REPORT, disk="ssd"), objects.TENANT)

    async def add_tasks(self, count: int) -> None:
        """Create `count` Pods."""
        for number in range(count):
            await self._create_or_label(PODS, objects.task(f"task-{number}"), objects.TENANT)

    async def explain(self, task: str) -> Mapping[str, Any]:
        """Return the answer of `situate scheduler explain` for a Pod."""
        return await self._processes.explain(objects.TENANT, task)

    async def kill(self, name: str) -> None:
        """End the scheduler of that identity with SIGKILL."""
        await self._processes.kill(name)

    async def read_scene(self) -> VpodScene:
        """Read the cluster, show the scene and return it."""
        statefulset = await self._client.get(STATEFULSETS, objects.DISPATCHER, objects.SYSTEM)
        nodes = {node.metadata.name: node for node in (await self._client.list_all(NODES)).items}
        pods = (await self._client.list_all(PODS, objects.SYSTEM, label_selector=f"app={objects.DISPATCHER}")).items
        groups = (await self._client.list_all(CONSUMER_GROUPS, objects.TENANT)).items
        tasks = (await self._client.list_all(PODS, objects.TENANT, label_selector=f"app={objects.TASKS}")).items
        scene = VpodScene(
            replicas=statefulset.spec.replicas,
            pods=tuple(sorted((_to_demo_pod(pod, nodes) for pod in pods), key=lambda pod: pod.ordinal)),
            sources=tuple(sorted((_parse_source(group.content) for group in groups), key=lambda source: source.name)),
            tasks=tuple(DemoPlainPod.from_pod(pod) for pod in tasks),
            nodes=tuple(name for name in objects.NODES if name in nodes),
            leader=await self._leader_identity(),
            capacity=objects.CAPACITY,
        )
        self._show(scene)
        return scene

    async def _leader_identity(self) -> str:
        try:
            return (await self._client.get(LEASES, self._lease, objects.SYSTEM)).spec.holder_identity
        except NotFound:
            return ""

    async def _create_namespace(self, name: str) -> None:
        """Create a namespace. If an earlier demo's namespace is still being deleted, wait for its end."""

        async def stays() -> bool:
            await self._create_or_label(NAMESPACES, objects.namespace(name))
            with suppress(NotFound):  # the namespace has just been deleted
                return (await self._client.get(NAMESPACES, name)).metadata.deletion_timestamp is None
            return False

        await wait_until_usable(
            stays,
            f"namespace {name} is still being deleted; for the cause run kubectl get namespace {name} -o yaml",
        )

    async def _wait_for_node(self, name: str) -> None:
        """Wait for a node. Raises `WrongInput` with the node's state if it is not usable in time."""
        node = Node()

        async def is_usable() -> bool:
            nonlocal node
            node = await self._client.get(NODES, name)
            return node.ready and not node.spec.taints

        if not await holds_in_time(is_usable):
            taints = ", ".join(taint.key for taint in node.spec.taints) or "none"
            raise WrongInput(
                f"after {SETUP_LIMIT_S:g} s node {name} is {'Ready' if node.ready else 'not Ready'}, with taints "
                f"{taints}; a kubelet or kwok must run it. For its state run kubectl get node {name} -o yaml"
            )

    async def _create_or_label(
        self, resource: ResourceType[Any], content: Mapping[str, Any], namespace: str | None = None
    ) -> None:
        if not await self._objects.create(resource, content, namespace):
            labels = content["metadata"].get("labels") or {}
            await self._objects.merge(
                resource, content["metadata"]["name"], {"metadata": {"labels": labels}}, namespace
            )


def _to_demo_pod(pod: Pod, nodes: Mapping[str, Node]) -> DemoPod:
    node = pod.spec.node_name
    if pod.metadata.deletion_timestamp is not None:
        state = "Terminating"
    elif node and node not in nodes:
        state = "node lost"
    else:
        state = pod.status.phase if node else "Pending"
    return DemoPod(pod.metadata.name, int(pod.metadata.name.rpartition("-")[2]), node, state)


def _parse_source(content: Mapping[str, Any]) -> DemoSource:
    placements: dict[str, int] = {}
    for placement in content.get("status", {}).get("placements") or ():
        pod = placement.get("podName", "")
        placements[pod] = placements.get(pod, 0) + placement.get("vreplicas", 0)
    return DemoSource(content["metadata"]["name"], content["spec"].get("replicas", 1), placements)

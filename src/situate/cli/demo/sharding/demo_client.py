"""Actions of the chapters on sharding: create renders, run executors and their supervisor, through the API alone.

Executors are Pods of a Deployment whose processes run on this machine. The story can kill one of them, as a node
failure would.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final

from situate.cli.demo.demo_objects import MANAGER, DemoObjects
from situate.cli.demo.demo_processes import ProcessNotRunning
from situate.cli.demo.products import Products
from situate.cli.demo.sharding import objects as shard_objects
from situate.cli.demo.sharding.executor import LOG_VARIABLE
from situate.cli.demo.sharding.kind import RENDERS
from situate.cli.demo.sharding.scene import DemoExecutor, DemoRender, ShardScene
from situate.cli.demo.vpod import objects
from situate.cli.input.products import Product
from situate.embedded.pods.processes import PodEnded, PodProcesses, pod_processes
from situate.objects.kinds.pods import Pod
from situate.objects.resources import CUSTOMRESOURCEDEFINITIONS, LEASES, PODS, unstructured
from situate.sharding.model.names import CORDON, POOL

_DEPLOYMENTS: Final = unstructured("apps", "v1", "Deployment", "deployments")
_HASH: Final = "pod-template-hash"


class ShardDemoClient:
    """Client for these actions. It records the created renders and the killed executors."""

    def __init__(
        self, cluster: DemoObjects, products: Products, show: Callable[[ShardScene], None], stack: AsyncExitStack
    ) -> None:
        """`stack` ends the executors' processes."""
        self._objects = cluster
        self._client = cluster.client
        self._products = products
        self._show = show
        self._stack = stack
        self._folder = products.processes.folder
        self._archive = self._folder / "archive"
        self._log = self._folder / "runs.log"
        self._processes = PodProcesses(
            cluster.client,
            objects.SYSTEM,
            f"app={shard_objects.EXECUTORS}",
            self._folder,
            {"KUBECONFIG": str(products.accounts.kubeconfig_of(shard_objects.ACCOUNT)), LOG_VARIABLE: str(self._log)},
        )
        self._killed_executors: set[str] = set()
        self.created_names: list[str] = []

    async def install(self) -> None:
        """Create the kind, start the supervisor, then start the executors. Their account must exist first."""
        self._archive.mkdir()
        self._log.touch()
        await self._objects.create(CUSTOMRESOURCEDEFINITIONS, shard_objects.definition())
        await self._products.start("sharding", shard_objects.configuration(self._archive), Product.SHARDING)
        await self._client.create(_DEPLOYMENTS, shard_objects.deployment(), objects.SYSTEM, field_manager=MANAGER)
        await self._stack.enter_async_context(pod_processes(self._processes))

    async def is_served(self) -> bool:
        """Return whether the API server serves renders."""
        return await self._objects.are_served(objects.TENANT, RENDERS)

    async def all_leases_held(self) -> bool:
        """Return whether every executor holds its Lease, and so may be assigned objects."""
        found = await self._client.list_all(LEASES, objects.SYSTEM, label_selector=POOL)
        return sum(bool(each.spec.holder_identity) for each in found.items) >= shard_objects.EXECUTOR_COUNT

    async def add_renders(self, count: int, frames: int, *, held: bool = False) -> None:
        """Create `count` more renders."""
        for _ in range(count):
            name = f"render-{len(self.created_names) + 1:02}"
            made = shard_objects.render(name, frames, held=held)
            await self._client.create(RENDERS, made, objects.TENANT, field_manager=MANAGER)
            self.created_names.append(name)

    async def release_renders(self) -> None:
        """Let all held renders end."""
        for each in (await self._client.list_all(RENDERS, objects.TENANT)).items:
            if each.content["spec"].get("held"):
                await self._objects.merge(RENDERS, each.metadata.name, {"spec": {"held": False}}, objects.TENANT)

    async def kill(self, executor: str) -> None:
        """Kill an executor with SIGKILL: it cleans up nothing, and its Lease and its Pod remain unchanged."""
        self._killed_executors.add(executor)
        await self._processes.kill(executor)

    async def drain(self, executor: str) -> None:
        """Cordon an executor: it is assigned nothing more, and gives back its renders."""
        await self._objects.merge(PODS, executor, {"metadata": {"annotations": {CORDON: "true"}}}, objects.SYSTEM)

    async def roll(self) -> None:
        """Replace every executor, one after the other."""
        template = {"metadata": {"annotations": {shard_objects.ROLLED_ANNOTATION: "true"}}}
        changes = {"spec": {"template": template}}
        await self._objects.merge(_DEPLOYMENTS, shard_objects.EXECUTORS, changes, objects.SYSTEM)

    def processes_ended(self) -> bool:
        """Return whether the processes of all deleted Pods have ended."""
        return self._processes.all_stopped()

    def log_lines(self) -> Sequence[str]:
        """Return the lines of the log that the work itself writes."""
        return self._log.read_text().splitlines()

    async def archived_outcomes(self) -> Mapping[str, bool]:
        """Return by name whether each archived render succeeded, as `situate sharding archive search` reports it."""
        asked = ("sharding", "archive", "search", "--archive-url", self._archive.as_uri(), "-o", "json", "--limit", "0")
        told = json.loads(await self._products.processes.call("archive", *asked))
        return {each["subject"]["name"]: bool(each["successful"]) for each in told["records"]}

    async def read_scene(self) -> ShardScene:
        """Read the cluster, show the scene and return it."""
        try:
            self._processes.check()
        except PodEnded as problem:
            raise ProcessNotRunning(str(problem)) from None
        pods, renders = await asyncio.gather(
            self._client.list_all(PODS, objects.SYSTEM, label_selector=f"app={shard_objects.EXECUTORS}"),
            self._client.list_all(RENDERS, objects.TENANT),
        )
        scene = ShardScene(
            tuple(sorted((self._to_demo_executor(pod) for pod in pods.items), key=lambda each: each.name)),
            tuple(sorted((_parse_render(each.content) for each in renders.items), key=lambda each: each.name)),
            len(self.created_names),
        )
        self._show(scene)
        return scene

    async def end_executors(self) -> None:
        """End the executors' processes."""
        await self._stack.aclose()

    def _to_demo_executor(self, pod: Pod) -> DemoExecutor:
        name = pod.metadata.name
        if name in self._killed_executors:
            state = "killed"
        elif pod.metadata.deletion_timestamp is not None:
            state = "ends"
        elif name not in self._processes.running_pods():
            state = "starts"
        else:
            state = "drains" if CORDON in pod.metadata.annotations else "runs"
        return DemoExecutor(name, state, pod.metadata.labels.get(_HASH, ""))


@asynccontextmanager
async def shard_demo_client(
    cluster: DemoObjects, products: Products, show: Callable[[ShardScene], None]
) -> AsyncIterator[ShardDemoClient]:
    """Create the actions, and end all executors' processes at the end."""
    async with AsyncExitStack() as stack:
        yield ShardDemoClient(cluster, products, show, stack)


def _parse_render(content: Mapping[str, Any]) -> DemoRender:
    spec, status = content["spec"], content.get("status") or {}
    executor = spec.get("assignedTo") or ""
    return DemoRender(
        content["metadata"]["name"],
        executor,
        bool(executor) and status.get("executor") == executor,
        bool(spec.get("held")),
        "completedAt" in status,
        int((status.get("began") or {}).get("frame", 0)),
        int((status.get("checkpoint") or {}).get("frame", 0)),
    )

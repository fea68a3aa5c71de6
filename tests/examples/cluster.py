"""A cluster in memory, whose pods are processes here: the manifests of an operator run as they are written."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import yaml

from situate.cluster.controllers.nodes import nodes
from situate.embedded.kubeconfig import write_kubeconfig
from situate.embedded.pod_processes import PodProcesses, pod_processes
from situate.embedded.running import EmbeddedServer
from situate.kube.client import Client
from situate.kube.connect import connect, find_connection
from situate.objects.resources import ResourceType, unstructured
from situate.objects.unstructured import Unstructured
from tests.waiting import POLL_S, WITHIN_S

_NAMES = {"StorageClass": "storageclasses"}
_CLUSTER_WIDE = ("Namespace", "CustomResourceDefinition", "ClusterRole", "ClusterRoleBinding")


class Cluster:
    def __init__(self, client: Client, folder: Path, stack: AsyncExitStack) -> None:
        self.client = client
        self.folder = folder
        self._stack = stack
        self._processes: list[PodProcesses] = []

    async def create(self, documents: Iterable[Mapping[str, Any]]) -> None:
        for each in documents:
            resource = _resource(each)
            await self.client.create(resource, each, each["metadata"].get("namespace"))

    async def run_pods(
        self, namespace: str, selector: str, environment: Mapping[str, str], *arguments: str
    ) -> PodProcesses:
        """Processes for the pods that there are and will be, until the end."""
        kubeconfig = str(self.folder / "kubeconfig")
        processes = PodProcesses(
            self.client, namespace, selector, self.folder, {**environment, "KUBECONFIG": kubeconfig}, arguments
        )
        self._processes.append(processes)
        return await self._stack.enter_async_context(pod_processes(processes))

    async def eventually(self, what: str, ask: Callable[[], Awaitable[Any]], holds: Callable[[Any], Any] = bool) -> Any:
        """The first answer for which `holds`; fails when a process has ended by itself, or the time is over."""
        deadline = asyncio.get_running_loop().time() + WITHIN_S
        while not holds(answer := await ask()):
            for each in self._processes:
                each.check()
            logs = {path.name: path.read_text()[-800:] for path in self.folder.glob("*.log")}
            assert asyncio.get_running_loop().time() < deadline, f"it is still not so that {what}: {answer}\n{logs}"
            await asyncio.sleep(POLL_S[1])
        return answer


@asynccontextmanager
async def cluster(folder: Path) -> AsyncIterator[Cluster]:
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(EmbeddedServer())
        server.create_nodes(nodes(1))
        write_kubeconfig(folder / "kubeconfig", server.kubeconfig())
        client = connect(find_connection(folder / "kubeconfig"), random.Random(1))
        stack.push_async_callback(client.close)
        yield Cluster(client, folder, stack)


def documents(path: Path) -> list[dict[str, Any]]:
    return [each for each in yaml.safe_load_all(path.read_text(encoding="utf-8")) if each]


def _resource(content: Mapping[str, Any]) -> ResourceType[Unstructured]:
    group, _, version = content["apiVersion"].rpartition("/")
    kind = content["kind"]
    return unstructured(
        group, version, kind, _NAMES.get(kind, f"{kind.lower()}s"), namespaced=kind not in _CLUSTER_WIDE
    )

"""A cluster in memory whose pods are processes here, for tests of operators: their manifests run as they are written.

    async with local_cluster(folder) as cluster:
        await cluster.create(*documents(Path("crd.yaml"), Path("manifests.yaml")))
        await cluster.run_pods("reports", "app=executor", "--health-address=127.0.0.1:0")
        await cluster.eventually("all are done", lambda: cluster.all("example.com/v1/reports", "reports"), completed)

Accounts and rights are taken and not enforced; volumes and probes are not played.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from situate.cluster.controllers.node.nodes import nodes
from situate.embedded.embedded_server import EmbeddedServer
from situate.embedded.kubeconfig import write_kubeconfig
from situate.embedded.pods.processes import PodProcesses, last_lines, pod_processes
from situate.kube.client import Client
from situate.kube.connect import connect, find_connection
from situate.kube.queries.discovery import discover, discover_kind
from situate.objects.settings.yaml_text import load_yaml_documents

T = TypeVar("T")
WITHIN_S: Final = 120.0
"""For whatever a test waits for: a busy machine needs many times what a quiet one does."""
_LOOK_S: Final = 0.1


class LocalCluster:
    """An API server with controllers and one node."""

    def __init__(self, client: Client, folder: Path, stack: AsyncExitStack) -> None:
        self.client = client
        self.folder = folder
        """Where logs and the kubeconfig are."""
        self._stack = stack
        self._processes: list[PodProcesses] = []

    async def create(self, *contents: Mapping[str, Any], namespace: str = "default") -> None:
        """In this order. `namespace`: of those that do not say theirs. Waits until the server has their kinds."""
        for each in contents:
            kind = (each["apiVersion"], each["kind"])
            served = await self.eventually(f"{kind} is served", partial(discover_kind, self.client, *kind))
            assert served is not None
            within = (each["metadata"].get("namespace") or namespace) if served.resource.namespaced else None
            await self.client.create(served.resource, each, within)

    async def run_pods(self, namespace: str, selector: str, *arguments: str, path: Path | None = None) -> PodProcesses:
        """Processes for the pods that there are and will be, until the end.

        `arguments` come after each pod's own. `path`: where Python finds the operator's modules, beside where it does.
        """
        paths = [str(path)] if path is not None else []
        environment = {
            "KUBECONFIG": str(self.folder / "kubeconfig"),
            "PYTHONPATH": os.pathsep.join([*paths, *filter(None, [os.environ.get("PYTHONPATH")])]),
        }
        processes = PodProcesses(self.client, namespace, selector, self.folder, environment, arguments)
        self._processes.append(processes)
        return await self._stack.enter_async_context(pod_processes(processes))

    async def eventually(
        self, what: str, ask: Callable[[], Awaitable[T]], holds: Callable[[T], Any] = bool, within_s: float = WITHIN_S
    ) -> T:
        """The first answer for which `holds`.

        Fails with the last answer when the time is over, and when a process has ended by itself.
        """
        clock = asyncio.get_running_loop().time
        deadline = clock() + within_s
        while not holds(answer := await ask()):
            for each in self._processes:
                each.check()
            if clock() > deadline:
                logs = "\n".join(f"{log.name}:\n{last_lines(log)}" for log in sorted(self.folder.glob("*.log")))
                raise AssertionError(f"after {within_s:g} s it is still not so that {what}: {answer}\n{logs}")
            await asyncio.sleep(_LOOK_S)
        return answer

    async def all(self, resource: str, namespace: str) -> list[Mapping[str, Any]]:
        """All objects of GROUP/VERSION/PLURAL there; none while it is not served."""
        served = await discover(self.client, *resource.split("/"))
        if served is None:
            return []
        return [each.content for each in (await self.client.list_all(served.resource, namespace)).items]


@asynccontextmanager
async def local_cluster(folder: Path) -> AsyncIterator[LocalCluster]:
    """At its end, processes are told to end first, and then the server."""
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(EmbeddedServer())
        server.create_nodes(nodes(1))
        write_kubeconfig(folder / "kubeconfig", server.kubeconfig())
        client = connect(find_connection(folder / "kubeconfig"), random.Random())
        stack.push_async_callback(client.close)
        yield LocalCluster(client, folder, stack)


def documents(*files: Path) -> list[dict[str, Any]]:
    """What is written there. Raises `ValueError` for what is no YAML."""
    found: list[dict[str, Any]] = []
    for file in files:
        read, mistakes = load_yaml_documents(file.read_text(encoding="utf-8"))
        if mistakes:
            raise ValueError(f"{file}: {'; '.join(map(str, mistakes))}")
        found.extend(each.content for each in read if isinstance(each.content, dict))
    return found

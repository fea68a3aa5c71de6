"""An in-memory cluster whose Pods run as local processes, for tests of operators with their manifests unchanged.

    async with local_cluster(folder) as cluster:
        await cluster.create(*documents(Path("crd.yaml"), Path("manifests.yaml")))
        await cluster.run_pods("reports", "app=executor", "--health-address=127.0.0.1:0")
        await cluster.eventually("all are done", lambda: cluster.all("example.com/v1/reports", "reports"), completed)

The server accepts service accounts and rights but does not enforce them. Volumes and probes do not run.
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
TIME_LIMIT_S: Final = 120.0
"""Default time limit in seconds. A busy machine needs many times as long as an idle one."""
_POLL_S: Final = 0.1


class LocalCluster:
    """An API server with controllers and one node."""

    def __init__(self, client: Client, folder: Path, stack: AsyncExitStack) -> None:
        self.client = client
        self.folder = folder
        """Folder of logs and the kubeconfig."""
        self._stack = stack
        self._processes: list[PodProcesses] = []

    async def create(self, *contents: Mapping[str, Any], namespace: str = "default") -> None:
        """Create objects in this order. Each waits until the server serves its kind.

        `namespace` applies to objects without a namespace of their own.
        """
        for each in contents:
            kind = (each["apiVersion"], each["kind"])
            served = await self.eventually(f"{kind} is served", partial(discover_kind, self.client, *kind))
            assert served is not None
            within = (each["metadata"].get("namespace") or namespace) if served.resource.namespaced else None
            await self.client.create(served.resource, each, within)

    async def run_pods(self, namespace: str, selector: str, *arguments: str, path: Path | None = None) -> PodProcesses:
        """Run processes for the present and future Pods of a selector until the cluster ends.

        Each process gets its Pod's own arguments, then `arguments`. `path` is a folder with the operator's modules,
        added to the Python path.
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
        self,
        what: str,
        ask: Callable[[], Awaitable[T]],
        holds: Callable[[T], Any] = bool,
        within_s: float = TIME_LIMIT_S,
    ) -> T:
        """Return the first answer for which `holds` is true.

        Fails with the last answer when the time is over, and when a process has ended by itself.
        """
        clock = asyncio.get_running_loop().time
        deadline = clock() + within_s
        while not holds(answer := await ask()):
            for each in self._processes:
                each.check()
            if clock() > deadline:
                logs = "\n".join(f"{log.name}:\n{last_lines(log)}" for log in sorted(self.folder.glob("*.log")))
                raise AssertionError(f"timed out after {within_s:g} s waiting until {what}. Found: {answer}\n{logs}")
            await asyncio.sleep(_POLL_S)
        return answer

    async def all(self, resource: str, namespace: str) -> list[Mapping[str, Any]]:
        """Return all objects of GROUP/VERSION/PLURAL in the namespace.

        Return none while the server does not serve the kind.
        """
        served = await discover(self.client, *resource.split("/"))
        if served is None:
            return []
        return [each.content for each in (await self.client.list_all(served.resource, namespace)).items]


@asynccontextmanager
async def local_cluster(folder: Path) -> AsyncIterator[LocalCluster]:
    """Start an in-memory cluster. At the end, stop the processes first and then the server."""
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(EmbeddedServer())
        server.create_nodes(nodes(1))
        write_kubeconfig(folder / "kubeconfig", server.kubeconfig())
        client = connect(find_connection(folder / "kubeconfig"), random.Random())
        stack.push_async_callback(client.close)
        yield LocalCluster(client, folder, stack)


def documents(*files: Path) -> list[dict[str, Any]]:
    """Return all documents of YAML files. Raises `ValueError` for invalid YAML."""
    found: list[dict[str, Any]] = []
    for file in files:
        read, mistakes = load_yaml_documents(file.read_text(encoding="utf-8"))
        if mistakes:
            raise ValueError(f"{file}: {'; '.join(map(str, mistakes))}")
        found.extend(each.content for each in read if isinstance(each.content, dict))
    return found
